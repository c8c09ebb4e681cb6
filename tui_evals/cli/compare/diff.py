"""A diff as lines: two columns, or one; what changed is in marks, so that no colour is needed to see it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.look.show import answers_to
from tui_evals.cli.output import colour, columns, say, say_json
from tui_evals.cli.runs_named import run_meant
from tui_evals.compare.diff import Diff, DiffGap, DiffRow, DiffSide, Kind, diff_json, side_by_side, unified_diff
from tui_evals.present.answers import error_text, prompt_text, reference_text
from tui_evals.present.columns import cut, fit, wrap
from tui_evals.present.status import ANSWER_LOOKS, run_look
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.rows import Detail, expected_item, rejudged_now
from tui_evals.text.safe import safe

Coloured = tuple[str, str | None]

WIDE = 100
"""Columns of a terminal from which two texts are side by side."""

_CONTEXT = 3
_SIGNS: dict[Kind, str] = {"same": " ", "changed": "~", "removed": "-", "added": "+"}
_COLOURS: dict[Kind, str | None] = {"same": None, "changed": "yellow", "removed": "red", "added": "green"}
_UNITS = {"line": "lines", "sentence": "sentences", "json": "lines of JSON"}


def beside(diff: Diff, room: int) -> Iterator[Coloured]:
    """Expected left, answered right."""
    half = (room - 5) // 2
    yield f"  {fit('expected', half)} │ answer", None
    ends = _extra_line_ends(diff)
    for row in _rows_near_changes(diff):
        if isinstance(row, DiffGap):
            yield _skipped(row, diff), None
            continue
        left, right = (wrap(_marked(side, row, ends), half) if side else [] for side in (row.left, row.right))
        sign, colour = _SIGNS[row.kind], _COLOURS[row.kind]
        for left_line, right_line in zip_longest(left, right, fillvalue=""):
            yield f"{sign} {fit(left_line, half)} │ {right_line}".rstrip(), colour


def below(diff: Diff, room: int | None) -> Iterator[Coloured]:
    """The expected text above the answer, in one column."""
    ends = _extra_line_ends(diff)
    for row in diff.rows if diff.same else unified_diff(diff, _CONTEXT):
        if isinstance(row, DiffGap):
            yield _skipped(row, diff), None
            continue
        side = row.right or row.left
        for line in wrap(_marked(side, row, ends), None if room is None else room - 2) if side else ():
            yield f"{_SIGNS[row.kind]} {line}".rstrip(), _COLOURS[row.kind]


def _skipped(gap: DiffGap, diff: Diff) -> str:
    return f"⋯ {gap.count:,} {_UNITS[diff.unit]} alike"


def _rows_near_changes(diff: Diff) -> Iterator[DiffRow | DiffGap]:
    """The rows without those that are far from every change; all of them where nothing changed."""
    blocks = [(same, list(block)) for same, block in groupby(diff.rows, key=lambda row: row.kind == "same")]
    for number, (same, block) in enumerate(blocks):
        head = _CONTEXT if number else 0
        tail = len(block) - (_CONTEXT if number < len(blocks) - 1 else 0)
        if not same or len(blocks) == 1 or tail - head <= 1:
            yield from block
        else:
            yield from block[:head]
            yield DiffGap(tail - head)
            yield from block[tail:]


def _marked(side: DiffSide, row: DiffRow, ends: Collection[int]) -> str:
    """A side as text, with marks around what changed where that is not all of it; a line end only it has is shown."""
    all_changed = all(span.changed for span in side.spans)
    opening, closing = ("{+", "+}") if side is row.right else ("[-", "-]")
    text = "".join(
        _bracketed(span.text, opening, closing) if span.changed and not all_changed else safe(span.text)
        for span in side.spans
    )
    return text.removesuffix("\n") + ("⏎" if id(side) in ends else "")


def _bracketed(text: str, opening: str, closing: str) -> str:
    """A changed span in its marks; they leave out the space behind words, and the end of the line."""
    printable = safe(text)
    line = printable.removesuffix("\n")
    core = line.rstrip() or line
    return f"{opening}{core}{closing}{printable[len(core) :]}" if core else printable


def _extra_line_ends(diff: Diff) -> set[int]:
    """Which sides end in a line break that what faces them lacks."""
    side_ids = set()
    for row in diff.rows:
        if row.left and row.right and (left := row.left.text.endswith("\n")) != row.right.text.endswith("\n"):
            side_ids.add(id(row.left if left else row.right))
    return side_ids


Unit = Mapping[str, Any]

_PLACES = 4
"""Places of JSON that differ, named in a line."""


def diff(
    word: str, *, item: str | None, turn: int | None, only: str | None, limit: int, unified: bool, as_json: bool
) -> None:
    """Show the selected answers, or those that failed, against the expected ones."""
    with project.reader() as reader:
        run = run_meant(reader, word)
        rows, count = _selected_rows(reader, run, item, turn, only, limit)
        if not rows and not as_json:
            say(_no_rows_text(run, only, turn))
            return
        items = reader.judged_by(run).document["items"]
        if as_json:
            answers = [_answer_as_json(reader, run, items, row) for row in rows]
            say_json({"run": run.key, "count": count, "answers": answers})
            return
        for number, (_, cell) in enumerate(groupby(rows, key=lambda row: row.cell)):
            if number:
                say()
            _say_cell(reader, run, items, list(cell), unified)
    if count > limit:
        say(f"\n{count - limit:,} more; `--limit {count}` shows all", dim=True)


def _selected_rows(
    reader: Reader, run: RunRow, item: str | None, turn: int | None, only: str | None, limit: int
) -> tuple[list[AnswerRow], int]:
    """The first answers in the order of the plan, and how many there are; all of one item, else what failed."""
    filter_text = only if only is not None else "" if item is not None else "failed"
    filter_text += "" if turn is None else f" turn:{turn}"
    ids = reader.ids(run.id, project.filter_or_stop(filter_text))
    if item is not None:
        matching = set(ids)
        ids = array("q", [row.id for row in answers_to(reader, run, item, turn) if row.id in matching])
    return reader.rows(ids[:limit]), len(ids)


def _no_rows_text(run: RunRow, only: str | None, turn: int | None) -> str:
    where = "" if turn is None else f" in turn {turn}"
    so_far = "" if run.status == "finished" else f", which is {run_look(run).word},"
    scope = f"failed in {run.key}{so_far}" if only is None else f"in {run.key} is found by {only!r}"
    return f"nothing {scope}{where}; `--item ID` shows one item, `--only status:pass` another part of the run"


# -- one conversation


def _say_cell(reader: Reader, run: RunRow, items: Sequence[Unit], rows: list[AnswerRow], unified: bool) -> None:
    """The answers of one conversation under a heading, turn after turn."""
    first = rows[0]
    units = _units(items[first.item])
    place = [first.name, *_column(run, first)]
    if len(units) == 1:
        say(_heading(first, place), bold=True, fg=colour(ANSWER_LOOKS[first.status].tone))
    else:
        say(_cut(" · ".join([*place, f"a conversation of {len(units)} turns"])), bold=True)
    for row in rows:
        if len(units) > 1:
            say(_heading(row, [f"turn {row.turn + 1}"]), bold=True, fg=colour(ANSWER_LOOKS[row.status].tone))
        detail = reader.detail(row.id)
        _say_answer(detail, _judged_unit(detail, run, items[row.item], row.turn), unified)
        if failed := _failed_by(detail, run):
            say(_cut(f"  failed by {', '.join(failed)}"), dim=True)


def _judged_unit(detail: Detail, run: RunRow, item: Unit, turn: int) -> Unit:
    """The item or turn that the answer was last judged by."""
    now = rejudged_now(detail.earlier, run.scoring_pass)
    units = _units(item if now is None else expected_item(now, item, turn))
    return units[turn] if turn < len(units) else {}


def _failed_by(detail: Detail, run: RunRow) -> list[str]:
    return [record.key for record in detail.scores.get(run.scoring_pass, ()) if record.result == "fail"]


def _answer_as_json(reader: Reader, run: RunRow, items: Sequence[Unit], row: AnswerRow) -> dict[str, Any]:
    """An answer with what was expected, and where they differ; `changes` is empty for text that is not JSON."""
    detail = reader.detail(row.id)
    unit = _judged_unit(detail, run, items[row.item], row.turn)
    answer = detail.answer
    text = answer.text if answer else None
    expected = reference_text(unit, text)
    differences = None if text is None or expected is None else compared(expected, text)
    return {
        "item": row.name,
        "turn": row.turn + 1,
        "target": run.targets[row.target],
        "prompt": run.prompts[row.prompt] if row.prompt < len(run.prompts) else None,
        "repeat": row.repeat + 1,
        "status": row.status,
        "score": row.score,
        "failed_by": _failed_by(detail, run),
        "asked": prompt_text(unit, answer),
        "expected": expected,
        "answer": text,
        "same": None if differences is None else differences.same,
        "changes": [] if differences is None else [{"path": at.path, "kind": at.kind} for at in differences.changes],
        "error": error_text(answer) if answer is not None and answer.code else None,
    }


def _heading(row: AnswerRow, place: Sequence[str]) -> str:
    score = [] if row.score is None else [f"score {row.score:.0f}"]
    return _cut(f"{ANSWER_LOOKS[row.status].text}  {' · '.join([*place, *score])}")


def _column(run: RunRow, row: AnswerRow) -> Iterator[str]:
    if len(run.targets) > 1:
        yield run.targets[row.target]
    if len(run.prompts) > 1:
        yield run.prompts[row.prompt]
    if row.repeat:
        yield f"repeat {row.repeat + 1}"


def _units(item: Unit) -> Sequence[Unit]:
    turns = item.get("turns")
    return turns if isinstance(turns, list) and turns else [item]


# -- one answer


def _say_answer(detail: Detail, unit: Unit, unified: bool) -> None:
    answer = detail.answer
    expected = reference_text(unit, answer.text if answer else None)
    prompt = prompt_text(unit, answer)
    if prompt:
        say(_cut(f"  asked: {prompt}"), dim=True)
    if answer is None or answer.text is None:
        _say_text("  expected: ", expected or "")
        _say_text("  ", _missing_answer_text(detail))
    elif expected is None:
        say("  there is no expected response; the answer is:", dim=True)
        _say_text("  ", answer.text)
    else:
        _say_diff(compared(expected, answer.text), unified)


def compared(expected: str, answer: str) -> Diff:
    """The diff of two texts, as JSON where both are."""
    both = all(text.lstrip()[:1] in ("{", "[") for text in (expected, answer))
    return (diff_json if both else side_by_side)(expected, answer)


def _say_diff(diff: Diff, unified: bool) -> None:
    room = columns()
    wide = room is not None and room >= WIDE and not unified and not diff.same
    for line in wrap(_summary(diff, wide), None if room is None else room - 2):
        if line:
            say(f"  {line}", dim=True)
    for line, fg in beside(diff, room or WIDE) if wide else below(diff, room):
        say(line, fg=fg)


def _summary(diff: Diff, wide: bool) -> str:
    """The note above the lines; empty where none is needed."""
    if diff.same:
        return "the answer is the JSON that was expected" if diff.unit == "json" else "the answer is what was expected"
    parts = [] if wide else ["- expected, + answer"]
    if diff.changes:
        paths = [change.path for change in diff.changes[:_PLACES]]
        more = len(diff.changes) - len(paths)
        parts.append(f"differs at {', '.join(paths)}" + (f" and {more} more places" if more else ""))
    if diff.coarse:
        parts.append("too long to compare in full")
    return " · ".join(parts)


def _missing_answer_text(detail: Detail) -> str:
    """The line for a missing text."""
    answer = detail.answer
    if answer is None:
        return "there is no answer yet"
    if answer.tool_calls:
        calls = ", ".join(f"{call.get('name')}({call.get('arguments')})" for call in answer.tool_calls)
        return f"no text, but calls of tools: {calls}"
    return f"no answer: {error_text(answer)}" if answer.code else "no answer"


def _say_text(lead: str, text: str) -> None:
    room = columns()
    for line in wrap(text, None if room is None else max(room - len(lead), 20)) if text else ():
        say(lead + line)
        lead = " " * len(lead)


def _cut(text: str) -> str:
    return cut(text, columns())
