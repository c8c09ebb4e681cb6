"""A battle: its request, its plan and price, the bouts in which a judge compares answers, and its execution."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, groupby
from typing import Any

from tui_evals.compare.battles import (
    Match,
    PositionLean,
    Rating,
    Tally,
    battle_sentence,
    correct_tallies,
    position_lean,
    ratings,
    shares_by_item,
    tally_matches,
)
from tui_evals.compare.runs import MAX_RUNS, ComparedLine, read_columns, read_comparison
from tui_evals.compare.verdicts import NAMES
from tui_evals.datasets.model import Dataset
from tui_evals.evaluators.base import Ask, CannotJudge
from tui_evals.evaluators.grading import (
    DEFAULT_CRITERIA,
    BattleAnswer,
    Place,
    ask_preference,
    battle_question,
    judging_fingerprint,
)
from tui_evals.files import fit_calls
from tui_evals.light_records import dataclass
from tui_evals.runs.activities import ActivityRecord, Progress, ShowWait, Storing
from tui_evals.runs.approving import find_typed, missing_of_targets
from tui_evals.runs.asking import PricedTarget, StoreLedger, current_answer, current_phase
from tui_evals.runs.availability import Left, why_left_open
from tui_evals.runs.engine import STOPPED, ExecutionEnd
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.executors import Stopped
from tui_evals.runs.judges import Judges, calls_at_once, judge_label, opened, price_for
from tui_evals.runs.limits import Budget
from tui_evals.runs.plan import limited
from tui_evals.runs.project import Project
from tui_evals.runs.scoring import scripted
from tui_evals.store import run_figures
from tui_evals.store.battles import (
    SCRIPTED,
    BattleRow,
    BattleSide,
    Bout,
    Order,
    Winner,
    begin_battle,
    bouts,
    end_battle,
    keep_bout,
    note_call,
)
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, CallRecord, RunRow
from tui_evals.store.spill import spilled_files
from tui_evals.store.writer import Writer
from tui_evals.targets.base import Price, Target, TargetConfig
from tui_evals.targets.opening import identity
from tui_evals.targets.permissions import Permission, destinations
from tui_evals.text.measures import estimate_tokens

_VERDICT_TOKENS = 80
_READ_FOR_ESTIMATE = 200


@dataclass(frozen=True, slots=True)
class DueBout:
    """Two answers to judge, by their ids, and the bout of an earlier battle."""

    left: int
    right: int
    run: int
    """The later run of the two, which keeps the record of the calls."""
    known: Bout | None = None

    @property
    def calls(self) -> int:
        """How many questions are left."""
        return 2 if self.known is None else (self.known.first, self.known.second).count(None)


@dataclass(frozen=True, slots=True)
class BoutQuestion:
    """The question of a bout to the judge."""

    left: BattleAnswer
    right: BattleAnswer
    expected: tuple[str, ...]


class BoutMaterial:
    """The answers of bouts with their questions and references, as the store has them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._datasets: dict[int, Dataset] = {}

    def of(self, due: DueBout) -> BoutQuestion:
        """The material of a bout; raises LookupError if an answer was deleted."""
        left, row = self._contender(due.left)
        right, _ = self._contender(due.right)
        unit = self._dataset(row.run).items[row.item].units[row.turn]
        expected = (*([unit.reference] if unit.reference else []), *unit.references)
        return BoutQuestion(left, right, tuple(dict.fromkeys(expected)))

    def _contender(self, answer: int) -> tuple[BattleAnswer, AnswerRow]:
        detail = self._reader.detail(answer)
        if detail.answer is None:
            raise LookupError(f"answer number {answer} is no longer in the store")
        chat = detail.answer.request.get("messages", ())
        return BattleAnswer(chat, detail.answer.text or "", detail.answer.tool_calls), detail.row

    def _dataset(self, run: int) -> Dataset:
        if run not in self._datasets:
            self._datasets[run] = Dataset.model_validate(self._reader.snapshot(self._reader.run(run).snapshot))
        return self._datasets[run]


def estimate_battle(due: Sequence[DueBout], criteria: str, reader: Reader, judge: str, price: Price | None) -> Estimate:
    """How many calls the bouts take, and about how much money, from the texts of some of them."""
    calls = sum(bout.calls for bout in due)
    if price is None or not calls:
        return Estimate(0, calls, 0.0, unpriced=(judge,) if calls else ())
    material, every = BoutMaterial(reader), -(-len(due) // _READ_FOR_ESTIMATE)
    sizes = [_size(material.of(bout), criteria) for bout in due[::every]]
    read = calls * sum(sizes) / len(sizes)
    return Estimate(
        0, calls, (read * price.input_per_million + calls * _VERDICT_TOKENS * price.output_per_million) / 1e6
    )


def _size(shown: BoutQuestion, criteria: str) -> int:
    try:
        question = battle_question(shown.left, shown.right, shown.expected, criteria)
    except CannotJudge:
        return 0
    return sum(estimate_tokens(message["content"]) for message in question.messages)


_ORDERS: tuple[Mapping[Place, Winner], ...] = (
    {"first": "left", "second": "right", "tie": "tie"},
    {"first": "right", "second": "left", "tie": "tie"},
)


class _BattleLedger(StoreLedger):
    """Notes calls with the later run, and their costs with the battle too."""

    def __init__(self, reader: Reader, writer: Writer, run: int, asked: BattleRow) -> None:
        super().__init__(reader, writer, run)
        self._asked = asked

    def called(self, record: CallRecord) -> None:
        """Note one attempt."""
        note_call(self._writer, record, self._run, self._asked)


class BoutQueue:
    """Asks the judge about bouts in parallel; every verdict is stored, even if the battle ends early."""

    def __init__(
        self,
        due: Iterable[DueBout],
        judge: PricedTarget,
        asked: BattleRow,
        reader: Reader,
        writer: Writer,
        storing: Storing,
    ) -> None:
        self._due = list(due)
        self._judge = judge
        self._asked = asked
        self._reader = reader
        self._writer = writer
        self._storing = storing
        self._material = BoutMaterial(reader)
        self._stop = False
        self._reason: Stopped | None = None
        self.total = len(self._due)
        self.done = 0
        self.undecided = 0

    def stop(self) -> None:
        """Begin no more bouts; those in flight finish."""
        self._stop = True
        self._storing.give_up()
        self._judge.room.gate.halt()

    def hold_asking(self) -> None:
        """Ask nothing, because what comes of it could not be stored."""
        self._judge.room.gate.hold(True)

    def go_on_asking(self) -> None:
        """Ask again."""
        self._judge.room.gate.hold(False)

    async def fight(self, show: ShowWait) -> ExecutionEnd:
        """Put every bout to the judge; `show` hears where that waits for the store."""
        self._storing.watch(self, show)
        waiting = iter(self._due)
        most = min(self._judge.config.concurrency, self.total)
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(most)]
        try:
            await asyncio.gather(*workers)
        except (StoreError, LookupError) as problem:
            if not await self._storing.is_to_blame():  # otherwise reading failed because writing does
                raise
            return ExecutionEnd(False, str(problem), "failed")
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await self._judge.target.close()
        if self._reason is not None:
            return self._stopped_outcome(self._reason)
        finished = self.done == self.total
        return ExecutionEnd(finished, "" if finished else "stopped before the end", "" if finished else "asked")

    def _stopped_outcome(self, reason: Stopped) -> ExecutionEnd:
        """Why it stopped; where the judge cannot be asked, what that leaves open too."""
        if self._judge.availability.closed is None:
            return ExecutionEnd(False, str(reason), reason.code)
        return ExecutionEnd(False, *why_left_open([self._judge.availability], (), Left(bouts=self.total - self.done)))

    async def end(self, outcome: ExecutionEnd, note: Callable[[], Awaitable[None]]) -> ExecutionEnd:
        """Store the result by `note`; returns how it ended, which a store that takes nothing changes."""
        await self._storing.end(finished=outcome.finished, note=note)
        if not self._storing.is_lost:
            return outcome
        return ExecutionEnd(False, await self._storing.conclude(), "lost" if self._storing.is_overwritten else "store")

    async def _work(self, waiting: Iterable[DueBout]) -> None:
        for due in waiting:
            if self._stop:
                return
            try:
                bout = await self._bout(due)
            except Stopped as reason:
                self._reason = self._reason or reason
                self.stop()
                return
            await keep_bout(self._writer, bout)
            self.done += 1
            self.undecided += bout.winner is None

    async def _bout(self, due: DueBout) -> Bout:
        """The bout with both verdicts; known verdicts are not asked for again."""
        current_answer.set(max(due.left, due.right))
        current_phase.set("battle")
        shown = self._material.of(due)
        # The cache holds unreadable replies, which would be unreadable again.
        ledger = _BattleLedger(self._reader, self._writer, due.run, self._asked)
        judges = Judges({None: self._judge}, ledger, due.known is None)
        ask = judges.ask_of(None)
        assert ask is not None
        known = due.known
        reasons = known.reason.split("\n") if known else ["", ""]
        verdicts: list[Winner | None] = [known.first, known.second] if known else [None, None]
        for order, verdict in enumerate(verdicts):
            if verdict is None:
                verdicts[order], reasons[order] = await self._verdict(ask, shown, order)
                if order == 0 and verdicts[0] is not None and not judges.cached(None):
                    # A new verdict is stored before the other one is requested.
                    await keep_bout(self._writer, self._fought(due, verdicts, reasons))
        return self._fought(due, verdicts, reasons)

    def _fought(self, due: DueBout, verdicts: Sequence[Winner | None], reasons: Sequence[str]) -> Bout:
        return Bout(
            left=due.left,
            right=due.right,
            judge=self._judge.config.name,
            question=self._asked.question,
            first=verdicts[0],
            second=verdicts[1],
            reason="\n".join(reasons),
        )

    async def _verdict(self, ask: Ask, shown: BoutQuestion, order: int) -> tuple[Winner | None, str]:
        """The verdict in one order and why, in one line; without a verdict, why there is none."""
        scripted.set(False)
        first, second = (shown.left, shown.right) if order == 0 else (shown.right, shown.left)
        try:
            preference = await ask_preference(ask, first, second, shown.expected, self._asked.criteria)
        except CannotJudge as problem:
            return None, " ".join(str(problem).split())
        note = SCRIPTED if scripted.get() else ""
        return _ORDERS[order][preference.winner], " ".join(f"{note}{preference.reason}".split())


NO_JUDGE = (
    "no judge is named. Name one with --judge TARGET or in .evals/config.toml ([judge] target = ...); "
    "never one of the targets that answered"
)
_ANSWERED = ("answered", "pass", "fail", "partial", "unjudged", "scored")


# -- requests


@dataclass(frozen=True, slots=True, kw_only=True)
class BattleRequest:
    """A battle as a face asks for it: 2 to 4 runs, or two columns of a run, and who judges by what."""

    sides: tuple[BattleSide, ...]
    judge: TargetConfig
    criteria: str | None = None
    limit: int | None = None
    """The most pairs of answers of two sides; None means all."""
    seed: int | None = None
    concurrency: int | None = None
    max_cost: float | None = None
    ready: Target | None = None
    """The judge itself, where a program gives a function."""

    def stored(self) -> dict[str, Any]:
        """The request as the store keeps it."""
        return {
            "sides": [[side.run, *(side.column or ())] for side in self.sides],
            "judge": self.judge.name,
            "criteria": self.criteria,
            "limit": self.limit,
            "seed": self.seed,
            "concurrency": self.concurrency,
            "max_cost": self.max_cost,
        }


def stored_battle_request(stored: Mapping[str, Any], project: Project) -> BattleRequest:
    """The request that `BattleRequest.stored` wrote; ConfigurationError where its judge is not configured any more."""
    sides = tuple(BattleSide(run, (column[0], column[1]) if column else None) for run, *column in stored["sides"])
    judge = find_typed(stored["judge"], project.settings)
    options = {name: stored.get(name) for name in ("criteria", "limit", "seed", "concurrency", "max_cost")}
    return BattleRequest(sides=sides, judge=judge, **options)


def sides_of_runs(runs: Sequence[RunRow]) -> tuple[BattleSide, ...]:
    """The sides of a battle between runs; CannotPlan for one run alone, too many, or the same one twice."""
    if not 2 <= len(runs) <= MAX_RUNS:
        raise CannotPlan(wrong_number(len(runs)))
    for left, right in combinations(runs, 2):
        if left.id == right.id:
            raise CannotPlan(f"{left.key} ({left.name}) was given twice; a run is compared with other runs")
    return tuple(BattleSide(run.id) for run in runs)


def wrong_number(given: int) -> str:
    """The message for a number of runs that a battle does not support."""
    return f"a battle is between 2 to {MAX_RUNS} runs; {given} given. --columns A,B is one between two columns of a run"


# -- results


@dataclass(frozen=True, slots=True)
class Duel:
    """Two sides, by their places, and the pairs of their answers that are compared."""

    places: tuple[int, int]
    pairs: tuple[tuple[int, tuple[int, int]], ...]
    """The number of the item, and the answers by their ids."""
    equal: frozenset[tuple[int, int]]
    """Pairs that say the same."""
    unanswered: int
    """Pairs that are left out because a side has no answer."""
    edited: int
    """Pairs that are left out because the item was changed between the runs."""

    @property
    def letters(self) -> tuple[str, str]:
        """The letters of both sides."""
        left, right = self.places
        return NAMES[left], NAMES[right]


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

    @property
    def summary(self) -> str:
        """The result in a line; empty before the first decision."""
        if not any(own.decided for own in self.tallies):
            return ""
        if len(self.duels) == 1:
            return battle_sentence(self.tallies[0], *self.duels[0].letters)
        rated = sorted(zip(NAMES, self.ratings, strict=False), key=lambda entry: -entry[1].elo)
        return "Elo: " + ", ".join(f"{letter} {rating.elo:.0f}" for letter, rating in rated) if rated else ""

    @property
    def why_undecided(self) -> str:
        """The first reason why a verdict is missing; empty where there is a verdict."""
        if any(own.judged for own in self.tallies):
            return ""
        reasons = (match.bout.reason for own in self.matches for match in own if match.bout)
        return next((line for reason in reasons for line in reason.split("\n") if line), "no reason is known")


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


@dataclass(frozen=True, slots=True)
class StoredBattle:
    """A battle with its runs, and the pairs of answers of every two of them."""

    runs: tuple[RunRow, ...]
    """In a battle between columns, one run for each column."""
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
        """The results so far."""
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


def read_battle(reader: Reader, asked: BattleRow) -> StoredBattle:
    """The runs and the pairs of every two; the turns and repeats of an item have its number."""
    columns = [side.column for side in asked.sides if side.column is not None]
    if columns:
        comparison = read_columns(reader, asked.sides[0].run, ((columns[0],), (columns[1],)))
    else:
        comparison = read_comparison(reader, [side.run for side in asked.sides])
    by_item = groupby(comparison.lines, lambda line: line.item)
    numbered = [(item, line) for item, (_, own) in enumerate(by_item) for line in own]
    places = combinations(range(len(asked.sides)), 2)
    duels = tuple(_pair_duel(reader, numbered, two, asked.pairs, asked.seed) for two in places)
    return StoredBattle(tuple(side.run for side in comparison.sides), duels, asked)


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
    return Duel(places, tuple(chosen), frozenset(ids) - run_figures.differing(reader, ids), unanswered, edited)


# -- the plan


@dataclass(frozen=True, slots=True)
class BattlePlan:
    """The estimate of a battle."""

    battle: StoredBattle
    due: Sequence[DueBout]
    estimate: Estimate
    destinations: Mapping[str, Mapping[str, str | None]]
    """The destinations of questions and keys."""
    caution: str
    """Why the result may mislead; empty without a reason."""

    @property
    def pairs(self) -> int:
        """How many pairs of answers are compared."""
        return sum(len(duel.pairs) for duel in self.battle.duels)

    @property
    def equal(self) -> int:
        """How many of them say the same."""
        return sum(len(duel.equal) for duel in self.battle.duels)

    @property
    def decided(self) -> int:
        """How many of them were decided earlier."""
        return self.pairs - self.equal - len(self.due)


def plan_battle(request: BattleRequest, reader: Reader, project: Project) -> BattlePlan:
    """Find the pairs and estimate the judge calls; CannotPlan if nothing can be compared. Sends and stores nothing."""
    if request.seed is not None and request.limit is None:
        raise CannotPlan("--seed belongs to --limit: it says which pairs are drawn")
    judge, criteria = request.judge, (request.criteria or "").strip() or DEFAULT_CRITERIA
    asked = BattleRow(
        sides=request.sides,
        judge=judge.name,
        question=judging_fingerprint(criteria, identity(judge, project.environment)),
        criteria=criteria,
        pairs=request.limit,
        seed=request.seed,
    )
    battle = read_battle(reader, asked)
    if not any(duel.pairs for duel in battle.duels):
        raise CannotPlan(
            "there is nothing to compare: the runs have no turn of the same item that both answered, unless the item "
            "was edited in between; `tui-evals compare` shows what they have in common"
        )
    due = battle.due(battle.matches(reader))
    return BattlePlan(
        battle,
        due,
        estimate_battle(due, criteria, reader, judge.name, price_for(judge)),
        destinations([judge], project.environment),
        _self_judging(request.sides, battle.runs, judge),
    )


def _self_judging(sides: Sequence[BattleSide], runs: Sequence[RunRow], judge: TargetConfig) -> str:
    models = {
        target["model"]
        for side, run in zip(sides, runs, strict=True)
        for number, target in enumerate(run.config.get("targets", ()))
        if side.column is None or side.column[1] == number
    }
    return f"the judge {judge.name} also answered; judges favor their own answers" if judge.model in models else ""


def battle_permissions(request: BattleRequest, project: Project) -> list[Permission]:
    """The missing permissions of the judge."""
    return [] if request.ready is not None else missing_of_targets(project, [request.judge])


def about_battle(asked: BattleRow) -> str:
    """The identity of a battle among the activities of a store."""
    sides = [[side.run, *(side.column or ())] for side in asked.sides]
    return json.dumps([sides, asked.judge, asked.question, asked.pairs, asked.seed])


# -- the execution


def store_unstored(sides: Sequence[BattleSide], reader: Reader, project: Project) -> None:
    """Store what earlier battles of the runs could not."""
    runs = [reader.run(side.run) for side in sides]
    if any(spilled_files(reader.path, run.key) for run in runs):
        with project.writer() as writer:
            for run in runs:
                asyncio.run(writer.take_spilled(run))


def note_decided(plan: BattlePlan, state: BattleState, writer: Writer) -> None:
    """Store a battle that has nothing left to ask."""
    begin_battle(writer, replace(plan.battle.asked, summary=state.summary))


class BattleExecution:
    """A running battle, which stores its progress and obeys orders from the store."""

    def __init__(
        self,
        request: BattleRequest,
        plan: BattlePlan,
        project: Project,
        reader: Reader,
        writer: Writer,
        record: ActivityRecord,
    ) -> None:
        fitted, self.caution = fit_calls(calls_at_once([], [request.judge], request.concurrency))
        self._budget = Budget(request.max_cost)
        most = fitted[judge_label(request.judge.name)]
        judge = opened(
            request.judge, "judge", self._budget, project.environment, project.root, most, target=request.ready
        )
        begin_battle(writer, plan.battle.asked)
        latest = max(plan.battle.runs, key=lambda run: run.id)  # what cannot be stored is kept in its name
        self._storing = Storing(writer, reader.path, latest, record.lock, request.judge.max_outage)
        self._queue = BoutQueue(plan.due, judge, plan.battle.asked, reader, writer, self._storing)
        self._battle = plan.battle
        self._reader = reader
        self._writer = writer
        self._record = record
        self._fight: asyncio.Task[ExecutionEnd] | None = None

    @property
    def progress(self) -> Progress:
        """How many bouts are decided."""
        queue = self._queue
        return Progress(queue.done, queue.total, self._budget.spent, {"undecided": queue.undecided})

    def stop(self) -> None:
        """Begin no bout any more; open calls finish."""
        self._queue.stop()

    def abort(self) -> None:
        """End now."""
        if self._fight is not None:
            self._fight.cancel()

    async def run(self, show: ShowWait = lambda wait, is_over: None) -> ExecutionEnd:
        """Ask the judge about every bout and store the result; `show` hears when this waits for the store."""
        self._fight = asyncio.create_task(self._queue.fight(show))
        try:
            await self._record.attend(self._fight, lambda: self.progress, self._obey, self._storing)
        finally:  # a program may cancel this task
            if not self._fight.done():
                self._fight.cancel()
        try:
            outcome = self._fight.result()
        except asyncio.CancelledError:
            outcome = STOPPED

        async def note() -> None:
            summary = self._battle.state(self._reader).summary
            await end_battle(self._writer, replace(self._battle.asked, summary=summary))

        ended = await self._queue.end(outcome, note)
        if not self._storing.is_lost:
            await self._record.end(self.progress, finished=ended.finished, message=ended.message, code=ended.code)
        return ended

    def _obey(self, order: Order) -> None:
        if order == "stop":
            self.stop()
        else:
            self.abort()
