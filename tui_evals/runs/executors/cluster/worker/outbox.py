"""What a worker has to say to the driver, gathered into letters, each of which is sent until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tui_evals.runs.executors.cluster.wire import Letter, call_row, score_rows
from tui_evals.runs.status import Status
from tui_evals.store.records import AnswerRecord, CallRecord, ScoreRecord
from tui_evals.store.rows import answer_record, body_of, cleaned

_KINDS = ("calls", "running", "answers", "scores", "keeps", "keys", "shards")
_URGENT = ("keys", "shards")
_MOMENTS = 10


class Outbox:
    """Lists of rows for the next letter, and who waits for what to be safe; texts pass through `clean` first."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._rows: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
        self._news = asyncio.Event()
        self._urgent = False
        self._firsts: dict[int, asyncio.Future[bool]] = {}
        self._kept: dict[str, asyncio.Future[AnswerRecord | None]] = {}
        self._unsafe: list[asyncio.Future[None]] = []
        self._sent: list[asyncio.Future[None]] = []

    def nudge(self) -> None:
        """There is something to say that others wait for."""
        self._urgent = True
        self._news.set()

    async def something(self, patience: float, gather: float, idle: Callable[[int], bool]) -> None:
        """Wait until there is something to say, and a moment for more, unless with so many answers too few are busy."""
        try:
            async with asyncio.timeout(patience):
                await self._news.wait()
        except TimeoutError:
            return
        moment = gather / _MOMENTS
        for number in range(_MOMENTS):
            if idle(len(self._rows["answers"])) or (self._urgent and number):
                return
            await asyncio.sleep(moment)

    def letter(self) -> Letter:
        """All that was gathered; whoever waits is told when the answer to it comes."""
        self._news.clear()
        self._urgent = False
        found, self._rows = self._rows, {kind: [] for kind in _KINDS}
        self._sent, self._unsafe = self._unsafe, []
        return {kind: rows for kind, rows in found.items() if rows}

    def answered(self, firsts: Sequence[tuple[int, bool]], kept: Sequence[tuple[str, Any]]) -> None:
        """The driver has committed the letter: these answers were the first of their turn, and these were kept."""
        for answer, first in firsts:
            _resolve(self._firsts.pop(answer, None), first)
        for key, body in kept:
            _resolve(self._kept.pop(key, None), None if body is None else answer_record(*body))
        sent, self._sent = self._sent, []
        for waiting in sent:
            _resolve(waiting, None)

    def add(self, kind: str, row: object) -> None:
        """Say something that nobody waits for."""
        self._rows[kind].append(row)
        self._urgent |= kind in _URGENT
        if kind != "running":  # which is worth no letter of its own
            self._news.set()

    def called(self, record: CallRecord) -> None:
        """Tell of one attempt."""
        message = None if record.message is None else self._clean(record.message)
        self.add("calls", call_row(replace(record, message=message)))

    async def cached(self, key: str) -> AnswerRecord | None:
        """Ask what is kept under a key."""
        if key not in self._kept:
            self._kept[key] = asyncio.get_running_loop().create_future()
            self.add("keys", key)
        return await asyncio.shield(self._kept[key])

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Have a judge's reply kept."""
        self.add("keeps", [key, target, self._body(record)])
        await self.safe()

    async def answer(self, answer: int, record: AnswerRecord, cache_key: str | None, target: str) -> bool:
        """Have an answer committed; whether it was the first."""
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._firsts[answer] = waiting
        self.add("answers", [answer, self._body(record), cache_key, target])
        return await waiting

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: Status, score: float | None) -> None:
        """Have scores committed."""
        self.add("scores", [answer, [self._score(row) for row in score_rows(records)], status, score])
        await self.safe()

    async def safe(self) -> None:
        """Wait until all that was said so far is committed."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsafe.append(waiting)
        self._news.set()
        await waiting

    def _body(self, record: AnswerRecord) -> list[str | None]:
        request, text, rest = body_of(record)
        return [cleaned(request, self._clean), text and self._clean(text), cleaned(rest, self._clean)]

    def _score(self, row: Sequence[Any]) -> list[Any]:
        *known, label, reason, details, weight = row
        return [*known, label and self._clean(label), self._clean(reason), cleaned(details, self._clean), weight]


def _resolve(waiting: asyncio.Future[Any] | None, value: object) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(value)
