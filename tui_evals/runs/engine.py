"""The engine of a run: it feeds an executor from the store, commits what comes back, and obeys the store's control."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any

from tui_evals.datasets.model import Item
from tui_evals.evaluators.base import Evidence
from tui_evals.runs.executors.base import Cell, Executor, Stopped, WaitCut
from tui_evals.runs.executors.given import GivenExecutor, asks_nobody
from tui_evals.runs.executors.local import LocalExecutor
from tui_evals.store.database import StoreError
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
from tui_evals.text.box import TemplateError

from .asking import RECIPE, REPLY, PricedTarget, close_all
from .judges import Judges
from .plan import Plan
from .prompting import PromptUnderTest, messages_of_answer, opening_of, question_of
from .scoring import JudgeQuestions, evidence_for, questions, recorded
from .status import Status
from .storing import Storing

_POLL = 0.25
_HEARTBEAT = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an execution ended: finished, or why not."""

    finished: bool
    message: str = ""
    code: StopCode = ""


STOPPED = Outcome(False, str(WaitCut()), "asked")
_LONG_WAIT = 2.0
"""Seconds from which on a wait is worth showing."""


class Engine:
    """One execution of a run; everything it knows is in the store, so another can take over where it stopped."""

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
        elsewhere: Callable[[Engine], AbstractAsyncContextManager[Executor]] | None = None,
    ) -> None:
        self._plan = plan
        self._run = run
        self._writer = writer
        self._reader = reader
        self._targets = targets
        self._storing = storing
        self._use_cache = use_cache
        self._elsewhere = elsewhere
        self._judges = Judges(judges, self, use_cache)
        self._priced_targets = (*targets, *judges.values())
        self._pass = run.staged_pass or run.scoring_pass
        self._stop = False
        self._paused = self._held = False
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self._wait_shown = 0.0
        """When the wait ends that is shown."""

    async def execute(self, *, again: bool = False) -> Outcome:
        """Ask and judge all that is pending, or judge all answers `again`; whatever ends it, the run can go on."""
        cells = self.answered_cells if again else self.cells
        since, begun_at = time.monotonic(), max(time.time(), self._run.started or 0.0)
        begun = {} if again else {"started": self._run.started or begun_at}
        before = self._run.status
        self._storing.watch(self)
        outcome = STOPPED
        watcher = asyncio.create_task(self._watch())
        try:
            owner = {"pid": os.getpid(), "host": socket.gethostname()}
            await self._writer.patient_run_status(self._run.id, "running", **owner, **begun)
            async with self._executor() as executor:
                await executor.execute({number: cells(number) for number in range(len(self._targets))})
            if not self._stop:
                await self._judge_groups()
                if again:
                    await self._writer.patient_count_pass(self._run.id)
                self._writer.drop_replies(self._run.id, self._pass)
                outcome = Outcome(True)
        except Stopped as reason:
            outcome = Outcome(False, str(reason), reason.code)
        except StoreError as problem:
            outcome = Outcome(False, str(problem), "failed")
            if not self._storing.is_in_trouble:  # else a read failed of what cannot be written, and that ends the run
                raise
        except Exception as problem:
            outcome = Outcome(False, str(problem) or type(problem).__name__, "failed")
            raise
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
            # A clock that was set back meanwhile does not count.
            now = max(time.time(), begun_at + time.monotonic() - since)
            note = partial(self._store_status, outcome, before, again, now)
            await self._storing.end(finished=outcome.finished, note=note)
            outcome = self._checked(outcome)
            await close_all(self._priced_targets)
        return outcome

    def _checked(self, outcome: Outcome) -> Outcome:
        """The outcome, unless the store is why the run had to end."""
        return Outcome(False, self._storing.reason, "store") if self._storing.is_lost else outcome

    async def _store_status(self, outcome: Outcome, before: RunStatus, again: bool, now: float) -> None:
        if self._storing.is_spilled:
            return
        outcome = self._checked(outcome)
        ended = {"finished": now} if outcome.finished and not again else {}
        finished = self._is_finished(before, outcome) if again else outcome.finished
        why = {} if finished else {"message": outcome.message, "code": outcome.code}
        status: RunStatus = "finished" if finished else "interrupted"
        await self._writer.patient_run_status(self._run.id, status, **ended, **why)

    def _is_finished(self, before: RunStatus, outcome: Outcome) -> bool:
        """Whether nothing is left to do once answers were judged again; a pass that judged none is forgotten."""
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
        return nullcontext(LocalExecutor(self._plan, self._targets, self._judges, self, self._use_cache))

    def stop(self) -> None:
        """Start nothing new; what is in flight is let finish, and what waits is not."""
        self._stop = True
        self._storing.give_up()
        self._unpaused.set()
        for priced in self._priced_targets:
            priced.room.gate.halt()

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
        """Let questions begin, or not, as things stand."""
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
            if (current := self._reader.data_version()) != version:
                version = current
                self._obey(self._reader.control(self._run.id))
            await asyncio.sleep(_POLL)

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
        """The conversations with a target as far as they are answered, to be judged again where the pass has not."""
        _, judged = self._reader.staged_pass(self._run)
        rows = (row for row in self._reader.all_rows(self._run.id) if row.target == target)
        for _, group in groupby(rows, key=lambda row: row.cell):
            answered = [row for row in group if row.status not in ("pending", "running")]
            if any(row.id not in judged for row in answered):
                known = self._stored_answers(answered)
                first, ids = answered[0], tuple(row.id for row in answered)
                yield self._make_cell(first, ids, known, frozenset(row.turn for row in answered if row.id in judged))

    def _cell(self, unfinished: list[AnswerRow]) -> Cell:
        first = unfinished[0]
        turns = len(self._plan.dataset.items[first.item].units)
        rows = unfinished
        if turns != len(unfinished):
            rows = self._reader.window(self._run.id, first.pos - first.turn, turns)
        known = self._stored_answers(rows)
        waiting = {row.turn for row in unfinished}
        final = frozenset(range(turns)) - waiting
        ids = tuple(row.id for row in rows)
        to_judge = {row.id: row.turn for row in unfinished if row.status == "answered"}
        scores = self._reader.scores_of(tuple(to_judge), self._pass) if to_judge else {}
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
        """What was answered in the turns of a conversation, by turn, where anything was."""
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
        """Show the workers as they are."""
        self._writer.workers(self._run.id, rows)

    # What follows is the Sink of the executor.

    @property
    def paused(self) -> bool:
        """Whether nothing new is to start for the time being."""
        return not self._unpaused.is_set()

    @property
    def store_wait(self) -> StoreWait | None:
        """What keeps the run from asking, where it is its store."""
        return self._storing.wait

    @property
    def stopping(self) -> bool:
        """Whether no new cell may start."""
        return self._stop

    async def may_start(self) -> bool:
        """Wait while the run is paused; False when it is stopping."""
        await self._unpaused.wait()
        return not self._stop

    async def may_begin(self, answer: int) -> bool:
        """The same for an answer; all answers start alike here."""
        return await self.may_start()

    def running(self, answer: int) -> None:
        """Show that a question has been put."""
        self._writer.running([answer], time.time())

    async def answered(self, answer: int, record: AnswerRecord, cache_key: str | None, target: str) -> bool:
        """Commit an answer, and its place in the cache with it."""
        cache = CacheKey(cache_key, str(RECIPE), target) if cache_key is not None and self._use_cache else None
        return await self._writer.answered(answer, record, "error" if record.text is None else "answered", cache=cache)

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: Status, score: float | None) -> None:
        """Commit the scores of an answer."""
        await self._writer.scored(answer, self._pass, records, status, score)

    async def settled(self, page: Sequence[Settled]) -> None:
        """Commit answers that are at hand with their scores."""
        await self._writer.settled(self._pass, page)

    def called(self, record: CallRecord) -> None:
        """Note one attempt."""
        self._writer.call(record, self._run.id)

    def waiting(self, wait: Wait, answer: int | None) -> None:
        """Show a wait that is long, and of several that go on at once the one that ends last."""
        if wait.until - time.time() < _LONG_WAIT:
            return
        is_last = wait.until > self._wait_shown
        if is_last:
            self._wait_shown = wait.until + 1.0  # those that end with it say nothing new
        self._writer.waiting(self._run.id, wait if is_last else None, answer)

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Note what is not sent as it stands."""
        self._writer.changed(self._run.id, target, changes)

    async def cached(self, key: str) -> AnswerRecord | None:
        """What is kept under a key."""
        if key.startswith(REPLY):
            return self._reader.reply(self._run.id, self._pass, key)
        kept = self._reader.cache_get(key)
        return kept.answer if kept else None

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Keep a judge's reply."""
        if key.startswith(REPLY):
            await self._writer.reply_put(self._run.id, self._pass, key, record)
        elif self._use_cache:
            await self._writer.cache_put(CacheKey(key, str(RECIPE), target), record)

    async def _judge_groups(self) -> None:
        """Put the answers to one item together to the evaluators that judge groups."""
        if not self._plan.judges_groups():
            return
        kept = self._reader.group_scores(self._run.id, self._pass)
        judged = {(score.item, score.turn, score.record.key) for score in kept}
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
                for entry in assigned:
                    record = await recorded(entry, evidence, self._plan.without_judges)
                    await self._writer.group_scored(self._run.id, self._pass, number, turn, record)

    def _group_evidence(self, item: Item, rows: Sequence[AnswerRow]) -> Iterator[Evidence]:
        """The answers to each turn with what was asked: the chat of the first cell, without prompts that differ."""
        prompts = self._plan.asked_prompts
        prompt = prompts[0] if len(prompts) == 1 else PromptUnderTest()
        nothing = AnswerRecord(text=None, request={})
        records = self._reader.records(row.id for row in rows)
        by_turn: list[list[AnswerRecord]] = [[] for _ in item.units]
        for row in rows:
            by_turn[row.turn].append(records.get(row.id, nothing))
        messages: list[Mapping[str, Any]] = []
        with suppress(TemplateError):  # every answer has it as its error
            messages = [*opening_of(self._plan.dataset, item, prompt)]
        for turn, (unit, answers) in enumerate(zip(item.units, by_turn, strict=True)):
            messages += question_of(unit)
            texts = [answer.text for answer in answers if answer.text is not None]
            yield evidence_for(self._plan, item, turn, prompt, tuple(messages), nothing, texts)
            messages += messages_of_answer(answers[0])
