"""Writes everything into the store, for any thread or event loop, without secrets."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tui_evals.provenance.chain import Kind
from tui_evals.store.connection import alive, run_lock
from tui_evals.store.writer_thread import Tell, WriterThread, run_steps
from tui_evals.text.safe import redacted, spellings, without

from . import chains, housekeeping, results
from .database import StoreError, connect, explained
from .records import (
    AnswerRecord,
    AnswerRow,
    AnswerStatus,
    CallRecord,
    CheckedGate,
    Control,
    NewRun,
    PlannedAnswer,
    RunRow,
    RunStatus,
    ScoreRecord,
    Settled,
    Wait,
    WorkerRow,
)
from .results import CacheKey
from .rows import (
    body_of,
    call_values,
    cleaned,
    dumps,
    ending_of,
    gates_text,
    plain,
    preview,
    score_values,
    worker_values,
)
from .spill import Spill, cache_orphaned, claimed, forget_spilled, orphaned_files, spilled_files, store_spilled


def snapshot_hash(document: Mapping[str, Any]) -> str:
    """The hash of a document, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Writer:
    """The writer of a process. Methods that wait do so until the commit; `secrets` are removed from texts.

    Commits of a `durable` writer also survive a power cut, not only the end of the process.
    """

    def __init__(self, path: Path, secrets: Iterable[str] = (), *, durable: bool = False) -> None:
        self._path = path
        self._secrets = tuple(secrets)
        self._spellings = spellings(self._secrets)
        self._names: dict[str, str] = {}
        self._thread = WriterThread(path, durable)

    # -- runs

    def plan(self, new: NewRun, answers: Iterable[PlannedAnswer]) -> RunRow:
        """Insert every cell as pending; the run is invisible before the last one is in."""
        for lost in self._thread.call(housekeeping.abandoned):
            self._delete(lost)
        new = replace(
            new,
            name=self.clean(new.name),
            source=self.clean(new.source),
            targets=tuple(map(self.clean, new.targets)),
        )
        run: int = self._thread.call(partial(housekeeping.begin, new=new, config=self._guarded(dumps(new.config))))
        total, waiting = 0, iter(answers)
        try:
            while page := list(islice(waiting, housekeeping.PLANNED_TOGETHER)):
                self._thread.call(partial(housekeeping.add_planned, run=run, start=total, answers=page))
                total += len(page)
        except BaseException:
            self._delete(run)
            raise
        row: RunRow = self._thread.call(partial(housekeeping.complete, run=run, total=total))
        return row

    def snapshot(self, document: Mapping[str, Any], name: str) -> str:
        """Store a dataset document in its current state; returns the hash of its content."""
        written = dumps(document)
        text = cleaned(written, self.clean)
        digest = snapshot_hash(document if text is written else json.loads(text))
        self.write("INSERT OR IGNORE INTO snapshots VALUES (?,?,?,?)", digest, name, text, time.time())
        return digest

    def run_status(self, run: int, status: RunStatus, **fields: Any) -> None:
        """Set the status of a run, and with it started, finished, pid, host, control, or why it stopped."""
        self._thread.call(self.status_step(run, status, **fields))

    def progress(self, step: Callable[[sqlite3.Connection], None]) -> None:
        """Queue progress without waiting for its commit; it is dropped while the store is not writable."""
        self._thread.put(results.progressed, step)

    async def commit_step(self, step: Callable[[sqlite3.Connection], Any]) -> None:
        """Commit a step of housekeeping; a patient writer retries until the store is writable."""
        await self._thread.wait(run_steps, step)

    def run_goes(self, run: int, status: RunStatus) -> None:
        """Set the status of a running run without waiting for the commit."""
        self._thread.put(run_steps, self.status_step(run, status))

    def status_step(self, run: int, status: RunStatus, **fields: Any) -> Callable[..., None]:
        """The step that sets the status of a run, and what `run_status` sets with it."""
        guarded = {"message": plain(self._guarded(fields["message"]))} if "message" in fields else {}
        return partial(housekeeping.update_run, run=run, values={"status": status, **fields, **guarded})

    def run_config(self, run: int, config: Mapping[str, Any]) -> None:
        """Change on what terms a run continues."""
        self._update(run, {"config": self._guarded(dumps(config))})

    def control(self, run: int, word: Control) -> None:
        """Ask the process of a run to pause or stop; an empty word lets it continue."""
        self._update(run, {"control": word})

    def gates_step(self, run: int, gates: Sequence[CheckedGate], verdict: str) -> Callable[..., None]:
        """The step that stores the checked gates of a run and the sentence over them."""
        guard = self._guarded
        guarded = [
            replace(gate, sentence=guard(gate.sentence), column=guard(gate.column), note=guard(gate.note))
            for gate in gates
        ]
        values = {"verdict": plain(self._guarded(verdict)), "gates": gates_text(guarded)}
        return partial(housekeeping.update_run, run=run, values=values)

    def heartbeat(self, run: int) -> None:
        """Store that the run is alive; does not wait."""
        now = time.time()
        self._thread.put(results.beaten, (now, run))

    def edit(
        self, run: int, *, name: str | None = None, tags: Sequence[str] | None = None, note: str | None = None
    ) -> None:
        """Rename a run, set its tags, or set its note."""
        given = {"name": name, "tags": None if tags is None else dumps(tags), "note": note}
        values = {key: self.clean(value) for key, value in given.items() if value is not None}
        if values:
            self._update(run, values)

    def begin_pass(self, run: int, config: Mapping[str, Any], answers: Collection[int] | None = None) -> int:
        """Begin one more scoring of a run, or only of some answers; the earlier one counts until `count_pass`."""
        step = partial(housekeeping.begin_pass, run=run, config=self._guarded(dumps(config)), answers=answers)
        number: int = self._thread.call(step)
        return number

    def count_pass(self, run: int) -> None:
        """Make the complete staged pass the current one; scores of earlier passes stay."""
        self._thread.call(partial(housekeeping.count_pass, run=run))

    def drop_pass(self, run: int) -> None:
        """Forget the scoring that was begun."""
        self._thread.call(partial(housekeeping.drop_pass, run=run))

    def reopen_errors(self, run: int) -> int:
        """Make errors of the run pending again; returns how many."""
        count: int = self._thread.call(partial(housekeeping.reopen_errors, run=run))
        return count

    async def rejudge(
        self,
        before: AnswerRow,
        number: int,
        scores: Sequence[ScoreRecord],
        status: AnswerStatus,
        score: float | None,
        expected: Mapping[str, Any] | None,
    ) -> bool:
        """Replace the scores of one answer in a pass; False if the answer or its run changed meanwhile.

        Waits while the store is not writable. `expected` is what it was judged by, if that differs from its run.
        """
        values = [self._score(record) for record in scores]
        by = "null" if expected is None else cleaned(dumps(expected), self.clean)
        step = partial(
            housekeeping.rejudge,
            before=before,
            number=number,
            scores=values,
            status=status,
            score=score,
            expected=by,
        )
        done: bool = await self._thread.wait(run_steps, step)
        return done

    def sign(self, run: int, kind: Kind, *, again: bool = False, about: Mapping[str, Any] | None = None) -> None:
        """Sign the result of a run; after judging `again`, what that may have changed."""
        for _ in range(_ATTEMPTS):
            self.flush()
            try:
                with contextlib.closing(connect(self._path)) as connection:
                    prepared = chains.prepare_end(connection, run, again=again)
            except sqlite3.Error as problem:
                raise explained(problem, self._path) from problem
            if self._thread.call(partial(chains.end, run=run, prepared=prepared, kind=kind, about=about or {})):
                return
        raise StoreError(f"run number {run} changed each time it was about to be signed.")

    def delete_run(self, run: RunRow, why: Literal["deletion", "prune"] = "deletion") -> None:
        """Delete a run that no process executes and that is no baseline, with everything that belongs only to it."""
        if (source := self._thread.call(partial(housekeeping.measures, run=run.id))) is not None:
            raise StoreError(
                f"run {run.key} is the baseline of {source}. `tui-evals baseline set RUN` or "
                f"`tui-evals baseline clear {run.key}` first."
            )
        lock = run_lock(self._path, run.key)
        if alive(lock):
            raise StoreError(f"run {run.key} is being executed. Stop it with `tui-evals stop {run.key}` first.")
        self._delete(run.id, why)
        for file in (lock, *spilled_files(self._path, run.key)):
            file.unlink(missing_ok=True)

    # -- results

    def running(self, answers: Iterable[int], at: float) -> None:
        """Mark answers as running since a time; does not wait."""
        for answer in answers:
            self._thread.put(results.running, (answer, at))

    def waiting(self, run: int, wait: Wait | None, answer: int | None) -> None:
        """Store that a run waits and that an answer is not in flight meanwhile; does not wait."""
        text = "" if wait is None else dumps(asdict(replace(wait, target=self.clean(wait.target))))
        self._thread.put(results.waiting, (run, answer, text))

    async def answered(
        self,
        answer: int,
        record: AnswerRecord,
        status: Literal["answered", "error"],
        *,
        cache: CacheKey | None = None,
    ) -> bool:
        """Commit an answer, and keep it in the cache; False if another was committed before, which then stays."""
        row = self._answered(answer, record, status, cache)
        first: bool = await self._thread.wait(results.answered, row)
        return first

    async def scored(
        self, answer: int, number: int, scores: Sequence[ScoreRecord], status: AnswerStatus, score: float | None
    ) -> None:
        """Commit the scores of a pass for an answer."""
        values = tuple(self._score(record) for record in scores)
        row = results.Scored(answer, number, values, status, score)
        # No call waits for this one, so scores share the commit of the next answers.
        await self._thread.wait(results.scored, row, hurried=False)

    async def settled(self, number: int, page: Sequence[Settled]) -> None:
        """Commit existing answers with their scores of a pass, many in one transaction."""
        await self._thread.wait_for_all([self._settled(number, one, None) for one in page])

    async def settled_one(self, number: int, one: Settled, cache: CacheKey | None) -> bool:
        """Commit an answer with its scores of a pass, like `answered`."""
        first: bool = await self._thread.wait(*self._settled(number, one, cache))
        return first

    def _settled(self, number: int, one: Settled, cache: CacheKey | None) -> tuple[results.Kind, Any]:
        scored = None
        if one.scores is not None:
            values = tuple(map(self._score, one.scores))
            scored = results.Scored(one.answer, number, values, one.status, one.score)
        if one.record is None:
            return results.scored, scored
        unjudged = "error" if one.record.text is None else "answered"
        status = scored.status if scored else unjudged
        return results.answered, self._answered(one.answer, one.record, status, cache, scored)

    async def group_scored(self, run: int, number: int, item: int, turn: int, record: ScoreRecord) -> None:
        """Commit one record for all answers to a turn of an item."""
        await self._thread.wait(results.group_scored, (run, number, item, turn, *self._score(record)))

    def call(self, call: CallRecord, run: int) -> None:
        """Log an attempt; does not wait."""
        self._thread.put(results.called, self._call_row(call, run))

    def battle_call(self, call: CallRecord, run: int, battle: Sequence[object]) -> None:
        """Log an attempt, and add its cost to the battle that it belongs to; does not wait."""
        self._thread.put(results.called_in_battle, (self._call_row(call, run), battle))

    def _call_row(self, call: CallRecord, run: int) -> tuple[Any, ...]:
        if call.message is not None:
            call = replace(call, message=self._guarded(call.message))
        if (target := self._clean_name(call.target)) is not call.target:
            call = replace(call, target=target)
        return (run, *call_values(call))

    def changed(self, run: int, target: str, changes: Sequence[str]) -> None:
        """Store how requests to a target were changed, each change once; does not wait."""
        self._thread.put(results.changed, (run, self.clean(target), [self._guarded(change) for change in changes]))

    async def secure(self, run: int, amount: float) -> None:
        """Commit what calls of a run may cost that are out or about to go out."""
        await self._thread.wait_in_order(results.reserved, (run, amount))

    def reserved(self, run: int, amount: float) -> None:
        """Update the reserved amount after a call was recorded; does not wait."""
        self._thread.put(results.reserved, (run, amount))

    def workers(self, run: int, rows: Sequence[WorkerRow]) -> None:
        """Update these workers of a run and leave the others; does not wait."""
        values = [worker_values(replace(row, name=self.clean(plain(row.name)))) for row in rows]
        if values:
            self._thread.put(results.heard, (run, values))

    async def cache_put(self, key: CacheKey, record: AnswerRecord) -> None:
        """Cache an answer outside of a cell, such as a judge's, for the next equal question."""
        row = self._answered(0, record, "answered", key)
        await self._thread.wait(results.cached, (row.cache, row.body, row.now))

    async def reply_put(self, run: int, number: int, key: str, record: AnswerRecord) -> None:
        """Store a judge's reply in a scoring pass of a run, until the pass is complete."""
        body = self._answered(0, record, "answered", None).body
        await self._thread.wait(results.replied, (run, number, key, body))

    def drop_replies(self, run: int, number: int) -> None:
        """Forget what judges said in a scoring pass, because its scores are all there."""
        self.write("DELETE FROM replies WHERE run = ? AND pass = ?", run, number)

    # -- people

    def label(
        self,
        answer: int,
        verdict: Literal["pass", "fail"] | None,
        author: str,
        *,
        evaluator: str | None = None,
        note: str = "",
        blind: bool = False,
    ) -> None:
        """Set an author's verdict on an answer, or on what one evaluator made of it; None takes it back."""
        note = self.clean(note)
        step = partial(
            housekeeping.label,
            answer=answer,
            evaluator=evaluator,
            verdict=verdict,
            author=author,
            note=note,
            blind=blind,
        )
        self._thread.call(step)

    def label_each(
        self, answers: Sequence[int], verdict: Literal["pass", "fail"] | None, author: str, note: str
    ) -> None:
        """Set an author's verdict on each of some answers, in one step; None takes them back."""
        step = partial(housekeeping.label_each, answers=answers, verdict=verdict, author=author, note=self.clean(note))
        self._thread.call(step)

    def draft_put(self, file: str, digest: str, data: str) -> None:
        """Keep unsaved edits of a file."""
        self.write(_PUT_DRAFT, file, digest, data, time.time())

    def draft_drop(self, file: str) -> None:
        """Forget the unsaved edits of a file, and give back what keeping them took, which for a large one is much."""
        self._thread.call(partial(_drop_draft, file=file))
        self.write("PRAGMA shrink_memory")  # uncommitted memory cannot be freed

    def session_put(self, key: str, value: object) -> None:
        """Remember a plain value for the next time the workbench opens."""
        self.write("INSERT OR REPLACE INTO session VALUES (?,?)", key, dumps(value))

    def cache_clear(self) -> int:
        """Forget every cached answer; returns how many there were."""
        count: int = self._thread.call(housekeeping.clear_cache)
        return count

    # -- the thread

    @property
    def kept(self) -> int:
        """How many rows could not be written, and are tried again with the next one."""
        return self._thread.kept

    def be_patient(self, tell: Tell) -> None:
        """Keep rows that cannot be written, let callers wait, and retry; `tell` gets each change of the trouble."""
        self._thread.be_patient(tell)

    def spill(self, run: RunRow) -> Spill:
        """Write kept and later rows into a file, because the store does not take them."""
        spill = Spill(self._path, run)
        self._thread.spill(spill)
        return spill

    async def take_spilled(self, run: RunRow) -> int:
        """Store what earlier executions of a run put into files, and remove those; returns how many answers it was.

        What is in files of runs that the store does not know, because it was overwritten, goes into the cache.
        """
        count = 0
        for file in spilled_files(self._path, run.key):
            with claimed(file) as is_ours:
                if is_ours:
                    count += await self._thread.wait(run_steps, partial(store_spilled, file=file, run=run))
                    self._remove_spilled(file)
        for file in orphaned_files(self._path):
            with claimed(file) as is_ours:
                if is_ours and await self._thread.wait(run_steps, partial(cache_orphaned, file=file)):
                    self._remove_spilled(file)
        return count

    def _remove_spilled(self, file: Path) -> None:
        file.unlink()
        self._thread.put(run_steps, partial(forget_spilled, file=file))

    @property
    def is_elsewhere(self) -> bool:
        """Whether the store was deleted or replaced since it was opened here."""
        return self._thread.is_elsewhere

    def write_again(self, name: str) -> Path:
        """Write all of a store that was deleted or replaced to its place, or next to it; returns where."""
        return self._thread.write_again(name)

    def leave(self) -> None:
        """Close a store that was overwritten, so that it can be opened again; this writer cannot write any more."""
        self._thread.leave()

    def flush(self) -> None:
        """Wait until everything handed over is committed."""
        self._thread.call(lambda _: None)

    def close(self) -> None:
        """Commit what is queued and close."""
        self._thread.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def commit(self, kind: results.Kind, row: Sequence[object]) -> None:
        """Commit one row, for the modules of the store; waits while the store is not writable."""
        await self._thread.wait(kind, row)

    def write(self, statement: str, *values: object) -> None:
        """Commit one statement, for the modules of the store; the caller cleans texts."""
        self._thread.call(partial(_execute, statement=statement, values=values))

    def _update(self, run: int, values: Mapping[str, Any]) -> None:
        self._thread.call(partial(housekeeping.update_run, run=run, values=values))

    def _delete(self, run: int, why: Literal["deletion", "prune"] = "deletion") -> None:
        while self._thread.call(partial(housekeeping.delete_some, run=run, why=why)):
            pass

    def _answered(
        self,
        answer: int,
        record: AnswerRecord,
        status: str,
        cache: CacheKey | None,
        scored: results.Scored | None = None,
    ) -> results.Answered:
        request, text, rest = body_of(record)
        whole = "\n".join((request, rest, text or ""))
        is_plain = text is record.text and record.message is None and record.traceback is None
        if is_plain and self.clean(whole) is whole:
            body = request, text, rest  # one look instead of one at each text: nearly all hold no secret
        else:
            record, body = self._clean_answer(record)
        values = (
            status,
            record.input_tokens,
            record.output_tokens,
            record.cost,
            record.latency_ms,
            record.attempts,
            record.from_cache,
            record.scripted,
            record.code,
            preview(record),
            (ending := ending_of(record)) and self.clean(ending),
            record.cached_tokens,
            record.reasoning_tokens,
        )
        if cache is not None and (recipe := self._clean_name(cache.recipe)) is not cache.recipe:
            cache = replace(cache, recipe=recipe)
        return results.Answered(answer, values, body, cache, time.time(), scored)

    def _clean_answer(self, record: AnswerRecord) -> tuple[AnswerRecord, tuple[str, str | None, str]]:
        """An answer and its body without secrets."""
        # Cleaned whole, because the preview might cut a secret into a part that is not recognized.
        text, message, traceback = record.text, record.message, record.traceback
        record = replace(
            record,
            text=None if text is None else self.clean(text),
            message=None if message is None else self._guarded(message),
            traceback=None if traceback is None else self._guarded(traceback),
        )
        request, text, rest = body_of(record)
        return record, (cleaned(request, self.clean), text, cleaned(rest, self.clean))

    def _score(self, record: ScoreRecord) -> tuple[Any, ...]:
        if isinstance(raised := record.details.get("traceback"), str):  # source lines may contain a key
            record = replace(record, details={**record.details, "traceback": self._guarded(raised)})
        values = score_values(record)
        whole = "\n".join([value for value in values if isinstance(value, str)])
        if self.clean(whole) is whole:  # one look instead of one at each text: nearly all hold no secret
            return values
        *texts, details, weight, measure, origin = values
        known = (self.clean(value) if isinstance(value, str) else value for value in texts)
        return (*known, cleaned(details, self.clean), weight, self.clean(measure), origin)

    def _clean_name(self, name: str) -> str:
        """A name that many rows have, without secrets."""
        if (known := self._names.get(name)) is None:
            known = self._names[name] = self.clean(name)
        return known

    def clean(self, text: str) -> str:
        """The text without known secrets."""
        return without(text, self._spellings)

    def _guarded(self, text: str) -> str:
        """The text without known secrets, and without anything in the form of one."""
        return redacted(text, self._secrets)


_ATTEMPTS = 5
"""How often a run is stated again that changes at the same time."""
_PUT_DRAFT = "INSERT OR REPLACE INTO drafts VALUES (?,?,?,?)"


def _drop_draft(connection: sqlite3.Connection, *, file: str) -> None:
    connection.execute(_PUT_DRAFT, [file, "", "", 0.0])  # because a statement keeps its last bound values
    connection.execute("DELETE FROM drafts WHERE file = ?", [file])


def _execute(connection: sqlite3.Connection, statement: str, values: Sequence[object]) -> None:
    connection.execute(statement, values)
