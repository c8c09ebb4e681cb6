"""The thread that all writes of a process pass through, in batches that are committed together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from . import results
from .database import StoreError, StoreLock, checkpoint, connect, explained

_QUEUE = 1_000
_UNAWAITED = 0.045  # seconds that rows nobody waits for may lie, so that they share the commit of others

Kind = Callable[[sqlite3.Connection, Sequence[Any]], Sequence[Any]]
_log = logging.getLogger(__name__)


def run_steps(connection: sqlite3.Connection, rows: Sequence[Callable[[sqlite3.Connection], Any]]) -> list[Any]:
    """Run the housekeeping functions of a batch one after another."""
    return [row(connection) for row in rows]


# An answer that is asked for and given in one batch must be seen running first; what has to come last stands last.
_BATCH_ORDER: tuple[Kind, ...] = (
    results.running,
    results.waiting,
    results.answered,
    results.cached,
    results.scored,
    results.group_scored,
    results.called,
    results.beaten,
    results.heard,
    run_steps,
)


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: Kind
    row: Any
    waiter: asyncio.Future[Any] | Future[Any] | None = None


class WriterThread:
    """Takes rows from any thread or event loop and answers when they are committed."""

    def __init__(self, path: Path, durable: bool = False) -> None:
        self._path = path
        self._connection = connect(path, write=True, durable=durable)
        self._lock = StoreLock(path)
        self._queue: deque[_Entry] = deque()
        self._wake = threading.Condition(threading.Lock())
        self._awaited = False
        self._closed = False
        self._checkpointed = 0.0
        self._outside: deque[asyncio.Future[None]] = deque()
        self._kept: list[_Entry] = []
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def kept(self) -> int:
        """How many rows wait to be tried again because their transaction failed."""
        return len(self._kept)

    def put(self, kind: Kind, row: Any) -> None:
        """Hand over a row without waiting; it is committed no later than whatever is handed over after it."""
        self._add(_Entry(kind, row))

    def call(self, function: Callable[[sqlite3.Connection], Any]) -> Any:
        """Do some housekeeping now, in the transaction of what was handed over before; returns its result."""
        waiter: Future[Any] = Future()
        self._add(_Entry(run_steps, function, waiter))
        return waiter.result()

    async def wait(self, kind: Kind, row: Any) -> Any:
        """Hand over a row and wait until it is committed; while the queue is full, wait before that too."""
        loop = asyncio.get_running_loop()
        while room := self._room(loop):
            try:
                await room
            except asyncio.CancelledError:
                self._let_in()  # whoever stands behind may have this one's place
                raise
        waiter = loop.create_future()
        self._add(_Entry(kind, row, waiter))
        return await waiter

    def retry(self) -> None:
        """Write what failed once more; raises StoreError, and keeps it, if it fails again."""
        with self._wake:
            kept, self._kept = self._kept, []
            self._queue.extendleft(reversed(kept))
        self.call(lambda _: None)

    def close(self) -> None:
        """Commit what is queued and end the thread; raises StoreError if that fails."""
        if self._closed:
            return
        try:
            self.call(lambda _: None)
        finally:
            with self._wake:
                self._closed = True
                self._wake.notify()
            self._thread.join()
            self._connection.close()
            self._lock.close()

    def _room(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any] | None:
        """Nothing while the queue takes more, else what to wait for before asking again."""
        if len(self._queue) < _QUEUE:
            return None
        with self._wake:
            if len(self._queue) < _QUEUE:
                return None
            self._outside.append(loop.create_future())
            return self._outside[-1]

    def _add(self, entry: _Entry) -> None:
        with self._wake:
            if self._closed:
                raise StoreError(
                    f"the writer of {self._path} is closed already; nothing more can be stored through it."
                )
            self._queue.append(entry)
            first = len(self._queue) == 1 or (entry.waiter is not None and not self._awaited)
            self._awaited |= entry.waiter is not None
            if first:
                self._wake.notify()

    def _work(self) -> None:
        while batch := self._batch():
            self._commit(batch)

    def _batch(self) -> list[_Entry]:
        """What gathered while the batch before was committed; a call holds its place until then. Empty at the end."""
        with self._wake:
            while not (self._awaited or self._closed):
                if not self._wake.wait(_UNAWAITED if self._queue else None) and self._queue:
                    break
            batch = list(self._queue)
            self._queue.clear()
            self._awaited = False
        return batch

    def _commit(self, batch: list[_Entry]) -> None:
        try:
            outcomes = self._transaction(batch)
        except (sqlite3.OperationalError, OSError, StoreError) as problem:
            error = problem if isinstance(problem, StoreError) else explained(problem, self._path)
            with self._wake:
                self._kept += [replace(entry, waiter=None) for entry in batch if entry.kind is not run_steps]
            self._settle([(entry, StoreError(str(error))) for entry in batch])
        except Exception as problem:  # one bad row must not take its neighbours down, nor the thread
            if len(batch) > 1:
                for entry in batch:
                    self._commit([entry])
            else:
                if batch[0].waiter is None:
                    _log.error("a row was not stored: %s", problem)
                self._settle([(batch[0], explained(problem, self._path) if _is_damage(problem) else problem)])
        else:
            self._settle(list(zip(batch, outcomes, strict=True)))

    def _transaction(self, batch: list[_Entry]) -> list[Any]:
        connection = self._connection
        outcomes: list[Any] = [None] * len(batch)
        with self._lock.held("writing results"):
            connection.execute("BEGIN IMMEDIATE")
            try:
                for kind in _BATCH_ORDER:
                    places = [place for place, entry in enumerate(batch) if entry.kind is kind]
                    if places:
                        done = kind(connection, [batch[place].row for place in places])
                        for place, outcome in zip(places, done, strict=True):
                            outcomes[place] = outcome
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._checkpointed = checkpoint(connection, self._path, self._checkpointed)
        return outcomes

    def _settle(self, outcomes: list[tuple[_Entry, Any]]) -> None:
        """Tell whoever waits; one message per event loop and batch, because each wakes the loop."""
        loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
        for entry, outcome in outcomes:
            if isinstance(entry.waiter, Future):
                _resolve(entry.waiter, outcome)
            elif entry.waiter is not None:
                loops.setdefault(entry.waiter.get_loop(), []).append((entry.waiter, outcome))
        for room in self._next_in():
            loops.setdefault(room.get_loop(), []).append((room, None))
        for loop, waiting in loops.items():
            with contextlib.suppress(RuntimeError):  # the loop has ended, so nobody waits
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
            with contextlib.suppress(RuntimeError):  # its loop has ended, so nobody waits
                room.get_loop().call_soon_threadsafe(_resume, [(room, None)])


def _is_damage(problem: Exception) -> TypeGuard[sqlite3.DatabaseError]:
    return getattr(problem, "sqlite_errorname", "") in ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def _resume(waiting: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for waiter, outcome in waiting:
        if not waiter.done():
            _resolve(waiter, outcome)


def _resolve(waiter: asyncio.Future[Any] | Future[Any], outcome: Any) -> None:
    if isinstance(outcome, BaseException):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)
