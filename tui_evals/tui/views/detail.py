"""Everything known of one answer as rows: facts, the answer against what was expected, and the sections below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tui_evals.store.records import AnswerRow, AnswerStatus, ScoreRecord
from tui_evals.store.rows import Detail, Label
from tui_evals.text.safe import safe_line, spell
from tui_evals.tui.lines import GLYPHS, Piece, Row, Rows, row, status_piece

from .case import Case, Look, prompt_of, reference_of, text_of, unit_of, units
from .diffs import NARROWEST, Layout, Sides, summary, titles, unified_rows
from .figures import duration, money, number
from .parts import Joined, heading, paragraph
from .transcript import attempts, pretty, request_rows, tool_rows

LAYOUTS: tuple[Layout, ...] = ("sides", "unified", "answer")
LAYOUT_NAMES: dict[Layout, str] = {"sides": "side by side", "unified": "unified", "answer": "only the answer"}
_RESULTS: dict[str, AnswerStatus] = {"pass": "pass", "fail": "fail", "error": "error"}
_WAITING: dict[AnswerStatus, str] = {
    "pending": "Nobody has been asked yet.",
    "running": "The target has been asked and has not answered yet.",
}


@dataclass(frozen=True, slots=True)
class Manner:
    """How an answer is shown."""

    layout: Layout = "sides"
    raw: bool = False
    compare: bool = True
    """Whether a diff may be made; before a long one the answer is shown alone."""


def shown(look: Look, manner: Manner, width: int) -> Rows:
    """All rows of an answer; for long texts this is work for a thread."""
    case = look.case
    return Joined(
        [
            *_head(case, width),
            *_turn(look, case.detail, manner, width),
            *_scores(case, width),
            *_conversation(look, manner, width),
            *tool_rows(case.detail, width),
            *request_rows(case.detail, width),
            *attempts(case.detail, width),
        ]
    )


def empty(run_on_screen: bool, width: int) -> Rows:
    """What belongs here while no answer is chosen."""
    where = "Choose one in the results: 4, then enter." if run_on_screen else "Open a run first: 6, then enter."
    text = (
        "Here stands one answer beside what was expected, with its scores and reasons, tool calls and calls.\n\n"
        f"{where} > and < go from answer to answer."
    )
    return Joined([[row(("No answer is chosen.", "strong"))], [row()], paragraph(text, width, "dim")])


def name_of(case: Case) -> str:
    """How an answer is called: its item, its turn and its repeat where there are several."""
    turn = f" · turn {case.row.turn + 1} of {len(units(case.item))}" if _several(case) else ""
    repeat = f" · repeat {case.row.repeat + 1}" if case.row.repeat else ""
    return f"{case.row.name}{turn}{repeat}"


def _several(case: Case) -> bool:
    return len(units(case.item)) > 1 or case.row.turn > 0


def _head(case: Case, width: int) -> Iterator[Rows]:
    """The facts of an answer, and why there is none."""
    record, answer = case.row, case.detail.answer
    score = "" if record.score is None else f" {number(record.score)}"
    yield [row(status_piece(record.status), (score, "strong"), "  ", (safe_line(name_of(case)), "strong"))]
    run, prompt = case.run, case.run.prompts
    who = [
        run.targets[record.target] if record.target < len(run.targets) else "",
        prompt[record.prompt] if len(prompt) > 1 and record.prompt < len(prompt) else "",
        f"answered by {answer.model}" if answer and answer.model else "",
        f"category {record.category}" if record.category else "",
    ]
    yield paragraph(" · ".join(safe_line(part, 120) for part in who if part), width)
    yield paragraph(" · ".join(part for part in _facts(record, case.detail) if part), width, "dim")
    if answer is None:
        yield [row((_WAITING.get(record.status, "There is no answer in the store."), "running"))]
    elif answer.code or answer.message:
        yield paragraph(f"! {answer.code or 'error'}: {answer.message or 'no more is known'}", width, "error")


def _facts(record: AnswerRow, detail: Detail) -> Iterator[str]:
    answer = detail.answer
    if record.scripted:
        yield "scripted, not a model"
    yield (
        "from the cache"
        if record.from_cache
        else ""
        if record.latency_ms is None
        else duration(record.latency_ms / 1000)
    )
    if record.input_tokens is not None or record.output_tokens is not None:
        yield f"{record.input_tokens or 0} tokens in, {record.output_tokens or 0} out"
    if answer is not None:
        yield "unpriced" if record.cost is None else money(record.cost)
    if answer is not None and answer.finish_reason:
        yield f"ended with {safe_line(answer.finish_reason, 40)}"
    if record.attempts > 1:
        yield f"{record.attempts} attempts"


def _turn(look: Look, turn: Detail, manner: Manner, width: int, *, titled: bool = True) -> Iterator[Rows]:
    """The answer of one turn, against what was expected where something was."""

    def title(text: str) -> Rows:
        return heading(text + (" · raw" if manner.raw else "")) if titled else ()

    text, reference = text_of(turn), reference_of(unit_of(look.case.item, turn.row.turn))
    if text is None:
        if reference is not None:
            yield title("Expected")
            yield paragraph(spell(reference) if manner.raw else reference, width)
        return
    if reference is None or manner.layout == "answer" or not manner.compare:
        yield title("Answer")
        if not manner.compare:
            yield [row(("… comparing with what was expected", "running"))]
        yield _said(text, turn, manner.raw, width)
        if reference is None and titled:
            yield [row(), row(("a", "key"), (" makes it the expected response of the item", "dim"))]
        return
    diff = look.diff(turn, manner.raw)
    if diff is None:
        return
    narrow = manner.layout == "sides" and width < NARROWEST
    yield title(f"Expected and answer, {LAYOUT_NAMES['unified' if narrow else manner.layout]}")
    hint = f" · side by side needs {NARROWEST} columns: z zooms" if narrow and titled else ""
    yield paragraph(summary(diff) + hint, width, "pass" if diff.same else "changed")
    if manner.layout == "sides" and not narrow:
        yield [titles(width)]
        yield Sides(diff, width)
    else:
        yield unified_rows(diff, width)


def _said(text: str, turn: Detail, raw: bool, width: int) -> Rows:
    if not text:
        calls = "; the tool calls stand below" if turn.answer and turn.answer.tool_calls else ""
        return [row((f"The answer is empty{calls}.", "dim"))]
    return paragraph(spell(text) if raw else text, width)


def _scores(case: Case, width: int) -> Iterator[Rows]:
    """What the evaluators made of it in the pass that counts, in earlier ones, and what people said."""
    passes = case.detail.scores
    now = passes.get(case.run.scoring_pass, ())
    labels = case.detail.labels
    if not passes and not labels:
        return
    yield heading("Scores" if case.run.scoring_pass < 2 else f"Scores of pass {case.run.scoring_pass}")
    for label in labels:
        yield _label(label, width)
    if not now:
        yield [row(("Not judged in this pass.", "dim"))]
    for record in now:
        yield from _score(record, width)
        before = [
            f"pass {place}: {_short(one)}"
            for place, records in passes.items()
            if place != case.run.scoring_pass
            for one in records
            if one.key == record.key
        ]
        if before:
            yield paragraph(" · ".join(before), width, "dim", 2)


def _score(record: ScoreRecord, width: int) -> Iterator[Rows]:
    limit = "" if record.threshold is None else f" of at least {number(record.threshold)}"
    score = "" if record.score is None else f" {number(record.score)}{limit}"
    kind = f" ({record.evaluator})" if record.evaluator != record.key else ""
    weight = "" if record.weight == 1 else f" · weight {record.weight:g}"
    label = f" · {record.label}" if record.label else ""
    about = paragraph(f"{record.key}{kind}{score}{label}{weight}", max(width - 10, 10))
    for place, line in enumerate(about):
        yield [Row((_result(record.result) if not place else Piece(" " * 10), *line.pieces))]
    if record.reason:
        yield paragraph(record.reason, width, "", 2)
    if record.details:
        yield paragraph(pretty(record.details), width, "dim", 2)


def _result(result: str | None) -> Piece:
    if result in _RESULTS:
        return status_piece(_RESULTS[result], 10)
    return Piece(f"- {safe_line(result or 'scored', 7)}".ljust(10), "dim")


def _short(record: ScoreRecord) -> str:
    glyph = GLYPHS[_RESULTS[record.result]][0] if record.result in _RESULTS else "-"
    return f"{glyph} {record.result or 'scored'}" + ("" if record.score is None else f" {number(record.score)}")


def _label(label: Label, width: int) -> Rows:
    glyph, style = GLYPHS[label.verdict]
    about = f" of {label.evaluator}" if label.evaluator else ""
    word = "good" if label.verdict == "pass" else "bad"
    note = f": {label.note}" if label.note else ""
    return paragraph(f"{glyph} {label.author} says it is {word}{about}{note}", width, style)


def _conversation(look: Look, manner: Manner, width: int) -> Iterator[Rows]:
    """Every turn: what was asked, and its answer against what was expected."""
    case = look.case
    if len(case.turns) < 2:
        return
    yield heading(f"Conversation of {len(case.turns)} turns")
    for turn in case.turns:
        score = "" if turn.row.score is None else f" {number(turn.row.score)}"
        yield [row(), row((f"turn {turn.row.turn + 1}  ", "strong"), status_piece(turn.row.status), score)]
        yield paragraph(f"user: {prompt_of(case.item, turn)}", width)
        if turn.row.id == case.row.id:
            yield [row(("its answer stands above", "dim"))]
        elif turn.answer is not None and turn.answer.code:
            yield paragraph(f"! {turn.answer.code}: {turn.answer.message or ''}", width, "error")
        elif turn.answer is None:
            yield [row(("no answer yet", "dim"))]
        else:
            yield from _turn(look, turn, manner, width, titled=False)
