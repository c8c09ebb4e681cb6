"""Additional output of providers in our form: why an answer ended, log-probabilities, and embeddings as text."""

from __future__ import annotations

import base64
import binascii
import json
import math
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from operator import mul
from typing import Any

from tui_evals.light_records import dataclass

ENDINGS: Mapping[str, str] = {
    "length": "cut off at the limit of tokens",
    "content_filter": "blocked by the provider's content filter",
    "refusal": "refused by the model",
    "malformed_call": "ended at a tool call that the model wrote wrongly",
    "max_steps": "stopped at the most steps it may take",
    "max_turns": "ended at the most turns it may take",
    "given_up": "given up by its simulated user",
}
"""The endings of an incomplete answer, and what they mean."""
BLOCKED = "blocked"
"""The diagnostic with the message of a provider whose filter refused the question."""
_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("end", "eos", "end_turn", "stop_sequence", "complete", "completed"), "stop"),
    **dict.fromkeys(("function_call", "tool_use"), "tool_calls"),
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_length"), "length"),
    **dict.fromkeys(("model_context_window_exceeded", "context_length_exceeded"), "length"),
    **dict.fromkeys(("safety", "image_safety", "recitation", "prohibited_content", "blocklist"), "content_filter"),
    **dict.fromkeys(("malformed_function_call", "unexpected_tool_call"), "malformed_call"),
    **dict.fromkeys(("spii", "error_toxic", "content_filtered", "guardrail_intervened"), "content_filter"),
}
"""The providers' words for ours, in lower case."""
_LONGEST = 40


def ending_word(reason: str | None, diagnostics: Mapping[str, object] | None = None) -> str:
    """How an answer ended: `stop`, `tool_calls`, a word of ENDINGS, else the provider's own; empty where it says none.

    A refusal in the diagnostics is one under any finish reason.
    """
    if diagnostics and diagnostics.get("refusal"):
        return "refusal"
    word = (reason or "").lower()
    return _NAMES.get(word, word)[:_LONGEST]


@dataclass(frozen=True, slots=True)
class Choice:
    """A piece of an answer that contains a digit, with its alternatives."""

    start: int
    """At which character of the answer it begins."""
    text: str
    likely: Mapping[str, float]
    """The log probability of it and of the most likely alternatives."""


def tokens_in(logprobs: object) -> list[Any]:
    """The tokens in the `logprobs` of a chat completion or response part; none in any other form."""
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else logprobs
    return tokens if isinstance(tokens, list) else []


def choices_of(tokens: object) -> tuple[Choice, ...]:
    """The choices among the tokens of an answer, as OpenAI's protocols list them; empty for anything else."""
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
        # A token may be only a part of a character, which its text cannot show.
        written = bytes(token.get("bytes") or text.encode())
        start += sum(byte & 0xC0 != 0x80 for byte in written)


def choices_data(choices: Sequence[Choice]) -> list[list[Any]]:
    """Choices as plain data."""
    return [list(astuple(choice)) for choice in choices]


def choices_from(data: object) -> tuple[Choice, ...]:
    """Choices from their plain data."""
    return tuple(Choice(*one) for one in data) if isinstance(data, list) else ()


MAX_LENGTH = 100_000
"""The most numbers in a vector; no model returns more."""


def pack_vector(vector: Sequence[float]) -> str:
    """A vector as a line of text; raises ValueError for an invalid one."""
    if not 0 < len(vector) <= MAX_LENGTH or not all(map(math.isfinite, vector)):
        raise ValueError("it is no list of finite numbers")
    try:
        numbers = array("f", vector)
    except OverflowError:
        raise ValueError("it holds a number that is too large") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


def unpack_vector(line: str) -> list[float]:
    """The vector in a line, packed or as a JSON list; raises ValueError for an invalid one."""
    if line.startswith("["):
        values = json.loads(line)
        if not all(type(value) in (int, float) for value in values):
            raise ValueError("it is no list of numbers")
        return [float(value) for value in values]
    numbers = array("f")
    try:
        numbers.frombytes(base64.b64decode(line, validate=True))
    except (binascii.Error, ValueError):
        raise ValueError("it is no vector") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """The cosine of two vectors, from -1 to 1; 0 for a zero vector. ValueError if their lengths differ."""
    if len(left) != len(right):
        raise ValueError(f"one vector holds {len(left):,} numbers and the other {len(right):,}")
    size = math.sqrt(sum(map(mul, left, left))) * math.sqrt(sum(map(mul, right, right)))
    return max(-1.0, min(1.0, sum(map(mul, left, right)) / size)) if size else 0.0
