"""The loopback server that an agent uses as its provider, and the agent's transcript.

Each question of the agent goes to the configured target like one of the run's own: priced, budgeted, retried, cached.
The agent gets a token instead of a key, which works nowhere else. Its transcript has the model calls, the results of
its tools and its retrievals.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from tui_evals.evaluators.base import JudgingStopped
from tui_evals.light_records import dataclass
from tui_evals.runs.asking import REPLY, PricedTarget, cache_key, current_answer
from tui_evals.runs.door.wires import CHAT, GENERATE, MESSAGES, RESPONSES, Asked, Unreadable, Wire, event_bytes
from tui_evals.runs.executors import Ledger
from tui_evals.runs.executors.local import answer_record
from tui_evals.runs.prompting import messages_of_answer
from tui_evals.store.records import AnswerRecord, transcript_of
from tui_evals.targets.base import RecorderAddress, Reply, Request, Target, TargetConfig, TargetError, Usage
from tui_evals.targets.spans import Span, spans_of_otlp, transcript_of_spans
from tui_evals.text.chats import content_text
from tui_evals.transcript import (
    Call,
    Message,
    Part,
    Result,
    Retrieval,
    Text,
    Took,
    Transcript,
    Unknown,
    answer_text,
    calls_with_results,
)

if TYPE_CHECKING:
    from aiohttp import web


NOT_RECORDED = "not recorded"
"""The diagnostic of an answer for which the agent asked no model through the server."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of a model, with the answer it got; without one it failed, and `problem` says why."""

    messages: tuple[Mapping[str, Any], ...]
    answer: AnswerRecord | None
    problem: str = ""
    started: float | None = None

    @property
    def digest(self) -> tuple[str, ...]:
        """The chat before it, message by message, in the form that agents repeat exactly."""
        return tuple(map(_digest, self.messages))

    @property
    def reply_digest(self) -> str:
        """A digest of the answer, to find it in a later request."""
        assert self.answer is not None
        calls = [{"function": call} for call in self.answer.tool_calls]
        return _digest({"role": "assistant", "content": self.answer.text, "tool_calls": calls})


def _digest(message: Mapping[str, Any]) -> str:
    """A message without what clients change when they repeat it: spaces around its text, and the form of arguments."""
    functions = (call.get("function", call) for call in message.get("tool_calls") or ())
    calls = [[function.get("name"), _plain(function.get("arguments"))] for function in functions]
    role = {"developer": "system"}.get(str(message.get("role")), message.get("role"))
    return json.dumps([role, content_text(message.get("content")).strip(), calls], sort_keys=True)


def _plain(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


@dataclass(slots=True)
class DoorRecording:
    """The questions of one attempt at an answer, in the order of their answers."""

    calls: list[ModelCall] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def reply(self, own: Reply) -> Reply:
        """The agent's own reply with the recorded transcript."""
        transcript = self._transcript()
        said = own.text or answer_text(transcript)
        if own.transcript is not None and not transcript.messages:
            transcript = own.transcript
        if said.strip() != answer_text(transcript).strip():
            transcript = replace(
                transcript, messages=(*transcript.messages, Message(role="assistant", parts=(Text(said),)))
            )
        last = next((call.answer for call in reversed(self.calls) if call.answer is not None), None)
        calls = tuple(
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call, _ in calls_with_results(transcript)
        )
        notes = dict(own.diagnostics or {})
        usage, cost = self._took()
        if not self.calls:
            notes["door"] = NOT_RECORDED
        elif aside := len(self.calls) - len(self._conversation()):
            notes["door"] = f"{len(self.calls)} model calls, {aside} of them outside the conversation"
        return replace(
            own,
            text=said,
            tool_calls=calls or own.tool_calls,
            usage=usage,
            cost=cost,
            is_noted=bool(self.calls),
            model=own.model or (last.model if last else None),
            scripted=own.scripted or any(call.answer.scripted for call in self.calls if call.answer is not None),
            diagnostics=notes or None,
            transcript=transcript,
        )

    def _took(self) -> tuple[Usage | None, float | None]:
        """The tokens and the cost of all calls together; None where it is unknown."""
        answers = [call.answer for call in self.calls if call.answer is not None]
        if not answers:
            return None, None
        costs = [answer.cost for answer in answers]
        usage = Usage(
            sum(answer.input_tokens or 0 for answer in answers),
            sum(answer.output_tokens or 0 for answer in answers),
            sum(answer.cached_tokens for answer in answers),
            sum(answer.reasoning_tokens for answer in answers),
        )
        counted = any(answer.input_tokens is not None for answer in answers)
        cost = None if None in costs else sum(cost for cost in costs if cost is not None)
        return usage if counted else None, cost

    def _conversation(self) -> list[ModelCall]:
        """The calls that continue each other; side questions, such as for a title, are left out."""
        threads: list[list[ModelCall]] = []
        for call in self.calls:
            digest = call.digest
            for thread in threads:
                last = thread[-1]
                so_far = (*last.digest, last.reply_digest) if last.answer is not None else last.digest
                if digest[: len(so_far)] == so_far:
                    thread.append(call)
                    break
            else:
                threads.append([call])
        return max(threads, key=lambda thread: (len(thread), -self.calls.index(thread[0])), default=[])

    def _transcript(self) -> Transcript:
        thread = self._conversation()
        if not thread:
            return transcript_of_spans(self.spans)
        messages: list[Message] = []
        for place, call in enumerate(thread):
            messages.append(_said(call))
            if place + 1 < len(thread):
                after = thread[place + 1].messages[len(call.messages) + (call.answer is not None) :]
                messages += _between(after)
        return _with_spans(Transcript(tuple(messages)), self.spans)


def _said(call: ModelCall) -> Message:
    answer = call.answer
    if answer is None:
        return Message(role="assistant", parts=(Unknown("error", {"message": call.problem}),))
    own = transcript_of(answer).messages
    parts: tuple[Part, ...] = own[-1].parts if own else ()
    took = Took(
        started=call.started,
        seconds=None if answer.latency_ms is None else answer.latency_ms / 1000,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        cached_tokens=answer.cached_tokens or None,
        reasoning_tokens=answer.reasoning_tokens or None,
        cost=answer.cost,
    )
    more = {"from_cache": True} if answer.from_cache else {}
    return Message(role="assistant", parts=parts, took=took, model=answer.model or "", more=more)


def _between(messages: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
    """The messages that an agent added between two calls: results of its tools, and texts in the user's role."""
    results: list[Part] = []
    for message in messages:
        text = content_text(message.get("content"))
        if message.get("role") == "tool":
            results.append(Result(str(message.get("tool_call_id") or ""), text, text.startswith("Error: ")))
            continue
        if results:
            yield Message(role="tool", parts=tuple(results))
            results = []
        yield Message(role=str(message.get("role") or "user"), parts=(Text(text),))
    if results:
        yield Message(role="tool", parts=tuple(results))


def _with_spans(transcript: Transcript, spans: Sequence[Span]) -> Transcript:
    """The transcript with facts that only spans have: results that no later call contained, times, retrievals."""
    told = transcript_of_spans(spans)
    results = {call.id: result for call, result in calls_with_results(told) if result is not None and call.id}
    if not results and not any(isinstance(part, Retrieval) for part in told.parts):
        return transcript
    messages: list[Message] = []
    missing = {call.id for call, result in calls_with_results(transcript) if result is None}
    for message in transcript.messages:
        messages.append(replace(message, parts=tuple(_timed(part, results) for part in message.parts)))
        late = [
            results[part.id] for part in message.parts if isinstance(part, Call) and part.id in missing & set(results)
        ]
        if late:
            messages.append(Message(role="tool", parts=tuple(late)))
    retrieved = [message for message in told.messages if any(isinstance(part, Retrieval) for part in message.parts)]
    for found in retrieved:
        began = found.took.started if found.took else None
        place = next((n for n, one in enumerate(messages) if _is_later(one, began)), max(0, len(messages) - 1))
        messages.insert(place, found)
    return replace(transcript, messages=tuple(messages))


def _is_later(message: Message, began: float | None) -> bool:
    started = message.took.started if message.took else None
    return began is not None and started is not None and started >= began


def _timed(part: Part, results: Mapping[str, Result]) -> Part:
    """A result with the time that its span measured."""
    if isinstance(part, Result) and part.took is None and (known := results.get(part.id)) is not None:
        return replace(part, took=known.took, failed=part.failed or known.failed)
    return part


LOOPBACK = "127.0.0.1"
ANSWER_HEADER = "x-tui-evals-answer"
"""The header in which a service that answers questions in parallel names the question of a model call."""
_LARGEST = 64 * 2**20
_CHARACTERS_PER_TOKEN = 4
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY")
_WIRES = {"chat/completions": CHAT, "responses": RESPONSES, "messages": MESSAGES}
_NO_RETRY = {"x-should-retry": "false"}


@dataclass(slots=True)
class Attempt:
    """One attempt of the agent at one answer."""

    answer: int | None
    repeat: int
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    """The token of the attempt, and the trace of its spans."""
    recording: DoorRecording = field(default_factory=DoorRecording)
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    reason: BaseException | None = None
    """Why the agent can be answered no more, where its answer is to stay pending."""
    _waiting: int = 0
    _waited: float = 0.0
    _since: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    """How often each question was asked: the next identical one wants another answer."""
    responses: dict[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    """The conversation before each response, for calls that continue a response by its id."""

    @property
    def in_models(self) -> float:
        """Seconds for which the agent waited for models."""
        return self._waited + (time.monotonic() - self._since if self._waiting else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While a model is asked."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._waited += time.monotonic() - self._since

    def interrupt(self, reason: BaseException) -> None:
        """Give the agent up."""
        self.reason = self.reason or reason
        self.interrupted.set()


class Door:
    """The server of one agent; it starts with the first question."""

    def __init__(self, behind: PricedTarget, *, use_cache: bool, host: str = LOOPBACK) -> None:
        self.behind = behind
        self.is_attributed = False
        """Whether a service has named the answer that a call of it was for."""
        self.ledger: Ledger
        """Records calls; set by the run's executor."""
        self._use_cache = use_cache and behind.cacheable
        self._host = host
        self._run_token = secrets.token_hex(16)
        self._attempts: dict[str, Attempt] = {}
        self._starting = asyncio.Lock()
        self._runner: web.AppRunner | None = None
        self._port = 0

    @asynccontextmanager
    async def attempt(self, request: Request, *, shared: bool) -> AsyncIterator[tuple[Attempt, RecorderAddress]]:
        """An attempt of the agent, and the address for it; `shared` if one process answers many questions."""
        await self._listen()
        attempt = Attempt(current_answer.get(), request.repeat)
        self._attempts[attempt.token] = attempt
        try:
            yield attempt, self._address(attempt, self._run_token if shared else attempt.token)
        finally:
            del self._attempts[attempt.token]

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _address(self, attempt: Attempt, token: str) -> RecorderAddress:
        base = f"http://{self._host}:{self._port}/{token}"
        parent = f"00-{attempt.token}-{secrets.token_hex(8)}-01"
        config = self.behind.config
        named = [*config.header_variables, *([config.api_key[4:]] if config.api_key else [])]
        provider = config.model.partition("/")[0].upper().replace("-", "_")
        return RecorderAddress(
            environment={
                **dict.fromkeys([*named, f"{provider}_API_KEY"]),
                **dict.fromkeys(_KEYS, token),
                "OPENAI_BASE_URL": f"{base}/v1",
                "OPENAI_API_BASE": f"{base}/v1",
                "ANTHROPIC_BASE_URL": base,
                "GOOGLE_GEMINI_BASE_URL": base,
                "OTEL_EXPORTER_OTLP_ENDPOINT": base,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "TRACEPARENT": parent,
            },
            headers={"traceparent": parent, ANSWER_HEADER: attempt.token},
        )

    async def _listen(self) -> None:
        async with self._starting:
            if self._runner is not None:
                return
            from aiohttp import web  # only runs that record an agent need a server

            app = web.Application(client_max_size=_LARGEST)
            app.router.add_route("*", "/{token}/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            site = web.TCPSite(runner, LOOPBACK if self._host == LOOPBACK else "0.0.0.0", 0)
            await site.start()
            self._port = runner.addresses[0][1]
            self._runner = runner

    # -- a request

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        path = request.match_info["path"].strip("/")
        for version in ("v1/", "v1beta/", "v1alpha/"):
            path = path.removeprefix(version)
        wire, model, is_stream = _wire_of(path)
        try:
            attempt = self._attempt_of(request)
            if path in ("traces", "metrics", "logs"):
                return self._take_signals(path, await request.read(), request.content_type, attempt)
            if request.method == "GET" and path.partition("/")[0] == "models":
                return web.json_response(self._models(path))
            if wire is None or request.method != "POST":
                return web.json_response(CHAT.error(404, f"{path} is not known here"), status=404)
            body = await request.json()
            if not isinstance(body, dict):
                raise Unreadable("the body must be a JSON object")
            if path.endswith(("/count_tokens", ":countTokens")):
                count = len(json.dumps(body)) // _CHARACTERS_PER_TOKEN
                return web.json_response({"input_tokens": count, "totalTokens": count})
            asked = wire.read(body, model)
        except LookupError as problem:
            return self._failure(wire or CHAT, 409, str(problem.args[0]))
        except (Unreadable, ValueError, KeyError, TypeError, AttributeError) as problem:
            what = str(problem) if isinstance(problem, Unreadable) else f"the body cannot be read: {problem!r}"
            return self._failure(wire or CHAT, 400, what)
        try:
            with attempt.waiting():
                answer, id = await self._answer(attempt, asked)
        except TargetError as problem:
            attempt.recording.calls.append(ModelCall(asked.messages, None, str(problem)))
            status = problem.status or (429 if problem.code == "agentRateLimited" else 502)
            return self._failure(wire, status if status >= 400 else 502, str(problem))
        except JudgingStopped as reason:
            attempt.interrupt(reason)
            return self._failure(wire, 503, str(reason))
        reply = wire.write(answer, asked.model or self.behind.config.model, id)
        if not (asked.streamed or is_stream):
            return web.json_response(reply)
        return await self._stream(request, wire, reply, as_array=is_stream and request.query.get("alt") != "sse")

    def _failure(self, wire: Wire, status: int, message: str) -> web.Response:
        from aiohttp import web

        return web.json_response(wire.error(status, message), status=status, headers=_NO_RETRY)

    async def _stream(
        self, request: web.Request, wire: Wire, reply: Mapping[str, Any], *, as_array: bool
    ) -> web.StreamResponse:
        from aiohttp import web

        if as_array:
            return web.json_response([data for _, data in wire.stream(reply)])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        for name, data in wire.stream(reply):
            await response.write(event_bytes(name, data))
        await response.write_eof()
        return response

    def _attempt_of(self, request: web.Request) -> Attempt:
        """The attempt that a request belongs to; LookupError if it cannot be found."""
        token = request.match_info["token"]
        if (own := self._attempts.get(token)) is not None:
            return own
        if not secrets.compare_digest(token, self._run_token):
            raise LookupError("this address is not, or no longer, one of a run")
        trace = request.headers.get("traceparent", "").split("-")
        named = request.headers.get(ANSWER_HEADER) or (trace[1] if len(trace) > 1 else "")
        if named in self._attempts:
            self.is_attributed = True
            return self._attempts[named]
        if len(self._attempts) == 1:
            return next(iter(self._attempts.values()))
        raise LookupError(
            f"several questions are being answered and nothing says which this call is for: send {ANSWER_HEADER} or "
            "traceparent on, or set concurrency = 1"
        )

    def _take_signals(self, path: str, body: bytes, media_type: str, attempt: Attempt) -> web.Response:
        """Read an OpenTelemetry export: its spans; metrics and logs are ignored."""
        from aiohttp import web

        for span in spans_of_otlp(body, media_type) if path == "traces" else ():
            self._attempts.get(span.trace, attempt).recording.spans.append(span)
        is_json = "json" in media_type
        empty = web.json_response({}) if is_json else web.Response(body=b"", content_type="application/x-protobuf")
        return empty

    def _models(self, path: str) -> Mapping[str, Any]:
        name = self.behind.config.model.partition("/")[2] or self.behind.config.model
        about = {"id": name, "object": "model", "type": "model", "display_name": name, "owned_by": "tui-evals"}
        one = {**about, "created": 0, "created_at": "1970-01-01T00:00:00Z", "name": f"models/{name}"}
        if "/" in path:
            return one
        return {"object": "list", "data": [one], "models": [one], "has_more": False, "first_id": name, "last_id": name}

    # -- the answer

    async def _answer(self, attempt: Attempt, asked: Asked) -> tuple[AnswerRecord, str]:
        """The answer to a question of an agent, and its id; TargetError, or what ends the attempt."""
        current_answer.set(attempt.answer)
        messages = asked.messages
        if asked.previous:
            if asked.previous not in attempt.responses:
                raise TargetError("agentRequestFailed", f"there is no response {asked.previous}", status=404)
            messages = (*attempt.responses[asked.previous], *messages)
        request = Request(
            messages=tuple(_with_own_replies(messages, attempt.recording.calls)),
            tools=asked.tools,
            params=self.behind.with_params(asked.params),
            repeat=attempt.repeat,
        )
        began = time.time()
        answer = await self._reply(attempt, request)
        id = secrets.token_hex(12)
        calls = tuple(
            {**call, "id": call.get("id") or f"call_{id}_{number}"} for number, call in enumerate(answer.tool_calls, 1)
        )
        answer = replace(answer, tool_calls=calls)
        attempt.recording.calls.append(ModelCall(messages, answer, started=began))
        attempt.responses[f"resp_{id}"] = (*messages, *messages_of_answer(answer))
        return answer, id

    async def _reply(self, attempt: Attempt, request: Request) -> AnswerRecord:
        """The reply to a question: from the run or the cache, else a new one, which is stored."""
        identity = self.behind.identity
        key = cache_key(identity, request)
        number = attempt.seen[key]
        attempt.seen[key] += 1
        if number:
            key = cache_key({**identity, "scope": f"asked again {number}"}, request)
        own = f"{REPLY}door {attempt.answer} {key}"
        if (kept := await self.ledger.cached(own)) is not None:
            return kept
        if self._use_cache and (cached := await self.ledger.cached(key)) is not None:
            return replace(cached, from_cache=True, attempts=0)
        async with self.behind.room.flight:
            answer = answer_record(await self.behind.ask(request, self.ledger), {})
        name = self.behind.config.name
        await self.ledger.keep(own, name, answer)
        if self._use_cache:
            await self.ledger.keep(key, name, answer)
        return answer


def _wire_of(path: str) -> tuple[Wire | None, str, bool]:
    """The protocol of an address, the model in it, and whether it asks for a stream."""
    if path.startswith("models/") and ":" in path:
        model, _, method = path.removeprefix("models/").partition(":")
        known = method in ("generateContent", "streamGenerateContent", "countTokens")
        return (GENERATE if known else None), model, method == "streamGenerateContent"
    return _WIRES.get(path.removesuffix("/count_tokens")), "", False


def _with_own_replies(messages: Iterable[Mapping[str, Any]], calls: Sequence[ModelCall]) -> Iterator[Mapping[str, Any]]:
    """The messages, with each answer that went through the door in its original form, including provider blocks."""
    known = {call.reply_digest: call.answer for call in calls if call.answer is not None}
    ids: dict[str, str] = {}
    for message in messages:
        answer = known.get(ModelCall((message,), None).digest[0]) if message.get("role") == "assistant" else None
        if answer is not None:
            theirs = [str(call.get("id")) for call in message.get("tool_calls") or ()]
            ids |= dict(zip(theirs, (str(call.get("id")) for call in answer.tool_calls), strict=False))
            yield from messages_of_answer(answer)
        elif (id := message.get("tool_call_id")) in ids:
            yield {**message, "tool_call_id": ids[str(id)]}
        else:
            yield message


class RecordedAgent:
    """Asks an agent, and adds the calls it made through the door to its reply."""

    keeps_time = True

    def __init__(self, agent: Target, config: TargetConfig, door: Door) -> None:
        self._agent = agent
        self._config = config
        self.door = door
        self._is_shared = getattr(agent, "is_shared", True)
        """Whether one process answers many questions."""
        self._alone = asyncio.Lock()

    async def ask(self, request: Request) -> Reply:
        """The reply of the agent with its calls; Unavailable where the model behind it cannot be asked."""
        if not self._is_shared or self.door.is_attributed:
            return await self._ask(request)
        async with self._alone:  # until a call says which question it is for
            return await self._ask(request)

    async def _ask(self, request: Request) -> Reply:
        async with self.door.attempt(request, shared=self._is_shared) as (attempt, address):
            reply = await self._within_time(attempt, replace(request, recorder=address))
            return attempt.recording.reply(reply)

    async def _within_time(self, attempt: Attempt, request: Request) -> Reply:
        """The agent's own reply within its timeout, which leaves out the time that it waits for models."""
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._agent.ask(request))
        given_up = loop.create_task(attempt.interrupted.wait())
        began, limit = loop.time(), self._config.timeout
        try:
            while not work.done() and not given_up.done():
                left = began + limit + attempt.in_models - loop.time()
                if left <= 0:
                    message = f"no answer within {limit:g} s, the time that models took left out"
                    raise TargetError("agentTimeout", message, retryable=True)
                await asyncio.wait({work, given_up}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if attempt.reason is not None:
                raise attempt.reason
            return await work
        finally:
            for task in (work, given_up):
                task.cancel()
            with suppress(asyncio.CancelledError, TargetError):
                await work

    async def close(self) -> None:
        """Close the agent and the server."""
        await self._agent.close()
        await self.door.close()
