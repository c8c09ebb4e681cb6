"""Proposes evaluators without a judge, from what a few answers should be and from what a prompt demands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from tui_evals.light_records import dataclass

_SHORT = 40
_SLOW = 30_000
"""Milliseconds after which an answer is too slow for a first check."""
_NUMBERS = {"one": 1, "a single": 1, "two": 2, "three": 3, "five": 5, "ten": 10}
_LENGTH = re.compile(
    r"(?:(?:at most|no more than|under|up to|maximum(?: of)?|max\.?|within|in) (?P<most>\d+)|"
    r"(?P<few>one|a single|two|three|five|ten)|(?P<or_less>\d+)) (?P<unit>words?|characters?|lines?)"
    r"(?P<less> or (?:less|fewer))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """An evaluator with its options, and why it fits."""

    name: str
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)


def proposals(expected: Sequence[str], prompt: str = "") -> list[Proposal]:
    """Evaluators for answers that should be as `expected`, which may hold none, and for the demands of a prompt."""
    found = [_of_answers([text for text in expected if text.strip()])]
    if re.search(r"\bJSON\b", prompt) and found[0].name != "JsonMatch":
        found.append(Proposal("JsonValid", "the prompt asks for JSON"))
    if (limit := _limit_in(prompt)) is not None:
        most, unit = limit
        found.append(Proposal("Length", f"the prompt allows {most} {unit}", {"unit": unit, "at_most": most}))
    return [*found, Proposal("Latency", f"an answer within {_SLOW // 1000} s", {"threshold": _SLOW})]


def _of_answers(expected: Sequence[str]) -> Proposal:
    if not expected:
        return Proposal("Regex", "no answer is expected, so any text passes", {"pattern": r"\S"})
    if all(_is_json(text) for text in expected):
        return Proposal("JsonMatch", "the expected answers are JSON")
    if all(len(text) <= _SHORT for text in expected):
        return Proposal("ExactMatch", "the expected answers are short, so each has to be in the answer word for word")
    return Proposal("PartialMatch", "the expected answers are sentences, so half of their words have to agree")


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def _limit_in(prompt: str) -> tuple[int, str] | None:
    """The largest count that a prompt allows, and its unit."""
    for match in _LENGTH.finditer(prompt):
        unit = match["unit"].lower().rstrip("s") + "s"
        if match["most"]:
            return int(match["most"]), unit
        if match["or_less"] and match["less"]:
            return int(match["or_less"]), unit
        # "in one word" limits; "two lines" alone may describe the input.
        if match["few"] and re.search(r"\b(?:in|with|only|exactly)\s+$", prompt[: match.start()], re.IGNORECASE):
            return _NUMBERS[match["few"].lower()], unit
    return None
