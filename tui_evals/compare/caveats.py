"""What to know before trusting the numbers of a comparison: unfinished runs, other datasets, other evaluators."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from .runs import Comparison, RunSide
from .sides import shared_numbers
from .verdicts import JUDGED_OTHERWISE, NAMES


def caveats(comparison: Comparison) -> Iterator[str]:
    """A sentence for each thing that makes the numbers mean less than they seem to."""
    named = list(zip(NAMES, comparison.sides, strict=False))
    for name, side in named:
        if side.run.status != "finished":
            yield (
                f"{name} is {side.run.status}: answers it does not have yet cannot be compared, and a difference that "
                "shows now may be gone when it has them."
            )
    first, *sources = (side.run.source or "prompts of its own" for side in comparison.sides)
    for (name, side), source in zip(named[1:], sources, strict=True):
        if source != first:
            yield f"{name} asked another dataset than A: {source} instead of {first}."
        yield from _unmatched_columns(comparison, name, side)
        yield from _judged_differently(comparison.sides[0], name, side)
    if any(line.turn is not None for line in comparison.lines):
        yield (
            "In the verdicts a conversation passes when all of its turns do; the rates of runs and categories count "
            "each turn."
        )
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
    edited = len({line.item for line in comparison.lines if line.edited})
    if edited:
        yield f"{_items(edited)} edited between the runs."


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


def _judged_differently(first: RunSide, name: str, later: RunSide) -> Iterator[str]:
    only = [
        (who, sorted(side.scores.keys() - other.scores.keys()))
        for who, side, other in (("A", first, later), (name, later, first))
    ]
    parts = [f"only {who} has scores of {_listed(keys)}" for who, keys in only if keys]
    if parts and first.scores and later.scores:
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


def _listed(parts: Iterable[str]) -> str:
    listed = list(parts)
    return ", ".join(listed[:-1]) + " and " + listed[-1] if len(listed) > 1 else "".join(listed)
