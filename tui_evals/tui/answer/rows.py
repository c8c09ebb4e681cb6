"""The rows of one answer: facts, text and expected text, scores, conversation, request and attempts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tui_evals.datasets.matrix import units
from tui_evals.light_records import dataclass
from tui_evals.present.answers import (
    FAILING,
    answer_words,
    attempt_text,
    badge_text,
    complaints,
    earlier_text,
    error_text,
    failing_first,
    figures_text,
    missing_text,
    origin_text,
    pretty_json,
    reference_text,
)
from tui_evals.present.columns import cell_width
from tui_evals.present.runs import stop_reason
from tui_evals.present.status import result_look
from tui_evals.present.transcripts import TranscriptLine, arguments_text, transcript_lines
from tui_evals.store.records import RunRow, ScoreRecord
from tui_evals.store.rows import AnswerDetail, Detail, Label
from tui_evals.targets.answers import content_text
from tui_evals.text.measures import number, score_figures
from tui_evals.text.safe import safe_line, spell_out
from tui_evals.tui.answer_context import (
    AnswerContext,
    ComparedAnswer,
    answer_title,
    messages_of,
    prompt_of,
    text_of,
    unit_of,
)
from tui_evals.tui.diff_rows import (
    NARROWEST,
    Layout,
    SideBySideRows,
    column_titles,
    diff_summary,
    is_change,
    unified_rows,
)
from tui_evals.tui.rows import (
    BlockRows,
    JoinedRows,
    LazyRows,
    Piece,
    Row,
    Rows,
    Style,
    TextRows,
    fit,
    heading,
    paragraph,
    row,
    status_piece,
    tone_style,
    wrapped,
)

if TYPE_CHECKING:
    from tui_evals.compare.diff import Diff


Fold = Literal["steps", "parts", "all"]
FOLDS: tuple[Fold, ...] = ("steps", "parts", "all")
"""How far the tree is unfolded: to the steps, to a line for each part, or to all that was said."""
_WHOLE = 400
"""Lines up to which a transcript is shown whole unless folded."""
_STYLES: Mapping[str, Style] = {
    "asked": "strong",
    "step": "accent",
    "thought": "dim",
    "call": "strong",
    "failed": "warn",
    "found": "strong",
    "cited": "dim",
    "left": "dim",
}


def fold_of(lines: Sequence[TranscriptLine], wanted: Fold | None) -> Fold:
    """How far the tree is unfolded: `wanted`, otherwise all of it if it is short."""
    return wanted or ("all" if len(lines) <= _WHOLE else "parts")


def tree_rows(lines: Sequence[TranscriptLine], width: int, wanted: Fold | None = None) -> Rows:
    """The rows of a transcript; the rows of a folded one are made when they become visible."""
    match fold_of(lines, wanted):
        case "steps":
            return _FoldedRows([line for line in lines if line.depth == 0], width, is_open=False)
        case "parts":
            return _FoldedRows(lines, width, is_open=True)
        case _:
            return JoinedRows([part for line in lines for part in _whole(line, width)])


def _whole(line: TranscriptLine, width: int) -> list[Rows]:
    """A line of a transcript with all its text; the duration of a step is next to it, of others below."""
    beside = line.depth == 0
    note = f" · {line.note}" if line.note and beside else ""
    rows: list[Rows] = [paragraph(f"{line.text}{note}", width, _STYLES.get(line.kind, ""), 2 * line.depth)]
    if line.note and not beside:
        rows.append(paragraph(line.note, width, "dim", 2 * line.depth))
    return rows


class _FoldedRows(LazyRows):
    """One row per line, cut to the width, with its cost at the end."""

    def __init__(self, lines: Sequence[TranscriptLine], width: int, *, is_open: bool) -> None:
        self._lines = lines
        self._width = width
        self._is_open = is_open

    def __len__(self) -> int:
        return len(self._lines)

    def row_at(self, number: int) -> Row:
        line = self._lines[number]
        mark = ("▾ " if self._is_open else "▸ ") if line.depth == 0 else ""
        style = _STYLES.get(line.kind, "")
        note = safe_line(line.note, max(self._width // 2, 1))
        room = max(self._width - 2 * line.depth - len(note) - 1, 1)
        # The text is of any length, and only its beginning is in sight.
        text = safe_line(f"{mark}{line.text[: 4 * self._width]}", 4 * self._width)
        return Row((Piece("  " * line.depth), fit(text, room, style), Piece(f" {note}", "dim")))


_ROLES: dict[str, Style] = {"system": "dim", "user": "accent", "assistant": "strong", "tool": "warn"}


def tool_rows(detail: Detail, width: int, fold: Fold | None = None) -> Iterator[Rows]:
    """The requested tool calls; if the transcript was recorded, all steps up to the answer."""
    if lines := transcript_lines(detail.answer):
        yield heading("Steps")
        yield tree_rows(lines, width, fold)
        return
    calls = detail.answer.tool_calls if detail.answer else ()
    if not calls:
        return
    yield heading("Tool calls")
    for call in calls:
        yield from _call_rows(call, width)


def _call_rows(call: Mapping[str, Any], width: int) -> Iterator[Rows]:
    inner = call.get("function")
    inner = inner if isinstance(inner, dict) else call
    yield paragraph(f"→ {inner.get('name')}", width, "strong")
    yield paragraph(arguments_text(inner.get("arguments")), width, "", 2)


def request_rows(detail: Detail, width: int) -> Iterator[Rows]:
    """The chat that was sent, message by message, and the tools and parameters sent with it."""
    if detail.answer is None or not detail.answer.request:
        return
    yield heading("Request")
    for message in messages_of(detail):
        role = str(message.get("role"))
        yield paragraph(f"{role}:", width, _ROLES.get(role, "strong"))
        yield paragraph(_content(message), width, "", 2)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                yield from _call_rows(call, width)
    for name, value in detail.answer.request.items():
        if name != "messages" and value not in (None, [], {}):
            yield paragraph(f"{name}: {pretty_json(value)}", width, "dim")


def _content(message: Mapping[str, Any]) -> str:
    """The text of a message; parts that are not text are named."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    kinds = [str(part.get("type")) for part in parts if isinstance(part, dict)]
    others = [kind for kind in kinds if kind not in ("text", "attachment")]
    return "\n".join([content_text(content), *(f"<{kind}>" for kind in others)])


def attempt_rows(detail: Detail, width: int) -> Iterator[Rows]:
    """The diagnostics of the target, and every call made for the answer, including those of judges."""
    if detail.answer is not None and detail.answer.diagnostics:
        yield heading("Diagnostics")
        yield paragraph(pretty_json(detail.answer.diagnostics), width, "dim")
    if detail.calls or detail.earlier:
        yield heading("Attempts")
    for attempt in detail.earlier:
        yield paragraph(earlier_text(attempt), width, "dim")
    for call in detail.calls:
        yield paragraph(attempt_text(call), width, "error" if call.code else "")


_NOTHING: tuple[object, ...] = ("", [], {})


Stop = Literal["change", "section", "failing"]
"""The kinds of positions that the next/previous keys jump between."""
_FAILING = "failing"
"""The key of the row of an evaluator that the answer does not pass."""


class AnswerRows(JoinedRows):
    """The rows of an answer, and the places in them to jump to."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        super().__init__(parts)
        self.stops: dict[Stop, list[int]] = {"change": [], "section": [], "failing": []}
        begin = 0
        for part in parts:
            if isinstance(part, BlockRows):
                self.stops["change"] += (begin + row for row in part.starts(is_change))
            elif isinstance(part, list):
                for number, one in enumerate(part, begin):
                    if one.ground == "title":
                        self.stops["section"].append(number)
                    elif one.key == _FAILING:
                        self.stops["failing"].append(number)
            begin += len(part)


def score_rows(case: AnswerContext, width: int) -> Iterator[Rows]:
    """The evaluator scores of the current and of earlier scoring passes, and the human labels."""
    scores, together, labels = case.detail.scores, case.detail.together, case.detail.labels
    now = case.run.scoring_pass
    if not scores and not together and not labels:
        return
    yield heading("Scores" if now < 2 else f"Scores of pass {now}")
    for label in labels:
        yield _label(label, width)
    if now not in scores and now not in together:
        yield [row(("Not judged in this pass.", "dim"))]
    yield from _judged(scores, now, width)
    if now in together:
        what = "turn" if len(units(case.item)) > 1 else "item"
        yield [row()]
        yield paragraph(f"All answers to this {what}; it counts into the status of none of them:", width)
    yield from _judged(together, now, width)


def _judged(passes: Mapping[int, tuple[ScoreRecord, ...]], now: int, width: int) -> Iterator[Rows]:
    for record in passes.get(now, ()):
        yield from _score(record, width)
        before = [
            f"pass {place}: {_short_score(one)}"
            for place, records in passes.items()
            if place != now
            for one in records
            if one.key == record.key
        ]
        if before:
            yield paragraph(" · ".join(before), width, "dim", 2)


def _score(record: ScoreRecord, width: int) -> Iterator[Rows]:
    score = f" {figures_text(record)}".rstrip()
    kind = f" ({record.evaluator})" if record.evaluator != record.key else ""
    weight = "" if record.weight == 1 else f" · weight {record.weight:g}"
    label = f" · {record.label}" if record.label else ""
    origin = f" · {kept}" if (kept := origin_text(record)) else ""
    about = paragraph(f"{record.key}{kind}{score}{label}{weight}{origin}", max(width - 10, 10))
    key = _FAILING if record.result in FAILING else None
    for place, line in enumerate(about):
        first = not place
        yield [Row((_result(record.result) if first else Piece(" " * 10), *line.pieces), key if first else None)]
    if record.reason:
        yield paragraph(record.reason, width, "", 2)
    for name, value in record.details.items():
        if value is not None and value not in _NOTHING:
            yield paragraph(f"{name}: {value if isinstance(value, str) else pretty_json(value)}", width, "dim", 2)


def _result(result: str | None) -> Piece:
    look = result_look(result)
    return fit(look.text, 10, tone_style(look.tone))


def _short_score(record: ScoreRecord) -> str:
    return f"{result_look(record.result).text} {score_figures(record.score, None, None, record.measure)}".rstrip()


def _label(label: Label, width: int) -> Rows:
    look = result_look(label.verdict)
    about = f" of {label.evaluator}" if label.evaluator else ""
    word = "good" if label.verdict == "pass" else "bad"
    note = f": {label.note}" if label.note else ""
    return paragraph(f"{look.glyph} {label.author} says it is {word}{about}{note}", width, tone_style(look.tone))


LAYOUTS: tuple[Layout, ...] = ("sides", "unified", "answer")
LAYOUT_NAMES: dict[Layout, str] = {"sides": "side by side", "unified": "unified", "answer": "only the answer"}
_MORE = "       … the full text is below"
_BADGE_LINES, _REASON_LINES = 2, 3
_ASKED = 3
"""Lines of the question that are above its answer."""


@dataclass(frozen=True, slots=True)
class AnswerView:
    """How an answer is shown."""

    layout: Layout = "sides"
    raw: bool = False
    compare: bool = True
    """Whether a diff may be made; before a long one the answer is shown alone."""
    otherwise: bool = False
    """Whether the dataset now has another expectation than the one the answer was judged by."""
    whole: bool = False
    """Show everything uncut, because the rows are read outside the pane."""
    fold: Fold | None = None
    """How far the transcript is unfolded; None by default."""


def answer_rows(compared: ComparedAnswer, view: AnswerView, width: int) -> AnswerRows:
    """All rows of an answer; for long texts this is work for a thread."""
    case = compared.case
    return AnswerRows(
        [
            *_head_rows(case, view, width),
            *_question_rows(case, view, width),
            *_otherwise_rows(view, width),
            *_turn_rows(compared, case.detail, view, width),
            *_again_rows(compared, view, width),
            *score_rows(case, width),
            *_conversation_rows(compared, view, width),
            *tool_rows(case.detail, width, "all" if view.whole else view.fold),
            *request_rows(case.detail, width),
            *attempt_rows(case.detail, width),
        ]
    )


def no_answer_rows(run_on_screen: bool, width: int) -> Rows:
    """The placeholder when no answer is selected."""
    where = "4, then enter, chooses one." if run_on_screen else "The answers of a run are read here."
    return paragraph(f"No answer is chosen. {where}", width, "dim")


def _head_rows(case: AnswerContext, view: AnswerView, width: int) -> Iterator[Rows]:
    """The status of an answer with its reason and facts, or why there is no answer."""
    record, answer = case.row, case.detail.answer
    score = "" if record.score is None else f" {number(record.score)}"
    left = case.run.status == "interrupted" and record.status in ("pending", "running")
    yield [
        row(
            status_piece("pending" if left else record.status),
            (score, "strong"),
            "  ",
            (safe_line(answer_title(case)), "strong"),
        )
    ]
    scores = failing_first(case.detail.scores.get(case.run.scoring_pass, ()))
    yield badge_rows(scores, width, None if view.whole else _BADGE_LINES)
    if reason := next(complaints(None, scores), ""):
        yield _cut(reason, width, "fail", None if view.whole else _REASON_LINES)
    run, prompt = case.run, case.run.prompts
    who = [
        run.targets[record.target] if record.target < len(run.targets) else "",
        prompt[record.prompt] if len(prompt) > 1 and record.prompt < len(prompt) else "",
        f"category {record.category}" if record.category else "",
    ]
    limit = None if view.whole else 120
    yield paragraph(" · ".join(safe_line(part, limit) for part in who if part), width)
    if facts := answer_words(record, answer, len(case.detail.calls), case.rejudged).text:
        yield paragraph(facts, width, "dim")
    if left:
        yield paragraph(_left_text(case.run), width, "warn")
    elif answer is None:
        yield paragraph(missing_text(record, answer), width, "running")
    elif problem := error_text(answer):
        yield paragraph(f"! {problem}", width, "error")
        if answer.traceback:
            yield paragraph(answer.traceback, width, "dim", 2)


def badge_rows(scores: Sequence[ScoreRecord], width: int, most: int | None) -> list[Row]:
    """A badge for each evaluator, in at most `most` lines, then the count of the others."""
    lines: list[list[Piece]] = [[]]
    room = width
    for place, record in enumerate(scores, 1):
        badge = Piece(badge_text(record), tone_style(result_look(record.result).tone))
        left = len(scores) - place
        size = cell_width(badge.text) + (2 if lines[-1] else 0)
        # The last line keeps room for the count of the rest.
        spare = cell_width(f"  +{left}") if most is not None and len(lines) >= most and left else 0
        if size + spare > room and lines[-1]:
            if most is not None and len(lines) >= most:
                lines[-1].append(Piece(f"  +{left + 1}", "dim"))
                break
            lines.append([])
            room, size = width, cell_width(badge.text)
        lines[-1] += [*([Piece("  ")] if lines[-1] else []), badge]
        room -= size
    return [Row(tuple(line)) for line in lines if line]


def _cut(text: str, width: int, style: Style, most: int | None) -> Rows:
    """A text in at most `most` lines; all of it is among the scores."""
    lines = wrapped(text, width)
    if most is None or len(lines) <= most:
        return TextRows(lines, style)
    return [*(row((line, style)) for line in lines[: most - 1]), row(fit(" ".join(lines[most - 1 :]), width, style))]


def _otherwise_rows(view: AnswerView, width: int) -> Iterator[Rows]:
    if view.otherwise:
        yield [row()]
        yield paragraph("~ the dataset expects otherwise now: i goes to the item, s judges again", width, "warn")


def _left_text(run: RunRow) -> str:
    reason = f": {stop_reason(run).rstrip('.')}" if stop_reason(run) else ""
    return f"The run stopped before this was answered{reason}. p resumes it."


def _question_rows(case: AnswerContext, view: AnswerView, width: int) -> Iterator[Rows]:
    """The prompt, as much of it as fits above the answer."""
    most = None if view.whole else _ASKED
    prompt = case.prompt[: _ASKED * width * 2] if most else case.prompt
    lines = wrapped(spell_out(prompt) if view.raw else prompt, max(width - 7, 1))
    if not prompt.strip():
        return
    rows = [row(("asked  " if not place else " " * 7, "dim"), line) for place, line in enumerate(lines[:most])]
    more = most is not None and (len(lines) > most or len(prompt) < len(case.prompt))
    yield [row(), *rows, *([row((_MORE if case.messages else _MORE[:8], "dim"))] if more else [])]


def _turn_rows(
    compared: ComparedAnswer, turn: Detail | AnswerDetail, view: AnswerView, width: int, *, titled: bool = True
) -> Iterator[Rows]:
    """The answer of one turn, compared with the expected text if there is one."""

    def title(text: str) -> Rows:
        return heading(text + (" · raw" if view.raw else "")) if titled else ()

    text = text_of(turn)
    reference = reference_text(unit_of(compared.case.item, turn.row.turn), text)
    if text is None:
        if reference is not None:
            yield title("Expected")
            yield paragraph(spell_out(reference) if view.raw else reference, width)
        return
    if reference is None or view.layout == "answer" or not view.compare:
        yield title("Answer")
        if not view.compare:
            yield [row(("… comparing with what was expected", "running"))]
        yield _text_rows(text, turn, view.raw, width)
        if reference is None and titled:
            yield [row(), row(("a", "key"), (" makes it the expected response of the item", "dim"))]
        return
    diff = compared.diff(turn, view.raw)
    if diff is None:
        return
    narrow = view.layout == "sides" and width < NARROWEST
    yield title(f"Expected and answer, {LAYOUT_NAMES['unified' if narrow else view.layout]}")
    hint = f" · side by side needs {NARROWEST} columns: z zooms" if narrow and titled else ""
    yield paragraph(diff_summary(diff) + hint, width, "pass" if diff.same else "changed")
    yield from _diff_rows(diff, view, width, ("expected", "answer"))


def _diff_rows(diff: Diff, view: AnswerView, width: int, titles: tuple[str, str]) -> Iterator[Rows]:
    """Two texts next to each other, or one below the other if chosen or the width is too small."""
    if view.layout == "sides" and width >= NARROWEST:
        yield [column_titles(width, *titles)]
        yield SideBySideRows(diff, width)
    else:
        yield unified_rows(diff, width, whole=view.whole)


def _again_rows(compared: ComparedAnswer, view: AnswerView, width: int) -> Iterator[Rows]:
    """The answer to the same question in a later run, next to this one, with both verdicts."""
    case = compared.case
    if case.again is None:
        return
    run, told = case.again.run, case.again.told
    yield heading(f"Again, in {safe_line(run.name, 60)} {run.key}")
    verdicts: list[Piece | str | tuple[str, Style]] = []
    for record in (case.row, told.row):
        score = "" if record.score is None else f" {number(record.score)}"
        verdicts += [*([" → "] if verdicts else []), status_piece(record.status), (score, "strong")]
    yield [row(*verdicts)]
    if told.answer is not None and (prompt := prompt_of(case.item, told)) != case.prompt:
        yield paragraph(f"asked otherwise: {safe_line(prompt, 3 * width)}", width, "warn")
    diff = compared.diff_again(view.raw)
    if diff is not None and diff.same:
        yield [row(("the same answer as before", "dim"))]
    elif diff is not None:
        yield paragraph(diff_summary(diff), width, "changed")
        yield from _diff_rows(diff, view, width, ("this answer", "again"))
    elif (text := text_of(told)) is not None:
        yield _text_rows(text, told, view.raw, width)
    else:
        problem = error_text(told.answer)
        yield paragraph(
            f"! {problem}" if problem else missing_text(told.row, told.answer), width, "error" if problem else "running"
        )
    for judged in told.scores:
        yield from _score(judged, width)


def _text_rows(text: str, turn: Detail | AnswerDetail, raw: bool, width: int) -> Rows:
    if not text or not (raw or text.strip()):
        calls = " The tool calls are below." if turn.answer and turn.answer.tool_calls else ""
        return [row((missing_text(turn.row, turn.answer) + calls, "dim"))]
    return paragraph(spell_out(text) if raw else text, width)


def _conversation_rows(compared: ComparedAnswer, view: AnswerView, width: int) -> Iterator[Rows]:
    """Every turn: its prompt, and its answer compared with the expected text if there is one."""
    case = compared.case
    if len(case.turns) < 2:
        return
    yield heading(f"Conversation of {len(case.turns)} turns")
    for turn in case.turns:
        score = "" if turn.row.score is None else f" {number(turn.row.score)}"
        yield [row(), row((f"turn {turn.row.turn + 1}  ", "strong"), status_piece(turn.row.status), score)]
        yield paragraph(f"user: {prompt_of(case.item, turn)}", width)
        if turn.row.id == case.row.id:
            yield [row(("its answer is above", "dim"))]
        elif turn.answer is not None and turn.answer.code:
            yield paragraph(f"! {error_text(turn.answer)}", width, "error")
        elif turn.answer is None:
            yield paragraph(missing_text(turn.row, turn.answer), width, "dim")
        else:
            yield from _turn_rows(compared, turn, view, width, titled=False)
