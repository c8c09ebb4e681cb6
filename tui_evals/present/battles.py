"""Battles and generations in words and as data: plan and price, progress, result, and the battles of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, isinf
from typing import Any, Literal

from tui_evals.compare.battles import PositionLean, Rating, Tally, battle_sentence, lean_sentence
from tui_evals.compare.sides import column_name
from tui_evals.compare.verdicts import NAMES
from tui_evals.figures import Interval, percent
from tui_evals.light_records import dataclass
from tui_evals.present.columns import table
from tui_evals.present.figures import estimated_cost, local_time
from tui_evals.present.runs import destination_lines, pace_parts
from tui_evals.runs.battle import BattlePlan, BattleState, Duel
from tui_evals.store.battles import ActivityRow, BattleRow, BattleSide
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.measures import counted, money

_PAIR, _PAIRS = "pair of answers", "pairs of answers"
_ELO_NOTE = (
    "Elo compares the strength of these runs according to this judge, 1000 on average: 100 more means "
    "to win 64 of 100. Other runs, items or judges give other numbers."
)
_NO_PAIRS_HINT = "with a run of several targets only targets of the same name battle, so battle the two alone"


def runs_of_battles(reader: Reader, battles: list[BattleRow]) -> dict[int, RunRow]:
    """The runs that fought, by their numbers; with a run its battles are deleted."""
    return {number: reader.run(number) for number in {side.run for battle in battles for side in battle.sides}}


def side_name(side: BattleSide, runs: Mapping[int, RunRow]) -> str:
    """A run by its name and id, or its column and id."""
    run = runs[side.run]
    return f"{run.name if side.column is None else column_name(run, *side.column)} ({run.key})"


def sides_text(battle: BattleRow, runs: Mapping[int, RunRow]) -> str:
    """The sides with their letters."""
    named = zip(NAMES, battle.sides, strict=False)
    return " · ".join(f"{letter} {side_name(side, runs)}" for letter, side in named)


def asked_text(battle: BattleRow) -> str:
    """Time, judge, limit and cost of a battle."""
    parts = [local_time(battle.time), f"judge {battle.judge}"]
    if battle.pairs is not None:
        drawn = "" if battle.seed is None else f" drawn by seed {battle.seed}"
        parts.append(f"at most {counted(battle.pairs, 'pair', 'pairs')}{drawn}")
    return " · ".join([*parts, money(battle.cost)])


def outcome_text(battle: BattleRow) -> str:
    """The result."""
    return battle.summary or "nothing is decided yet; the battle continues"


# -- the plan


def plan_lines(plan: BattlePlan) -> list[str]:
    """The estimate of a battle, and the destinations of questions and keys."""
    cost = estimated_cost(plan.estimate.known_cost, plan.estimate.unpriced)
    first = (
        f"{plan.pairs:,} pairs of answers, {plan.equal:,} of them equal and {plan.decided:,} decided earlier: "
        f"{plan.estimate.judge_calls:,} judge calls, {cost}; repairs and retries may add some"
    )
    return [first, *destination_lines(plan.destinations)]


def plan_json(plan: BattlePlan) -> dict[str, Any]:
    """The estimate of a battle, as JSON data."""
    counts = {"pairs": plan.pairs, "equal_answers": plan.equal, "decided": plan.decided}
    calls = {"judge_calls": plan.estimate.judge_calls, "cost": plan.estimate.cost}
    return {**counts, **calls, "judge": plan.battle.asked.judge, "destinations": plan.destinations}


def price_sentence(plan: BattlePlan, most: float | None) -> str:
    """The number of questions to the judge, their cost, and the cost limit."""
    calls = counted(plan.estimate.judge_calls, "judge call", "judge calls")
    ends = "" if most is None else f"; it stops before {money(most)} are spent"
    return f"{calls}, {estimated_cost(plan.estimate.known_cost, plan.estimate.unpriced)}{ends}."


# -- the progress


def progress_line(judge: str, done: int, total: int, undecided: int, pace: Sequence[str], spent: float) -> str:
    """How far a battle is."""
    missing = f" · {undecided} without a verdict" if undecided else ""
    return " · ".join([f"{judge}: {done}/{total} bouts{missing}", *pace, money(spent)])


def stopped_sentence(message: str) -> str:
    """Why a battle ended early, and that it can continue."""
    return f"stopped: {message.rstrip('.')}. What was decided is kept; the same command continues"


def activity_line(judge: str, now: ActivityRow, rate: float | None) -> str:
    """How far a battle of another process is."""
    undecided = now.facts.get("undecided")
    missing = undecided if isinstance(undecided, int) else 0
    pace = pace_parts(rate, now.total - now.done) if now.is_live else []
    return progress_line(judge, now.done, now.total, missing, pace, now.cost)


# -- the result


@dataclass(frozen=True, slots=True)
class BattleLine:
    """A line of a result; `fitted` ones have the width of the screen already."""

    text: str = ""
    tone: Literal["", "title", "dim", "warn"] = ""
    fitted: bool = False


def runs_lines(
    runs: Sequence[RunRow], duels: Sequence[Duel], judge: str, due: int, room: int | None
) -> list[BattleLine]:
    """The runs and pairs of a battle."""
    rows = [[name, run.key, run.name, ", ".join(run.targets)] for name, run in zip(NAMES, runs, strict=False)]
    lines = [BattleLine(line, fitted=True) for line in table(rows, elastic=(2, 3), room=room)]
    for duel in duels:
        left, right = duel.letters
        for count, why in ((duel.unanswered, "a side has no answer"), (duel.edited, "the item was edited in between")):
            if count:
                text = f"{left} and {right}: {counted(count, _PAIR, _PAIRS)} left out because {why}."
                lines.append(BattleLine(text, "dim"))
        if not (duel.pairs or duel.unanswered or duel.edited):
            text = f"{left} and {right} have no answers that face each other; {_NO_PAIRS_HINT}."
            lines.append(BattleLine(text, "dim"))
    pairs = sum(len(duel.pairs) for duel in duels)
    equal = sum(len(duel.equal) for duel in duels)
    text = (
        f"{counted(pairs, _PAIR, _PAIRS)}: {equal:,} equal, {pairs - equal - due:,} decided earlier, "
        f"{due:,} for {judge} to decide."
    )
    return [*lines, BattleLine(text)]


def result_lines(state: BattleState, room: int | None) -> list[BattleLine]:
    """Which run is preferred, whether that can be chance, how the judge leans, and the ratings."""
    lines: list[BattleLine] = []
    for duel, own in zip(state.duels, state.tallies, strict=True):
        left, right = duel.letters
        lines += [BattleLine(), BattleLine(battle_sentence(own, left, right), "title")]
        lines.append(BattleLine(_counts_text(own, left, right)))
        if own.judged and own.share is not None and own.interval is not None:
            ends = f"{percent(own.interval.low)} to {percent(own.interval.high)}"
            rate = f"Win rate of {right} over {left}: {percent(own.share)}, 95 % interval {ends}; a tie counts half."
            lines.append(BattleLine(rate))
    if state.lean is not None:
        lines += [BattleLine(), BattleLine(lean_sentence(state.lean), "warn" if state.lean.real else "")]
    if any(match.bout.scripted for own in state.matches for match in own if match.bout):
        text = "Scripted verdicts are among these; they show how a battle goes and say nothing of the runs."
        lines.append(BattleLine(text, "warn"))
    if state.ratings:
        lines.append(BattleLine())
        for number, line in enumerate(_rating_table(state, room)):
            lines.append(BattleLine(line, "" if number else "dim", fitted=True))
        lines.append(BattleLine(_ELO_NOTE, "dim"))
    return lines


def duel_sentence(own: Tally, duel: Duel) -> str:
    """Which side is preferred, and whether that can be chance."""
    return battle_sentence(own, *duel.letters)


def _counts_text(own: Tally, left: str, right: str) -> str:
    ties = [f"{count:,} {why}" for count, why in ((own.split, "changed with the order"), (own.equal, "equal")) if count]
    parts = [
        f"{left} wins {own.wins[0]:,}",
        f"{right} wins {own.wins[1]:,}",
        f"{own.ties:,} tie{'' if own.ties == 1 else 's'}" + (f" ({', '.join(ties)})" if ties else ""),
    ]
    parts += [f"{own.undecided:,} without a verdict"] if own.undecided else []
    parts += [f"{own.waiting:,} not asked yet"] if own.waiting else []
    return " · ".join(parts)


def _rating_table(state: BattleState, room: int | None) -> list[str]:
    rows = [["", "run", "name", "Elo", "95 % interval"]]
    rated = zip(NAMES, state.runs, state.ratings, strict=False)
    for name, run, rating in sorted(rated, key=lambda entry: -entry[2].elo):
        rows.append([name, run.key, run.name, f"{rating.elo:.0f}", elo_ends(rating.interval)])
    return table(rows, right=(3,), elastic=(2,), room=room)


def elo_ends(ends: Interval) -> str:
    """The interval of a rating; one end is unknown for a run that wins or loses everything."""
    if isinf(ends.low) or isinf(ends.high):
        known = ends.low if isinf(ends.high) else ends.high
        return "unknown" if isinf(known) else f"{known:.0f} or {'more' if isinf(ends.high) else 'less'}"
    return f"{ends.low:.0f} to {ends.high:.0f}"


def past_json(battle: BattleRow, runs: Mapping[int, RunRow]) -> dict[str, Any]:
    """A stored battle as JSON data."""
    return {
        "battle": battle.id,
        "time": battle.time,
        "judge": battle.judge,
        "criteria": battle.criteria,
        "sides": [side_name(side, runs) for side in battle.sides],
        "limit": battle.pairs,
        "seed": battle.seed,
        "cost": battle.cost,
        "summary": battle.summary,
    }


def battle_json(state: BattleState) -> dict[str, Any]:
    """The result as JSON data."""
    rated: Sequence[Rating | None] = state.ratings or [None] * len(state.runs)
    return {
        "runs": [_run_json(name, run, rating) for name, run, rating in zip(NAMES, state.runs, rated, strict=False)],
        "duels": [_duel_json(state.runs, duel, own) for duel, own in zip(state.duels, state.tallies, strict=True)],
        "position": None if state.lean is None else _lean_json(state.lean),
    }


def _run_json(name: str, run: RunRow, rating: Rating | None) -> dict[str, Any]:
    about = {"letter": name, "run": run.key, "name": run.name, "targets": list(run.targets)}
    ends = None if rating is None else _interval_json(rating.interval)
    return {**about, "elo": None if rating is None else rating.elo, "interval": ends}


def _duel_json(runs: Sequence[RunRow], duel: Duel, own: Tally) -> dict[str, Any]:
    left, right = duel.places
    return {
        "left": runs[left].key,
        "right": runs[right].key,
        "pairs": len(duel.pairs),
        "left_wins": own.wins[0],
        "right_wins": own.wins[1],
        "ties": own.ties,
        "ties_by_order": own.split,
        "equal_answers": own.equal,
        "without_verdict": own.undecided,
        "not_asked": own.waiting,
        "unanswered": duel.unanswered,
        "edited": duel.edited,
        "items": own.test.items,
        "win_rate": own.share,
        "interval": None if own.share is None else _interval_json(own.interval),
        "p": own.test.p,
        "adjusted_p": own.test.adjusted,
        "verdict": battle_sentence(own, *duel.letters),
    }


def _lean_json(lean: PositionLean) -> dict[str, Any]:
    numbers = {"first_shown": lean.share, "interval": _interval_json(lean.interval), "p": lean.p, "items": lean.items}
    return {**numbers, "real": lean.real, "verdict": lean_sentence(lean)}


def _interval_json(interval: Interval | None) -> list[float | None] | None:
    """Both ends; null for an unknown one."""
    return None if interval is None else [end if isfinite(end) else None for end in (interval.low, interval.high)]


_STEP_STATES: Mapping[str, str] = {"made": "is made", "failed": "could not be made"}


def generation_price(calls: int, cost: float | None) -> str:
    """How many calls a generation takes, and about how much money."""
    return f"{counted(calls, 'call')}, {estimated_cost(cost)}; repairs and retries may add some"


def price_text(calls: int, cost: float | None, destinations: Mapping[str, Mapping[str, str | None]]) -> str:
    """The price, and where questions and keys go."""
    return ". ".join((generation_price(calls, cost), *destination_lines(destinations)))


def step_price(step: str, calls: int, *, certain: bool) -> str:
    """How many calls a step takes."""
    about = "" if certain else "about "
    text = f"{about}{counted(calls, 'call')}" if calls else "there already"
    return f"{step:<13} {text}"


def step_message(step: str, state: str, result: str, *, has_file: bool) -> str:
    """The result of a step."""
    if state == "made":
        return f"{step}: {_STEP_STATES[state] if has_file or not result else result}"
    return f"{step}: {_STEP_STATES[state]}"


def generation_stopped(reason: str) -> str:
    """Why a generation ended early, and that it can continue."""
    if not reason:
        return "stopped before the end. What was made is kept; the same command continues"
    return f"stopped: {reason.rstrip('.')}. What was made is kept; the same command continues"


def outdated_note(files: Sequence[str], sources: Sequence[str], steps: Sequence[str]) -> str:
    """Which files are older than their sources, and how to create them again."""
    was, pronoun = ("were", "them") if len(steps) > 1 else ("was", "it")
    return (
        f"{_listed(files)} {was} made before {_listed(sources)} changed; `--from {','.join(steps)}` makes {pronoun} "
        f"again, and what follows from {pronoun}"
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


def gaps_text(now: ActivityRow) -> str:
    """For each step with failed parts: how many are done, how many failed, and why; empty without any."""
    gaps = now.facts.get("gaps")
    return " ".join(f"{step}: {said}" for step, said in gaps.items()) if isinstance(gaps, dict) else ""


def progress_text(now: ActivityRow) -> str:
    """The steps that are being taken, and how far each is."""
    steps = now.facts.get("steps")
    parts = []
    for name, count in steps.items() if isinstance(steps, dict) else ():
        done, total = count if isinstance(count, list) and len(count) == 2 else (0, 0)
        parts.append(f"{name} {done}/{total}" if total else str(name))
    return ", ".join(parts) or "starting"
