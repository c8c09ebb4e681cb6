"""Chat messages as one text, which is how a grading prompt shows a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .base import as_text

_PREFIXES = {"system": "", "example_user": "User: ", "example_assistant": "Assistant: "}


def is_chat(value: object) -> bool:
    """Whether a value is a list of chat messages."""
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(message, Mapping) and "role" in message for message in value)
    )


def chat_to_text(messages: Sequence[Mapping[str, Any]], *, cue: bool = False) -> str:
    """A lone message as its content; several each on a line after the name or role of who speaks.

    System messages bear no prefix. `cue` ends the text with the word that asks an assistant to go on.
    """
    if len(messages) == 1:
        return _content(messages[0])
    lines = [f"{_prefix(message)}{_content(message)}\n" for message in messages]
    return "".join(lines) + ("Assistant:" if cue else "")


def _prefix(message: Mapping[str, Any]) -> str:
    speaker = str(message.get("name") or message.get("role") or "user")
    return _PREFIXES.get(speaker, f"{speaker.capitalize()}: ")


def _content(message: Mapping[str, Any]) -> str:
    """What a message says, and the tool calls it makes."""
    said = (message.get("content"), message.get("tool_calls"))
    return " ".join(as_text(part) for part in said if part)
