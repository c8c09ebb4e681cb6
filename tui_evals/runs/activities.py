"""Executing a battle or a generation: its lock, its progress in the store, and the orders it obeys."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.runs.store_trouble import Storing
from tui_evals.store.battles import ActivityKind, Order, activity_lock, order_of, plan_activity, progress_step
from tui_evals.store.connection import RunLock, hold
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import StopCode
from tui_evals.store.writer import Writer

_EVERY = 0.25
"""Seconds between two looks at the orders, and between two records of progress."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a battle or a generation is."""

    done: int = 0
    total: int = 0
    cost: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)


class ActivityRecord:
    """The row of an activity while this process executes it."""

    def __init__(self, key: str, reader: Reader, writer: Writer, lock: RunLock) -> None:
        self.key = key
        self.lock = lock
        self._reader = reader
        self._writer = writer
        self._stored = Progress()
        self._messages: list[str] = []
        self._order: Order = ""

    def say(self, message: str) -> None:
        """Add a message for everybody who watches."""
        self._messages.append(message)

    def begin(self) -> None:
        """Store that it is running."""
        self._writer.write(
            "UPDATE activities SET status = 'running', started = ? WHERE key = ?",
            time.time(),
            self.key,
        )

    async def attend(
        self,
        work: asyncio.Task[Any],
        progress: Callable[[], Progress],
        obey: Callable[[Order], None],
        storing: Storing | None = None,
    ) -> None:
        """Until the work is done, store its progress and pass on what the store says it is told."""
        while not work.done():
            await asyncio.wait([work], timeout=_EVERY)
            if storing is None or not (storing.is_in_trouble or storing.is_lost):
                self._note(progress())
                self._listen(obey)

    def _note(self, now: Progress) -> None:
        """Store what changed since the last time; without waiting, because nothing depends on it."""
        if now == self._stored and not self._messages:
            return
        values = {"done": now.done, "total": now.total, "cost": now.cost, "facts": _json(now.facts)}
        self._writer.progress(progress_step(self._writer, self.key, values, self._messages))
        self._stored, self._messages = now, []

    def _listen(self, obey: Callable[[Order], None]) -> None:
        with suppress(StoreError):  # the writer looks at the store too, and reports what is wrong with it
            order = order_of(self._reader, self.key)
            if order and order != self._order:
                self._order = order
                self._writer.progress(progress_step(self._writer, self.key, {"status": "stopping"}))
                obey(order)

    async def end(self, now: Progress, *, finished: bool, message: str, code: StopCode) -> None:
        """Store how it ended; retries until the store is writable."""
        values = {
            "done": now.done,
            "total": now.total,
            "cost": now.cost,
            "facts": _json(now.facts),
            "status": "finished" if finished else "interrupted",
            "message": message,
            "code": code,
            "finished": time.time(),
        }
        await self._writer.patient_step(progress_step(self._writer, self.key, values, self._messages))
        self._messages = []

    def fail(self, reason: str) -> None:
        """Store why it ended without an outcome."""
        values = {"status": "interrupted", "message": reason, "code": "failed", "finished": time.time()}
        self._writer.progress(progress_step(self._writer, self.key, values, self._messages))


@contextmanager
def recorded_activity(
    reader: Reader,
    writer: Writer,
    kind: ActivityKind,
    about: str,
    request: Mapping[str, Any],
    key: str | None = None,
) -> Iterator[ActivityRecord]:
    """Hold an activity for a block, the planned one of a `key` or a new one."""
    key = key or plan_activity(writer, kind, about, request)
    file = activity_lock(reader.path, kind, key)
    with hold(file) as lock:
        record = ActivityRecord(key, reader, writer, lock)
        record.begin()
        try:
            yield record
        except Exception as problem:
            record.fail(str(problem))
            raise
        finally:
            with suppress(OSError):  # an activity is executed once, so its lock file is not needed again
                file.unlink(missing_ok=True)


def _json(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, ensure_ascii=False)
