"""What a model might have written in the place of the digits of an answer, from the log-probabilities it gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Choice:
    """A piece of an answer that holds a digit, and what else might have stood there."""

    start: int
    """At which character of the answer it begins."""
    text: str
    likely: Mapping[str, float]
    """It and the pieces the model found most likely there, with the logarithm of the probability of each."""


def tokens_in(logprobs: object) -> list[Any]:
    """The tokens in what a chat completion or a part of a response has as `logprobs`; none in any other form."""
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else logprobs
    return tokens if isinstance(tokens, list) else []


def choices_of(tokens: object) -> tuple[Choice, ...]:
    """The choices among the tokens of an answer, as OpenAI's protocols list them; what is no such list has none."""
    try:
        return tuple(_choices(tokens)) if isinstance(tokens, list) else ()
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def _choices(tokens: Sequence[Mapping[str, Any]]) -> Iterator[Choice]:
    start = 0
    for token in tokens:
        text = token["token"]
        others = token.get("top_logprobs") or ()
        if len(others) > 1 and any(map(str.isdigit, text)):
            yield Choice(start, text, {one["token"]: float(one["logprob"]) for one in (*others, token)})
        # A token may be a part of a character only, of which its text says nothing.
        written = bytes(token.get("bytes") or text.encode())
        start += sum(byte & 0xC0 != 0x80 for byte in written)


def choices_data(choices: Sequence[Choice]) -> list[list[Any]]:
    """Choices as plain data."""
    return [list(astuple(choice)) for choice in choices]


def choices_from(data: object) -> tuple[Choice, ...]:
    """Choices from their plain data."""
    return tuple(Choice(*one) for one in data) if isinstance(data, list) else ()
