"""A worker as the driver of a cluster knows it by its letters; what it would do meanwhile is modelled."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Protocol

from distributed.protocol import dumps, loads

from tui_evals.runs.executors.cluster.terms import Message, dump_call, dump_scores, load_cells
from tui_evals.store.records import AnswerRecord, CallRecord, ScoreRecord
from tui_evals.store.rows import body_of

_TRANSIT = 0.001
_HELLO = 0.05
_SOON = 0.2
_WORDS = "the model says a lot of words before it comes to the point, and some of them twice; " * 40


class Task(Protocol):
    """A task of the cluster."""

    def done(self) -> bool:
        """Whether it has ended."""
        ...

    def end(self, status: str) -> None:
        """It is over."""
        ...


@dataclass
class Network:
    """What the workers share: the clock, what a call is like, and how the driver hears of them."""

    clock: Any
    latency: float
    size: int
    free: Callable[[VirtualWorker], None]
    letters: int = 0
    hello: Callable[[Any], Any] | None = None


@dataclass
class _Held:
    """A shard on a worker: how many of its cells are not safe yet, and which are not begun."""

    future: Task
    left: int = 0
    unbegun: int = 0
    recalled: bool = False


@dataclass
class _Share:
    places: int = 0
    calls: int = 0
    in_use: int = 0
    called: int = 0
    took: int = 0
    name: str = ""


class VirtualWorker:
    """One session on one worker; between two letters it does nothing, and then all at once what it would have done."""

    def __init__(self, network: Network, number: int) -> None:
        self.address = f"tls://10.0.{number // 250}.{number % 250}:40000"
        self._network = network
        self._name = f"{number:016x}"
        self._random = random.Random(number)
        self._said_hello = False
        self._shards: dict[int, _Held] = {}
        self._share = _Share()
        self._outbox: dict[str, list[Any]] = {}
        self._waiting: deque[tuple[int, int]] = deque()
        self._flying: list[tuple[float, float, int]] = []
        self._soon: deque[tuple[float, int]] = deque()
        self._of: dict[int, int] = {}
        self._judged: list[int] = []
        self._ending: list[int] = []
        self._sent: list[int] = []
        self._news = False
        self._number = 0
        self._patience = self._gather = 0.0
        self._wake: asyncio.Future[None] | None = None

    def hold(self, number: int, future: Task) -> None:
        """A task has come."""
        self._shards[number] = _Held(future)
        self._say("shards", number)
        self._nudge()
        if not self._said_hello:
            self._said_hello = True
            self._network.clock.call_later(_HELLO, self._hello)

    def _hello(self) -> None:
        assert self._network.hello is not None
        said = self._network.hello((0.0, {"session": self._name, "address": self.address}))
        self._network.clock.create_task(said)

    async def exchange(self, topic: str, session: str, letter: Message) -> Message:
        """Take a letter and answer it when there is something to say."""
        clock = self._network.clock
        self._network.letters += 1
        sent = dumps(letter)
        arrived = clock.time() + _TRANSIT
        with clock.others():
            self._take(loads(sent), arrived)
        await self._something(arrived)
        now = clock.time()
        with clock.others():
            answer = dumps(self._written(now))
        await asyncio.sleep(_TRANSIT)
        return dict(loads(answer))

    async def _something(self, arrived: float) -> None:
        """Wait as a worker does: for news, and then a moment for more of it unless nobody is busy."""
        clock = self._network.clock
        coming = min(self._flying[0][0] if self._flying else math.inf, self._soon[0][0] if self._soon else math.inf)
        if not self._news and coming > arrived:
            self._wake = clock.create_future()
            handle = clock.call_at(min(coming, arrived + self._patience), self._nudge)
            await self._wake
            handle.cancel()
            self._wake = None
        if self._flying:
            await asyncio.sleep(self._gather)

    def _say(self, kind: str, row: object) -> None:
        self._outbox.setdefault(kind, []).append(row)

    def _nudge(self) -> None:
        self._news = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _take(self, reply: Message, now: float) -> None:
        self._number, self._patience, self._gather = reply["number"], reply["patience"], reply["gather"]
        for number in self._sent:
            self._network.clock.call_soon(self._finished, self._shards.pop(number).future)
        for answer in self._judged:
            self._safe(self._of.pop(answer))
        self._judged = []
        for answer, first in reply.get("firsts", ()):
            self._share.in_use -= 1
            if first:
                self._say("scores", [answer, dump_scores([_judged(answer)]), "pass", 1.0])
            self._nudge()
        for name, (places, calls, *_) in reply.get("leases", ()):
            self._share.name, self._share.places, self._share.calls = name, places, calls
        for number, text in reply.get("shards", ()):
            cells = load_cells(text)
            self._shards[number].left = self._shards[number].unbegun = len(cells)
            self._waiting.extend((number, cell.answers[0]) for cell in cells)
            self._nudge()
            if not cells:
                self._ending.append(number)
        for number in reply.get("recalled", ()):
            self._give_back(number)
        if reply.get("stopping"):
            for number in list(self._shards):
                self._give_back(number)
        self._start(now)

    def _start(self, now: float) -> None:
        share = self._share
        while self._waiting and share.in_use < share.places and share.called < share.calls:
            number, answer = self._waiting.popleft()
            self._shards[number].unbegun -= 1
            self._of[answer] = number
            share.in_use += 1
            share.called += 1
            heappush(self._flying, (now + self._network.latency * self._random.lognormvariate(0, 0.5), now, answer))
            self._soon.append((now + _SOON, answer))

    def _give_back(self, number: int) -> None:
        if (shard := self._shards.get(number)) is not None and shard.unbegun:
            self._waiting = deque(cell for cell in self._waiting if cell[0] != number)
            shard.left -= shard.unbegun
            shard.unbegun = 0
            if not shard.left:
                self._ending.append(number)
                self._nudge()

    def _safe(self, number: int) -> None:
        shard = self._shards[number]
        shard.left -= 1
        if not shard.left:
            self._ending.append(number)
            self._nudge()

    def _finished(self, future: Task) -> None:
        if not future.done():
            future.end("finished")
        self._network.free(self)

    def _written(self, now: float) -> Message:
        while self._soon and self._soon[0][0] <= now:
            self._say("running", self._soon.popleft()[1])
        while self._flying and self._flying[0][0] <= now:
            self._answer(*heappop(self._flying))
        letter: Message = {**self._outbox, "number": self._number}
        self._outbox = {}
        self._judged = [row[0] for row in letter.get("scores", ())]
        self._sent, self._ending = self._ending, []
        self._news = False
        share = self._share
        share.places = min(share.places, share.in_use + len(self._waiting))
        said = {"in_use": share.in_use, "waiting": len(self._waiting), "called": share.called, "took": share.took}
        letter["cells"] = sum(shard.left for shard in self._shards.values())
        letter["waiting"] = [[number, shard.unbegun] for number, shard in self._shards.items()]
        letter["demand"] = [[share.name, said, []]] if share.name else []
        letter["money"] = (0.0, 0.0, [])
        return letter

    def _answer(self, ended: float, began: float, answer: int) -> None:
        took = 1000 * (ended - began)
        self._say("calls", dump_call(_call(answer, began, took)))
        self._say("answers", [answer, list(body_of(_said(answer, took, self._network.size))), None, "main"])
        self._share.took += 380


def _call(answer: int, began: float, took: float) -> CallRecord:
    return CallRecord(
        answer=answer,
        kind="target",
        target="main",
        attempt=1,
        started=began,
        latency_ms=took,
        input_tokens=120,
        output_tokens=260,
        cost=0.0002,
    )


def _said(answer: int, took: float, size: int) -> AnswerRecord:
    start = answer % 80
    sent: Mapping[str, Any] = {
        "messages": [
            {"role": "system", "content": _WORDS[start : start + size // 4]},
            {"role": "user", "content": f"question {answer}: {_WORDS[start : start + size // 4]}"},
        ],
        "params": {"temperature": 0.0},
    }
    return AnswerRecord(
        text=f"answer {answer}: {_WORDS[start : start + size]}",
        request=sent,
        input_tokens=120,
        output_tokens=260,
        cost=0.0002,
        latency_ms=took,
        model="test-model-2026",
        finish_reason="stop",
    )


def _judged(answer: int) -> ScoreRecord:
    return ScoreRecord(
        key="Includes", evaluator="Includes", score=1.0, result="pass", reason=f"the answer {answer} includes it"
    )
