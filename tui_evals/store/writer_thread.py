"""The thread that all writes of a process pass through, in batches that are committed together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.store import ledger, results
from tui_evals.store.connection import StoreLock, checkpoint_due
from tui_evals.store.database import StoreError, StoreTrouble, connect, explained, rescue
from tui_evals.store.identity import StoreProof
from tui_evals.store.spill import LASTING, Spill

_QUEUE = 1_000
_UNHURRIED = 0.003  # seconds that rows wait to share the commit of others, when no caller waits for them
_GATHERING = (0.0005, 0.002)  # seconds of waiting for more rows, the second only where the first brought some
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 5.0
_LOOK = 0.5  # seconds after which a process that commits nothing checks whether the file is still the store

Tell = Callable[[StoreTrouble | None], None]
"""Called in the writing thread when a new trouble prevents writing, and with None once it is over."""
_log = logging.getLogger(__name__)


def run_steps(connection: sqlite3.Connection, rows: Sequence[Callable[[sqlite3.Connection], Any]]) -> list[Any]:
    """Run the housekeeping functions of a batch one after another."""
    return [row(connection) for row in rows]


# An answer that starts and ends in one batch must be seen running first; what must come last is last.
_BATCH_ORDER: tuple[results.Kind, ...] = (
    results.running,
    results.waiting,
    results.answered,
    results.cached,
    results.scored,
    results.group_scored,
    results.called,
    results.called_in_battle,
    results.changed,
    results.reserved,
    results.replied,
    results.fought,
    results.battled,
    results.beaten,
    results.progressed,
    results.heard,
)


@dataclass(slots=True)
class _Together:
    """Waits for many rows at once: done when all are committed, or with the first error."""

    future: asyncio.Future[Any]
    left: int
    problem: BaseException | None = None

    def settle(self, outcome: Any) -> bool:
        """Count one written row and keep its error; True once it was the last."""
        self.left -= 1
        if self.problem is None and isinstance(outcome, BaseException):
            self.problem = outcome
        return not self.left


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: results.Kind
    row: Any
    waiter: asyncio.Future[Any] | Future[Any] | _Together | None = None


class WriterThread:
    """Takes rows from any thread or event loop and replies when they are committed.

    Paid rows that cannot be written are kept, and retried with the next ones. A patient thread retries by itself, and
    callers keep waiting for their commit.
    """

    def __init__(self, path: Path, durable: bool = False) -> None:
        self._path = path = path.absolute()
        self._connection = connect(path, write=True, durable=durable)
        self._lock = StoreLock(path)
        self._proof = StoreProof(self._connection, path, self._lock)
        self._queue: deque[_Entry] = deque()
        self._mutex = threading.Lock()
        self._wake = threading.Condition(self._mutex)
        self._awaited = self._urgent = self._is_told_of_rows = False
        self._closed = False
        self._checkpointed = 0.0
        self._outside: deque[asyncio.Future[None]] = deque()
        self._kept: list[_Entry] = []
        self._in_log: list[tuple[results.Kind, Any]] = []
        self._trouble: StoreTrouble | None = None
        self._pause = _FIRST_PAUSE
        self._tell: Tell | None = None
        self._spill: Spill | None = None
        self._is_told = False
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def kept(self) -> int:
        """How many rows wait to be tried again because their transaction failed."""
        return len(self._kept)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the file that is written into is not the store at its path any more."""
        return self._proof.is_moved or self._proof.trouble is not None

    def be_patient(self, tell: Tell) -> None:
        """From now on, retry what cannot be written, until that works or it goes into a file."""
        with self._wake:
            self._tell, self._spill, self._is_told = tell, None, False
            self._wake.notify()  # from now on, the thread checks the file while it is idle

    def spill(self, spill: Spill) -> None:
        """Write kept rows, and everything paid for from now on, into a file instead of the store."""
        with self._wake:
            self._spill = spill
            self._awaited = True
            self._wake.notify()

    def put(self, kind: results.Kind, row: Any) -> None:
        """Queue a row without waiting; it is committed no later than any row queued after it."""
        self._add(_Entry(kind, row))

    def call(self, function: Callable[[sqlite3.Connection], Any]) -> Any:
        """Do some housekeeping now, in the transaction of the rows queued before; returns its result.

        It is never retried: StoreError tells at once that it failed.
        """
        waiter: Future[Any] = Future()
        self._add(_Entry(run_steps, function, waiter))
        return waiter.result()

    async def wait(self, kind: results.Kind, row: Any, *, hurried: bool = True) -> Any:
        """Queue a row and wait until it is committed; waits first if the queue is full.

        A row that is not `hurried` is committed with the next others, or after a moment.
        """
        loop = asyncio.get_running_loop()
        while room := self._room(loop):
            try:
                await room
            except asyncio.CancelledError:
                self._let_in()  # the next in the queue may have this place
                raise
        waiter = loop.create_future()
        self._add(_Entry(kind, row, waiter), hurried=hurried)
        return await waiter

    async def wait_for_all(self, rows: Sequence[tuple[results.Kind, Any]]) -> None:
        """Hand over many rows, which share a transaction, and wait until they are committed."""
        if rows:
            waiter = _Together(asyncio.get_running_loop().create_future(), len(rows))
            self._add(*(_Entry(kind, row, waiter) for kind, row in rows))
            await waiter.future

    async def wait_in_order(self, kind: results.Kind, row: Any) -> Any:
        """Queue a row at once, even if the queue is full, and wait until it is committed.

        For rows that later ones must not overtake.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._add(_Entry(kind, row, waiter))
        return await waiter

    def write_again(self, name: str) -> Path:
        """Write all that is committed to the path of a store that was deleted or replaced; says where it is."""
        return rescue(self._connection, self._path, name)

    def leave(self) -> None:
        """Close the connection to an overwritten store, which is not written any more."""
        if self._is_overwritten:
            self._proof.close()

    def close(self) -> None:
        """Commit what is queued and end the thread; raises StoreError if rows are left that cannot be written."""
        if self._closed:
            return
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()
        self._proof.close()
        self._lock.close()
        if self._kept and self._trouble is not None:
            raise StoreError(str(self._trouble))

    def _room(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any] | None:
        """None while the queue takes more rows, else a future to wait for before asking again."""
        if len(self._queue) < _QUEUE:
            return None
        with self._wake:
            if len(self._queue) < _QUEUE:
                return None
            self._outside.append(loop.create_future())
            return self._outside[-1]

    def _add(self, entry: _Entry, *more: _Entry, hurried: bool = True) -> None:
        with self._mutex:
            if self._closed:
                raise StoreError(
                    f"the writer of {self._path} is closed already; nothing more can be stored through it."
                )
            is_urgent = isinstance(entry.waiter, Future)
            is_awaited = entry.waiter is not None and hurried
            # A call is followed by its answer or a wait; without these the thread notices it when it checks the file.
            is_news = entry.kind is not results.called or self._tell is None
            tells = is_urgent or (is_awaited and not self._awaited) or (is_news and not self._is_told_of_rows)
            self._queue.append(entry)
            self._queue.extend(more)
            self._awaited |= is_awaited
            self._urgent |= is_urgent
            if tells:
                self._is_told_of_rows = True
                self._wake.notify()

    def _work(self) -> None:
        while True:
            batch, is_last = self._batch()
            if batch or self._spill is not None or (self._tell is not None and self._proof.seems_changed):
                self._commit(batch)
            if is_last:
                return

    def _batch(self) -> tuple[list[_Entry], bool]:
        """The next batch: rows that could not be written, then those queued meanwhile; and whether it is the last.

        A call keeps its place until then.
        """
        with self._wake:
            if self._kept and self._tell is not None and self._spill is None:
                self._wake.wait_for(lambda: self._closed or self._urgent or self._spill is not None, self._pause)
            else:
                while not (self._awaited or self._closed):
                    longest = _UNHURRIED if self._queue else None if self._tell is None else _LOOK
                    if not self._wake.wait(longest):
                        break
                self._gather()
            batch = [*self._kept, *self._queue]
            self._kept.clear()
            self._queue.clear()
            self._awaited = self._urgent = self._is_told_of_rows = False
            return batch, self._closed

    def _gather(self) -> None:
        """Wait for more rows while they keep arriving, because a commit costs as much as ten of them."""
        for pause in _GATHERING:
            gathered = len(self._queue)
            if self._closed or self._urgent:
                return
            self._wake.wait(pause)
            if len(self._queue) == gathered:
                return

    def _commit(self, batch: list[_Entry]) -> None:
        if self._spill is not None:
            batch = self._spilled(batch, self._spill)
            if not batch:
                return
        try:
            outcomes = self._transaction(batch)
        except Exception as problem:
            error = self._reason(problem) if isinstance(problem, sqlite3.Error | OSError) else problem
            if isinstance(error, StoreTrouble):
                self._keep(batch, error)
            elif len(batch) != 1:  # one bad row must not fail the others or end the thread
                for entry in batch:
                    self._commit([entry])
            else:
                if batch[0].waiter is None:
                    _log.error("a row was not stored: %s", problem)
                self._settle([(batch[0], problem)])
        else:
            self._settle(list(zip(batch, outcomes, strict=True)))
            self._note(None)

    def _reason(self, problem: sqlite3.Error | OSError) -> StoreError:
        """Why a transaction failed; the file may have been overwritten since it was looked at."""
        try:
            with self._lock.held("looking at the store"):
                self._proof.check_file()
        except StoreTrouble as trouble:
            return trouble
        except (sqlite3.Error, OSError):
            pass  # the first problem says more
        return explained(problem, self._path)

    def _keep(self, batch: list[_Entry], trouble: StoreTrouble) -> None:
        """Keep what can be tried again, and tell callers that do not wait for that."""
        is_patient = self._tell is not None and self._spill is None
        kept, told = [], []
        for entry in batch:
            if entry.waiter is None or (is_patient and not isinstance(entry.waiter, Future)):
                kept.append(entry)
                continue
            told.append((entry, StoreError(str(trouble))))
            if entry.kind in LASTING:
                kept.append(replace(entry, waiter=None))
        with self._wake:
            self._kept += kept
        if kept or self._proof.trouble is not None:
            self._note(trouble)
        self._settle(told)

    def _note(self, trouble: StoreTrouble | None) -> None:
        """Store the current trouble, and report it if it is new."""
        before, self._trouble = self._trouble, trouble
        self._pause = _FIRST_PAUSE if trouble is None else min(2 * self._pause, _LONGEST_PAUSE)
        is_new = (before and (before.code, before.cause)) != (trouble and (trouble.code, trouble.cause))
        if is_new and self._tell is not None:
            self._tell(trouble)

    def _spilled(self, batch: list[_Entry], spill: Spill) -> list[_Entry]:
        """Write paid rows into a file; returns the housekeeping, which is still tried."""
        lasting = [entry for entry in batch if entry.kind in LASTING]
        in_log, self._in_log = self._in_log, []
        rows = [(entry.kind, entry.row) for entry in lasting]
        try:
            spill.add([*in_log, *rows] if self._is_overwritten else rows)
        except OSError as problem:
            error = explained(problem, self._path)
            self._settle([(entry, StoreError(str(error))) for entry in lasting])
        else:
            self._settle([(entry, entry.kind is results.answered or None) for entry in lasting])
        finally:
            spill.written.set()
        # A call whose money cannot be set aside in the store must not go out.
        waiting = [entry for entry in batch if entry.kind is results.reserved]
        self._settle(
            [(entry, StoreError(f"{self._path} takes nothing, so nothing more is asked.")) for entry in waiting]
        )
        return [entry for entry in batch if entry.kind is run_steps]

    def _transaction(self, batch: list[_Entry]) -> list[Any]:
        connection = self._connection
        outcomes: list[Any] = [None] * len(batch)
        places: dict[results.Kind, list[int]] = {}
        for place, entry in enumerate(batch):
            places.setdefault(entry.kind, []).append(place)
        with self._lock.held("writing results"):
            self._proof.check_file()
            if self._proof.is_moved:
                self._note_moved()
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._proof.check_rows()
                with ledger.following(connection, results.touched((entry.kind, entry.row) for entry in batch)):
                    for kind in _BATCH_ORDER:
                        self._write(kind, places.pop(kind, ()), batch, outcomes)
                # Steps keep the ledger themselves.
                self._write(run_steps, places.pop(run_steps, ()), batch, outcomes)
                highest = self._proof.highest()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._proof.noted(highest)
            self._keep_until_moved(batch)
        return outcomes

    def _write(self, kind: results.Kind, places: Sequence[int], batch: Sequence[_Entry], outcomes: list[Any]) -> None:
        """Write the rows of one kind in a batch, at these places, and store their outcomes."""
        if places:
            done = kind(self._connection, [batch[place].row for place in places])
            for place, outcome in zip(places, done, strict=True):
                outcomes[place] = outcome

    def _keep_until_moved(self, batch: list[_Entry]) -> None:
        """Keep committed rows while they are only in the log, which is worthless without its file."""
        if self._tell is not None:
            self._in_log += [(entry.kind, entry.row) for entry in batch if entry.kind in LASTING]
        if checkpoint_due(self._path, self._checkpointed):
            self._checkpointed = time.monotonic()
            if self._proof.empty_log():
                self._in_log.clear()

    @property
    def _is_overwritten(self) -> bool:
        return self._proof.trouble is not None and self._proof.trouble.code == "overwritten"

    def _note_moved(self) -> None:
        """Report once that the store was deleted or replaced; raises it if there is no `tell`."""
        trouble = StoreTrouble(f"{self._path} was deleted, or another file was put in its place", "moved")
        if self._tell is None:
            raise trouble
        if not self._is_told:
            self._is_told = True
            self._tell(trouble)

    def _settle(self, outcomes: list[tuple[_Entry, Any]]) -> None:
        """Notify waiting callers, with one message per event loop and batch, because each wakes the loop."""
        loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
        for entry, outcome in outcomes:
            if isinstance(entry.waiter, Future):
                _resolve(entry.waiter, outcome)
            elif isinstance(entry.waiter, _Together):
                if entry.waiter.settle(outcome):
                    future = entry.waiter.future
                    loops.setdefault(future.get_loop(), []).append((future, entry.waiter.problem))
            elif entry.waiter is not None:
                loops.setdefault(entry.waiter.get_loop(), []).append((entry.waiter, outcome))
        for room in self._next_in():
            loops.setdefault(room.get_loop(), []).append((room, None))
        for loop, waiting in loops.items():
            with contextlib.suppress(RuntimeError):  # the loop has ended, so no caller waits
                loop.call_soon_threadsafe(_resume, waiting)

    def _next_in(self) -> list[asyncio.Future[None]]:
        """The waiting writers there is room for now; more of them would only wait again."""
        admitted: list[asyncio.Future[None]] = []
        with self._wake:
            while self._outside and len(admitted) < _QUEUE - len(self._queue):
                room = self._outside.popleft()
                if not room.done():
                    admitted.append(room)
        return admitted

    def _let_in(self) -> None:
        """Wake the waiting writers there is room for."""
        for room in self._next_in():
            with contextlib.suppress(RuntimeError):  # its loop has ended, so no caller waits
                room.get_loop().call_soon_threadsafe(_resume, [(room, None)])


def _resume(waiting: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for waiter, outcome in waiting:
        if not waiter.done():
            _resolve(waiter, outcome)


def _resolve(waiter: asyncio.Future[Any] | Future[Any], outcome: Any) -> None:
    if isinstance(outcome, BaseException):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)
