"""What stands above the cards of a comparison: verdicts, tests, rates and how the scores spread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from tui_evals.compare.caveats import caveats
from tui_evals.compare.match import Kind
from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import KINDS, ComparedLine, Comparison, RunSide
from tui_evals.compare.verdicts import NAMES, difference_sentence
from tui_evals.present.comparisons import KIND_LOOKS, difference_text, direction, label_lines
from tui_evals.present.figures import counted, mean_text, universal_time
from tui_evals.present.runs import judge_name, run_cost, stop_reason, target_names
from tui_evals.present.status import waiting_count
from tui_evals.reports.plots import Scatter, Steps, scatter, steps
from tui_evals.store.reader import Reader

from .texts import by_item, places_of
from .walk import Share, share_of, walk_answers


@dataclass(frozen=True, slots=True)
class RunColumn:
    """One of the runs in a line."""

    letter: str
    name: str
    key: str
    started: str
    targets: str
    judge: str
    source: str
    items: int
    share: Share
    cost: str
    tokens: str
    latency: str
    notice: str


@dataclass(frozen=True, slots=True)
class Measured:
    """One test in a line of a table."""

    name: str
    items: int
    before: str
    after: str
    difference: str
    interval: str
    chance: str
    verdict: str
    direction: str
    """better, worse, or nothing where it is not shown or nobody can tell."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A later run against the first."""

    letter: str
    sentence: str
    counts: tuple[tuple[Kind, str, int], ...]
    tests: tuple[Measured, ...]
    scatter: Scatter | None


@dataclass(frozen=True, slots=True)
class Spread:
    """How the scores of an evaluator spread in every run."""

    name: str
    means: tuple[tuple[str, str, int], ...]
    steps: Steps


@dataclass(frozen=True, slots=True)
class Versus:
    """A comparison above its cards."""

    runs: tuple[RunColumn, ...]
    caveats: tuple[str, ...]
    pairs: tuple[Pair, ...]
    spreads: tuple[Spread, ...]
    categories: tuple[tuple[str, tuple[tuple[str, Share], ...]], ...]
    kinds: tuple[tuple[int, Kind, str, int], ...]
    """The kinds there are, by their place among all kinds."""
    names: tuple[str, ...]
    """The categories that can be filtered by."""
    evaluators: tuple[str, ...]
    columns: tuple[str, ...]
    items: int


def versus(reader: Reader, comparison: Comparison) -> Versus:
    """A comparison in numbers, ready to be shown."""
    groups = list(by_item(comparison.lines, places_of(reader, comparison)))
    evaluators = tuple(sorted({key for side in comparison.sides for key in side.scores}))
    pairs = tuple(
        _pair(letter, place, difference, groups)
        for place, (letter, difference) in enumerate(zip(NAMES[1:], comparison.against, strict=False))
    )
    kinds = {kind for line in comparison.lines for kind in line.kinds if kind}
    return Versus(
        runs=tuple(_run_column(reader, letter, side) for letter, side in zip(NAMES, comparison.sides, strict=False)),
        caveats=(*label_lines(comparison.sides), *caveats(comparison)),
        pairs=pairs,
        spreads=tuple(_spreads(comparison.sides, evaluators)),
        categories=tuple(_categories(comparison)),
        kinds=tuple((KINDS.index(k), k, KIND_LOOKS[k].glyph, _item_count(groups, k)) for k in KINDS if k in kinds),
        names=tuple(comparison.categories),
        evaluators=evaluators,
        columns=tuple(dict.fromkeys(line.column for line in comparison.lines if line.column)),
        items=len(groups),
    )


def _categories(comparison: Comparison) -> Iterator[tuple[str, tuple[tuple[str, Share], ...]]]:
    for name, rates in comparison.categories.items():
        shares = (share_of(rate.passed, rate.judged) for rate in rates)
        yield name, tuple(zip(NAMES, shares, strict=False))


def _item_count(groups: Sequence[Sequence[ComparedLine]], kind: Kind) -> int:
    return sum(any(kind in line.kinds for line in group) for group in groups)


def _run_column(reader: Reader, letter: str, side: RunSide) -> RunColumn:
    run, totals = side.run, reader.totals(side.run.id)
    known = walk_answers(reader, run)
    left = waiting_count(totals)
    waits = f"{counted(left, 'answer is', 'answers are')} not there or not judged yet" if left else ""
    reason = f"stopped: {stop_reason(run)}" if stop_reason(run) else ""
    return RunColumn(
        letter=letter,
        name=run.name,
        key=run.key,
        started=universal_time(run.started or run.created),
        targets=", ".join(target_names(run)),
        judge=judge_name(run),
        source=run.source,
        items=known.items,
        share=share_of(side.rate.passed, side.rate.judged),
        cost=run_cost(totals, reader.spent(run.id)[1]).text,
        tokens=f"{totals.input_tokens + totals.output_tokens:,}",
        latency=known.latency(),
        notice="; ".join(part for part in (reason, waits) if part),
    )


def _pair(letter: str, place: int, difference: RunDifference, groups: Sequence[Sequence[ComparedLine]]) -> Pair:
    counts = tuple((kind, KIND_LOOKS[kind].glyph, count) for kind in KINDS if (count := difference.counts.get(kind, 0)))
    tests = [_measured_test(difference.passes, "Items that pass")] if difference.passes.items else []
    tests += [_measured_test(test) for test in difference.tests]
    points = [pair for group in groups if (pair := _mean_scores(group, place + 1))]
    return Pair(
        letter=letter,
        sentence=difference_sentence(difference, "A", letter),
        counts=counts,
        tests=tuple(tests),
        scatter=scatter(points, "A", letter),
    )


def _mean_scores(group: Sequence[ComparedLine], later: int) -> tuple[float, float] | None:
    """The mean score of an item in the first run and in a later one, over the answers that both have."""
    pairs = [
        (first.score, after.score)
        for line in group
        if (first := line.answers[0])
        and (after := line.answers[later])
        and first.score is not None
        and after.score is not None
    ]
    return (fmean(before for before, _ in pairs), fmean(after for _, after in pairs)) if pairs else None


def _measured_test(test: MeasuredDifference, name: str = "") -> Measured:
    text = difference_text(test)
    return Measured(
        name=name or text.name,
        items=test.items,
        before=text.before,
        after=text.after,
        difference=text.difference,
        interval=text.interval,
        chance=text.chance,
        verdict=text.verdict,
        direction=direction(test),
    )


def _spreads(sides: Sequence[RunSide], evaluators: Sequence[str]) -> Iterator[Spread]:
    for key in evaluators:
        scores = [side.scores.get(key, ()) for side in sides]
        if chart := steps(scores):
            means: defaultdict[str, tuple[str, int]] = defaultdict(lambda: ("n/a", 0))
            for letter, own in zip(NAMES, scores, strict=False):
                means[letter] = (mean_text(fmean(own) if own else None, sides[0].measures.get(key, "")), len(own))
            yield Spread(key, tuple((letter, *mean) for letter, mean in means.items()), chart)
