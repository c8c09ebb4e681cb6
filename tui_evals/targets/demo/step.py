"""The question of a step of a generation, taken apart: its fenced texts, the words around them, which step it is."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.targets.answers import content_text

from .words import listed

Messages = Sequence[Mapping[str, Any]]
_SIGN = "stands material to work from"
_MARK = re.compile(r"<data-([0-9a-f]{16}) ")
_HEADER = re.compile(r"^ruleid *,.*$|\bruleid *,[^\n`)]*", re.MULTILINE)
STOP = frozenset(
    listed(
        "the a an and or of to in on for with that this it is are be as by from at if not no does do which "
        "what who when output input text answer answers reply only must never always exactly word words "
        "sentence sentences list format json user users you your one two three any all each these those form "
        "most least long keep keeps values serves suits role"
    )
)
"""Words that say little about a text."""


@dataclass(frozen=True, slots=True)
class Step:
    """The question of a step: its texts by name, and the words around them."""

    texts: Mapping[str, str]
    words: str
    number: int
    """Where the numbers of what is made up start: another prompt or seed, another start."""


def is_generating(messages: Messages) -> bool:
    """Whether a step of a generation asks: the first message says what stands between the marks."""
    return bool(messages) and _SIGN in content_text(messages[0].get("content"))


def step_in(messages: Messages, seed: float) -> Step:
    """The question in these messages."""
    said = "\n\n".join(content_text(message.get("content")) for message in messages)
    mark = _MARK.search(said)
    # Only the mark that is explained first counts: a text may hold marks of its own.
    end = re.escape(f"</data-{mark[1]}>") if mark else "$."
    fence = re.compile(rf"<data-{mark[1] if mark else ''} ([^\n>]{{1,60}})>\n(.*?)\n{end}", re.DOTALL)
    texts = {found[1]: found[2] for found in fence.finditer(said)}
    facts = [seed, *(texts.get(name, "") for name in ("prompt", "scenario", "rule", "input"))]
    digest = hashlib.sha256(json.dumps(facts).encode()).digest()
    return Step(texts, fence.sub("", said), int.from_bytes(digest[:3], "big"))


def header_in(words: str) -> str | None:
    """The first line that a CSV of tests is to have."""
    found = _HEADER.search(words)
    return found[0].strip() if found else None


def step_of(step: Step) -> str | None:
    """The name of the step, by the texts it shows; where it shows the prompt alone, by what it speaks of most."""
    names = step.texts.keys()
    if header_in(step.words) or {"rules", "inputs"} <= names:
        return "tests"
    for name, shown in (("expansion", {"rule", "input"}), ("validity", {"inputspec", "input"})):
        if shown <= names:
            return name
    for name, one in (
        ("groundedness", "rule"),
        ("baseline", "inputs"),
        ("inverse", "rules"),
        ("inputspec", "examples"),
    ):
        if one in names:
            return name
    if "prompt" not in names:
        return None
    spoken = {
        "intent": r"\bgoals?\b|\bpurpose\b|\bintents?\b|\bis for\b|\bone sentence\b",
        "inputspec": r"\binputs?\b",
        "rules": r"\brules?\b",
    }
    counts = {name: len(re.findall(pattern, step.words, re.IGNORECASE)) for name, pattern in spoken.items()}
    return max(counts, key=lambda name: counts[name])


def count_in(words: str, otherwise: int) -> int:
    """The first number among words."""
    found = re.search(r"\b(\d{1,4})\b", words)
    return int(found[1]) if found else otherwise


def content_words(text: str) -> list[str]:
    """The words that carry meaning, in small letters."""
    found = (word.lower() for word in re.findall(r"[^\W\d_]{2,40}", text))
    return list(dict.fromkeys(word for word in found if word not in STOP))
