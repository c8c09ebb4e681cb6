"""Everything known of one answer as rows: facts, the answer against what was expected, and the sections below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tui_evals.store.documents import expected_of
from tui_evals.store.records import AnswerRow, AnswerStatus
from tui_evals.store.rows import Detail
from tui_evals.text.figures import duration, money, number
from tui_evals.text.safe import safe_line, spell
from tui_evals.tui.lines import Rows, row, status_piece, wrapped

from .case import Case, Look, prompt_of, text_of, unit_of, units
from .diffs import NARROWEST, Layout, Sides, summary, titles, unified_rows
from .parts import Joined, heading, paragraph
from .scores import score_rows
from .transcript import attempts, request_rows, tool_rows

LAYOUTS: tuple[Layout, ...] = ("sides", "unified", "answer")
LAYOUT_NAMES: dict[Layout, str] = {"sides": "side by side", "unified": "unified", "answer": "only the answer"}
_WAITING: dict[AnswerStatus, str] = {
    "pending": "Nobody has been asked yet.",
    "running": "The target has been asked and has not answered yet.",
}
_LEFT = "The run stopped before this was answered; p lets it go on."
_MORE = "       … all of it stands below"
_ASKED = 3
"""Lines of the question that stand above its answer."""


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
            *_asked(case, manner, width),
            *_turn(look, case.detail, manner, width),
            *score_rows(case, width),
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
    left = case.run.status == "interrupted" and record.status in _WAITING
    yield [
        row(
            status_piece("pending" if left else record.status),
            (score, "strong"),
            "  ",
            (safe_line(name_of(case)), "strong"),
        )
    ]
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
        waiting = _LEFT if left else _WAITING.get(record.status, "There is no answer in the store.")
        yield paragraph(waiting, width, "warn" if left else "running")
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
        yield money(record.cost) if record.cost is not None else "" if answer.code else "unpriced"
    if answer is not None and answer.finish_reason:
        yield f"ended with {safe_line(answer.finish_reason, 40)}"
    if record.attempts > 1:
        yield f"{record.attempts} attempts"


def _asked(case: Case, manner: Manner, width: int) -> Iterator[Rows]:
    """What the answer is an answer to, as far as it fits above it."""
    prompt = case.prompt[: _ASKED * width * 2]
    lines = wrapped(spell(prompt) if manner.raw else prompt, max(width - 7, 1))
    if not prompt.strip():
        return
    rows = [row(("asked  " if not place else " " * 7, "dim"), line) for place, line in enumerate(lines[:_ASKED])]
    more = len(lines) > _ASKED or len(prompt) < len(case.prompt)
    yield [row(), *rows, *([row((_MORE if case.messages else _MORE[:8], "dim"))] if more else [])]


def _turn(look: Look, turn: Detail, manner: Manner, width: int, *, titled: bool = True) -> Iterator[Rows]:
    """The answer of one turn, against what was expected where something was."""

    def title(text: str) -> Rows:
        return heading(text + (" · raw" if manner.raw else "")) if titled else ()

    text, reference = text_of(turn), expected_of(unit_of(look.case.item, turn.row.turn))
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
