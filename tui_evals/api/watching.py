"""What a program does while a run is executed: it waits, gets a call for each answer, and sees a progress bar."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tui_evals.present.status import short_counts
from tui_evals.runs.engine import Engine, ExecutionEnd
from tui_evals.runs.execution import Companion
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from .results import Answer, answer_of

OnAnswer = Callable[[Answer], Any]
"""A function that is called with each answer once it is judged; what it returns is awaited where that can be."""
_EVERY = 0.1
_LINE_EVERY = 5.0
_UNFINISHED = ("pending", "running", "answered")


class _Bar(Protocol):
    """The part of tqdm's protocol that is used."""

    def update(self, n: int) -> object: ...

    def set_postfix_str(self, s: str) -> object: ...

    def close(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Watch:
    """What a caller wants to see of a run."""

    on_answer: OnAnswer | None = None
    progress: bool | None = None
    """Whether a bar is shown; None where standard error is a terminal."""

    @property
    def shows_bar(self) -> bool:
        """Whether a bar is shown."""
        return sys.stderr.isatty() if self.progress is None else self.progress

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do while the run is executed."""
        return self.on_answer is not None or self.shows_bar

    def companion(self, run: RunRow, store: Path) -> Companion:
        """The work that goes with the execution of the run."""
        with Reader(store) as reader:
            since = reader.seq()  # before anything is asked

        async def follow(engine: Engine, work: asyncio.Task[ExecutionEnd]) -> None:
            bar = _bar(run) if self.shows_bar else None
            try:
                await self._follow(run, store, since, work, bar)
            except Exception:
                work.cancel()  # so that nothing more is paid for once `on_answer` has failed
                raise
            finally:
                if bar is not None:
                    bar.close()

        return follow

    async def _follow(
        self, run: RunRow, store: Path, since: int, work: asyncio.Task[ExecutionEnd], bar: _Bar | None
    ) -> None:
        """Tell of each answer that is final, and once more when the work is over."""
        told: set[int] = set()
        with Reader(store) as reader:
            items = reader.snapshot(run.snapshot)["items"]
            while True:
                is_over = work.done()
                changed = reader.changed(since, run)
                since = max((row.seq for row in changed), default=since)
                new = [row for row in changed if row.status not in _UNFINISHED and row.id not in told]
                told.update(row.id for row in new)
                if bar is not None and new:
                    bar.update(len(new))
                    bar.set_postfix_str(short_counts(reader.totals(run.id)))
                if self.on_answer is not None:
                    for one in reader.told(run, new):
                        returned = self.on_answer(answer_of(run, one, items[one.row.item]))
                        if inspect.isawaitable(returned):
                            await returned
                if is_over:
                    return
                await asyncio.wait({work}, timeout=_EVERY)


def _bar(run: RunRow) -> _Bar:
    """A bar of tqdm where it is installed, lines of text elsewhere."""
    title = f"run {run.key}"
    if find_spec("tqdm") is None:
        return _Lines(title, run.total)
    bar: _Bar = import_module("tqdm.auto").tqdm(total=run.total, desc=title, unit="answer", dynamic_ncols=True)
    return bar


class _Lines:
    """Progress as lines on standard error: the first and the last, and one every few seconds."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._done, self._facts, self._last = 0, "", time.monotonic()
        self._print()

    def update(self, n: int) -> None:
        """Count answers."""
        self._done += n

    def set_postfix_str(self, s: str) -> None:
        """Note the results so far."""
        self._facts = s
        if time.monotonic() - self._last >= _LINE_EVERY:
            self._print()

    def close(self) -> None:
        """Print the last line."""
        self._print()

    def _print(self) -> None:
        self._last = time.monotonic()
        facts = f" · {self._facts}" if self._facts else ""
        sys.stderr.write(f"{self._title}: {self._done:,} of {self._total:,} answers{facts}\n")


Returned = TypeVar("Returned")


def wait_for(work: Coroutine[Any, Any, Returned]) -> Returned:
    """The result of some work, for code that may run in an event loop or not; Ctrl-C ends the work in order."""
    if not in_a_loop():
        try:
            return asyncio.run(work)
        except KeyboardInterrupt as interrupt:
            raise _named(interrupt, interrupt.__context__) from None
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def noted() -> Returned:
        task = asyncio.current_task()
        assert task is not None
        started.append((asyncio.get_running_loop(), task))
        return await work

    with ThreadPoolExecutor(1) as pool:  # a notebook has a loop of its own already
        result = pool.submit(asyncio.run, noted())
        try:
            return result.result()
        except KeyboardInterrupt as interrupt:
            for loop, task in started:
                loop.call_soon_threadsafe(task.cancel)
            raise _named(interrupt, result.exception()) from None


def _named(interrupt: KeyboardInterrupt, cause: BaseException | None) -> KeyboardInterrupt:
    """The interruption with the words of the work that it ended: the key of the run, and how to continue."""
    notes = getattr(cause, "__notes__", ())
    return KeyboardInterrupt(*notes) if notes else interrupt


def in_a_loop() -> bool:
    """Whether this thread runs an event loop; apart, so that errors raised later have no error of asyncio before."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
