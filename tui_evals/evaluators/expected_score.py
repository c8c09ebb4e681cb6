"""The score that a judge's log-probabilities expect: the mean of the levels it might have written, by how likely."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tui_evals.text.logprobs import Choice

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NAMED = re.compile(r'"score"\s*:\s*"?(\d+(?:\.\d+)?)')
_ABOVE_ZERO = 0.01
"""What a logarithm of a probability may come to by rounding."""
_LEVEL = re.compile(r"[^\w.-]*([1-5])(?![\d.])\W*")
"""A piece that is a level, whatever stands around it such as a blank or a quotation mark."""


@dataclass(frozen=True, slots=True)
class ExpectedScore:
    """The expected score, and how likely each level was of those that were considered."""

    score: float
    levels: dict[str, float]


def expected_score(reply: str, verdict: str, written: float, choices: Sequence[Choice]) -> ExpectedScore | None:
    """What a reply was expected to give instead of the score that is written in its verdict; None where nobody knows.

    Only the levels from 1 to 5 count, and together they count as certain.
    """
    place = _place_of(reply, verdict, written)
    choice = next((one for one in choices if one.start <= place < one.start + len(one.text)), None)
    if choice is None or not reply.startswith(choice.text, choice.start):
        return None
    likely: dict[int, float] = {}
    for text, logprob in choice.likely.items():
        level = _LEVEL.fullmatch(text)
        if level and logprob < _ABOVE_ZERO:
            likely[int(level[1])] = likely.get(int(level[1]), 0.0) + math.exp(logprob)
    whole = sum(likely.values())
    if not whole or written not in likely:
        return None
    shares = {level: share / whole for level, share in sorted(likely.items())}
    levels = {str(level): round(share, 4) for level, share in shares.items()}
    return ExpectedScore(round(sum(level * share for level, share in shares.items()), 4), levels)


def _place_of(reply: str, verdict: str, written: float) -> int:
    """At which character of a reply the score of its verdict stands; -1 where it is not found."""
    start = reply.rfind(verdict)
    pattern, group = (_NAMED, 1) if verdict.startswith("{") else (_NUMBER, 0)
    places = (match.start(group) for match in pattern.finditer(verdict) if float(match[group]) == written)
    place = next(places, -1)
    return -1 if -1 in (start, place) else start + place
