"""The numbers of a comparison as lines: the runs, every test of a later one, rates by category, kinds counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import floor, log10
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.look.show import MARKS
from tui_evals.cli.output import Stop, columns, say, say_json
from tui_evals.cli.runs_named import runs_meant
from tui_evals.cli.tables import fit, table, wrapped
from tui_evals.compare.caveats import caveats
from tui_evals.compare.match import Kind
from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import KINDS, MOST, ComparedLine, Comparison, read_comparison
from tui_evals.compare.statistics import percent
from tui_evals.compare.trend import How, opponent
from tui_evals.compare.verdicts import NAMES, between, sentence
from tui_evals.datasets.discover import project_root
from tui_evals.store.baselines import baseline_of, dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

Styled = tuple[str, Mapping[str, Any]]

_SIDES: Mapping[int, str] = {1: ": better", -1: ": worse", 0: ""}
_COLOURS: Mapping[int, str | None] = {1: "green", -1: "red", 0: None}


def run_table(found: Comparison, room: int | None) -> list[str]:
    """The runs by their letters, with the rate over all that each one asked."""
    rows = [["", "run", "name", "targets", "passes", "of", "95 % interval"]]
    for name, side in zip(NAMES, found.sides, strict=False):
        run, rate = side.run, side.rate
        targets = ", ".join(run.targets)
        ends = between(rate.interval)
        rows.append([name, run.key, run.name, targets, percent(rate.share), f"{rate.passed}/{rate.judged}", ends])
    return table(rows, right=(4, 5), elastic=(2, 3), room=room)


def evaluator_tables(against: RunDifference, name: str, room: int | None) -> Iterator[Styled]:
    """Every test of a later run: what passes, each evaluator, each column where there are several."""
    every = [against.passes] if against.passes.items else []
    groups = {
        "evaluator": [*every, *(test for test in against.tests if test.what)],
        "target": [test for test in against.tests if not test.what],
    }
    for head, tests in groups.items():
        if tests:
            yield from _tests(head, tests, name, room)
    if (many := len(against.tests)) > 1:
        note = f"p is corrected for {many} tests at once, except that of passes; the intervals are not."
        yield from ((line, {"dim": True}) for line in wrapped(note, room))
    less = [test.what for test in against.tests if test.direction < 0]
    if less:
        yield from ((line, {"dim": True}) for line in wrapped(f"Less is better: {', '.join(less)}.", room))


def _tests(head: str, tests: Sequence[MeasuredDifference], name: str, room: int | None) -> Iterator[Styled]:
    counts = {test.items for test in tests}
    count = ["items"] if len(counts) > 1 else []
    rows = [[head, *count, "A", name, f"{name} - A", "95 % interval", "p", ""]]
    for test in tests:
        number = [f"{test.items:,}"] if count else []
        rows.append([test.what or test.column or "passes", *number, *_numbers(test), verdict(test)])
    numeric = range(1, len(rows[0]) - 1)
    for line, one in zip(table(rows, right=numeric, room=room), [None, *tests], strict=True):
        yield line, {"dim": True} if one is None else {"fg": _COLOURS[one.side] if one.shown else None}


def _numbers(test: MeasuredDifference) -> list[str]:
    """Before, after, difference with its interval, and p; a rate in percent, so that its difference is in points."""
    rated, ends = not test.what, test.interval
    decimals = 1 if rated else _decimals(test)
    factor, unit = (100, " pts") if rated else (1, "")

    def number(value: float) -> str:
        return f"{round(value * factor, decimals) + 0.0:.{decimals}f}"  # + 0.0 takes the sign from a zero

    before, after = (percent(value) if rated else number(value) for value in (test.before, test.after))
    shown = "" if ends is None else f"{number(ends.low)} to {number(ends.high)}"
    sign = "+" if test.difference > 0 else ""
    return [before, after, f"{sign}{number(test.difference)}{unit}", shown, chance(test.adjusted)]


def _decimals(test: MeasuredDifference) -> int:
    """Three, fewer of large scores, and as many as it takes to see small ones and small differences."""
    high, gap = max(abs(test.before), abs(test.after)), abs(test.difference)
    usual = 3 if high < 10 else 2 if high < 100 else 1
    small = 2 - floor(log10(high)) if 0 < high < 0.1 else 0
    # Sums of floats leave a trace where nothing changed.
    close = -floor(log10(gap)) if gap > 1e-9 * high else 0
    return min(max(usual, small, close), 12)


def verdict(test: MeasuredDifference) -> str:
    """Whether a difference is shown, and to which side."""
    if test.shown:
        return f"shown{_SIDES[test.side]}"
    return "not shown" if test.difference else "equal"


def chance(p: float) -> str:
    """A p value, never rounded to nothing."""
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def category_table(found: Comparison, room: int | None) -> list[str]:
    """The rates of every run in each category."""
    names = NAMES[: len(found.sides)]
    rows = [["category", *(part for name in names for part in (name, "of"))]]
    for category, rates in found.categories.items():
        cells = [part for rate in rates for part in (percent(rate.share), f"{rate.passed}/{rate.judged}")]
        rows.append([category or "(none)", *cells])
    return table(rows, right=range(1, len(rows[0])), room=room)


def count_line(against: RunDifference) -> str:
    """How many answers are of which kind."""
    return "Answers: " + " · ".join(f"{against.counts[kind]:,} {kind}" for kind in KINDS if against.counts[kind])


KIND_MARKS: dict[Kind, tuple[str, str | None]] = {
    "broken": ("✗", "red"),
    "fixed": ("✓", "green"),
    "changed": ("~", "yellow"),
    "same": ("=", None),
    "gone": ("‹", None),
    "new": ("›", None),
    "not comparable": ("?", None),
}
_PAGE = 200
_PREVIEW = 80
"""Characters of an answer that lists hold; there may be more."""


def compare(words: Sequence[str], *, only: Sequence[Kind], limit: int, as_json: bool) -> None:
    """Compare the runs that a person means, the first with every later one."""
    with project.reader() as reader:
        runs, why = _chosen(reader, words)
        if as_json:
            say_json(_data(reader, runs, only))
            return
        found = read_comparison(reader, [run.id for run in runs])
        kinds = tuple(only) or tuple(kind for kind in KINDS if kind != "same")
        chosen = (line for line in found.lines if set(kinds) & set(line.kinds))
        _say_numbers(found, why)
        _say_lines(reader, sorted(chosen, key=lambda line: KINDS.index(line.kind)), limit, kinds)


def _data(reader: Reader, runs: Sequence[RunRow], only: Sequence[Kind]) -> dict[str, Any]:
    """Everything a comparison says, with every line of it, or those of some kinds."""
    from tui_evals.reports.comparison import document

    found = document(reader, runs)
    if only:
        found["lines"] = [line for line in found["lines"] if set(only) & set(line["kinds"].values())]
    return found


# -- which runs


def other_of(reader: Reader, run: RunRow) -> tuple[RunRow, str] | None:
    """The run that a single one is compared with, and why."""
    root = project_root(Path.cwd())
    # What a run was made of is named from the project's folder, wherever the command is given.
    key = cache(lambda source: dataset_key(source, root, root))
    dataset = key(run.source)
    chosen = baseline_of(reader, dataset)
    baseline = reader.run(chosen.run) if chosen else None
    others = (other for other in every_run(reader) if key(other.source) == dataset)
    found = opponent(run, baseline, _parent(reader, run), others)
    if found is None:
        return None
    reasons: Mapping[How, str] = {
        "baseline": f"the baseline of {dataset}" + (f", set by {chosen.author}" if chosen else ""),
        "parent": f"the run that {run.key} was made from",
        "before": f"the finished run of {dataset} before {run.key}",
    }
    return found[0], reasons[found[1]]


def _parent(reader: Reader, run: RunRow) -> RunRow | None:
    try:
        return None if run.parent is None else reader.run(run.parent)
    except LookupError:
        return None  # Somebody deleted it; the run before is as good as anything.


def every_run(reader: Reader) -> Iterator[RunRow]:
    """All runs, the latest first."""
    offset = 0
    while page := reader.runs(limit=_PAGE, offset=offset):
        yield from page
        offset += len(page)


def _chosen(reader: Reader, words: Sequence[str]) -> tuple[list[RunRow], str]:
    """The runs to compare, and what is to be said of how they were chosen."""
    if len(words) > MOST:
        raise Stop(f"{len(words)} runs are too many beside each other; give {MOST} at most")
    runs = runs_meant(reader, words or ("last",))
    if len(runs) == 1:
        other = other_of(reader, runs[0])
        if other is None:
            raise Stop(
                f"there is nothing to compare {runs[0].key} ({runs[0].name}) with: it has no baseline and no parent, "
                "and no finished run of its dataset comes before it; name another run"
            )
        return [other[0], runs[0]], f"A is {other[1]}."
    for number, run in enumerate(runs):
        if run.id in [before.id for before in runs[:number]]:
            raise Stop(f"{run.key} ({run.name}) was given twice; a run is compared with other runs")
    return runs, ""


# -- in numbers


def _say_numbers(found: Comparison, why: str) -> None:
    room = columns()
    for number, line in enumerate(run_table(found, room)):
        say(line, dim=number == 0)
    for note in (why, *caveats(found)):
        for line in wrapped(note, room) if note else ():
            say(line, dim=True)
    for name, against in zip(NAMES[1:], found.against, strict=False):
        say()
        for line in wrapped(sentence(against, "A", name), room):
            say(line, bold=True)
        for line in wrapped(count_line(against), room):
            say(line)
        for line, style in evaluator_tables(against, name, room):
            say(line, **style)
    if found.categories:
        say()
        for number, line in enumerate(category_table(found, room)):
            say(line, dim=number == 0)


# -- answer by answer


def _say_lines(reader: Reader, lines: Sequence[ComparedLine], limit: int, kinds: Sequence[Kind]) -> None:
    say()
    if not lines:
        every = len(kinds) == len(KINDS) - 1
        say("No answer changed." if every else f"No answer is {' or '.join(kinds)}.")
        return
    shown = lines[:limit]
    previews = {row.id: row.preview for row in reader.rows(_ids(shown))}
    for line in shown:
        _say_line(line, previews)
    if left := len(lines) - len(shown):
        say(f"{left:,} more; `--limit {len(lines)}` shows all, `--only` one kind", dim=True)


def _say_line(line: ComparedLine, previews: dict[int, str]) -> None:
    room = columns()
    glyph, colour = KIND_MARKS[line.kind]
    place = [line.item]
    if line.turn is not None:
        place.append(f"turn {line.turn + 1}")
    if line.repeat is not None:
        place.append(f"repeat {line.repeat + 1}")
    place += [part for part in (line.column, line.category) if part]
    say(_cut(f"{glyph} {line.kind}  {' · '.join(place)}", room), fg=colour, bold=True)
    several = len(line.kinds) > 1
    for name, answer, kind in zip(NAMES, line.answers, (None, *line.kinds), strict=False):
        if answer is None:
            if several:
                say(f"    {name} – not asked", dim=True)
            continue
        # What a run that stopped had in flight is no more running than what it never began.
        status = "pending" if answer.status == "running" else answer.status
        mark, fg = MARKS[status]
        what = f"{kind or '':<15}" if several else ""
        text = previews.get(answer.id, "")
        text = text.rstrip() + "…" if len(text) >= _PREVIEW else text
        say(_cut(f"    {name} {mark} {status:<8} {what}{text}", room), fg=fg)


def _ids(lines: Sequence[ComparedLine]) -> Iterator[int]:
    return (answer.id for line in lines for answer in line.answers if answer is not None)


def _cut(text: str, room: int | None) -> str:
    return text if room is None else fit(text, room).rstrip()
