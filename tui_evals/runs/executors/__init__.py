"""Executors turn cells into records, in this process or on a cluster; here is their interface to the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from tui_evals.datasets.model import Item
from tui_evals.evaluators.base import JudgingStopped
from tui_evals.light_records import dataclass
from tui_evals.runs.status import Status
from tui_evals.store.records import AnswerRecord, CallRecord, ScoreRecord, Settled, StopCode, Wait


@dataclass(frozen=True, slots=True)
class Cell:
    """One conversation: its item, its position in the plan, and its existing answers."""

    item: Item
    name: str
    """The name of the item: its testId, else #position from 1."""
    position: int
    """The item's position in the dataset, from 0."""
    prompt: int
    target: int
    repeat: int
    answers: tuple[int, ...]
    """The id of the answer to each turn."""
    known: Mapping[int, AnswerRecord]
    """Turns that have their answer already, from a run that was interrupted."""
    final: frozenset[int]
    """Turns that are judged already as well."""
    scores: Mapping[int, tuple[ScoreRecord, ...]] = field(default_factory=dict)
    """Existing scores of turns that are not fully judged."""


class Stopped(JudgingStopped):
    """The run must stop (its money is spent, the store is lost); unanswered cells stay pending."""

    def __init__(self, message: str, code: StopCode = "failed") -> None:
        super().__init__(message)
        self.code: StopCode = code


class WaitCut(Stopped):
    """A call that waited for its next attempt is given up, because the run is stopping."""

    def __init__(self) -> None:
        super().__init__("stopped before the end", "asked")


class Ledger(Protocol):
    """Records calls to targets and judges, and caches replies."""

    def called(self, record: CallRecord) -> None:
        """Note one attempt."""
        ...

    def waiting(self, wait: Wait, answer: int | None) -> None:
        """Show that a call waits, and that its answer is not in flight meanwhile."""
        ...

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Record, in words, how requests to a target or judge are changed."""
        ...

    async def cached(self, key: str) -> AnswerRecord | None:
        """The cached reply under a key."""
        ...

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Cache a judge's reply."""
        ...


class Sink(Ledger, Protocol):
    """Takes the records of an executor; each method returns once they are committed."""

    def running(self, answer: int) -> None:
        """Note that the request for an answer was sent."""
        ...

    async def answered(self, answer: int, record: AnswerRecord, cache_key: str | None, target: str) -> bool:
        """Commit an answer, and under a key its place in the cache; False when another was committed first."""
        ...

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: Status, score: float | None) -> None:
        """Commit the scores of an answer."""
        ...

    def left_open(self, answers: Sequence[int]) -> None:
        """Note answers that stay pending, because a target or judge cannot be asked."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether no new cell may start."""
        ...

    async def may_start(self) -> bool:
        """Wait while the run is paused; False when it is stopping."""
        ...

    async def may_begin(self, answer: int) -> bool:
        """Like `may_start`, for a conversation in flight, identified by its first open answer."""
        ...


class PageSink(Protocol):
    """Takes many finished conversations of an executor at once."""

    async def may_start(self) -> bool:
        """Wait while the run is paused; False when it is stopping."""
        ...

    async def settled(self, page: Sequence[Settled]) -> None:
        """Commit existing answers with their scores; returns once they are committed."""
        ...


class Executor(Protocol):
    """Holds the conversations of cells."""

    async def execute(self, cells: Mapping[int, Iterator[Cell]]) -> None:
        """Work through the cells of each target; Stopped when the run must not continue."""
        ...
