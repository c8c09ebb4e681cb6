"""What an agent asked while it answered, as one transcript: its model calls, what its tools gave, what it retrieved."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.store.records import AnswerRecord, transcript_of
from tui_evals.targets.base import Reply, Usage
from tui_evals.targets.spans import Span, transcript_of_spans
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
        """What was said until it, message by message, as far as agents repeat it word for word."""
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
    """What one attempt at an answer asked, in the order in which it was answered."""

    calls: list[ModelCall] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def reply(self, own: Reply) -> Reply:
        """The agent's own reply with what was recorded."""
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
        """The calls of which each continues where one before it ended; what else is asked, such as titles, is aside."""
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
    """What an agent added between two calls: what its tools gave, and what it said in a user's place."""
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
    """The transcript with what only spans tell: results that no later call showed, times of tools, retrievals."""
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
