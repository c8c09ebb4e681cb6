"""Running runs, battles and generations: lock, progress, control orders, and waiting while the store is not writable.

While the store is not writable, nothing is asked and writing is retried. Rows that can never be written go to a file,
which the next command stores first. If the store was deleted or replaced, writing continues through the open file. At
the end that is written to the path again. A store that was overwritten in place takes no more rows: everything
committed since its log was last emptied goes to the file too.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from tui_evals.light_records import dataclass
from tui_evals.store.battles import (
    ActivityKind,
    Order,
    activity_lock,
    begin_activity,
    order_of,
    plan_activity,
    progress_step,
)
from tui_evals.store.connection import RunLock, hold
from tui_evals.store.database import StoreError, StoreTrouble
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, StopCode, StoreWait
from tui_evals.store.spill import Spill
from tui_evals.store.writer import Writer
from tui_evals.targets.base import TargetConfig
from tui_evals.text.measures import counted

ShowWait = Callable[[StoreWait, bool], None]
"""Shows why the store makes a run wait, and when that is over."""


class Asking(Protocol):
    """Holds and ends the questions of a run while the store is not writable."""

    def hold_asking(self) -> None:
        """Begin no question until told so."""
        ...

    def go_on_asking(self) -> None:
        """Questions may begin again."""
        ...

    def stop(self) -> None:
        """Begin no question any more."""
        ...


class Storing:
    """Watches whether the store accepts the rows of a run, while the run executes.

    Rows that a battle cannot store are saved under the name of a run whose lock the battle does not hold.
    """

    def __init__(self, writer: Writer, path: Path, run: RunRow, lock: RunLock | None, longest: float) -> None:
        self.wait: StoreWait | None = None
        """The current reason to hold questions, if there is one."""
        self._writer = writer
        self._path = path
        self._run = run
        self._lock = lock
        self._longest = longest
        self._trouble: StoreTrouble | None = None
        self._moved: StoreTrouble | None = None
        self._spill: Spill | None = None
        self._began = 0.0
        self._end: asyncio.TimerHandle | None = None

    def watch(self, asking: Asking, show: ShowWait = lambda wait, is_over: None) -> None:
        """Hold and end the questions of a run from now on, depending on its store."""
        self._asking = asking
        self._show = show
        loop = asyncio.get_running_loop()

        def tell(trouble: StoreTrouble | None) -> None:
            with suppress(RuntimeError):  # the loop has ended, and the run with it
                loop.call_soon_threadsafe(self._hear, trouble)

        self._writer.be_patient(tell)

    @property
    def is_lost(self) -> bool:
        """Whether the run has to end because of its store."""
        return self._moved is not None or self.is_spilled

    @property
    def is_in_trouble(self) -> bool:
        """Whether something waits because it cannot be stored."""
        return self._trouble is not None

    @property
    def is_overwritten(self) -> bool:
        """Whether the file holds something else now, so that nothing can be read from it either."""
        return self._trouble is not None and self._trouble.code == "overwritten"

    async def is_to_blame(self) -> bool:
        """Whether a failure comes from trouble of the store, after checking it now."""
        with suppress(StoreError):  # the writer reports its errors
            await asyncio.to_thread(self._writer.flush)
        return self.is_lost or self.is_in_trouble

    @property
    def is_spilled(self) -> bool:
        """Whether rows go to a file instead of the store."""
        return self._spill is not None

    @property
    def reason(self) -> str:
        """Why the run has to end."""
        return str(self._moved or self._trouble)

    def give_up(self) -> None:
        """Put into a file what cannot be stored, and end the run; nothing where all could be stored."""
        if self._trouble is not None and self._spill is None:
            self._spill = self._writer.spill(self._run)
            self._say(None)
            self._asking.stop()

    async def end(self, *, finished: bool, note: Callable[[], Awaitable[None]]) -> None:
        """Store how an execution ended, by `note`; its error is ignored if the store is lost."""
        if not finished:
            self.give_up()
        try:
            await note()
        except (StoreError, LookupError):
            if not self.is_lost:
                raise

    async def conclude(self) -> str:
        """Why the run had to end, and where its results are; waits until writing has ended."""
        sentences = [f"{self.reason.rstrip('.')}."]
        if self._moved is not None:
            place = await asyncio.to_thread(self._writer.write_again, f"{self._path.name}.of-{self._run.key}")
            there = "All it held was written again to that place."
            elsewhere = f"It was saved as {place}. Name it with --db, or move it back to its path."
            sentences.append(there if place == self._path else elsewhere)
        if self._spill is not None:
            await asyncio.to_thread(self._spill.written.wait)
            self._spill.release()
            is_known = True
            if self.is_overwritten:
                await asyncio.to_thread(self._writer.leave)
                is_known, there = await asyncio.to_thread(self._what_is_there)
                sentences.append(there)
            sentences.append(_spilled_sentence(self._spill, is_known))
        return " ".join(filter(None, sentences))

    def _what_is_there(self) -> tuple[bool, str]:
        """Whether the overwritten file may have the run, and what it has of it."""
        try:
            with Reader(self._path) as reader:
                if not reader.knows(self._run):
                    return False, f"The store there now does not know run {self._run.key}."
                totals = reader.totals(self._run.id)
        except StoreError:
            return True, "`tui-evals db repair` saves what can be read. Do that first."
        answered = totals.total - totals.pending - totals.running
        stored = f"{answered:,} of {counted(totals.total, 'answer')}"
        return True, f"The store there now has {stored} of run {self._run.key}."

    def _hear(self, trouble: StoreTrouble | None) -> None:
        if trouble is not None and trouble.code == "moved":
            self._moved = trouble
            self._asking.stop()
        elif self._spill is None:
            self._note(trouble)

    def _note(self, trouble: StoreTrouble | None) -> None:
        before, self._trouble = self._trouble, trouble
        if trouble is None:
            if self.wait is not None:
                self._show(self.wait, True)
            self._say(None)
            self._asking.go_on_asking()
            return
        if before is None:
            self._began = time.time()
            self._asking.hold_asking()
            self._end = asyncio.get_running_loop().call_later(self._longest, self.give_up)
        if trouble.code in ("full", "locked", "unwritable"):
            until = self._began + self._longest
            wait = StoreWait(code=trouble.code, path=str(self._path), cause=trouble.cause, until=until)
            self._say(wait)
            self._show(wait, False)
        else:  # waiting repairs no damage
            self.give_up()

    def _say(self, wait: StoreWait | None) -> None:
        """Show the wait to all watchers, also those that cannot learn it from the store."""
        if wait is None and self._end is not None:
            self._end.cancel()
        self.wait = wait
        if self._lock is not None:
            with suppress(OSError):  # a disk that takes nothing at all; the terminal of the run shows it anyway
                self._lock.note(wait)


def longest_wait(asked: Iterable[TargetConfig]) -> float:
    """How long to wait for the store: as long as for those that are asked."""
    return max((config.max_outage for config in asked), default=TargetConfig(name="", model="").max_outage)


def _spilled_sentence(spill: Spill, is_known: bool) -> str:
    """Where the unstored rows are, and how to store them; only the place if the store does not know the run."""
    if not spill.files:
        return ""
    number = f", {spill.answers:,} answer{'' if spill.answers == 1 else 's'}," if spill.answers else ""
    place = f"What could not be stored{number} is in {' and '.join(map(str, spill.files))}"
    if is_known:
        return f"{place}, which is stored first."
    if spill.cacheable:
        return f"{place}. The next run takes {spill.cacheable:,} of these answers from the cache if it asks the same."
    return f"{place}."


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
        begin_activity(self._writer, self.key)

    async def attend(
        self,
        work: asyncio.Task[Any],
        progress: Callable[[], Progress],
        obey: Callable[[Order], None],
        storing: Storing | None = None,
    ) -> None:
        """Store the progress of `work` and pass on orders from the store, until it is done."""
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
        with suppress(StoreError):  # the writer reads the store too, and reports its errors
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
        await self._writer.commit_step(progress_step(self._writer, self.key, values, self._messages))
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
