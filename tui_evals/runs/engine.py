"""The engine of a run: it feeds an executor from the store, commits what comes back, and obeys the store's control."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from types import MappingProxyType

from tui_evals.datasets.model import Item
from tui_evals.evaluators.base import Evidence
from tui_evals.interpreter import upgrade_sentence
from tui_evals.light_records import dataclass
from tui_evals.provenance.chain import Kind
from tui_evals.runs.activities import Storing
from tui_evals.runs.asking import RECIPE, REPLY, PricedTarget, close_all
from tui_evals.runs.availability import Left, Unavailable, why_left_open
from tui_evals.runs.executors import Cell, Executor, Stopped, WaitCut
from tui_evals.runs.executors.local import GivenExecutor, LocalExecutor, asks_nobody
from tui_evals.runs.judges import Judges
from tui_evals.runs.plan import Plan
from tui_evals.runs.prompting import PromptUnderTest, messages_of_answer, opening_of, question_of
from tui_evals.runs.scoring import Judgement, JudgeQuestions, evidence_for, questions, recorded
from tui_evals.runs.scoring_passes import KeptScores
from tui_evals.runs.status import Status
from tui_evals.store.database import StoreError
from tui_evals.store.details import group_scores, scores_of
from tui_evals.store.housekeeping import count_pass
from tui_evals.store.reader import Reader
from tui_evals.store.records import (
    AnswerRecord,
    AnswerRow,
    CallRecord,
    RunRow,
    RunStatus,
    ScoreRecord,
    Settled,
    StopCode,
    StoreWait,
    Wait,
    WorkerRow,
)
from tui_evals.store.results import CacheKey
from tui_evals.store.writer import Writer
from tui_evals.text.templates import TemplateError

_log = logging.getLogger(__name__)


def sign_ended(writer: Writer, run: RunRow, finished: bool, again: bool, found: int) -> None:
    """Sign the end of an execution; `found` is the number of earlier answers that were not signed."""
    about = {**({"judged": "again"} if again else {}), **({"found": found} if found else {})}
    sign(writer, run, "end" if finished else "interruption", about, again=again)


def sign(writer: Writer, run: RunRow, kind: Kind, about: Mapping[str, object], *, again: bool = False) -> None:
    """Sign a run. If that cannot be stored, the run is still complete, and `verify` reports the missing signature."""
    try:
        writer.sign(run.id, kind, again=again, about=about)
    except (StoreError, LookupError) as problem:
        _log.warning("run %s was not signed: %s", run.key, problem)


_POLL = 0.25
_HEARTBEAT = 5.0


@dataclass(frozen=True, slots=True)
class ExecutionEnd:
    """How an execution ended: finished, or why not."""

    finished: bool
    message: str = ""
    code: StopCode = ""


STOPPED = ExecutionEnd(False, str(WaitCut()), "asked")
_LONG_WAIT = 2.0
"""Seconds from which on a wait is worth showing."""


class Engine:
    """One execution of a run; its whole state is in the store, so another one can continue it."""

    def __init__(
        self,
        plan: Plan,
        run: RunRow,
        writer: Writer,
        reader: Reader,
        targets: Sequence[PricedTarget],
        judges: Mapping[str | None, PricedTarget],
        storing: Storing,
        *,
        use_cache: bool = True,
        left_out: frozenset[int] = frozenset(),
        elsewhere: Callable[[Engine], AbstractAsyncContextManager[Executor]] | None = None,
        kept: KeptScores | None = None,
    ) -> None:
        self.note = ""
        """A message for the user about this execution."""
        self._plan = plan
        self._run = run
        self._writer = writer
        self._reader = reader
        self._targets = targets
        self._storing = storing
        self._use_cache = use_cache
        self._left_out = left_out
        """The numbers of the targets that are not asked this time."""
        self._elsewhere = elsewhere
        self._kept = kept
        """The scores that rescoring keeps."""
        self._judges = Judges(judges, self, use_cache)
        behind = [target.behind for target in targets if target.behind is not None]
        self._priced_targets = (*targets, *behind, *judges.values())
        self._pass = run.staged_pass or run.scoring_pass
        self._stop = False
        self._upgraded = ""
        self._paused = self._held = False
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self._wait_shown = 0.0
        """When the wait ends that is shown."""

    async def execute(self, *, again: bool = False) -> ExecutionEnd:
        """Ask and judge all pending cells, or judge all answers `again`; the run can continue, however this ends."""
        cells = self.answered_cells if again else self.cells
        since, begun_at = time.monotonic(), max(time.time(), self._run.started or 0.0)
        begun = {} if again else {"started": self._run.started or begun_at}
        before = self._run.status
        self._storing.watch(self)
        outcome = STOPPED
        watcher = asyncio.create_task(self._watch())
        try:
            owner = {"pid": os.getpid(), "host": socket.gethostname()}
            undecided = {"verdict": "", "gates": ""}  # gate results of an earlier execution
            await self._writer.commit_step(
                self._writer.status_step(self._run.id, "running", **owner, **undecided, **begun)
            )
            asked = [number for number in range(len(self._targets)) if number not in self._left_out]
            async with self._executor() as executor:
                await executor.execute({number: cells(number) for number in asked})
            if not self._stop:
                outcome = await self._conclude(again)
            elif self._upgraded:
                outcome = ExecutionEnd(False, self._upgraded, "upgraded")
        except Stopped as reason:
            outcome = ExecutionEnd(False, str(reason), reason.code)
        except Exception as problem:
            outcome = ExecutionEnd(False, str(problem) or type(problem).__name__, "failed")
            if sentence := upgrade_sentence():  # old modules with new ones
                outcome = ExecutionEnd(False, sentence, "upgraded")
            elif not await self._storing.is_to_blame():  # otherwise reading failed because writing does
                raise
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
            now = begun_at + time.monotonic() - since  # not affected by changes of the system clock
            note = partial(self._store_status, outcome, before, again, now)
            await self._storing.end(finished=outcome.finished, note=note)
            outcome = self._checked(outcome)
            await close_all(self._priced_targets)
        return outcome

    async def _conclude(self, again: bool) -> ExecutionEnd:
        """How it ends once everything that can be asked was: finished, unless something is left open."""
        outcome = self._left_open(again)
        if outcome is None:
            try:
                await self._judge_groups()
            except Unavailable:
                outcome = self._left_open(again, groups=True)
        if outcome is not None:
            return outcome
        if again:
            await self._writer.commit_step(partial(count_pass, run=self._run.id))
        self._writer.drop_replies(self._run.id, self._pass)
        return ExecutionEnd(True)

    def _left_open(self, again: bool, *, groups: bool = False) -> ExecutionEnd | None:
        """Why answers or verdicts stay pending; None where none do."""
        states = list({id(each.availability): each.availability for each in self._priced_targets}.values())
        if not (self._left_out or any(state.closed for state in states)):
            return None
        waiting = self._left_out
        if again:
            cells = (cell for number in range(len(self._targets)) for cell in self.answered_cells(number))
            left = Left(verdicts=sum(len(cell.answers) - len(cell.final) for cell in cells))
        else:
            pending = Counter((row.target, row.status == "answered") for row in self._reader.pending(self._run.id))
            counts = [sum(count for (_, own), count in pending.items() if own == is_said) for is_said in (False, True)]
            left, waiting = Left(*counts), waiting & {target for target, _ in pending}
        if not (left.answers or left.verdicts or groups):
            return None
        left_out = [self._run.targets[number] for number in sorted(waiting)]
        return ExecutionEnd(False, *why_left_open(states, left_out, left))

    def _checked(self, outcome: ExecutionEnd) -> ExecutionEnd:
        """The outcome, unless the store is why the run had to end."""
        return ExecutionEnd(False, self._storing.reason, "store") if self._storing.is_lost else outcome

    async def _store_status(self, outcome: ExecutionEnd, before: RunStatus, again: bool, now: float) -> None:
        if self._storing.is_spilled:
            return
        outcome = self._checked(outcome)
        ended = {"finished": now} if outcome.finished and not again else {}
        finished = self._is_finished(before, outcome) if again else outcome.finished
        why = {} if finished else {"message": outcome.message, "code": outcome.code}
        status: RunStatus = "finished" if finished else "interrupted"
        await self._writer.commit_step(self._writer.status_step(self._run.id, status, **ended, **why))

    def _is_finished(self, before: RunStatus, outcome: ExecutionEnd) -> bool:
        """Whether rescoring is complete; a pass that judged nothing is dropped."""
        if outcome.finished:
            return next(self._reader.pending(self._run.id), None) is None
        self._writer.flush()
        if self._reader.run(self._run.id).staged:
            return False
        self._writer.drop_pass(self._run.id)
        return before == "finished"

    def _executor(self) -> AbstractAsyncContextManager[Executor]:
        if self._elsewhere is not None:
            return self._elsewhere(self)
        if asks_nobody(self._plan, self._targets):
            return nullcontext(GivenExecutor(self._plan, self._targets, self))
        # Verdicts of a pass under way are kept apart from the answers.
        settle = None if self._run.staged_pass else self.answered
        return nullcontext(LocalExecutor(self._plan, self._targets, self._judges, self, self._use_cache, settle))

    def stop(self) -> None:
        """Start nothing new. Requests in flight finish, waiting ones do not."""
        self._stop = True
        self._storing.give_up()
        self._unpaused.set()
        for priced in self._priced_targets:
            priced.room.gate.halt()

    @property
    def is_halted(self) -> bool:
        """Whether a target or judge is asked no more, so that some answers stay pending."""
        return any(priced.room.gate.is_halted for priced in self._priced_targets)

    def hold_asking(self) -> None:
        """Begin no question, because what comes of it could not be stored."""
        self._hold(True)

    def go_on_asking(self) -> None:
        """Begin questions again."""
        self._hold(False)

    def _hold(self, held: bool) -> None:
        self._held = held
        for priced in self._priced_targets:
            priced.room.gate.hold(held)
        self._let_begin()

    def _let_begin(self) -> None:
        """Let questions begin or wait, depending on the current state."""
        if self._stop or not (self._paused or self._held):
            self._unpaused.set()
        else:
            self._unpaused.clear()

    async def _watch(self) -> None:
        """Obey pause, resume and stop, which other processes write into the store, and show that we live."""
        clock = asyncio.get_running_loop().time
        beat = version = 0.0
        while True:
            if (now := clock()) - beat >= _HEARTBEAT:
                self._writer.heartbeat(self._run.id)
                beat = now
            with suppress(StoreError, LookupError):  # the writer reports problems of the store
                if (current := self._reader.data_version()) != version:
                    version = current
                    self._obey(self._reader.control(self._run.id))
            if self._upgraded == "" and (sentence := upgrade_sentence()):
                self._upgraded = sentence
                self.stop()
            await asyncio.sleep(_POLL)

    def _demand_same_package(self) -> None:
        """Stopped where the installed package was upgraded, which may be why something failed."""
        if sentence := upgrade_sentence():
            raise Stopped(sentence, "upgraded")

    def _obey(self, word: str) -> None:
        if word == "stop" and not self._stop:
            self._writer.run_goes(self._run.id, "stopping")
            self.stop()
        elif word == "pause" and not self._paused:
            self._paused = True
            self._let_begin()
            self._writer.run_goes(self._run.id, "paused")
        elif word == "" and self._paused:
            self._paused = False
            self._let_begin()
            self._writer.run_goes(self._run.id, "running")

    def cells(self, target: int) -> Iterator[Cell]:
        """The conversations with a target that are not finished, in the order of the run."""
        rows = (row for row in self._reader.pending(self._run.id) if row.target == target)
        for _, group in groupby(rows, key=lambda row: row.cell):
            yield self._cell(list(group))

    def answered_cells(self, target: int) -> Iterator[Cell]:
        """The conversations with a target up to their last answer, to be judged again unless this pass has them."""
        _, judged = self._reader.staged_pass(self._run)
        rows = (row for row in self._reader.all_rows(self._run.id) if row.target == target)
        for _, group in groupby(rows, key=lambda row: row.cell):
            answered = [row for row in group if row.status not in ("pending", "running")]
            if any(row.id not in judged for row in answered):
                known = self._stored_answers(answered)
                first, ids = answered[0], tuple(row.id for row in answered)
                final = frozenset(row.turn for row in answered if row.id in judged)
                yield self._make_cell(first, ids, known, final, self._kept_scores(answered))

    def _kept_scores(self, rows: Sequence[AnswerRow]) -> Mapping[int, tuple[ScoreRecord, ...]]:
        """The valid scores of a conversation, by turn."""
        if self._kept is None:
            return {}
        scores = self._kept.of(rows)
        return {row.turn: scores[row.id] for row in rows if row.id in scores}

    def _cell(self, unfinished: list[AnswerRow]) -> Cell:
        first = unfinished[0]
        turns = len(self._plan.dataset.items[first.item].units)
        if turns == len(unfinished) and all(row.status != "answered" for row in unfinished):
            return self._make_cell(first, tuple([row.id for row in unfinished]), {}, frozenset())
        rows = unfinished
        if turns != len(unfinished):
            rows = self._reader.window(self._run.id, first.pos - first.turn, turns)
        known = self._stored_answers(rows)
        waiting = {row.turn for row in unfinished}
        final = frozenset(range(turns)) - waiting
        ids = tuple(row.id for row in rows)
        to_judge = {row.id: row.turn for row in unfinished if row.status == "answered"}
        scores = scores_of(self._reader, tuple(to_judge), self._pass) if to_judge else {}
        said = {to_judge[answer]: records for answer, records in scores.items()}
        return self._make_cell(first, ids, known, final, said)

    def _make_cell(
        self,
        row: AnswerRow,
        answers: tuple[int, ...],
        known: Mapping[int, AnswerRecord],
        final: frozenset[int],
        said: Mapping[int, tuple[ScoreRecord, ...]] = MappingProxyType({}),
    ) -> Cell:
        item = self._plan.dataset.items[row.item].asking(row.repeat)
        return Cell(item, row.name, row.item, row.prompt, row.target, row.repeat, answers, known, final, said)

    def _stored_answers(self, rows: Sequence[AnswerRow]) -> dict[int, AnswerRecord]:
        """The stored answers of a conversation, by turn."""
        answered = [row for row in rows if row.status not in ("pending", "running")]
        if not answered:
            return {}
        records = self._reader.records(row.id for row in answered)
        lost = AnswerRecord(text=None, request={}, code="agentRequestFailed")
        return {row.turn: records.get(row.id, lost) for row in answered}

    def known(self, cell: Cell) -> Mapping[int, AnswerRecord]:
        """The answers of a cell that are committed by now, by turn."""
        return self._stored_answers(self._reader.rows(cell.answers))

    def workers(self, rows: Sequence[WorkerRow]) -> None:
        """Store the state of the workers."""
        self._writer.workers(self._run.id, rows)

    # From here on, the Sink of the executor.

    @property
    def paused(self) -> bool:
        """Whether nothing new is to start for the time being."""
        return not self._unpaused.is_set()

    @property
    def store_wait(self) -> StoreWait | None:
        """The reason to hold questions, if the store is not writable."""
        return self._storing.wait

    def left_open(self, answers: Sequence[int]) -> None:
        """Show these answers as pending again, including those that were asked."""
        for answer in answers:
            self._writer.waiting(self._run.id, None, answer)

    @property
    def stopping(self) -> bool:
        """Whether no new cell may start."""
        return self._stop

    async def may_start(self) -> bool:
        """Wait while the run is paused; False when it is stopping."""
        if not self._unpaused.is_set():
            await self._unpaused.wait()
        return not self._stop

    async def may_begin(self, answer: int) -> bool:
        """Whether an answer may start; here as `may_start`."""
        return await self.may_start()

    def running(self, answer: int) -> None:
        """Show that a question has been put."""
        self._writer.running([answer], time.time())

    async def answered(
        self,
        answer: int,
        record: AnswerRecord,
        cache_key: str | None,
        target: str,
        judged: Judgement | None = None,
    ) -> bool:
        """Commit an answer with its cache entry, and with its scores if they are ready."""
        if record.text is None:
            self._demand_same_package()
        cache = (
            CacheKey(cache_key, str(RECIPE), target, self._run.key)
            if cache_key is not None and self._use_cache
            else None
        )
        if judged is not None:
            one = Settled(answer, record, judged.records, judged.status, judged.score)
            return await self._writer.settled_one(self._pass, one, cache)
        return await self._writer.answered(answer, record, "error" if record.text is None else "answered", cache=cache)

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: Status, score: float | None) -> None:
        """Commit the scores of an answer."""
        if any(record.result == "error" for record in records):
            self._demand_same_package()
        await self._writer.scored(answer, self._pass, records, status, score)

    async def settled(self, page: Sequence[Settled]) -> None:
        """Commit existing answers with their scores."""
        await self._writer.settled(self._pass, page)

    def called(self, record: CallRecord) -> None:
        """Note one attempt."""
        self._writer.call(record, self._run.id)

    def waiting(self, wait: Wait, answer: int | None) -> None:
        """Show a wait that is long, and of several that continue at once the one that ends last."""
        if wait.until - time.time() < _LONG_WAIT:
            return
        is_last = wait.until > self._wait_shown
        if is_last:
            self._wait_shown = wait.until + 1.0  # those that end with it say nothing new
        self._writer.waiting(self._run.id, wait if is_last else None, answer)

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Record changes to the requests of a target."""
        self._writer.changed(self._run.id, target, changes)

    async def cached(self, key: str) -> AnswerRecord | None:
        """The stored reply or cached answer of a key."""
        if key.startswith(REPLY):
            return self._reader.reply(self._run.id, self._pass, key)
        kept = self._reader.cache_get(key)
        return replace(kept.answer, cached_from=kept.run) if kept else None

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Keep a judge's reply."""
        if key.startswith(REPLY):
            await self._writer.reply_put(self._run.id, self._pass, key, record)
        elif self._use_cache:
            await self._writer.cache_put(CacheKey(key, str(RECIPE), target, self._run.key), record)

    async def _judge_groups(self) -> None:
        """Put the answers to one item together to the evaluators that judge groups; Unavailable where a judge is."""
        if not self._plan.judges_groups():
            return
        done = group_scores(self._reader, self._run.id, self._pass)
        judged = {(score.item, score.turn, score.record.key) for score in done}
        unavailable: Unavailable | None = None
        rows = self._reader.all_rows(self._run.id)
        for number, answers in groupby(rows, key=lambda row: row.item):
            item = self._plan.dataset.items[number]
            for turn, evidence in enumerate(self._group_evidence(item, list(answers))):
                assigned = [
                    entry
                    for entry in self._plan.evaluators(item, turn, self._judges.ask_of)
                    if entry.evaluator.scope == "group" and (number, turn, entry.key) not in judged
                ]
                questions.set(JudgeQuestions(f"item {number} turn {turn}"))
                held = self._kept.of_group(number, turn, evidence) if self._kept is not None and assigned else ()
                kept = {record.key: record for record in held}
                for entry in assigned:
                    try:
                        record = kept.get(entry.key) or await recorded(entry, evidence, self._plan.without_judges)
                    except Unavailable as problem:
                        unavailable = problem
                    else:
                        await self._writer.group_scored(self._run.id, self._pass, number, turn, record)
        if unavailable is not None:
            raise unavailable

    def _group_evidence(self, item: Item, rows: Sequence[AnswerRow]) -> Iterator[Evidence]:
        """The answers to each turn with the question: the chat of the first cell, without prompts that differ."""
        prompts = self._plan.asked_prompts
        prompt = prompts[0] if len(prompts) == 1 else PromptUnderTest()
        nothing = AnswerRecord(text=None, request={})
        records = self._reader.records(row.id for row in rows)
        by_turn: list[list[AnswerRecord]] = [[] for _ in item.units]
        for row in rows:
            by_turn[row.turn].append(records.get(row.id, nothing))
        messages = question_of(item.units[0])
        with suppress(TemplateError):  # every answer has it as its error
            messages = [*opening_of(self._plan.dataset, item, prompt)]
        for turn, (unit, answers) in enumerate(zip(item.units, by_turn, strict=True)):
            messages += question_of(unit) if turn else ()
            texts = [answer.text for answer in answers if answer.text is not None]
            yield evidence_for(self._plan, item, turn, prompt, tuple(messages), nothing, texts)
            messages += messages_of_answer(answers[0])
