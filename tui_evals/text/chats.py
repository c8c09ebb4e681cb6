"""Chats as text: what a message says, a conversation as people read it, and which part of it asks the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import strictjson

Messages = tuple[Mapping[str, Any], ...]

_PREFIXES = {"system": "", "example_user": "User: ", "example_assistant": "Assistant: "}
_ANSWERING = ("assistant", "tool", "function")
_MAX_URL = 200  # characters of an address that are shown; the rest is a file in letters


def is_chat(value: object) -> bool:
    """Whether a value is a list of chat messages."""
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(message, Mapping) and "role" in message for message in value)
    )


def content_text(content: object) -> str:
    """What the content of a message says: its text, or its parts one below the other, pictures by their address."""
    if not content:
        return ""
    if isinstance(content, list | tuple):
        return "\n".join(map(_part_text, content))
    return content if isinstance(content, str) else strictjson.dumps(content)


def _part_text(part: object) -> str:
    if not isinstance(part, Mapping):
        return content_text(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = str(part.get("type", "part"))
    if kind == "attachment" and "path" in part:
        return attachment_text(part)
    held = part.get(kind, {name: value for name, value in part.items() if name != "type"})
    address = held.get("url") if isinstance(held, Mapping) else held
    shown = address if isinstance(address, str) else strictjson.dumps(held)
    rest = len(shown) - _MAX_URL
    return f"[{kind}: {shown}]" if rest <= 0 else f"[{kind}: {shown[:_MAX_URL]}… and {rest:,} more characters]"


def attachment_text(about: object) -> str:
    """A file that goes along, in a line: its name, and where they are known its type and size."""
    known: Mapping[str, Any] = about if isinstance(about, Mapping) else {"path": about}
    size = known.get("size")
    length = "" if not isinstance(size, int) else f"{size:,} bytes" if size < 1000 else f"{size / 1000:,.0f} kB"
    return f"[{', '.join(filter(None, (str(known.get('path')), str(known.get('media_type') or ''), length)))}]"


def chat_to_text(messages: Sequence[Mapping[str, Any]], *, cue: bool = False) -> str:
    """A lone message as its content; several each on a line after the name or role of who speaks.

    System messages bear no prefix. `cue` ends the text with the word that asks an assistant to go on.
    """
    if len(messages) == 1:
        return _message_text(messages[0])
    lines = [f"{_speaker_prefix(message)}{_message_text(message)}\n" for message in messages]
    return "".join(lines) + ("Assistant:" if cue else "")


def _speaker_prefix(message: Mapping[str, Any]) -> str:
    speaker = str(message.get("name") or message.get("role") or "user")
    return _PREFIXES.get(speaker, f"{speaker.capitalize()}: ")


def _message_text(message: Mapping[str, Any]) -> str:
    """What a message says, and the tool calls it makes."""
    calls = message.get("tool_calls")
    return " ".join(filter(None, (content_text(message.get("content")), strictjson.dumps(calls) if calls else "")))


def split_at_question(chat: Sequence[Mapping[str, Any]]) -> tuple[Messages, Messages]:
    """What came before, and what is asked with all that follows it; both together are the chat.

    What is asked begins at the last message of the user since the last answer, or where the user says nothing, at the
    last message of the system. What stands behind it, such as a system message, an answer to be continued or the
    calls and results of tools, belongs to the question.
    """
    end = len(chat)
    while end and chat[end - 1].get("role") in _ANSWERING:
        end -= 1
    start = end
    while start and chat[start - 1].get("role") not in _ANSWERING:
        start -= 1
    users = [number for number in range(start, end) if chat[number].get("role") == "user"]
    begin = users[-1] if users else max(end - 1, 0)
    return tuple(chat[:begin]), tuple(chat[begin:])


def question_text(chat: Sequence[Mapping[str, Any]]) -> str:
    """What a chat asks, as text."""
    return chat_to_text(split_at_question(chat)[1])
