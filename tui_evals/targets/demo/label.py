"""Answers of the demo target to prompts that offer a list of values, one a line, each with what it means."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tui_evals.targets.answers import content_text

from .inputs import ABSENT
from .prompt import described_labels, sentences, special_values
from .step import content_words
from .words import speech_of

_LONGEST = 20_000
_FIELD = re.compile(r"^[^\n:{}]{1,40}: *(\S.*)$", re.MULTILINE)


def closest(known: Mapping[str, str], text: str, number: int) -> str:
    """The value whose meaning has most in common with a text; where none has anything, one by number."""
    said = {*content_words(text)}
    scores = {value: _likeness(said, {*content_words(f"{value} {about}")}) for value, about in known.items()}
    best = max(scores, key=lambda value: scores[value])
    return best if scores[best] else list(known)[number % len(known)]


def _likeness(some: set[str], others: set[str]) -> float:
    return len(some & others) / max(1, len(some | others))


def from_list(messages: Sequence[Mapping[str, Any]], question: str) -> tuple[str, str] | None:
    """A fitting value of the list in the system message and one that does not fit; None where there is no list."""
    system = next((message for message in messages if message.get("role") == "system"), None)
    body = content_text(system.get("content")) if system else ""
    known = described_labels(body) if len(body) < _LONGEST else {}
    if not known:
        return None
    fields = _FIELD.findall(question[:_LONGEST])
    word = fields[-1].strip() if len(fields) > 1 and fields[-1].strip().isalpha() else ""
    hint = speech_of(word) if word else question[:_LONGEST]
    number = int.from_bytes(hashlib.sha256(hint.encode("utf-8", "surrogatepass")).digest()[:2], "big")
    right = _special(body, word, " ".join(fields[:-1])) or closest(known, hint, number)
    return right, next(value for value in known if value != right)


def _special(body: str, word: str, text: str) -> str | None:
    """The value that the prompt sets apart for a word like this one in a text, if any."""
    for said in sentences(body) if word else ():
        values = special_values(said)
        absent = ABSENT.search(said) and word.lower() not in text.lower()
        if values and (absent or ("interjection" in said and speech_of(word) == "interjection")):
            return values[0]
    return None
