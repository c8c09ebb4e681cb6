"""Commands that go from problem to problem of the open dataset, whichever item and field has it."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.problems import Problem, place_in_words

from .desk import Command, Commands, Desk
from .messages import ItemShown
from .workspace import NO_DATASET_OPEN


def why_no_problem(desk: Desk) -> str | None:
    """Nothing is open, or nothing is known to be wrong."""
    space = desk.workspace
    if space.editing is None:
        return NO_DATASET_OPEN
    if space.report is not None and not space.report.problems:
        return "nothing is wrong with this dataset"
    return None


def step_to_problem(way: int) -> Callable[[Desk], Coroutine[Any, Any, None]]:
    """Go to the next problem, or the one before; round the end."""

    async def step(desk: Desk) -> None:
        space = desk.workspace
        report = await asyncio.to_thread(space.check)
        problems = sorted(report.problems, key=lambda problem: _order(_unit(problem.path))) if report else []
        if not problems:
            desk.tell("nothing is wrong with this dataset")
            return
        number = _next(problems, space.where, space.problem, way)
        problem = space.problem = problems[number]
        space.where = _unit(problem.path)
        desk.bring("editor")
        pane = desk.pane("editor")
        pane.sync()
        pane.to_key(_field(problem.path))
        desk.post_message(ItemShown())
        place = place_in_words(problem.path)
        desk.tell(f"problem {number + 1} of {len(problems)}, {place}: {problem.message}", "warn")

    return step


def _unit(path: Place) -> Place:
    """The item or turn a path leads into; the dataset itself for all else."""
    if path[:1] != ("items",) or len(path) < 2:
        return ()
    return path[:4] if len(path) > 3 and path[2] == "turns" else path[:2]


def _field(path: Place) -> str | int | None:
    """The field of it."""
    rest = path[len(_unit(path)) :]
    return rest[0] if rest else None


def _order(unit: Place) -> tuple[int, ...]:
    """Where a unit stands in the file: the dataset, an item, its turns."""
    return tuple(part for part in unit if isinstance(part, int))


def _next(problems: Sequence[Problem], where: Place, last: Problem | None, way: int) -> int:
    """The number of the problem after or before where one is, or after the one that was gone to last."""
    if last is not None and last in problems and _unit(last.path) == where:
        return (problems.index(last) + way) % len(problems)
    here = bisect_left([_order(_unit(problem.path)) for problem in problems], _order(where))
    return (here if way > 0 else here - 1) % len(problems)


COMMANDS: Commands = {
    "next_problem": Command(step_to_problem(1), why_no_problem),
    "previous_problem": Command(step_to_problem(-1), why_no_problem),
}
