"""Battles from Python: a judge chooses between the answers of runs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.figures import Interval
from tui_evals.present.battles import duel_sentence
from tui_evals.present.grid import NoColumn, columns_meant
from tui_evals.runs.activities import recorded_activity
from tui_evals.runs.battle import (
    NO_JUDGE,
    BattleExecution,
    BattlePlan,
    BattleRequest,
    BattleState,
    about_battle,
    battle_permissions,
    note_decided,
    plan_battle,
    sides_of_runs,
    store_unstored,
)
from tui_evals.runs.engine import ExecutionEnd
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.project import Project
from tui_evals.store.battles import BattleSide
from tui_evals.store.reader import Reader
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.permissions import NotApproved

from .arguments import TargetLike, configurations
from .watching import wait_for


@dataclass(frozen=True, slots=True)
class BattleDuel:
    """The result between two runs, or between two columns of a run."""

    left: str
    right: str
    """The ids of the runs."""
    left_wins: int
    right_wins: int
    ties: int
    undecided: int
    """Pairs of answers without a verdict."""
    win_rate: float | None
    """The share of the right side; a tie counts half."""
    interval: Interval | None
    p: float
    """The chance of such a difference between equals, corrected for the number of duels."""
    verdict: str


@dataclass(frozen=True, slots=True)
class Battle:
    """The preferences of a judge."""

    judge: str
    criteria: str
    duels: tuple[BattleDuel, ...]
    elo: Mapping[str, float]
    """The rating of each side, by its letter; empty without a verdict."""
    cost: float
    """The cost of this call in US dollars."""


class BattleStopped(Exception):
    """A battle ended early; `battle` has the verdicts so far, and the same call continues it."""

    def __init__(self, message: str, battle: Battle) -> None:
        super().__init__(message)
        self.battle = battle


def fight_battle(
    keys: Sequence[str],
    judge: TargetLike | None,
    here: Project,
    *,
    columns: str | None,
    **wishes: Any,
) -> Battle:
    """The result of a battle between runs of the store; `wishes` are further fields of a BattleRequest."""
    given = judge if judge is not None else here.settings.judge
    if given is None:
        raise ConfigurationError(NO_JUDGE)
    ((config, ready),) = configurations([given], here.settings)
    with Reader(here.store) as reader:
        request = BattleRequest(sides=_sides(reader, keys, columns), judge=config, ready=ready, **wishes)
        store_unstored(request.sides, reader, here)
        plan = plan_battle(request, reader, here)
        if missing := battle_permissions(request, here):
            raise NotApproved(missing, here.root)
        if plan.caution:
            warnings.warn(plan.caution, stacklevel=3)
        outcome, spent = _executed(request, plan, reader, here)
        found = _result(plan, plan.battle.state(reader), spent)
    if not outcome.finished:
        raise BattleStopped(f"the battle stopped: {outcome.message}", found)
    return found


def _sides(reader: Reader, keys: Sequence[str], columns: str | None) -> tuple[BattleSide, ...]:
    found = [reader.find_run(key) for key in keys]
    if columns is None:
        return sides_of_runs(found)
    if len(found) > 1:
        raise CannotPlan(f"columns are a battle between two columns of one run, and {len(found)} runs were given")
    try:
        return tuple(BattleSide(found[0].id, column) for column in columns_meant(found[0], columns))
    except NoColumn as problem:
        raise CannotPlan(str(problem)) from None


def _executed(request: BattleRequest, plan: BattlePlan, reader: Reader, here: Project) -> tuple[ExecutionEnd, float]:
    """How asking the judge ended, and its cost."""
    with here.writer() as writer:
        if not plan.due:
            note_decided(plan, plan.battle.state(reader), writer)
            return ExecutionEnd(True), 0.0
        about = about_battle(plan.battle.asked)
        with recorded_activity(reader, writer, "battle", about, request.stored()) as record:
            execution = BattleExecution(request, plan, here, reader, writer, record)
            if execution.caution:
                warnings.warn(execution.caution, stacklevel=4)
            return wait_for(execution.run()), execution.progress.cost


def _result(plan: BattlePlan, state: BattleState, spent: float) -> Battle:
    duels = []
    for duel, own in zip(state.duels, state.tallies, strict=True):
        left, right = (state.runs[place].key for place in duel.places)
        duels.append(
            BattleDuel(
                left,
                right,
                *own.wins,
                own.ties,
                own.undecided,
                own.share,
                own.interval if own.share is not None else None,
                own.test.adjusted,
                duel_sentence(own, duel),
            )
        )
    elo = {letter: rating.elo for letter, rating in zip("ABCD", state.ratings, strict=False)}
    return Battle(plan.battle.asked.judge, plan.battle.asked.criteria, tuple(duels), elo, spent)
