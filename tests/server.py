"""An OpenAI-compatible server on loopback that answers predictably and fails on request.

`python -m tests.server --port 0 --latency 0.05` prints its port and serves until it is ended. What a question meets
is decided by, in this order: a marker in its last user message (`[[429]]`, `[[429*2]]` = the first two times it is
asked, `[[say TEXT]]`), the model's name after a plus (`any+html`), and the behaviour of that model or of `*`.
Numbers mean an HTTP status; the other words are the keys of `server_replies.KINDS`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from tests import server_service
from tests.server_replies import BROKEN, KINDS, MARKER, UNBILLED, Answerer, Behaviour, Call, completion, refused
from tests.server_responses import as_messages, as_response
from tests.server_rules import refused_parameter, thinks_first
from tests.server_wires import AZURE, GEMINI, as_chat


@dataclass
class Question:
    """A distinct chat put to a model, and how often it was asked and answered."""

    model: str
    text: str
    asked: int = 0
    answered: int = 0


@dataclass
class State:
    """All the server knows."""

    behaviours: dict[str, Behaviour] = field(default_factory=lambda: {"*": Behaviour()})
    questions: dict[tuple[str, str], Question] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    """How many calls came to each model since it behaves as it does, short questions left out."""
    broken: Counter[str] = field(default_factory=Counter)
    """How many of each model met what they meet after so many."""
    billed: Counter[str] = field(default_factory=Counter)
    """The tokens of all calls that were taken on, whoever was still there for the answer."""
    in_flight: int = 0
    peak: int = 0
    last: dict[str, Any] = field(default_factory=dict)
    moments: list[tuple[float, str]] = field(default_factory=list)
    """When each call came, by a clock of the server's own, and its question."""


SHORT = "Reply with the word ready"
"""How the question begins by which it is found out whether a target is there."""
STATE: web.AppKey[State] = web.AppKey("state", State)


def breaks(state: State, call: Call) -> bool:
    """Whether the model has taken as many calls as it takes before they meet something else."""
    behaviour, model = call.behaviour, call.body["model"]
    is_over = behaviour.calls is not None and state.broken[model] >= behaviour.calls
    if behaviour.after is None or is_over:
        return False
    if state.taken[model] >= behaviour.after:
        state.broken[model] += 1
        return True
    state.taken[model] += not call.text.startswith(SHORT)
    return False


def kind_of(call: Call, attempt: int) -> str:
    """What this call meets; shares are drawn from the seed, the question and the attempt, whatever the order."""
    marked = call.behaviour.markers and MARKER.search(call.text)
    if marked and (marked[2] is None or attempt <= int(marked[2])):
        return marked[1]
    if named := call.body["model"].partition("+")[2]:
        return str(named)
    if attempt <= len(call.behaviour.first):
        return call.behaviour.first[attempt - 1]
    point = random.Random(f"{call.behaviour.seed} {call.key} {attempt}").random()
    for kind, share in call.behaviour.shares.items():
        point -= share
        if point < 0:
            return kind
    return call.behaviour.always


def behaviour_kind(state: State, call: Call, attempt: int) -> str:
    """What this call meets, also after so many calls."""
    kind = kind_of(call, attempt)
    return call.behaviour.then if breaks(state, call) else kind


def told(content: Any) -> str:
    """The text of a message, which may come in parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


async def chat(http: web.Request) -> web.StreamResponse:
    raw = await http.json()
    return await answered(http, raw, as_chat(http, raw))


async def responses(http: web.Request) -> web.StreamResponse:
    """The same by OpenAI's Responses protocol."""
    raw = await http.json()
    return as_response(await answered(http, raw, {**raw, "messages": as_messages(raw)}), raw)


async def answered(http: web.Request, raw: dict[str, Any], body: dict[str, Any]) -> web.StreamResponse:
    state = http.app[STATE]
    said = [told(message["content"]) for message in body["messages"] if message["role"] == "user"]
    text = said[-1] if said else ""
    key = hashlib.sha256(json.dumps(body["messages"], sort_keys=True).encode()).hexdigest()[:12]
    behaviour = state.behaviours.get(body["model"]) or state.behaviours["*"]
    call = Call(http, body, text, key, behaviour)
    question = state.questions.setdefault((body["model"], key), Question(body["model"], text))
    question.asked += 1
    if said_in_turn := behaviour.says:
        call = replace(call, behaviour=replace(behaviour, say=said_in_turn[(question.asked - 1) % len(said_in_turn)]))
    state.last = {"path": http.path, "body": raw, "headers": dict(http.headers)}
    state.moments.append((asyncio.get_running_loop().time(), text))
    state.in_flight += 1
    state.peak = max(state.peak, state.in_flight)
    try:
        if (refusal := refused_parameter(body, behaviour.rules)) is not None:
            state.met["parameter"] += 1
            return refusal
        kind = "length" if thinks_first(body, behaviour.rules) else behaviour_kind(state, call, question.asked)
        state.met[kind] += 1
        if kind in KINDS and kind not in UNBILLED:
            state.billed.update(completion(call)["usage"])
        late = random.Random(f"late {behaviour.seed} {key} {question.asked}").random() if behaviour.jitter else 0
        await asyncio.sleep(behaviour.latency + behaviour.jitter * late)
        response = await KINDS[kind](call) if kind in KINDS else refused(kind, call)
        question.answered += response.status == 200 and kind not in BROKEN
        return response
    finally:
        state.in_flight -= 1


async def serve_call(http: web.Request, body: dict[str, Any], text: str, answer: Answerer) -> web.StreamResponse:
    """Have a question to a service of another kind meet what its marker says, like one to a model."""
    state = http.app[STATE]
    body = {"model": "service", "messages": [{"role": "user", "content": text}], **body}
    key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    call = Call(http, body, text, key, state.behaviours.get("service") or state.behaviours["*"])
    question = state.questions.setdefault(("service", key), Question("service", text))
    question.asked += 1
    state.last = {"path": http.path_qs, "method": http.method, "body": body, "headers": dict(http.headers)}
    kind = behaviour_kind(state, call, question.asked)
    state.met[kind] += 1
    await asyncio.sleep(call.behaviour.latency)
    if kind == "answer":
        question.answered += 1
        return await answer(call)
    return await KINDS[kind](call) if kind in KINDS else refused(kind, call)


async def embeddings(http: web.Request) -> web.StreamResponse:
    """A vector for each text, by the words in it: texts that share words are alike."""
    state, body = http.app[STATE], await http.json()
    model, texts = body["model"], body["input"]
    behaviour = state.behaviours.get(model) or state.behaviours["*"]
    text = "\n".join(texts)
    call = Call(http, body, text, hashlib.sha256(text.encode()).hexdigest()[:12], behaviour)
    asked = [state.questions.setdefault((model, each), Question(model, each)) for each in texts]
    for question in asked:
        question.asked += 1
    state.last = {"body": body, "headers": dict(http.headers)}
    kind = behaviour_kind(state, call, asked[0].asked)
    state.met[kind] += 1
    await asyncio.sleep(behaviour.latency)
    if kind != "answer":
        return await KINDS[kind](call) if kind in KINDS else refused(kind, call)
    for question in asked:
        question.answered += 1
    rows = [{"object": "embedding", "index": place, "embedding": vector_of(each)} for place, each in enumerate(texts)]
    usage = {"prompt_tokens": sum(len(each.split()) for each in texts)}
    return web.json_response({"object": "list", "model": model, "data": rows[::-1], "usage": usage})


def vector_of(text: str) -> list[float]:
    vector = [0.0] * 64
    for word in text.lower().split():
        vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % 64] += 1.0
    return vector


async def models(http: web.Request) -> web.Response:
    names = {"test-model"} | {model for model, _ in http.app[STATE].questions}
    return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in sorted(names)]})


async def counts(http: web.Request) -> web.Response:
    state = http.app[STATE]
    questions = [{"key": key, **vars(question)} for (_, key), question in state.questions.items()]
    totals = {word: sum(question[word] for question in questions) for word in ("asked", "answered")}
    flight = {"in_flight": state.in_flight, "peak": state.peak, "met": state.met, "billed": state.billed}
    return web.json_response({**totals, **flight, "questions": questions})


async def last(http: web.Request) -> web.Response:
    return web.json_response(http.app[STATE].last)


async def moments(http: web.Request) -> web.Response:
    return web.json_response({"moments": http.app[STATE].moments})


async def behave(http: web.Request) -> web.Response:
    wanted = await http.json()
    model = wanted.pop("model", "*")
    try:
        http.app[STATE].behaviours[model] = Behaviour(**wanted)
        http.app[STATE].taken[model] = http.app[STATE].broken[model] = 0
    except TypeError as error:
        return web.json_response({"error": str(error)}, status=400)
    return web.json_response({"model": model})


async def forget(http: web.Request) -> web.Response:
    fresh, state = State(), http.app[STATE]
    fresh.behaviours["*"] = http.app[START]
    vars(state).update({name: value for name, value in vars(fresh).items() if name != "in_flight"})
    return web.json_response({})


START: web.AppKey[Behaviour] = web.AppKey("start", Behaviour)


async def serve(host: str, port: int, start: Behaviour, until_stdin_closes: bool) -> None:
    app = web.Application(client_max_size=64_000_000)
    app[STATE], app[START], app[server_service.SERVE] = State(), start, serve_call
    app[STATE].behaviours["*"] = start
    app.add_routes([web.post("/v1/chat/completions", chat), web.get("/v1/models", models)])
    app.add_routes([web.post(path, chat) for path in ("/v1/messages", AZURE, *GEMINI)])
    app.add_routes([web.post("/v1/responses", responses), *server_service.ROUTES])
    app.add_routes([web.post("/v1/embeddings", embeddings)])
    app.add_routes([web.get("/control/counts", counts), web.get("/control/last", last)])
    app.add_routes([web.get("/control/moments", moments)])
    app.add_routes([web.post("/control/behaviour", behave), web.post("/control/reset", forget)])
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=1024)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_stdin_closes:
        loop.add_reader(0, stop.set)
    await stop.wait()
    await runner.cleanup()


@dataclass(frozen=True)
class Server:
    """A running server as its tests see it."""

    origin: str

    @property
    def url(self) -> str:
        """What a target is given as its base URL."""
        return f"{self.origin}/v1"

    def behave(self, model: str = "*", **wanted: Any) -> None:
        """Set the behaviour of a model, or of all that have none of their own."""
        self._talk("behaviour", {"model": model, **wanted})

    def reset(self) -> None:
        """Forget all counts and behaviours."""
        self._talk("reset", {})

    def counts(self) -> dict[str, Any]:
        """How often each question was asked and answered, and what the calls met."""
        return self._talk("counts")

    def last(self) -> dict[str, Any]:
        """The body and headers of the latest request."""
        return self._talk("last")

    def moments(self) -> list[tuple[float, str]]:
        """When each call came, in seconds since some moment, and its question."""
        return [(moment, text) for moment, text in self._talk("moments")["moments"]]

    def _talk(self, word: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.origin}/control/{word}", data)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as response:
            return dict(json.load(response))


@contextmanager
def hanging_up() -> Iterator[str]:
    """The address of somebody who takes every connection and hangs up without a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve_nobody() -> None:
            with suppress(OSError):  # it was shut down
                while True:
                    listening.accept()[0].close()

        thread = threading.Thread(target=serve_nobody, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def running(*options: str, within: Sequence[str] = ()) -> Iterator[Server]:
    """A server in a process of its own, which ends with this block and with its parent; `within` runs its command."""
    command = [*within, sys.executable, "-m", "tests.server", "--until-stdin-closes", *options]
    root = Path(__file__).parent.parent
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None and process.stdin is not None
        port = process.stdout.readline().decode().strip()
        assert port, "the test server did not start"
        try:
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    for word, kind in (("latency", float), ("jitter", float), ("seed", int), ("size", int)):
        parser.add_argument(f"--{word}", type=kind, default=getattr(Behaviour(), word))
    parser.add_argument("--until-stdin-closes", action="store_true")
    given = vars(parser.parse_args())
    host, port, until = (given.pop(name) for name in ("host", "port", "until_stdin_closes"))
    asyncio.run(serve(host, port, replace(Behaviour(), **given), until))


if __name__ == "__main__":
    main()
