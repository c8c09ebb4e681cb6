"""Parses answers given as plain data: by the user's own code, or captured in a file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tui_evals.text.nearest import did_you_mean

from .base import MAX_TOKENS, Reply, TargetError, Usage

_KEYS = ("text", "tool_calls", "usage", "cost", "model", "finish_reason", "diagnostics")


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


def parse_reply(value: object, who: str) -> Reply:
    """The reply that a text or an object with a text stands for; TargetError names what does not fit."""
    try:
        return Reply(text=value) if isinstance(value, str) else _reply_from_object(value)
    except (ValueError, TypeError, RecursionError) as problem:
        raise TargetError("agentResponseUnparseable", f"{who} gave no answer that can be used: {problem}") from None


def _reply_from_object(value: object) -> Reply:
    if not isinstance(value, Mapping):
        raise ValueError(f"it is of type {type(value).__name__}; text or an object with a text is expected")
    for key in value:
        if key not in _KEYS:
            known = ", ".join(_KEYS)
            raise ValueError(f"it holds {str(key)[:40]!r}{did_you_mean(str(key), _KEYS)}; known are {known}")
    fields = {key: part for key, part in value.items() if part is not None}
    if "text" not in fields and "tool_calls" not in fields:
        raise ValueError("it has neither text nor tool_calls")
    for key in ("text", "model", "finish_reason"):
        if not isinstance(fields.get(key, ""), str):
            raise ValueError(f"its {key} is not text")
    if not isinstance(fields.get("diagnostics", {}), Mapping):
        raise ValueError("its diagnostics are not an object")
    fields.setdefault("text", "")
    fields["tool_calls"] = parse_tool_calls(fields.get("tool_calls", ()))
    if "usage" in fields:
        fields["usage"] = _parse_usage(fields["usage"])
    if "cost" in fields:
        fields["cost"] = _parse_cost(fields["cost"])
    return Reply(**fields)


def _parse_usage(value: object) -> Usage:
    counts = value if isinstance(value, Mapping) else {}
    values: list[Any] = [counts.get("input_tokens"), counts.get("output_tokens")]
    values += [counts.get("cached_tokens", 0), counts.get("reasoning_tokens", 0)]
    if not all(type(count) is int and 0 <= count <= MAX_TOKENS for count in values):
        raise ValueError(
            "its usage must hold input_tokens and output_tokens, and may hold cached_tokens and reasoning_tokens, "
            "whole numbers from 0"
        )
    return Usage(*values)


def _parse_cost(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError("its cost must be a number of US dollars from 0")
    return float(value)
