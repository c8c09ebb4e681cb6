"""Answers given as plain data, by the user's own code or captured in a file, and the target that answers from one."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.targets.base import (
    MAX_TOKENS,
    ConfigurationError,
    Reply,
    Request,
    TargetConfig,
    TargetContext,
    TargetError,
    TargetKind,
    Usage,
)
from tui_evals.targets.chat import parse_completion, parse_response
from tui_evals.targets.foreign_messages import (
    framework_parts,
    plain_data,
    read_call,
    read_citation,
    read_documents,
    took_of,
    transcript_of_messages,
)
from tui_evals.text.names import did_you_mean
from tui_evals.text.strictjson import value_text
from tui_evals.transcript import (
    Call,
    Document,
    Message,
    Part,
    Reasoning,
    Result,
    Retrieval,
    Text,
    Think,
    Took,
    Transcript,
    Which,
    answer_text,
    from_json,
    parts_of,
    plain_transcript,
    split_think,
    without_think,
)

_COUNTS = {
    "input_tokens": ("prompt_tokens", None),
    "output_tokens": ("completion_tokens", None),
    "cached_tokens": ("", 0),
    "reasoning_tokens": ("", 0),
}
"""The counts of usage, each with the name that a chat completion has for it, and its default."""
MAX_SESSION = 100_000
"""The most characters of a session, which is stored with each answer and sent with each question."""


def one_line(text: str, limit: int = 300) -> str:
    """The text on one line, its end kept where it is too long, because the end of an error says most."""
    line = " ".join(text.split())
    return line if len(line) <= limit else "…" + line[1 - limit :]


def content_text(content: object) -> str:
    """The text of a message that holds a string or a list of content blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list | tuple) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def last_question(messages: Sequence[Mapping[str, Any]]) -> str:
    """The question: the last message of the user, else the last message."""
    candidates = [message for message in messages if message.get("role") == "user"] or list(messages)
    return content_text(candidates[-1].get("content")) if candidates else ""


def parse_tool_calls(value: object) -> tuple[dict[str, str], ...]:
    """Tool calls in the form of any tool, the arguments an object or its text; ValueError says why not."""
    return tuple(
        {"id": part.id, "name": part.name, "arguments": part.arguments}
        for part in _calls(value)
        if isinstance(part, Call)
    )


def _calls(value: object) -> tuple[Part, ...]:
    """Calls, each followed by its result if it has one; ValueError for a call without a name."""
    if not isinstance(value, list | tuple):
        raise ValueError("tool_calls must be a list")
    parts: list[Part] = []
    for number, given in enumerate(value, 1):
        call, *result = read_call(given)
        if not isinstance(call, Call):
            raise ValueError(f"tool call {number} has no name")
        id = call.id or f"call_{number}"
        parts.append(replace(call, id=id))
        parts += [replace(part, id=id) for part in result if isinstance(part, Result)]
    return tuple(parts)


def parse_reply(value: object, who: str, streamed: str = "") -> Reply:
    """The reply in a text, an object with a text, a framework's result or an OpenAI completion; raises TargetError.

    What was `streamed` before it is the text, unless the value has its own.
    """
    try:
        if isinstance(value, Reply):
            return value
        if isinstance(value, str):
            return Reply(text=value)
        if (parts := framework_parts(value)) is not None:
            return reply_of_parts(parts, streamed)
        if not streamed and _is_data(value):
            return Reply(text=value_text(value))
        return _reply_from_mapping(value, streamed) if isinstance(value, Mapping) else _reply_of(value, streamed)
    except (ValueError, TypeError, RecursionError) as problem:
        raise TargetError("agentResponseUnparseable", f"{who} gave no answer that can be used: {problem}") from None


def _is_data(value: object) -> bool:
    """Whether a value is itself the answer: a number, a list, or an object without a field that we know or nearly."""
    if isinstance(value, Mapping):
        names = [str(name) for name in value]
        is_completion = "choices" in value or value.get("object") == "response"
        return (
            bool(names)
            and not is_completion
            and not any(name in _PARTS or did_you_mean(name, _PARTS) for name in names)
        )
    return isinstance(value, bool | int | float | list)


def _reply_from_mapping(value: Mapping[Any, Any], streamed: str) -> Reply:
    """The reply in a mapping written for tui-evals, where an unknown key is a mistake."""
    if (completion := _completion(value)) is not None:
        return completion
    for key in value:
        if key not in _PARTS:
            known = ", ".join(_PARTS)
            raise ValueError(f"it holds {str(key)[:40]!r}{did_you_mean(str(key), _PARTS)}; known are {known}")
    parts: dict[str, Any] = {}
    unread = ""
    for key, part in value.items():
        if part is None:
            continue
        try:
            parts[key] = _PARTS[key](plain_data(part))
        except (ValueError, TypeError) as problem:
            if key != "tool_calls" or not (value.get("text") or value.get("steps") or value.get("messages")):
                raise
            unread = str(problem)
    if unread:  # calls that cannot be read are left out, with a note
        parts["diagnostics"] = {**parts.get("diagnostics", {}), "tool_calls not used": unread}
    if not parts.keys() & _SAYING and not streamed:
        raise ValueError("it has neither text nor tool_calls, steps or messages")
    return reply_of_parts(parts, streamed)


def _reply_of(value: object, streamed: str) -> Reply:
    """The usable parts of an object whose class was not written for tui-evals.

    A pydantic model without a text is an answer in JSON.
    """
    data = plain_data(value)
    if isinstance(data, Mapping) and (completion := _completion(data)) is not None:
        return completion
    given = {key: part for key in _PARTS if (part := getattr(value, key, None)) is not None and not callable(part)}
    if not given.keys() & _SAYING and not streamed:
        kind = type(value).__name__
        if is_dataclass(value):
            raise ValueError(
                f"it is a dataclass {kind} without a text. Return a text, or an object with text, tool_calls, steps or "
                "messages. Results of OpenAI Agents, PydanticAI, LangChain, LangGraph and LlamaIndex are read as they "
                "are"
            )
        if not isinstance(data, Mapping):
            raise ValueError(f"it is of type {kind}; text or an object with a text is expected")
        return Reply(text=json.dumps(data, ensure_ascii=False, default=str))
    parts: dict[str, Any] = {}
    unusable = []
    for key, part in given.items():
        try:
            parts[key] = _PARTS[key](plain_data(part))
        except (ValueError, TypeError):
            if key == "text":
                raise
            unusable.append(key)
    if unusable:
        parts["diagnostics"] = {**parts.get("diagnostics", {}), "not used": ", ".join(unusable)}
    return reply_of_parts(parts, streamed)


def read_part(name: str, value: object) -> Any:
    """A part of a reply by its name in `parse_reply`; ValueError if it is invalid."""
    return _PARTS[name](value)


def reply_of_parts(parts: Mapping[str, Any], streamed: str = "") -> Reply:
    """The reply made of these parts; it has a transcript if there is more than a text and calls."""
    facts = {key: part for key, part in parts.items() if key not in _TOLD}
    if isinstance(usage := facts.get("usage"), dict):
        facts["usage"] = Usage(**usage)
    calls: tuple[Part, ...] = parts.get("tool_calls", ())
    text: str = parts.get("text", streamed)
    if not parts.keys() & (_TOLD - {"text", "tool_calls"}) and not any(isinstance(part, Result) for part in calls):
        plain_calls = tuple(_call_data(part) for part in calls if isinstance(part, Call))
        return Reply(text=text, tool_calls=plain_calls, **facts)
    told: Transcript = parts.get("transcript") or parts.get("messages") or parts.get("steps") or Transcript()
    messages = list(told.messages)
    if made := tuple(part for part in calls if isinstance(part, Call)):
        messages.append(Message(role="assistant", parts=made))
    given = tuple(part for part in calls if isinstance(part, Result))
    if given or "chunks" in parts:
        searched = (Retrieval(parts["chunks"]),) if parts.get("chunks") else ()
        retrieved = Message(role="tool", parts=(*given, *searched))
        # Retrieved documents come before the text that uses them.
        messages.insert(len(messages) if made or not messages else len(messages) - 1, retrieved)
    if text and text != answer_text(Transcript(tuple(messages))):
        messages.append(Message(role="assistant", parts=(Text(text),)))
    thought, cited = parts.get("reasoning", ()), parts.get("citations", ())
    if thought or cited:
        last = messages.pop() if messages and messages[-1].role == "assistant" else Message(role="assistant")
        messages.append(replace(last, parts=(*thought, *last.parts, *cited)))
    transcript = Transcript(tuple(messages), told.more)
    return reply_of_transcript(transcript, **{**_summed(transcript), **facts})


def _summed(transcript: Transcript) -> dict[str, Any]:
    """The tokens and the cost of the assistant's messages together, each where all of them say it."""
    took = [message.took or Took() for message in transcript.messages if message.role == "assistant"]
    facts: dict[str, Any] = {}
    if took and all(one.input_tokens is not None and one.output_tokens is not None for one in took):
        facts["usage"] = Usage(*(sum(getattr(one, name) or 0 for one in took) for name in _COUNTS))
    if took and all(one.cost is not None for one in took):
        facts["cost"] = sum(one.cost or 0.0 for one in took)
    return facts


def reply_of_transcript(transcript: Transcript, which: Which = "last", **facts: Any) -> Reply:
    """The reply that a transcript is, with the text and the calls that follow from it."""
    calls = tuple(_call_data(call) for call in parts_of(transcript, Call))
    return Reply(text=answer_text(transcript, which), tool_calls=calls, transcript=transcript, **facts)


def _call_data(call: Call) -> dict[str, str]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def settled_reply(reply: Reply, which: Which = "last", think: Think = "auto") -> Reply:
    """A reply as it arrived, with its text without reasoning; text and calls follow from its transcript."""
    thought, rest = split_think(reply.text, think)
    if reply.transcript is None and rest == reply.text:
        return reply
    transcript = without_think(reply.transcript or plain_transcript(reply.text, reply.tool_calls), think)
    cut = len(reply.text) - len(rest)
    return replace(
        reply,
        text=answer_text(transcript, which),
        tool_calls=tuple(_call_data(call) for call in parts_of(transcript, Call)),
        choices=tuple(replace(one, start=one.start - cut) for one in reply.choices if one.start >= cut),
        transcript=transcript if thought or reply.transcript is not None else None,
    )


def _completion(data: Mapping[Any, Any]) -> Reply | None:
    """The reply in a result of a provider's library; None for other data."""
    if data.get("object") == "response" and "output" in data:
        return parse_response(data)
    return parse_completion(data) if isinstance(data.get("choices"), list) and "text" not in data else None


def parse_session(value: object) -> Any:
    """A session as plain JSON data, as it comes back from the store; ValueError says why it cannot be kept."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"its session is no JSON data ({problem})") from None
    if len(text) > MAX_SESSION:
        raise ValueError(f"its session is longer than {MAX_SESSION:,} characters; keep it there, and give its name")
    return json.loads(text)


def _parse_usage(value: object) -> Usage:
    counts = value if isinstance(value, Mapping) else {}
    own = {name: counts.get(name, counts.get(theirs, usual)) for name, (theirs, usual) in _COUNTS.items()}
    if not all(type(count) is int and 0 <= count <= MAX_TOKENS for count in own.values()):
        raise ValueError(
            "its usage must hold input_tokens and output_tokens, and may hold cached_tokens and reasoning_tokens, "
            "whole numbers from 0"
        )
    return Usage(**own)


def _parse_cost(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError("its cost must be a number of US dollars from 0")
    return float(value)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"its {key} is not text")
    return value


def _diagnostics(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("its diagnostics are not an object")
    return value


def _steps(value: object) -> Transcript:
    """A transcript of steps, each with text, calls and results of tools."""
    if not isinstance(value, list | tuple):
        raise ValueError("its steps are not a list")
    messages: list[Message] = []
    for number, step in enumerate(value, 1):
        if not isinstance(step, Mapping):
            raise ValueError(f"step {number} is not an object")
        calls = step.get("tool_calls", step.get("calls")) or ()
        text = step.get("text", step.get("content"))
        is_call = not calls and text is None and "chunks" not in step
        parts: tuple[Part, ...] = tuple(read_call(step)) if is_call else _calls(calls)
        if text is not None and not isinstance(text, str):
            raise ValueError(f"the text of step {number} is not text")
        id = f"step_{number}_"
        own: list[Part] = [
            replace(part, id=id + part.id) if isinstance(part, Call | Result) else part for part in parts
        ]
        said: tuple[Part, ...] = (*_reasoning(step.get("reasoning") or ()), *([Text(text)] if text else []))
        made = [part for part in own if not isinstance(part, Result)]
        given: list[Part] = [part for part in own if isinstance(part, Result)]
        if documents := tuple(read_documents(step.get("chunks") or ())):
            given.append(Retrieval(documents))
        if said or made:
            model = step.get("model")
            name = model if isinstance(model, str) else ""
            messages.append(Message(role="assistant", parts=(*said, *made), took=took_of(step), model=name))
        if given:
            messages.append(Message(role="tool", parts=tuple(given)))
    return Transcript(tuple(messages))


def _messages(value: object) -> Transcript:
    if not isinstance(value, list | tuple):
        raise ValueError("its messages are not a list")
    return transcript_of_messages(value)


def _reasoning(value: object) -> tuple[Reasoning, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError("its reasoning is not text")
    return tuple(Reasoning(text) for text in texts if text)


def _chunks(value: object) -> tuple[Document, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("its chunks are not a list")
    return tuple(read_documents(value))


def _citations(value: object) -> tuple[Part, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("its citations are not a list")
    return tuple(map(read_citation, value))


_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "text": partial(_text, "text"),
    "tool_calls": _calls,
    "steps": _steps,
    "messages": _messages,
    "chunks": _chunks,
    "reasoning": _reasoning,
    "citations": _citations,
    "transcript": from_json,
    "usage": _parse_usage,
    "cost": _parse_cost,
    "model": partial(_text, "model"),
    "finish_reason": partial(_text, "finish_reason"),
    "diagnostics": _diagnostics,
    "session": parse_session,
}
"""The parts of an answer, and how to read each of them."""
_TOLD = frozenset(("text", "tool_calls", "steps", "messages", "chunks", "reasoning", "citations", "transcript"))
"""Which of it a transcript tells."""
_SAYING = frozenset(("text", "tool_calls", "steps", "messages", "transcript"))
"""Which of it is an answer."""


def answer_path(reply: str) -> str | None:
    """The likeliest path of the answer in a reply: by its name, else the longest text; None without any text."""
    try:
        data = json.loads(reply)
    except (ValueError, RecursionError):
        return None
    texts = dict(_paths_of_texts(data, "$")) if isinstance(data, dict | list) else {}
    return max(texts, key=lambda path: (_likeness(path), len(texts[path])), default=None)


_LIKE_ANSWERS = re.compile(r"answer|reply|response|output|text|content|message|completion|result|say", re.IGNORECASE)
_UNLIKE_ANSWERS = re.compile(r"(?:^|_)(?:id|key|token|url|type|status|model|role|version)$|[a-z]Id$", re.IGNORECASE)


def _likeness(path: str) -> int:
    """How much the last name of a path looks like that of an answer."""
    name = path.rpartition(".")[2]
    return -1 if _UNLIKE_ANSWERS.search(name) else int(_LIKE_ANSWERS.search(path) is not None)


def _paths_of_texts(data: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(data, str):
        return [(path, data)]
    if isinstance(data, dict):
        return [
            found
            for name, part in data.items()
            if name.isidentifier()
            for found in _paths_of_texts(part, f"{path}.{name}")
        ]
    if isinstance(data, list):
        return [found for place, part in enumerate(data) for found in _paths_of_texts(part, f"{path}[{place}]")]
    return []


@dataclass(frozen=True, slots=True)
class CapturedTurn:
    """The answer of one turn; `text` is None if none was captured."""

    text: str | None
    tool_calls: tuple[Mapping[str, str], ...] = ()
    diagnostics: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CapturedItem:
    """The captured turns of one item."""

    name: str | None
    turns: tuple[CapturedTurn, ...]


def captured(items: Sequence[Mapping[str, Any]], source: str) -> tuple[CapturedItem, ...]:
    """The answers in the items of an eval document; `source` names the file in messages."""
    return tuple(_item(item, f"{source}, item {number}") for number, item in enumerate(items, 1))


def _item(item: object, where: str) -> CapturedItem:
    if not isinstance(item, Mapping):
        raise ConfigurationError(f"{where}, is not an object; name a dataset file whose items hold answers")
    turns: Any = [item]
    if "turns" in item:
        turns = item["turns"]
        if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
            raise ConfigurationError(f"{where}, has turns that are not a list of objects")
    name = item.get("testId")
    try:
        return CapturedItem(name if isinstance(name, str) else None, tuple(map(_turn, turns)))
    except ValueError as problem:
        raise ConfigurationError(f"{where}: {problem}") from None


def _turn(turn: Mapping[str, Any]) -> CapturedTurn:
    text, diagnostics = turn.get("response"), turn.get("diagnostics")
    diagnostics = diagnostics if isinstance(diagnostics, Mapping) else None
    calls = turn.get("tool_calls")
    if calls is None:
        return CapturedTurn(text if isinstance(text, str) else None, _executed_calls(diagnostics), diagnostics)
    # A model that calls tools says nothing else, so calls without words are a whole answer.
    return CapturedTurn(text if isinstance(text, str) else "", parse_tool_calls(calls), diagnostics)


def _executed_calls(diagnostics: Mapping[str, Any] | None) -> tuple[Mapping[str, str], ...]:
    """The executions among the diagnostics that say with which arguments a function was called."""
    if not diagnostics:
        return ()
    calls = diagnostics.get("tool_calls")
    rows = calls.get("executions") if isinstance(calls, Mapping) else calls
    shaped = [
        {**row, "name": row.get("name", row.get("function_name"))}
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, Mapping) and "arguments" in row
    ]
    return parse_tool_calls([row for row in shaped if isinstance(row["name"], str)])


class Replay:
    """Gives the captured answers; a testId that two items share is passed over and the position counts."""

    def __init__(self, items: Sequence[CapturedItem], source: str) -> None:
        self._items = items
        self._source = source
        uses = Counter(item.name for item in items)
        self._named = {item.name: item for item in items if uses[item.name] == 1}

    async def ask(self, request: Request) -> Reply:
        """The captured answer, or TargetError where there is none."""
        return self.stored_answer(request)

    def stored_answer(self, request: Request) -> Reply:
        """The answer of a question, without waiting."""
        turns = self._item_for(request).turns
        answer = turns[request.turn] if request.turn < len(turns) else CapturedTurn(None)
        if answer.text is None:
            turn = f", turn {request.turn + 1}," if request.turn or len(turns) > 1 else ""
            raise _no_response(f"item {request.item}{turn} has no response in {self._source}; write one there")
        return Reply(text=answer.text, tool_calls=answer.tool_calls, diagnostics=answer.diagnostics)

    def _item_for(self, request: Request) -> CapturedItem:
        if request.item in self._named:
            return self._named[request.item]
        place = request.position + 1
        if request.position >= len(self._items):
            raise _no_response(
                f"item {request.item} has no response in {self._source}, which ends with item {place - 1}"
            )
        item = self._items[request.position]
        # The answer to another question must not be judged, so a position counts only where no name speaks against it.
        if item.name not in (None, request.item) and request.item not in (f"#{place}", f"{item.name}#{place}"):
            raise _no_response(
                f"item {request.item} has no response in {self._source}: none has this testId once, and item {place} "
                f"is {item.name}"
            )
        return item

    async def close(self) -> None:
        """Nothing to close."""


def _no_response(message: str) -> TargetError:
    return TargetError("agentRequestFailed", message)


def _open(config: TargetConfig, context: TargetContext) -> Replay:
    named = config.model.removeprefix("replay:")
    return Replay(captured(context.load_items(_below(context.root, named)), named), named)


def _below(root: Path, named: str) -> Path:
    """The file, which must lie in the project, symbolic links followed."""
    try:
        file = (root / named).resolve()
    except (OSError, ValueError, RuntimeError):
        raise ConfigurationError(f"replay:{named!r} is no path of a file") from None
    if not file.is_relative_to(root.resolve()):
        raise ConfigurationError(f"replay:{named} is outside the project; copy the file below {root}")
    return file


KIND = TargetKind(form="replay:PATH", open=_open)
