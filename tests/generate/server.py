"""A model on loopback that answers every step of a generation from the question it is sent, and refuses poor ones.

A question that lacks something its step has to show is answered with HTTP 400 and kept as a complaint, which the test
that caused it fails with. Everything that is asked is logged under its step.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from tests.generate.expected import Asked, Complaint, Expected
from tests.generate.questions import read_question
from tests.generate.replies import KINDS, reply_to
from tests.server_replies import KINDS as STATUS_KINDS
from tests.server_replies import Behaviour, Call, completion, hang, refused
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.model_table import short_question

KEY = "sk-of-the-shop"


@dataclass
class Manner:
    """How a step is answered."""

    always: str = "answer"
    first: tuple[str, ...] = ()
    """What the first, second, … call of each question meets."""
    after: int | None = None
    """So many calls of the step are answered, the others hang."""


@dataclass
class Break:
    """After so many calls of a model each of it meets a kind, the short question that looks for it too."""

    model: str
    after: int
    kind: str
    calls: int | None = None
    """So many meet it; None for all."""
    retry_after: float = 1
    taken: int = 0
    met: int = 0
    questions: int = 0
    """How many of those that met it were not the short one."""

    def meets(self, model: str, *, short: bool) -> bool:
        """Whether a call of a model meets it, which is counted."""
        if model != self.model or (self.calls is not None and self.met >= self.calls):
            return False
        if self.taken >= self.after:
            self.met += 1
            self.questions += not short
            return True
        self.taken += not short
        return False


@dataclass
class Server:
    """The server as its tests see it; every test begins anew with what it expects."""

    port: int = 0
    expected: Expected = field(default_factory=Expected)
    log: list[Asked] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    manners: dict[str, Manner] = field(default_factory=dict)
    scores: tuple[int, ...] = ()
    """What the judge of the ground truth gives the first, second, … answer to a test; 90 where there are none."""
    key: str = KEY
    breaks: Break | None = None
    held: bool = True
    """Whether calls that are held wait; the others of them are answered."""

    @property
    def url(self) -> str:
        """What a target is given as its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def begin(self, expected: Expected) -> None:
        """Forget everything before this test."""
        fresh = Server(self.port, expected)
        vars(self).update(vars(fresh))

    def expect(self, **wanted: Any) -> None:
        """Change what questions have to show."""
        for name, value in wanted.items():
            assert hasattr(self.expected, name), name
            setattr(self.expected, name, value)

    def behave(self, *steps: str, **wanted: Any) -> None:
        """Set the manner of some steps."""
        for step in steps:
            self.manners[step] = Manner(**wanted)

    def asked(self, *steps: str) -> int:
        """How many calls there were, of some steps or in all."""
        return sum(1 for one in self.log if not steps or one.step in steps)

    def answered(self, *steps: str) -> int:
        """How many calls got a reply."""
        return sum(one.answered for one in self.log if not steps or one.step in steps)

    @property
    def per_step(self) -> dict[str, int]:
        """The calls of each step."""
        return dict(Counter(one.step for one in self.log))

    def repeated(self) -> list[str]:
        """The steps of questions that were answered more than once."""
        answered = Counter((one.step, one.model, one.key) for one in self.log if one.answered)
        return sorted(step for (step, *_), times in answered.items() if times > 1)

    # -- the server's own side

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        body = await http.json()
        messages = body["messages"]
        key = hashlib.sha256(json.dumps([body["model"], messages]).encode()).hexdigest()[:12]
        call = Call(http, body, "", key, Behaviour())
        if http.headers.get("Authorization") != f"Bearer {self.key}":
            return refused("401", call)
        short = messages[-1]["content"] == short_question(TargetConfig(name="t", model="m")).messages[0]["content"]
        if self.breaks is not None and self.breaks.meets(body["model"], short=short):
            call, kind = replace(call, behaviour=Behaviour(retry_after=self.breaks.retry_after)), self.breaks.kind
            return await STATUS_KINDS[kind](call) if kind in STATUS_KINDS else refused(kind, call)
        if short:
            return web.json_response(completion(call, content="ready"))
        try:
            asked = read_question(body["model"], key, messages, self.expected)
        except Complaint as complaint:
            return self._refuse(str(complaint))
        before = [one for one in self.log if one.step == asked.step]
        asked.attempt = 1 + sum(1 for one in before if one.key == key)
        asked.answers = sum(one.answered for one in before if one.key == key)
        self.log.append(asked)
        kind = self._kind(asked, sum(one.kind == "answer" for one in before))
        asked.kind = kind
        if kind == "hang":
            return await hang(call)
        while kind == "held" and self.held:
            await asyncio.sleep(0.005)
        if kind.isdigit():
            return refused(kind, call)
        said = KINDS[kind](asked, self.scores) if kind in KINDS else reply_to(asked, self.scores)
        asked.answered = True
        return web.json_response(completion(call, content=said))

    def _kind(self, asked: Asked, before: int) -> str:
        manner = self.manners.get(asked.step, Manner())
        if asked.attempt <= len(manner.first):
            return manner.first[asked.attempt - 1]
        if manner.after is not None and before >= manner.after:
            return "hang"
        return manner.always

    def _refuse(self, said: str) -> web.Response:
        self.complaints.append(said)
        return web.json_response({"error": {"message": said, "type": "invalid_request_error"}}, status=400)

    async def _serve(self, ready: threading.Event, stops: list[Any]) -> None:
        app = web.Application(client_max_size=64_000_000)
        app.add_routes([web.post("/v1/chat/completions", self._chat)])
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        self.port = runner.addresses[0][1]
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        ready.set()
        await stop.wait()
        await runner.cleanup()


@contextmanager
def running() -> Iterator[Server]:
    """A server in a thread of its own for the length of a block."""
    server, ready, stops = Server(), threading.Event(), list[Any]()
    thread = threading.Thread(target=lambda: asyncio.run(server._serve(ready, stops)), daemon=True)
    thread.start()
    assert ready.wait(30), "the server did not start"
    try:
        yield server
    finally:
        stops[0]()
        thread.join(30)
