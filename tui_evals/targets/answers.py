"""Parses answers given as plain data: by the user's own code, or captured in a file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from tui_evals.targets.chat import parse_completion, parse_response
from tui_evals.text.names import did_you_mean
from tui_evals.transcript import (
    Call,
    Think,
    Which,
    answer_text,
    parts_of,
    plain_transcript,
    split_think,
    without_think,
)

from .base import MAX_TOKENS, Reply, TargetError, Usage

_COUNTS = {
    "input_tokens": ("prompt_tokens", None),
    "output_tokens": ("completion_tokens", None),
    "cached_tokens": ("", 0),
    "reasoning_tokens": ("", 0),
}
"""The counts of usage, each with the name that a chat completion has for it, and what it is where nobody says it."""
MAX_SESSION = 100_000
"""Characters of a session; it is stored with each answer and sent with each question."""


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
    """Tool calls in our form or a chat completion's, the arguments an object or its text; ValueError says why not."""
    if not isinstance(value, list | tuple):
        raise ValueError("tool_calls must be a list")
    return tuple(_tool_call(call, number) for number, call in enumerate(value, 1))


def _tool_call(call: object, number: int) -> dict[str, str]:
    inner = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise ValueError(f"tool call {number} has no name")
    arguments = inner.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": str(call.get("id") or f"call_{number}"), "name": inner["name"], "arguments": text}


def parse_reply(value: object, who: str, streamed: str = "") -> Reply:
    """The reply that a text, an object with a text or an OpenAI completion stands for; TargetError says what is wrong.

    Of what was `streamed` before it is the text, unless it has one of its own.
    """
    try:
        if isinstance(value, Reply):
            return value
        if isinstance(value, str):
            return Reply(text=value)
        return _reply_from_mapping(value, streamed) if isinstance(value, Mapping) else _reply_of(value, streamed)
    except (ValueError, TypeError, RecursionError) as problem:
        raise TargetError("agentResponseUnparseable", f"{who} gave no answer that can be used: {problem}") from None


def _reply_from_mapping(value: Mapping[Any, Any], streamed: str) -> Reply:
    """The reply in a mapping that was written for us, so that whatever does not fit in it is a mistake."""
    if (completion := _completion(value)) is not None:
        return completion
    for key in value:
        if key not in _PARTS:
            known = ", ".join(_PARTS)
            raise ValueError(f"it holds {str(key)[:40]!r}{did_you_mean(str(key), _PARTS)}; known are {known}")
    parts = {key: _PARTS[key](plain(part)) for key, part in value.items() if part is not None}
    if "text" not in parts and "tool_calls" not in parts and not streamed:
        raise ValueError("it has neither text nor tool_calls")
    return Reply(**{"text": streamed, **parts})


def _reply_of(value: object, streamed: str) -> Reply:
    """The reply in an object of a class: what of it can be used, for such a class was not written for us.

    A dataclass or pydantic model without a text is an answer in JSON.
    """
    data = plain(value)
    if isinstance(data, Mapping) and (completion := _completion(data)) is not None:
        return completion
    given = {key: part for key in _PARTS if (part := getattr(value, key, None)) is not None and not callable(part)}
    if not given.keys() & {"text", "tool_calls"} and not streamed:
        if not isinstance(data, Mapping):
            raise ValueError(f"it is of type {type(value).__name__}; text or an object with a text is expected")
        return Reply(text=json.dumps(data, ensure_ascii=False, default=str))
    parts: dict[str, Any] = {"text": streamed}
    unusable = []
    for key, part in given.items():
        try:
            parts[key] = _PARTS[key](plain(part))
        except (ValueError, TypeError):
            if key == "text":
                raise
            unusable.append(key)
    if unusable:
        parts["diagnostics"] = {**parts.get("diagnostics", {}), "not used": ", ".join(unusable)}
    return Reply(**parts)


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
        tool_calls=tuple(
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in parts_of(transcript, Call)
        ),
        choices=tuple(replace(one, start=one.start - cut) for one in reply.choices if one.start >= cut),
        transcript=transcript if thought or reply.transcript is not None else None,
    )


def plain(value: Any) -> Any:
    """A value as plain data: models and dataclasses as mappings, each whole."""
    from pydantic import BaseModel  # when it is wanted, because it takes a while

    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, BaseModel):
        return value.model_dump(warnings=False)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def _completion(data: Mapping[Any, Any]) -> Reply | None:
    """The reply in what a provider's library returned; None where the data is something else."""
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


_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "text": partial(_text, "text"),
    "tool_calls": parse_tool_calls,
    "usage": _parse_usage,
    "cost": _parse_cost,
    "model": partial(_text, "model"),
    "finish_reason": partial(_text, "finish_reason"),
    "diagnostics": _diagnostics,
    "session": parse_session,
}
"""What an answer may hold, and how each part of it is read."""
