"""A comparison in sentences: which run is better, what chance explains, and what to know before trusting it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator

from tui_evals.compare.measures import LEVEL, MeasuredDifference, RunDifference
from tui_evals.compare.runs import Comparison, RunSide
from tui_evals.compare.sides import shared_numbers
from tui_evals.figures import percent

NAMES = "ABCD"
"""The letters of runs in a comparison, in the given order."""
COULD_BE_CHANCE = "could be chance"
"""Said of a difference that equal runs make often enough."""
JUDGED_OTHERWISE = "judged by another expectation"
"""Why answers that both have a verdict cannot be compared."""
WITHOUT_CALLS = "without time and cost, which are cached"
"""Said of answers whose verdicts on time or cost a comparison leaves out."""
_LEAST_CHANCE = 0.001
_MOST_DECIMALS = 6


def difference_sentence(
    difference: RunDifference, before: str = "A", after: str = "B", level: float = LEVEL, *, brief: bool = False
) -> str:
    """Whether the later run passes more items than the first, and whether that could be chance.

    A brief one leaves out how many items it would take to tell.
    """
    left_out = otherwise_sentence(difference.judged_otherwise)
    return " ".join(filter(None, (_difference_sentence(difference, before, after, level, brief), left_out)))


def otherwise_sentence(count: int) -> str:
    """How many answers a comparison leaves out because their expectations differ; empty for 0."""
    if not count:
        return ""
    answers = "1 answer was" if count == 1 else f"{count:,} answers were"
    return f"{answers} {JUDGED_OTHERWISE} and {'is' if count == 1 else 'are'} not compared."


def _difference_sentence(difference: RunDifference, before: str, after: str, level: float, brief: bool) -> str:
    test = difference.passes
    if not test.items and difference.scored:
        measured = [measured_sentence(one, before, after, level) for one in difference.tests if one.what and one.items]
        return " ".join(["Nothing that judged these answers can fail, so there is no pass rate.", *measured])
    if not test.items:
        alike = " by the same expectation" if difference.judged_otherwise else ""
        return f"{before} and {after} have no item in common that both judged{alike}."
    if not test.difference:
        same = " the same" if not difference.broken + difference.fixed else " as many"
        return f"{after} passes{same} of {_count_items(test)} as {before}: no difference."
    more = "more" if test.difference > 0 else "fewer"
    net = abs(difference.fixed - difference.broken)
    exact = test.columns == 1 and net and net == round(abs(test.difference) * test.items, 6)
    amount = f"{net:,}" if exact else f"{100 * abs(test.difference):.1f} percentage points"
    if test.adjusted < level:
        passing = f"{amount} {more} of {_count_items(test)} {'passes' if exact and net == 1 else 'pass'}"
        return f"{_outcome(test, before, after)}: {passing} {chance_phrase(test, level)}."
    power = "" if brief else power_phrase(test, level)
    return f"{after} passes {amount} {more} of {_count_items(test)} than {before}: {chance_phrase(test, level)}{power}."


def measured_sentence(test: MeasuredDifference, before: str = "A", after: str = "B", level: float = LEVEL) -> str:
    """One evaluator, or one column, in a sentence."""
    name = test.name or test.column
    if not test.difference:
        return f"{name}: no difference over {_count_items(test)}."
    values = (test.before, test.after)
    was, now = test.measure.texts(*values) if test.what else map(percent, values)
    numbers = f"{was} in {before}, {now} in {after} over {_count_items(test)}"
    outcome = f"{_outcome(test, before, after)} " if test.adjusted < level else ""
    return f"{name}: {numbers}: {outcome}{chance_phrase(test, level)}."


def chance_phrase(test: MeasuredDifference, level: float = LEVEL) -> str:
    """How often equal runs differ as much, in brackets; preceded by a note if that is often enough."""
    p = f"({p_phrase(test.adjusted, level)})"
    return p if test.adjusted < level else f"{COULD_BE_CHANCE} {p}"


def p_phrase(p: float, level: float = LEVEL) -> str:
    """A p value with its name."""
    equals = "" if p < _LEAST_CHANCE else "= "
    return f"p {equals}{chance(p, level)}".replace("<", "< ")


def chance(p: float, level: float = LEVEL) -> str:
    """A p value, rounded neither to zero nor to the level that it is above or below."""
    if p < _LEAST_CHANCE:
        return f"<{_LEAST_CHANCE}"
    decimals = 3 if p < 0.1 else 2
    while p != level and round(p, decimals) == level and decimals < _MOST_DECIMALS:
        decimals += 1
    return f"{p:.{decimals}f}"


def power_phrase(test: MeasuredDifference, level: float = LEVEL) -> str:
    """How many items would tell such a difference from chance, where there were too few."""
    if test.adjusted < level or test.needed is None or test.needed <= test.items:
        return ""
    return f"; about {_round_up(test.needed):,} items would tell"


def _outcome(test: MeasuredDifference, before: str, after: str) -> str:
    """The better run, if chance does not explain the difference."""
    if not test.side:
        return f"{before} and {after} differ"
    # The first of several runs is A, which every later one is compared with.
    than = "" if before == NAMES[0] else f" than {before}"
    return f"{after} is {'better' if test.side > 0 else 'worse'}{than}"


def _count_items(test: MeasuredDifference) -> str:
    items = f"{test.items:,} item" if test.items == 1 else f"{test.items:,} items"
    return items if test.columns == 1 else f"{items} (each the mean of its {test.columns} columns)"


def _round_up(count: int) -> int:
    """Two figures are all that such an estimate is worth."""
    step: int = 10 ** max(len(str(count)) - 2, 0)
    return -(-count // step) * step


def caveats(comparison: Comparison) -> Iterator[str]:
    """A sentence for each thing that makes the numbers mean less than they seem to."""
    named = list(zip(NAMES, comparison.sides, strict=False))
    for name, side in named:
        if side.run.status != "finished":
            yield (
                f"{name} is {side.run.status}: answers it does not have yet cannot be compared, and a difference that "
                "shows now may disappear when it has them."
            )
    yield from _partial_runs(comparison)
    first, *sources = (side.run.source or "prompts of its own" for side in comparison.sides)
    for (name, side), source in zip(named[1:], sources, strict=True):
        if source != first:
            yield f"{name} asked another dataset than A: {source} instead of {first}."
        yield from _unmatched_columns(comparison, name, side)
        yield from _judged_differently(comparison.sides[0], name, side)
    if any(line.turn is not None for line in comparison.lines):
        yield "Here a conversation passes when all of its turns do; the pages of the runs count each turn."
    placed = len({line.item for line in comparison.lines if line.how == "position"})
    if placed:
        yield f"{_items(placed)} matched by position only; check that they are the same, or give them a testId."
    every = comparison.rubrics or ({},) * len(comparison.against)
    for (name, side), difference, rubrics in zip(named[1:], comparison.against, every, strict=True):
        for key, (first_rubric, later_rubric) in rubrics.items():
            yield (
                f"{key} was judged by the rubric {_listed(sorted(first_rubric))} in A and by "
                f"{_listed(sorted(later_rubric))} in {name}, so that the answers it judged are not compared; "
                f"`rubric` in its options says which it is to be."
            )
        if difference.judged_otherwise and not rubrics:
            yield _rescore_offer(comparison.sides[0], name, side, difference.judged_otherwise)
    for (name, _), difference in zip(named[1:], comparison.against, strict=True):
        yield from _cached_calls(name, difference)
    edited = len({line.item for line in comparison.lines if line.edited})
    if edited:
        yield f"{_items(edited)} edited between the runs."


def _partial_runs(comparison: Comparison) -> Iterator[str]:
    """Which runs asked only a part of their dataset, and which items only some of the runs asked."""
    for name, side in zip(NAMES, comparison.sides, strict=False):
        if side.part:
            yield f"{name} is a partial run: it asked {side.part.text} of its dataset."
    asked: dict[str, set[int]] = {}
    for line in comparison.lines:
        asked.setdefault(line.item, set()).update(place for place, one in enumerate(line.answers) if one is not None)
    runs = len(comparison.sides)
    alone = Counter(NAMES[min(places)] for places in asked.values() if len(places) == 1)
    missing = sum(1 < len(places) < runs for places in asked.values())
    told = [f"{_count(count)} that only {name} asked" for name, count in sorted(alone.items())]
    told += [f"{_count(missing)} that some runs did not ask"] if missing else []
    if told:
        yield f"No figure counts {_listed(told)}."


def _cached_calls(name: str, difference: RunDifference) -> Iterator[str]:
    """What is not compared because answers came from the cache."""
    if difference.untested:
        keys, items = _listed(sorted(difference.untested)), max(difference.untested.values())
        yield (
            f"{keys} of {_count(items)} {'is' if len(difference.untested) == 1 else 'are'} not tested for {name}: an "
            "answer to each came from the cache, so its time and cost are those of an earlier run."
        )
    if difference.without_calls:
        one = difference.without_calls == 1
        yield (
            f"{'1 answer' if one else f'{difference.without_calls:,} answers'} of A and {name} "
            f"{'is' if one else 'are'} compared without the verdict on time or cost, which an earlier run measured. "
            "The pass rates of the runs themselves count it."
        )


def _unmatched_columns(comparison: Comparison, name: str, side: RunSide) -> Iterator[str]:
    """Targets and prompts of runs are matched by name, unless each run has only one."""
    runs = [one.run for one in comparison.sides]
    place = next(number for number, one in enumerate(comparison.sides) if one is side)
    for what, names in (("target", [run.targets for run in runs]), ("prompt", [run.prompts for run in runs])):
        numbers = shared_numbers(names)
        if not set(numbers[0].values()) & set(numbers[place].values()):
            single = len(names[0]) == len(names[place]) == 1
            yield (
                f"A and {name} have no {what} of the same name, and with several {what}s in a run only those of one "
                "name are compared" + (f"; compare A and {name} alone." if single else ".")
            )
            continue
        first, later = (set(names[number]) for number in (0, place))
        told = [
            f"{who} has the {what}{'s' if len(only) > 1 else ''} {_listed(sorted(only))}"
            for who, only in (("A", first - later), (name, later - first))
            if only and len(first | later) > 2
        ]
        if told:
            yield f"Only {' and only '.join(told)}: not compared."


def _judged_differently(first: RunSide, name: str, later: RunSide) -> Iterator[str]:
    only = [
        (who, sorted(side.evaluators - other.evaluators))
        for who, side, other in (("A", first, later), (name, later, first))
    ]
    parts = [f"only {who} has scores of {_listed(keys)}" for who, keys in only if keys]
    if parts and first.evaluators and later.evaluators:
        difference = " and ".join(parts)
        yield f"{difference[0].upper()}{difference[1:]}: to pass may mean something else in each."


def _rescore_offer(first: RunSide, name: str, later: RunSide, count: int) -> str:
    """How to make answers comparable that were judged by another expectation: judge the older verdicts again."""
    letter, old, new = ("A", first, later) if first.judged_since <= later.judged_since else (name, later, first)
    source = f" --dataset {shlex.quote(new.run.source)}" if new.run.source else ""
    answers = "1 answer was" if count == 1 else f"{count:,} answers were"
    command = f"`tui-evals rescore {old.run.key}{source}` judges {letter} by what is expected now."
    return f"{answers} {JUDGED_OTHERWISE} in {name} than in A: {command}"


def _items(count: int) -> str:
    return "1 item was" if count == 1 else f"{count:,} items were"


def _count(count: int) -> str:
    return "1 item" if count == 1 else f"{count:,} items"


def _listed(parts: Iterable[str]) -> str:
    listed = list(parts)
    return ", ".join(listed[:-1]) + " and " + listed[-1] if len(listed) > 1 else "".join(listed)
