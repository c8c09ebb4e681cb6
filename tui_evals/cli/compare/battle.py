"""`tui-evals battle` and `battles`: prepare the pairs, let a judge decide, say the result, then or later."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.approving import approve
from tui_evals.cli.inputs import open_project
from tui_evals.cli.output import Stop, cell, columns, keep_output_to_ourselves, redraws, rewind, say, say_json, warn
from tui_evals.cli.runs_named import runs_meant
from tui_evals.cli.sources import target_or_stop
from tui_evals.compare.battles import (
    Match,
    PositionLean,
    Rating,
    Tally,
    battle_sentence,
    correct_tallies,
    lean_sentence,
    position_lean,
    ratings,
    shares_by_item,
    tally_matches,
)
from tui_evals.compare.columns import read_columns
from tui_evals.compare.runs import MAX_RUNS, ComparedLine, read_comparison
from tui_evals.compare.statistics import Interval, percent
from tui_evals.compare.verdicts import NAMES
from tui_evals.evaluators.battling import DEFAULT_CRITERIA, judging_fingerprint
from tui_evals.present.battles import asked_text, outcome_text, runs_of_battles, side_name, sides_text
from tui_evals.present.columns import table, wrap
from tui_evals.present.estimates import estimated_cost
from tui_evals.present.figures import counted
from tui_evals.present.grid import NoColumn, columns_meant
from tui_evals.present.pace import Pace, command_wait_sentence, pace_parts
from tui_evals.present.runs import destination_lines
from tui_evals.runs.approving import missing_of_targets
from tui_evals.runs.battle import Battle, DueBout, estimate_battle
from tui_evals.runs.budget import Budget
from tui_evals.runs.engine import Outcome
from tui_evals.runs.opening import opened, price_for
from tui_evals.runs.plan import Estimate, limited
from tui_evals.runs.project import Project
from tui_evals.runs.storing import Storing
from tui_evals.store.battles import BattleRow, BattleSide, battle_numbered, battles, begin_battle, end_battle
from tui_evals.store.bouts import bouts
from tui_evals.store.database import StoreError
from tui_evals.store.read_only import why_read_only
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, StoreWait
from tui_evals.store.spill import spilled_files
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.opening import identity
from tui_evals.targets.permissions import destinations
from tui_evals.text.money import money

_EVERY = 0.5
_PAIR, _PAIRS = "pair of answers", "pairs of answers"
_PLAIN_EVERY = 5.0


async def fight_live(battle: Battle, budget: Budget, judge: str, *, quiet: bool) -> tuple[Outcome, bool]:
    """Fight with Ctrl-C at hand: the first lets what is in flight finish, the second stops now."""
    live = _Live(battle, budget, judge)
    work = asyncio.create_task(battle.fight(live.show_wait))
    presses = 0

    def pressed() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            warn("\nfinishing what is in flight; Ctrl-C again stops now. The same command goes on later")
            live.leave()
            battle.stop()
        else:
            work.cancel()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, pressed)
    while not work.done():
        await asyncio.wait([work], timeout=_EVERY)
        if not quiet:
            live.show(over=work.done())
    try:
        return work.result(), presses > 0
    except asyncio.CancelledError:
        return Outcome(False, "stopped before the end"), presses > 0


class _Live:
    """The progress line of a battle: renewed on a terminal, repeated now and then elsewhere."""

    def __init__(self, battle: Battle, budget: Budget, judge: str) -> None:
        self._battle = battle
        self._budget = budget
        self._judge = judge
        self._live = redraws()
        self._pace = Pace()
        self._last_shown: float | None = None

    def leave(self) -> None:
        """Keep the line, because something else was printed below it."""
        self._last_shown = None

    def show_wait(self, wait: StoreWait, is_over: bool) -> None:
        """Say what the store keeps it waiting for, and that it goes on."""
        self.leave()
        with suppress(OSError):  # what is printed may go to the disk that is full
            warn(command_wait_sentence(wait, time.time(), is_over=is_over))

    def show(self, *, over: bool) -> None:
        """Say how far it is, where that is due."""
        now, battle = time.monotonic(), self._battle
        self._pace.note(now, battle.done)
        if not self._live and not over and self._last_shown is not None and now - self._last_shown < _PLAIN_EVERY:
            return
        if self._live and self._last_shown is not None:
            rewind(1)
        self._last_shown = now
        undecided = f" · {battle.undecided} without a verdict" if battle.undecided else ""
        pace = pace_parts(self._pace.rate(), battle.total - battle.done)
        line = f"{self._judge}: {battle.done}/{battle.total} bouts{undecided}"
        line = " · ".join([line, *pace, money(self._budget.spent)])
        say(cell(line, (columns() or 1000) - 1))


_ELO_NOTE = (
    "Elo says how strong these runs are beside each other in the eyes of this judge, 1000 on average: 100 more means "
    "to win 64 of 100. Other runs, items or judges give other numbers."
)
_NO_PAIRS_HINT = "beside a run with several targets only those of one name do, so battle the two alone"


@dataclass(frozen=True, slots=True)
class Duel:
    """Two runs, by their places, and the pairs of answers of theirs that are compared."""

    places: tuple[int, int]
    pairs: tuple[tuple[int, tuple[int, int]], ...]
    """The number of the item, and the answers by their ids."""
    equal: frozenset[tuple[int, int]]
    """Pairs that say the same."""
    unanswered: int
    """Pairs that are left out because a side has no answer."""
    edited: int
    """Pairs that are left out because the item was changed between the runs."""


@dataclass(frozen=True, slots=True)
class BattleState:
    """The results of a battle so far; tallies are in the order of the duels, ratings in that of the runs."""

    runs: Sequence[RunRow]
    duels: Sequence[Duel]
    matches: Sequence[Sequence[Match]]
    tallies: Sequence[Tally]
    lean: PositionLean | None
    ratings: Sequence[Rating]
    """Empty without a verdict."""


def battle_state(runs: Sequence[RunRow], duels: Sequence[Duel], matches: Sequence[Sequence[Match]]) -> BattleState:
    """The tallies, lean and ratings of matches."""
    met = shares_by_item({duel.places: own for duel, own in zip(duels, matches, strict=True)})
    tallies = correct_tallies([tally_matches(own) for own in matches])
    return BattleState(
        runs,
        duels,
        matches,
        tallies,
        position_lean(match for own in matches for match in own),
        ratings(met, len(runs)) if any(own.judged for own in tallies) else (),
    )


# -- as lines


def say_runs(runs: Sequence[RunRow], duels: Sequence[Duel], judge: str, due: int) -> None:
    """Print the runs and pairs before the battle."""
    room = columns()
    rows = [[name, run.key, run.name, ", ".join(run.targets)] for name, run in zip(NAMES, runs, strict=False)]
    for line in table(rows, elastic=(2, 3), room=room):
        say(line)
    for duel in duels:
        left, right = _letters(duel)
        for count, why in ((duel.unanswered, "a side has no answer"), (duel.edited, "the item was edited in between")):
            if count:
                _say_wrapped(f"{left} and {right}: {counted(count, _PAIR, _PAIRS)} left out because {why}.", dim=True)
        if not (duel.pairs or duel.unanswered or duel.edited):
            _say_wrapped(f"{left} and {right} have no answers that face each other; {_NO_PAIRS_HINT}.", dim=True)
    pairs = sum(len(duel.pairs) for duel in duels)
    equal = sum(len(duel.equal) for duel in duels)
    _say_wrapped(
        f"{counted(pairs, _PAIR, _PAIRS)}: {equal:,} equal, {pairs - equal - due:,} decided earlier, "
        f"{due:,} for {judge} to decide."
    )


def say_battle(state: BattleState) -> None:
    """Say who is preferred, whether that can be chance, how the judge leans, and the ratings."""
    for duel, own in zip(state.duels, state.tallies, strict=True):
        left, right = _letters(duel)
        say()
        _say_wrapped(battle_sentence(own, left, right), bold=True)
        _say_wrapped(_counts_text(own, left, right))
        if own.judged and own.share is not None and own.interval is not None:
            ends = f"{percent(own.interval.low)} to {percent(own.interval.high)}"
            _say_wrapped(
                f"Win rate of {right} over {left}: {percent(own.share)}, 95 % interval {ends}; a tie counts half."
            )
    if state.lean is not None:
        say()
        _say_wrapped(lean_sentence(state.lean), **({"fg": "yellow"} if state.lean.real else {}))
    if any(match.bout.scripted for own in state.matches for match in own if match.bout):
        _say_wrapped(
            "Scripted verdicts are among these; they show how a battle goes and say nothing of the runs.", fg="yellow"
        )
    if state.ratings:
        say()
        for number, line in enumerate(_rating_table(state)):
            say(line, dim=number == 0)
        _say_wrapped(_ELO_NOTE, dim=True)


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


def _rating_table(state: BattleState) -> list[str]:
    rows = [["", "run", "name", "Elo", "95 % interval"]]
    rated = zip(NAMES, state.runs, state.ratings, strict=False)
    for name, run, rating in sorted(rated, key=lambda entry: -entry[2].elo):
        ends = f"{rating.interval.low:.0f} to {rating.interval.high:.0f}"
        rows.append([name, run.key, run.name, f"{rating.elo:.0f}", ends])
    return table(rows, right=(3,), elastic=(2,), room=columns())


def _say_wrapped(text: str, **style: Any) -> None:
    for line in wrap(text, columns()):
        say(line, **style)


def _letters(duel: Duel) -> tuple[str, str]:
    left, right = duel.places
    return NAMES[left], NAMES[right]


# -- as data


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
        "verdict": battle_sentence(own, *_letters(duel)),
    }


def _lean_json(lean: PositionLean) -> dict[str, Any]:
    numbers = {"first_shown": lean.share, "interval": _interval_json(lean.interval), "p": lean.p, "items": lean.items}
    return {**numbers, "real": lean.real, "verdict": lean_sentence(lean)}


def _interval_json(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


_ANSWERED = ("answered", "pass", "fail", "partial", "unjudged", "scored")


@dataclass(frozen=True, slots=True, kw_only=True)
class BattleOptions:
    """The options of `tui-evals battle`."""

    judge: str | None
    between: str | None
    """Two columns of one run."""
    criteria: str | None
    limit: int | None
    seed: int | None
    concurrency: int | None
    max_cost: float | None
    plan_only: bool
    env_name: str | None
    trusting: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class PreparedBattle:
    """A battle made ready: the runs, the pairs of answers of every two of them, and what they are judged by."""

    runs: tuple[RunRow, ...]
    """Of a battle between columns each as a run of its own."""
    duels: tuple[Duel, ...]
    asked: BattleRow

    def matches(self, reader: Reader) -> list[list[Match]]:
        """The matches of each duel, with the bouts stored so far."""
        matches = []
        for duel in self.duels:
            left, right = (self.runs[place].id for place in duel.places)
            fought = bouts(reader, left, right, self.asked.judge, self.asked.question)
            bout_of_pair = {(bout.left, bout.right): bout for bout in fought}
            matches.append([Match(item, bout_of_pair.get(pair), pair in duel.equal) for item, pair in duel.pairs])
        return matches

    def state(self, reader: Reader) -> BattleState:
        """What came of it so far."""
        return battle_state(self.runs, self.duels, self.matches(reader))

    def due(self, matches: Sequence[Sequence[Match]]) -> list[DueBout]:
        """The bouts that have no result."""
        due = []
        for duel, own in zip(self.duels, matches, strict=True):
            later = max(self.runs[place].id for place in duel.places)
            for (_, (left, right)), match in zip(duel.pairs, own, strict=True):
                if match.winner is None:
                    due.append(DueBout(left, right, later, match.bout))
        return due


def battle(words: Sequence[str], **values: Any) -> int:
    """Let a judge choose between the answers of the runs, or of the columns of a run, that a person means."""
    options = BattleOptions(**values)
    here = open_project(options.env_name, options.trusting)
    with project.reader() as reader:
        judge = _judge(options, here)
        sides = _sides_meant(reader, words, options.between)
        if not options.plan_only:
            _take_spilled(sides, reader, here)
        prepared = _prepare_battle(reader, sides, options, judge, here)
        due = prepared.due(prepared.matches(reader))
        estimate = estimate_battle(due, prepared.asked.criteria, reader, judge.name, price_for(judge))
        if options.plan_only:
            return _say_plan(prepared, due, estimate, destinations([judge], here.environment), options.as_json)
        if not options.as_json:
            say_runs(prepared.runs, prepared.duels, judge.name, len(due))
            if due:
                _say_wrapped(_takes(estimate, options.max_cost))
        budget = Budget(options.max_cost)
        outcome, interrupted = Outcome(True), False
        if due:
            outcome, interrupted = _fight(prepared, judge, due, reader, budget, options, here)
        stopped = f"stopped: {outcome.message.rstrip('.')}. What was decided is kept; the same command goes on"
        code = 130 if interrupted or outcome.code == "store" else 3 if outcome.code == "configuration" else 1
        try:
            state = prepared.state(reader)
        except StoreError:
            if outcome.code != "store":
                raise
            raise Stop(stopped, code) from None  # it says more of a store that can be read no more
        if not due and not why_read_only(reader.path):
            with project.writer(here.environment) as writer:
                begin_battle(writer, replace(prepared.asked, summary=_summary(state)))
    if options.as_json:
        ending = {"cost": budget.spent, "finished": outcome.finished, "message": outcome.message}
        say_json({"judge": judge.name, "criteria": prepared.asked.criteria, **battle_json(state), **ending})
    else:
        say_battle(state)
    if not outcome.finished:
        warn(stopped)
        return code
    if due and not any(own.judged for own in state.tallies):
        warn(f"{judge.name} gave not a single verdict: {_first_reason(state)}")
        return 1
    return 0


# -- past battles


def past_battles(number: int | None, as_json: bool) -> None:
    """List the battles there were, or say the result of one of them again, as far as its judge has decided by now."""
    with project.reader() as reader:
        if number is None:
            _say_past(reader, battles(reader), as_json)
            return
        try:
            asked = battle_numbered(reader, number)
        except LookupError as problem:
            raise Stop(str(problem.args[0])) from None
        prepared = PreparedBattle(*_read_sides(reader, asked), asked)
        state = prepared.state(reader)
        if as_json:
            say_json({**_past_json(asked, runs_of_battles(reader, [asked])), **battle_json(state)})
            return
    _say_wrapped(f"battle {asked.id} · {asked_text(asked)}", bold=True)
    _say_wrapped(asked.criteria, dim=True)
    say_runs(prepared.runs, prepared.duels, asked.judge, len(prepared.due(state.matches)))
    say_battle(state)


def _say_past(reader: Reader, past: list[BattleRow], as_json: bool) -> None:
    runs = runs_of_battles(reader, past)
    if as_json:
        say_json([_past_json(one, runs) for one in past])
    elif not past:
        say("There has been no battle here; `tui-evals battle A B --judge NAME` begins one.")
    for one in () if as_json else past:
        _say_wrapped(f"{one.id}  {asked_text(one)}", bold=True)
        _say_wrapped(sides_text(one, runs))
        _say_wrapped(outcome_text(one), dim=True)


def _past_json(one: BattleRow, runs: Mapping[int, RunRow]) -> dict[str, Any]:
    return {
        "battle": one.id,
        "time": one.time,
        "judge": one.judge,
        "criteria": one.criteria,
        "sides": [side_name(side, runs) for side in one.sides],
        "limit": one.pairs,
        "seed": one.seed,
        "cost": one.cost,
        "summary": one.summary,
    }


def _summary(state: BattleState) -> str:
    """What came of a battle in a line; empty where nothing is decided."""
    if not any(own.decided for own in state.tallies):
        return ""
    if len(state.duels) == 1:
        return battle_sentence(state.tallies[0], *_letters(state.duels[0]))
    rated = sorted(zip(NAMES, state.ratings, strict=False), key=lambda entry: -entry[1].elo)
    return "Elo: " + ", ".join(f"{letter} {rating.elo:.0f}" for letter, rating in rated) if rated else ""


def _first_reason(state: BattleState) -> str:
    reasons = (match.bout.reason for own in state.matches for match in own if match.bout)
    return next((line for reason in reasons for line in reason.split("\n") if line), "no reason is known")


# -- what is put to the judge


def _judge(options: BattleOptions, here: Project) -> TargetConfig:
    judge = target_or_stop(options.judge or here.settings.judge, here.settings)
    if judge is None:
        raise Stop(
            "no judge is named. Name one with --judge TARGET or in .evals/config.toml ([judge] target = ...); "
            "never one of the targets that answered",
            3,
        )
    return judge


def _prepare_battle(
    reader: Reader, sides: tuple[BattleSide, ...], options: BattleOptions, judge: TargetConfig, here: Project
) -> PreparedBattle:
    if options.seed is not None and options.limit is None:
        raise Stop("--seed belongs to --limit: it says which pairs are drawn")
    criteria = (options.criteria or "").strip() or DEFAULT_CRITERIA
    asked = BattleRow(
        sides=sides,
        judge=judge.name,
        question=judging_fingerprint(criteria, identity(judge, here.environment)),
        criteria=criteria,
        pairs=options.limit,
        seed=options.seed,
    )
    runs, duels = _read_sides(reader, asked)
    _note_self_judging(asked.sides, runs, judge)
    if not any(duel.pairs for duel in duels):
        raise Stop(
            "there is nothing to compare: the runs have no turn of the same item that both answered, unless the item "
            "was edited in between; `tui-evals compare` shows what they have in common"
        )
    return PreparedBattle(runs, duels, asked)


def _sides_meant(reader: Reader, words: Sequence[str], between: str | None) -> tuple[BattleSide, ...]:
    """The runs that a person means, or the two columns of one."""
    if between is not None:
        if len(words) > 1:
            raise Stop(f"--columns is a battle between two columns of one run, and {len(words)} were given; name one")
        (run,) = runs_meant(reader, words or ("last",))
        try:
            return tuple(BattleSide(run.id, column) for column in columns_meant(run, between))
        except NoColumn as problem:
            raise Stop(str(problem)) from None
    if not 2 <= len(words) <= MAX_RUNS:
        raise Stop(
            f"a battle is between 2 to {MAX_RUNS} runs; {len(words)} given. "
            "--columns A,B is one between two columns of a run"
        )
    runs = tuple(project.run_named(reader, word) for word in words)
    for left, right in combinations(runs, 2):
        if left.id == right.id:
            raise Stop(f"{left.key} ({left.name}) was given twice; a run is compared with other runs")
    return tuple(BattleSide(run.id) for run in runs)


def _take_spilled(sides: Sequence[BattleSide], reader: Reader, here: Project) -> None:
    """Store what earlier battles of the runs could not."""
    runs = [reader.run(side.run) for side in sides]
    if any(spilled_files(reader.path, run.key) for run in runs):
        with project.writer(here.environment) as writer:
            for run in runs:
                asyncio.run(writer.take_spilled(run))


def _note_self_judging(sides: Sequence[BattleSide], runs: Sequence[RunRow], judge: TargetConfig) -> None:
    models = {
        target["model"]
        for side, run in zip(sides, runs, strict=True)
        for number, target in enumerate(run.config.get("targets", ()))
        if side.column is None or side.column[1] == number
    }
    if judge.model in models:
        warn(f"note: the judge {judge.name} also answered; judges favour their own answers")


def _read_sides(reader: Reader, asked: BattleRow) -> tuple[tuple[RunRow, ...], tuple[Duel, ...]]:
    """The runs and the pairs of every two, equal answers known; the turns and repeats of an item bear its number."""
    columns = [side.column for side in asked.sides if side.column is not None]
    if columns:
        comparison = read_columns(reader, asked.sides[0].run, (columns[0], columns[1]))
    else:
        comparison = read_comparison(reader, [side.run for side in asked.sides])
    by_item = groupby(comparison.lines, lambda line: line.item)
    numbered = [(item, line) for item, (_, own) in enumerate(by_item) for line in own]
    places = combinations(range(len(asked.sides)), 2)
    duels = tuple(_pair_duel(reader, numbered, two, asked.pairs, asked.seed) for two in places)
    return tuple(side.run for side in comparison.sides), duels


def _pair_duel(
    reader: Reader,
    lines: Sequence[tuple[int, ComparedLine]],
    places: tuple[int, int],
    limit: int | None,
    seed: int | None,
) -> Duel:
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
    chosen = [pairs[at] for at in limited(range(len(pairs)), limit, seed)]
    ids = [pair for _, pair in chosen]
    return Duel(places, tuple(chosen), frozenset(ids) - reader.differing(ids), unanswered, edited)


def _takes(estimate: Estimate, most: float | None) -> str:
    """What the judge is about to be asked, what that costs, and where it would end."""
    calls = counted(estimate.judge_calls, "judge call", "judge calls")
    ends = "" if most is None else f"; it stops before {money(most)} are spent"
    return f"{calls}, {estimated_cost(estimate.known_cost, estimate.unpriced)}{ends}."


def _say_plan(
    prepared: PreparedBattle,
    due: Sequence[DueBout],
    estimate: Estimate,
    sent: Mapping[str, Mapping[str, str | None]],
    as_json: bool,
) -> int:
    pairs = sum(len(duel.pairs) for duel in prepared.duels)
    equal = sum(len(duel.equal) for duel in prepared.duels)
    if as_json:
        counts = {"pairs": pairs, "equal_answers": equal, "decided": pairs - equal - len(due)}
        calls = {"judge_calls": estimate.judge_calls, "cost": estimate.cost}
        say_json({**counts, **calls, "judge": prepared.asked.judge, "destinations": sent})
        return 0
    cost = estimated_cost(estimate.known_cost, estimate.unpriced)
    say(
        f"{pairs:,} pairs of answers, {equal:,} of them equal and {pairs - equal - len(due):,} decided earlier: "
        f"{estimate.judge_calls:,} judge calls, {cost}; repairs and retries may add some"
    )
    for line in destination_lines(sent):
        say(line)
    return 0


async def _fight_to_the_end(
    battle: Battle, prepared: PreparedBattle, reader: Reader, writer: Writer, budget: Budget, options: BattleOptions
) -> tuple[Outcome, bool]:
    """Fight, and note what came of it."""
    outcome, interrupted = await fight_live(battle, budget, prepared.asked.judge, quiet=options.as_json)

    async def note() -> None:
        summary = _summary(prepared.state(reader))
        await end_battle(writer, replace(prepared.asked, cost=budget.spent, summary=summary))

    return await battle.end(outcome, note), interrupted


def _fight(
    prepared: PreparedBattle,
    config: TargetConfig,
    due: Sequence[DueBout],
    reader: Reader,
    budget: Budget,
    options: BattleOptions,
    here: Project,
) -> tuple[Outcome, bool]:
    """Fight the bouts; how it ended, and whether somebody interrupted it."""
    approve(missing_of_targets(here, [config]), here.root)
    keep_output_to_ourselves()
    try:
        judge = opened(config, "judge", budget, here.environment, here.root, options.concurrency)
        with project.writer(here.environment) as writer:
            begin_battle(writer, prepared.asked)
            latest = max(prepared.runs, key=lambda run: run.id)  # in whose name is kept what cannot be stored
            storing = Storing(writer, reader.path, latest, None, config.max_outage)
            battle = Battle(due, judge, prepared.asked.criteria, prepared.asked.question, reader, writer, storing)
            return asyncio.run(_fight_to_the_end(battle, prepared, reader, writer, budget, options))
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except StoreError as problem:
        raise Stop(f"{problem}\nNothing that was decided is lost: the same command goes on", 1) from None
    except LookupError as problem:
        raise Stop(f"{problem.args[0]}: somebody deleted a run meanwhile. What was decided is kept", 1) from None
