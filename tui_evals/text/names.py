"""Words for errors: names given twice or mistyped, the words that errors share, the last frames of the user's code."""

from __future__ import annotations

import os
import re
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path


def numbered(names: Iterable[str]) -> tuple[str, ...]:
    """The names, of those that come again each but the first with its number."""
    seen: Counter[str] = Counter()
    told = []
    for name in names:
        seen[name] += 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(told)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest known name, or nothing when none is near."""
    from rapidfuzz import process
    from rapidfuzz.distance import DamerauLevenshtein

    by_lowercase: dict[str, str] = {}
    for candidate in known:
        other = by_lowercase.setdefault(candidate.lower(), candidate)
        if DamerauLevenshtein.distance(name, candidate) < DamerauLevenshtein.distance(name, other):
            by_lowercase[candidate.lower()] = candidate
    cutoff = max(1, len(name) // 3)
    nearest = process.extractOne(
        name.lower(), by_lowercase.keys(), scorer=DamerauLevenshtein.distance, score_cutoff=cutoff
    )
    return f" (did you mean '{by_lowercase[nearest[0]]}'?)" if nearest else ""


_OWN_WORDS = re.compile(
    r"\b(answered \d{3}|answered what is not [^:]+|could not answer(?: \([^)]*\))?|did not answer within|broke off"
    r"|the connection broke|refuses connections|host name is not known|says it failed)(?!\w)"
)
"""The words before a quotation, or instead of one, that name a cause by themselves."""
_NUMBER = re.compile(r"(?<!\d)\d+(?:\.\d+)?")
"""The varying parts of messages with one cause: ids, seconds, ports."""


def own_words(message: str) -> str:
    """The words of a message that name its cause; empty where it has none of ours."""
    found = _OWN_WORDS.search(message)
    return found[1].rstrip() if found else ""


def cause_of(message: str) -> str:
    """The common part of messages with one cause: our own words, else the message without its numbers."""
    return own_words(message) or _NUMBER.sub("#", message)


_OWN = str(Path(__file__).parent.parent) + os.sep
_FRAMES = 6
_LONGEST = 6_000


def last_frames(error: BaseException) -> str:
    """The traceback as Python prints it, with files named from the current folder; causes are above, as usual."""
    told = traceback.TracebackException.from_exception(error)
    for part in _chain(told):
        frames = [frame for frame in part.stack if not frame.filename.startswith(_OWN)] or list(part.stack)
        for frame in frames:
            frame.filename = _shown(frame.filename)
        part.stack[:] = frames[-_FRAMES:]
    return "".join(told.format()).rstrip()[-_LONGEST:]


def _chain(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting = [told]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += [one for one in (part.__cause__, part.__context__, *(part.exceptions or ())) if one is not None]


def _shown(file: str) -> str:
    folder = os.getcwd() + os.sep
    return file.removeprefix(folder)
