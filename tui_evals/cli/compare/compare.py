"""The numbers of a comparison as lines: the runs, every test of a later one, rates by category, kinds counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.output import Stop, colour, columns, say, say_json
from tui_evals.cli.runs_named import runs_meant
from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import (
    KINDS,
    MAX_RUNS,
    ComparedLine,
    Comparison,
    Region,
    read_columns,
    read_comparison,
)
from tui_evals.compare.sides import Kind
from tui_evals.compare.trend import OpponentKind, default_opponent, every_run
from tui_evals.compare.verdicts import NAMES, caveats, difference_sentence
from tui_evals.datasets.discover import project_root
from tui_evals.present.answers import preview_text
from tui_evals.present.columns import cut, table, wrap
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
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.reports.comparison import columns_document, document
from tui_evals.store.baselines import baseline_of, dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

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
    """Compare the runs that a person means, the first with every later one, or two columns of one."""
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
    # What a run was made of is named from the project's folder, wherever the command is given.
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
    """The run and its two regions that a person means."""
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
