"""Ranks names by what is typed: the name itself, its beginning, the beginning of its words, within, roughly, about."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")
_ALIKE = 80.0
"""How alike a name is, of 100, to what was typed with a slip."""
_LEAST_FUZZY = 3
_NOT = 5


def ranked(typed: str, names: Sequence[str], abouts: Sequence[str], *, roughly: bool = True) -> list[int]:
    """The numbers of the names that match, best first; equally good ones keep their order.

    Where none does and it may be `roughly`, those that are nearly what was typed.
    """
    words = typed.casefold().split()
    if not words:
        return list(range(len(names)))
    ranks = [_rank(words, name, about) for name, about in zip(names, abouts, strict=True)]
    found = [number for number, rank in enumerate(ranks) if rank < _NOT]
    if not found and roughly:
        return _nearly(typed, names)
    return sorted(found, key=ranks.__getitem__)


def _rank(words: Sequence[str], name: str, about: str) -> int:
    low, whole = name.casefold(), " ".join(words)
    if low == whole:
        return 0
    if low.startswith(whole):
        return 1
    begins = [word.casefold() for word in _WORD.findall(name)]
    if all(any(word.startswith(one) for word in begins) for one in words):
        return 2
    if all(word in low for word in words):
        return 3
    return 4 if all(word in low or word in about.casefold() for word in words) else _NOT


def _nearly(typed: str, names: Sequence[str]) -> list[int]:
    """The names that are nearly what was typed."""
    if len(typed.strip()) < _LEAST_FUZZY:
        return []
    # Imported when nothing else matches, because most finders never need it.
    from rapidfuzz import fuzz, process

    found = process.extract(
        typed.casefold(), [name.casefold() for name in names], scorer=fuzz.ratio, score_cutoff=_ALIKE, limit=None
    )
    return [number for _, _, number in found]


def letters_of(typed: str, name: str) -> list[tuple[int, int]]:
    """Where the typed words are in a name, to be marked."""
    low = name.casefold()
    if len(low) != len(name):  # a letter that casefold makes two of
        return []
    places = sorted((at, at + len(word)) for word in typed.casefold().split() if (at := low.find(word)) >= 0)
    merged: list[tuple[int, int]] = []
    for start, end in places:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
