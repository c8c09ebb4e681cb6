"""Turn a chat into an item: user messages become prompts, the replies expected responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .paths import CannotEdit, Data
from .versions import MAX_TURNS

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A prompt of the chat with its index, its reply, and the messages that have to come before it."""

    index: int
    before: tuple[Message, ...]
    prompt: str
    answer: str | None

    def as_turn(self, history: Sequence[Message]) -> Data:
        """The turn, or single prompt, that asks it again after a history."""
        turn: Data = {"messages": _without_nulls(history)} if history else {}
        turn["prompt"] = self.prompt
        return turn if self.answer is None else {**turn, "expected_response": self.answer}


def item_of_messages(messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> Data:
    """The item that repeats a chat; what is unanswered, and exchanges beyond MAX_TURNS, are history."""
    if not messages:
        raise CannotEdit("nothing has been said yet; ask something first")
    item: Data = {"variables": dict(variables)} if variables else {}
    prompt_indexes = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    if not prompt_indexes or _message_text(messages[prompt_indexes[-1]]) is None:
        return item | _item_of_history(messages, prompt_indexes)
    first, *later = _find_exchanges(messages, prompt_indexes)[-MAX_TURNS:]
    history = messages[: first.index]
    if not later:
        return item | first.as_turn(history)
    if history:
        item["messages"] = _without_nulls(history)
    return item | {"turns": [first.as_turn(()), *(exchange.as_turn(exchange.before) for exchange in later)]}


def _find_exchanges(messages: Sequence[Message], prompt_indexes: Sequence[int]) -> list[_Exchange]:
    """The answered prompts and the last one; other messages become history of the next prompt."""
    exchanges: list[_Exchange] = []
    waiting: list[Message] = [*messages[: prompt_indexes[0]]]
    for index, end in zip(prompt_indexes, [*prompt_indexes[1:], len(messages)], strict=True):
        prompt, replies = _message_text(messages[index]), messages[index + 1 : end]
        answer = _last_reply(replies)
        if prompt is not None and (answer is not None or end == len(messages)):
            exchanges.append(_Exchange(index, tuple(waiting), prompt, answer))
            waiting = [message for message in replies if message.get("role") == "system"]
        else:
            waiting += messages[index:end]
    return exchanges


def _item_of_history(messages: Sequence[Message], prompt_indexes: Sequence[int]) -> Data:
    """An item for a chat whose last question is not plain text (an image, say): the chat becomes its messages."""
    end = prompt_indexes[-1] + 1 if prompt_indexes else len(messages)
    answer = _last_reply(messages[end:])
    item: Data = {"messages": _without_nulls(messages[:end])}
    return item if answer is None else {**item, "expected_response": answer}


def _last_reply(replies: Sequence[Message]) -> str | None:
    texts = (_message_text(message) for message in reversed(replies) if message.get("role") == "assistant")
    return next((text for text in texts if text is not None), None)


def _message_text(message: Message) -> str | None:
    """The text of a message, None if it holds anything but text."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        texts = [part for part in parts if isinstance(part, str)]
        content = "\n".join(texts) if len(texts) == len(content) else None
    return content if isinstance(content, str) and content else None


def _without_nulls(messages: Sequence[Message]) -> list[Data]:
    return [{name: value for name, value in message.items() if value is not None} for message in messages]
