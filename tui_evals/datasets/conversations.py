"""A conversation in OpenAI's format as the item that asks it again, with the checks its last answer suggests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from .chat_logs import Conversation, read_conversations, read_messages
from .from_chat import item_of_messages
from .paths import CannotEdit, Data, with_field

__all__ = ["SUGGESTED", "Conversation", "item_from", "read_conversations", "read_messages", "with_suggestions"]

SUGGESTED = "suggested"
"""The key under a unit's extensions where checks wait that nobody has switched on."""
_QUESTION = {"role": "user", "content": "?"}


def item_from(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Data] = (), response_format: Any = None
) -> tuple[Data, dict[str, Data]]:
    """The item that asks a conversation again, and the evaluators its last answer suggests, which nobody switched on.

    A conversation with tool calls keeps them as history, so that only its last answer is asked for again.
    """
    answers = list(takewhile(lambda message: message.get("role") == "assistant", reversed(messages)))[::-1]
    asked = list(messages[: len(messages) - len(answers)])
    if not asked:
        raise CannotEdit("the conversation holds nothing that was asked; give the messages before the answer")
    if any(message.get("role") == "tool" or message.get("tool_calls") for message in asked):
        item = _after(asked, answers)
    else:
        item = item_of_messages(messages)
    for name, value in (("tools", list(tools)), ("response_format", response_format)):
        if value:
            item = with_field(item, name, value)
    return item, _suggested(answers)


def _after(asked: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> Data:
    """The item that asks for the last answer only, with all before it as history."""
    *history, last = asked
    if last.get("role") == "user":
        item = item_of_messages([last, *answers])
        return with_field(item, "messages", [*map(dict, history), *item.get("messages", ())]) if history else item
    expected = item_of_messages([_QUESTION, *answers]).get("expected_response")
    whole: Data = {"messages": [dict(message) for message in asked]}
    return whole if expected is None else {**whole, "expected_response": expected}


def _suggested(answers: Sequence[Mapping[str, Any]]) -> dict[str, Data]:
    """The checks an answer suggests: the tools it called, or else its very text."""
    calls = (call for message in answers for call in message.get("tool_calls") or ())
    names = list(dict.fromkeys(str(call["function"]["name"]) for call in calls))
    if names:
        first, *others = names
        labels = {
            f"ToolCalled_{number}": {"type": "ToolCalled", "tool_name": name} for number, name in enumerate(others, 2)
        }
        return {"ToolCalled": {"tool_name": first}, **labels}
    said = "expected_response" in item_of_messages([_QUESTION, *answers])
    return {"ExactMatch": {"mode": "equals", "case_sensitive": True}} if said else {}


def with_suggestions(item: Data, suggested: Mapping[str, Data]) -> Data:
    """The item with the suggested checks noted beside its last answer, where they judge nothing."""
    if not suggested:
        return item
    if "turns" in item:
        *before, last = item["turns"]
        return {**item, "turns": [*before, with_suggestions(last, suggested)]}
    return with_field(item, "extensions", {**(item.get("extensions") or {}), SUGGESTED: dict(suggested)})
