"""Comparisons and diffs as lines: runs, tests, rates by category; two columns or one, with marks for what changed."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.look.show import answers_to
from tui_evals.cli.output import Stop, colour, columns, say, say_json
from tui_evals.cli.runs_named import run_meant, runs_meant
from tui_evals.compare.diff import Diff, DiffGap, DiffRow, DiffSide, diff_json, side_by_side, unified_diff
from tui_evals.compare.diff import Kind as DiffKind
from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import KINDS, MAX_RUNS, ComparedLine, Comparison, Region, read_columns, read_comparison
from tui_evals.compare.sides import Kind
from tui_evals.compare.trend import OpponentKind, default_opponent, every_run
from tui_evals.compare.verdicts import NAMES, caveats, difference_sentence
from tui_evals.datasets.discover import project_root
from tui_evals.present.answers import error_text, preview_text, prompt_text, reference_text
from tui_evals.present.columns import cut, fit, table, wrap
from tui_evals.present.comparisons import (
    KIND_LOOKS,
    category_name,
    category_rates,
    difference_text,
    kind_counts,
    kind_text,
    label_lines,
    population_sentence,
    rate_rows,
    side_name,
    stop_notes,
    usage_lines,
    why_alone,
)
from tui_evals.present.figures import interval_text
from tui_evals.present.grid import NoColumn, regions_meant
from tui_evals.present.status import ANSWER_LOOKS, run_look
from tui_evals.reports.comparison import columns_document, document
from tui_evals.store.baselines import baseline_of, dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.rows import Detail, expected_item, rejudged_now
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe

Styled = tuple[str, Mapping[str, Any]]


def run_table(comparison: Comparison, room: int | None) -> list[str]:
    """The runs by their letters, with their pass rates over what all of them share: a line for each column."""
    rows = [["", "run", "name", "target", "passes", "of", "95 % interval"]]
    for row in rate_rows(comparison):
        run = row.side.run
        target = row.column or ", ".join(run.targets)
        rows.append([row.letter, run.key, side_name(row.side), target, row.rate, row.items, interval_text(row.figure)])
    return table(rows, right=(4,), elastic=(2, 3), names=(2, 3), headed=True, room=room)


def evaluator_tables(against: RunDifference, name: str, room: int | None) -> Iterator[Styled]:
    """Every test of a later run: what passes, each evaluator, each column where there are several."""
    every = [against.passes] if against.passes.items else []
    groups = {
        "evaluator": [*every, *(test for test in against.tests if test.what)],
        "target": [test for test in against.tests if not test.what],
    }
    for head, tests in groups.items():
        if tests:
            yield from _test_lines(head, tests, name, room)
    if (many := len(against.tests)) > 1:
        note = f"p is corrected for {many} tests at once, except that of passes; the intervals are not."
        yield from ((line, {"dim": True}) for line in wrap(note, room))
    less = [test.what for test in against.tests if test.direction < 0]
    if less:
        yield from ((line, {"dim": True}) for line in wrap(f"Less is better: {', '.join(less)}.", room))


def _test_lines(head: str, tests: Sequence[MeasuredDifference], name: str, room: int | None) -> Iterator[Styled]:
    counts = {test.items for test in tests}
    count = ["items"] if len(counts) > 1 else []
    rows = [[head, *count, "A", name, f"{name} - A", "95 % interval", "p", ""]]
    texts = [difference_text(test) for test in tests]
    for test_text in texts:
        number = [test_text.items] if count else []
        rows.append(
            [
                test_text.name,
                *number,
                test_text.before,
                test_text.after,
                test_text.difference,
                test_text.interval,
                test_text.chance,
                test_text.verdict,
            ]
        )
    first, *lines = table(rows, right=range(1, len(rows[0]) - 1), room=room)
    yield first, {"dim": True}
    for line, test_text in zip(lines, texts, strict=True):
        yield line, {"fg": colour(test_text.tone)}


def category_table(comparison: Comparison, room: int | None) -> list[str]:
    """The rates of every run in each category, and in each column where there are several."""
    rows = [["category", *NAMES[: len(comparison.sides)], "of"]]
    for rates in category_rates(comparison):
        rows.append([category_name(comparison, rates[0]), *(row.rate for row in rates), rates[0].items])
    return table(rows, right=range(1, len(rows[0]) - 1), room=room)


def count_line(against: RunDifference) -> str:
    """Counts of answers by kind."""
    return "Answers: " + " · ".join(kind_counts(against))


_PREVIEW = 80
"""Characters of an answer that lists hold; there may be more."""


def compare(words: Sequence[str], *, between: str | None, only: Sequence[Kind], limit: int, as_json: bool) -> None:
    """Compare the named runs, the first with every later one, or two columns of one."""
    with project.reader() as reader:
        if between is not None:
            run, pair = _columns_to_compare(reader, words, between)
            if as_json:
                say_json(_of_kinds(columns_document(reader, run, pair), only))
                return
            comparison, why = read_columns(reader, run.id, pair), f"A and B are columns of {run.key} ({run.name})."
        else:
            runs, why = _runs_to_compare(reader, words)
            if as_json:
                say_json(_of_kinds(document(reader, runs), only))
                return
            comparison = read_comparison(reader, [run.id for run in runs])
        kinds = tuple(only) or tuple(kind for kind in KINDS if kind != "same")
        wanted = frozenset[Kind | None](kinds)
        chosen = (line for line in comparison.lines if not wanted.isdisjoint(line.kinds))
        _say_numbers(comparison, why)
        _say_lines(reader, sorted(chosen, key=lambda line: KINDS.index(line.kind)), limit, kinds)


def _of_kinds(data: dict[str, Any], only: Sequence[Kind]) -> dict[str, Any]:
    """A whole comparison as JSON data with all lines, or those of some kinds."""
    if only:
        data["lines"] = [line for line in data["lines"] if set(only) & set(line["kinds"].values())]
    return data


# -- which runs


def _opponent_of(reader: Reader, run: RunRow) -> tuple[RunRow, str]:
    """The run that a single one is compared with, and why."""
    root = project_root(Path.cwd())
    # Sources of runs are relative to the project's folder, wherever the command is called.
    key = cache(lambda source: dataset_key(source, root, root))
    dataset = key(run.source)
    chosen = baseline_of(reader, dataset)
    baseline = reader.run(chosen.run) if chosen else None

    def others() -> Iterator[RunRow]:
        return (candidate for candidate in every_run(reader) if key(candidate.source) == dataset)

    opponent = default_opponent(run, baseline, _parent_run(reader, run), others())
    if opponent is None:
        raise Stop(
            f"there is nothing to compare {run.key} ({run.name}) with: it has no baseline and no parent, "
            f"and {why_alone(run, others())}; name another run"
        )
    reasons: Mapping[OpponentKind, str] = {
        "baseline": f"the baseline of {dataset}" + (f", set by {chosen.author}" if chosen else ""),
        "parent": f"the run that {run.key} was made from",
        "before": f"the finished run of {dataset} before {run.key}",
    }
    return opponent[0], reasons[opponent[1]]


def _columns_to_compare(reader: Reader, names: Sequence[str], between: str) -> tuple[RunRow, tuple[Region, Region]]:
    """The named run and its two named regions."""
    if len(names) > 1:
        raise Stop(f"--columns compares two columns of one run, and {len(names)} runs were given; name one")
    (run,) = runs_meant(reader, names or ("last",))
    try:
        return run, regions_meant(run, between)
    except NoColumn as problem:
        raise Stop(str(problem)) from None


def _parent_run(reader: Reader, run: RunRow) -> RunRow | None:
    try:
        return None if run.parent is None else reader.run(run.parent)
    except LookupError:
        return None  # The run was deleted; use the run before.


def _runs_to_compare(reader: Reader, names: Sequence[str]) -> tuple[list[RunRow], str]:
    """The runs to compare, and a sentence on why they were chosen."""
    if len(names) > MAX_RUNS:
        raise Stop(f"{len(names)} runs are too many to compare. Name at most {MAX_RUNS}")
    runs = runs_meant(reader, names or ("last",))
    if len(runs) == 1:
        opponent = _opponent_of(reader, runs[0])
        return [opponent[0], runs[0]], f"A is {opponent[1]}."
    for number, run in enumerate(runs):
        if run.id in [before.id for before in runs[:number]]:
            raise Stop(f"{run.key} ({run.name}) was given twice; a run is compared with other runs")
    return runs, ""


# -- in numbers


def _say_numbers(comparison: Comparison, why: str) -> None:
    room = columns()
    for number, line in enumerate(run_table(comparison, room)):
        say(line, dim=number == 0)
    for line in wrap(population_sentence(comparison), room):
        say(line, dim=True)
    for used in usage_lines(comparison.sides):
        for line in wrap(used, room):
            say(line)
    for note in (why, *stop_notes(side.run for side in comparison.sides), *caveats(comparison)):
        for line in wrap(note, room) if note else ():
            say(line, dim=True)
    for name, against in zip(NAMES[1:], comparison.against, strict=False):
        say()
        for line in wrap(difference_sentence(against, "A", name), room):
            say(line, bold=True)
        for line in wrap(count_line(against), room):
            say(line)
        for line, style in evaluator_tables(against, name, room):
            say(line, **style)
    for labels in label_lines(comparison.sides):
        for line in wrap(labels, room):
            say(line)
    if comparison.categories:
        say()
        for number, line in enumerate(category_table(comparison, room)):
            say(line, dim=number == 0)


# -- answer by answer


def _say_lines(reader: Reader, lines: Sequence[ComparedLine], limit: int, kinds: Sequence[Kind]) -> None:
    say()
    if not lines:
        every = len(kinds) == len(KINDS) - 1
        say("No answer changed." if every else f"No answer is {' or '.join(kinds)}.")
        return
    shown = lines[:limit]
    previews = {row.id: preview_text(row) for row in reader.rows(_answer_ids(shown))}
    for line in shown:
        _say_line(line, previews)
    if left := len(lines) - len(shown):
        say(f"{left:,} more; `--limit {len(lines)}` shows all, `--only` one kind", dim=True)


def _say_line(line: ComparedLine, previews: dict[int, str]) -> None:
    room = columns()
    look = KIND_LOOKS[line.kind]
    place = [line.item]
    if line.turn is not None:
        place.append(f"turn {line.turn + 1}")
    if line.repeat is not None:
        place.append(f"repeat {line.repeat + 1}")
    place += [part for part in (line.column, line.category) if part]
    say(cut(f"{kind_text(line)}  {' · '.join(place)}", room), fg=colour(look.tone), bold=True)
    several = len(line.kinds) > 1
    for name, answer, kind in zip(NAMES, line.answers, (None, *line.kinds), strict=False):
        if answer is None:
            if several:
                say(f"    {name} – not asked", dim=True)
            continue
        mark = ANSWER_LOOKS[answer.status]
        kind_cell = f"{kind or '':<15}" if several else ""
        preview = previews.get(answer.id, "")
        preview = preview.rstrip() + "…" if len(preview) >= _PREVIEW else preview
        say(cut(f"    {name} {mark.glyph} {mark.word:<8} {kind_cell}{preview}", room), fg=colour(mark.tone))


def _answer_ids(lines: Sequence[ComparedLine]) -> Iterator[int]:
    return (answer.id for line in lines for answer in line.answers if answer is not None)


Coloured = tuple[str, str | None]

WIDE = 100
"""Columns of a terminal from which two texts are side by side."""

_CONTEXT = 3
_SIGNS: dict[DiffKind, str] = {"same": " ", "changed": "~", "removed": "-", "added": "+"}
_COLORS: dict[DiffKind, str | None] = {"same": None, "changed": "yellow", "removed": "red", "added": "green"}
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
        sign, colour = _SIGNS[row.kind], _COLORS[row.kind]
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
            yield f"{_SIGNS[row.kind]} {line}".rstrip(), _COLORS[row.kind]


def _skipped(gap: DiffGap, diff: Diff) -> str:
    return f"⋯ {gap.count:,} {_UNITS[diff.unit]} alike"


def _rows_near_changes(diff: Diff) -> Iterator[DiffRow | DiffGap]:
    """The rows without those far from every change; all of them if nothing changed."""
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
    """The first answers in the order of the plan, and their number; all of one item, else failed ones."""
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
    """An answer with its expectation and their differences; `changes` is empty for text that is not JSON."""
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
        parts.append(f"differs at {', '.join(paths)}" + (f" and {counted(more, 'more place')}" if more else ""))
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
