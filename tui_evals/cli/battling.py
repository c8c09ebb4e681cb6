"""`tui-evals battle`: the answers of runs put to a judge two by two, in both orders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any

from tui_evals.compare.battles import Match
from tui_evals.compare.runs import MOST, Line, read_comparison
from tui_evals.evaluators.battling import CRITERIA, fingerprint
from tui_evals.runs.battle import Battle
from tui_evals.runs.budget import Budget
from tui_evals.runs.contenders import Due, estimate_battle
from tui_evals.runs.engine import Outcome
from tui_evals.runs.opening import opened, price_for
from tui_evals.runs.plan import limited
from tui_evals.store.bouts import bouts
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.opening import identity

from . import project
from .battling_lines import Battled, Duel, battled, data, say_battled, say_runs
from .battling_live import alive
from .output import Stop, say, say_json, warn
from .sources import target_or_stop
from .world import World, world

_ANSWERED = ("answered", "pass", "fail", "partial")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for besides the runs."""

    judge: str | None
    criteria: str | None
    limit: int | None
    seed: int | None
    concurrency: int | None
    max_cost: float | None
    plan_only: bool
    env_name: str | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class Ring:
    """A battle made ready: the runs, the pairs of answers of every two of them, and what they are judged by."""

    runs: tuple[RunRow, ...]
    duels: tuple[Duel, ...]
    judge: TargetConfig
    criteria: str
    question: str

    def matches(self, reader: Reader) -> list[list[Match]]:
        """What is known by now of each pair of each duel."""
        found = []
        for duel in self.duels:
            left, right = (self.runs[place].id for place in duel.places)
            fought = bouts(reader, left, right, self.judge.name, self.question)
            known = {(bout.left, bout.right): bout for bout in fought}
            found.append([Match(item, known.get(pair), pair in duel.equal) for item, pair in duel.pairs])
        return found

    def due(self, matches: Sequence[Sequence[Match]]) -> list[Due]:
        """The bouts that have no result."""
        found = []
        for duel, own in zip(self.duels, matches, strict=True):
            later = max(self.runs[place].id for place in duel.places)
            for (_, (left, right)), match in zip(duel.pairs, own, strict=True):
                if match.winner is None:
                    found.append(Due(left, right, later, match.bout))
        return found


def battle(words: Sequence[str], **options: Any) -> int:
    """Let a judge choose between the answers of the runs that a person means."""
    wish = Wish(**options)
    here = world(wish.env_name, trusting=False)
    with project.reader() as reader:
        ring = _ring(reader, words, wish, here)
        due = ring.due(ring.matches(reader))
        if wish.plan_only:
            return _say_plan(ring, due, reader, wish.as_json)
        if not wish.as_json:
            say_runs(ring.runs, ring.duels, ring.judge.name, len(due))
        budget = Budget(wish.max_cost)
        outcome, interrupted = Outcome(True), False
        if due:
            outcome, interrupted = _fight(ring, due, reader, budget, wish, here)
        found = battled(ring.runs, ring.duels, ring.matches(reader))
    if wish.as_json:
        ended = {"cost": budget.spent, "finished": outcome.finished, "message": outcome.message}
        say_json({"judge": ring.judge.name, "criteria": ring.criteria, **data(found), **ended})
    else:
        say_battled(found)
    if not outcome.finished:
        warn(f"stopped: {outcome.message.rstrip('.')}. What was decided is kept; the same command goes on")
        return 130 if interrupted else 3 if outcome.configuration else 1
    if due and not any(own.judged for own in found.tallies):
        warn(f"{ring.judge.name} gave not a single verdict: {_why(found)}")
        return 1
    return 0


def _why(found: Battled) -> str:
    reasons = (match.bout.reason for own in found.matches for match in own if match.bout)
    return next((line for reason in reasons for line in reason.split("\n") if line), "no reason is known")


# -- what is put to the judge


def _ring(reader: Reader, words: Sequence[str], wish: Wish, here: World) -> Ring:
    if not 2 <= len(words) <= MOST:
        raise Stop(f"a battle is between 2 to {MOST} runs; {len(words)} given")
    if wish.seed is not None and wish.limit is None:
        raise Stop("--seed belongs to --limit: it says which pairs are drawn")
    judge = target_or_stop(wish.judge or here.settings.judge, here.settings)
    if judge is None:
        raise Stop(
            "no judge is named. Name one with --judge TARGET or in .evals/config.toml ([judge] target = ...); "
            "never one of the targets that answered",
            3,
        )
    runs = tuple(project.run_named(reader, word) for word in words)
    for one, other in combinations(runs, 2):
        if one.id == other.id:
            raise Stop(f"{one.key} ({one.name}) was given twice; a run is compared with other runs")
    _note_self_judging(runs, judge)
    duels = tuple(_duels(reader, runs, wish))
    if not any(duel.pairs for duel in duels):
        raise Stop(
            "there is nothing to compare: the runs have no turn of the same item that both answered, unless the item "
            "was edited in between; `tui-evals compare` shows what they have in common"
        )
    criteria = (wish.criteria or "").strip() or CRITERIA
    return Ring(runs, duels, judge, criteria, fingerprint(criteria, identity(judge, here.environment)))


def _note_self_judging(runs: Sequence[RunRow], judge: TargetConfig) -> None:
    asked = {target["model"] for run in runs for target in run.config.get("targets", ())}
    if judge.model in asked:
        warn(f"note: the judge {judge.name} also answered; judges favour their own answers")


def _duels(reader: Reader, runs: Sequence[RunRow], wish: Wish) -> list[Duel]:
    """The pairs of every two runs, equal answers known; the turns and repeats of an item bear its number."""
    lines = read_comparison(reader, [run.id for run in runs]).lines
    numbered = [(item, line) for item, (_, own) in enumerate(groupby(lines, lambda line: line.item)) for line in own]
    return [_duel(reader, numbered, places, wish) for places in combinations(range(len(runs)), 2)]


def _duel(reader: Reader, lines: Sequence[tuple[int, Line]], places: tuple[int, int], wish: Wish) -> Duel:
    pairs, unanswered, edited = [], 0, 0
    for item, line in lines:
        left, right = (line.answers[place] for place in places)
        if left is None or right is None:
            continue
        if left.status not in _ANSWERED or right.status not in _ANSWERED:
            unanswered += 1
        elif line.edited:
            edited += 1
        else:
            pairs.append((item, (left.id, right.id)))
    chosen = [pairs[at] for at in limited(range(len(pairs)), wish.limit, wish.seed)]
    ids = [pair for _, pair in chosen]
    return Duel(places, tuple(chosen), frozenset(ids) - reader.differing(ids), unanswered, edited)


def _say_plan(ring: Ring, due: Sequence[Due], reader: Reader, as_json: bool) -> int:
    found = estimate_battle(due, ring.criteria, reader, price_for(ring.judge))
    pairs, equal = (sum(map(len, each)) for each in zip(*((d.pairs, d.equal) for d in ring.duels), strict=True))
    if as_json:
        counts = {"pairs": pairs, "equal_answers": equal, "decided": pairs - equal - len(due)}
        say_json({**counts, "judge_calls": found.judge_calls, "cost": found.cost, "judge": ring.judge.name})
        return 0
    cost = "cost unknown: a price is missing" if found.cost is None else f"about {found.cost:.2f} USD"
    say(
        f"{pairs:,} pairs of answers, {equal:,} of them equal and {pairs - equal - len(due):,} decided earlier: "
        f"{found.judge_calls:,} judge calls, {cost}; repairs and retries may add some"
    )
    return 0


def _fight(
    ring: Ring, due: Sequence[Due], reader: Reader, budget: Budget, wish: Wish, here: World
) -> tuple[Outcome, bool]:
    """Fight the bouts; how it ended, and whether somebody interrupted it."""
    try:
        judge = opened(ring.judge, "judge", budget, here.environment, here.root, wish.concurrency)
        with project.writer(here.environment) as writer:
            battle = Battle(due, judge, ring.criteria, ring.question, reader, writer)
            return asyncio.run(alive(battle, budget, ring.judge.name, quiet=wish.as_json))
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except StoreError as problem:
        raise Stop(f"{problem}\nNothing that was decided is lost: the same command goes on", 1) from None
    except LookupError as problem:
        raise Stop(f"{problem.args[0]}: somebody deleted a run meanwhile. What was decided is kept", 1) from None
