"""What was sent and what came back, as rows: tool calls, the chat, what else is known of the reply, every attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tui_evals.store.records import CallRecord
from tui_evals.store.rows import Detail
from tui_evals.targets.answers import content_text
from tui_evals.text import strictjson
from tui_evals.text.figures import duration, money
from tui_evals.tui.lines import Rows, Style, row

from .case import messages_of
from .parts import heading, paragraph

_ROLES: dict[str, Style] = {"system": "dim", "user": "accent", "assistant": "strong", "tool": "warn"}
_INLINE = 60


def pretty(value: object) -> str:
    """A value as JSON a person can read: on one line where it is short."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _INLINE else json.dumps(value, ensure_ascii=False, indent=2)


def arguments_of(call: Mapping[str, Any]) -> str:
    """The arguments of a tool call, as JSON where they are."""
    given = call.get("arguments", "")
    if not isinstance(given, str):
        return pretty(given)
    try:
        return pretty(strictjson.loads(given))
    except (strictjson.JsonError, RecursionError):
        return given


def tool_rows(detail: Detail, width: int) -> Iterator[Rows]:
    """The tools the target wanted called."""
    calls = detail.answer.tool_calls if detail.answer else ()
    if not calls:
        return
    yield heading("Tool calls")
    for call in calls:
        yield from _call(call, width)


def _call(call: Mapping[str, Any], width: int) -> Iterator[Rows]:
    inner = call.get("function")
    inner = inner if isinstance(inner, dict) else call
    yield paragraph(f"→ {inner.get('name')}", width, "strong")
    yield paragraph(arguments_of(inner), width, "", 2)


def request_rows(detail: Detail, width: int) -> Iterator[Rows]:
    """The chat that was sent, message by message, and the tools and parameters sent with it."""
    if detail.answer is None or not detail.answer.request:
        return
    yield heading("Request")
    for message in messages_of(detail):
        role = str(message.get("role"))
        yield paragraph(f"{role}:", width, _ROLES.get(role, "strong"))
        yield paragraph(_content(message), width, "", 2)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                yield from _call(call, width)
    for name, value in detail.answer.request.items():
        if name != "messages" and value not in (None, [], {}):
            yield paragraph(f"{name}: {pretty(value)}", width, "dim")


def _content(message: Mapping[str, Any]) -> str:
    """What a message says; parts that are no text are named."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    others = [str(part.get("type")) for part in parts if isinstance(part, dict) and part.get("type") != "text"]
    return "\n".join([content_text(content), *(f"<{kind}>" for kind in others)])


def attempts(detail: Detail, width: int) -> Iterator[Rows]:
    """What else the target told, and every call that was made for the answer, judges included."""
    if detail.answer is not None and detail.answer.diagnostics:
        yield heading("Diagnostics")
        yield paragraph(pretty(detail.answer.diagnostics), width, "dim")
    if detail.calls:
        yield heading("Attempts")
    for call in detail.calls:
        yield _attempt(call, width)


def _attempt(call: CallRecord, width: int) -> Rows:
    parts = [
        f"{'!' if call.code else '✓'} {call.kind} {call.target}",
        f"attempt {call.attempt}" if call.attempt > 1 else "",
        "from the cache" if call.from_cache else duration(call.latency_ms / 1000),
        f"{call.input_tokens or 0} tokens in, {call.output_tokens or 0} out" if call.input_tokens is not None else "",
        "" if call.cost is None else money(call.cost),
        f"{call.code}: {call.message or ''}" if call.code else "",
    ]
    found = paragraph(" · ".join(part for part in parts if part), width, "error" if call.code else "")
    return found if len(found) else [row()]
