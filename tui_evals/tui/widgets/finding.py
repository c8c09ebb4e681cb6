"""Ranks names by a typed text: equal, beginning, beginning of a word, within, fuzzy, then in the description.

Completions at the cursor are ranked in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tui_evals.light_records import dataclass

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")
_ALIKE = 80.0
"""The minimum similarity, out of 100, of a name to a misspelled query."""
_LEAST_FUZZY = 3
_NOT = 5
_MOST_COMPLETED = 5


def ranked(typed: str, names: Sequence[str], abouts: Sequence[str], *, roughly: bool = True) -> list[int]:
    """The numbers of the matching names, best first; ties keep their order. If none match and `roughly` is set, similar
    names.
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
    """The names similar to the typed text."""
    if len(typed.strip()) < _LEAST_FUZZY:
        return []
    # Imported when nothing else matches, because most finders never need it.
    from rapidfuzz import fuzz, process

    found = process.extract(
        typed.casefold(), [name.casefold() for name in names], scorer=fuzz.ratio, score_cutoff=_ALIKE, limit=None
    )
    return [number for _, _, number in found]


def letters_of(typed: str, name: str) -> list[tuple[int, int]]:
    """The ranges of a name that match the typed words, for highlighting."""
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


@dataclass(frozen=True, slots=True)
class Completion:
    """A replacement for the text typed before the cursor; `names` has the best one first."""

    typed: str
    names: Sequence[str]
    closing: str = ""
    """Text that follows the name."""

    @property
    def text(self) -> str:
        """The replacement for the typed text."""
        return self.names[0] + self.closing

    @property
    def rest(self) -> str:
        """The missing rest, shown at the cursor; empty if the name does not start with the typed text."""
        name = self.names[0]
        return self.text[len(self.typed) :] if name.casefold().startswith(self.typed.casefold()) else ""

    @property
    def words(self) -> str:
        """The candidates in a line."""
        others = f" · also {', '.join(self.names[1:])}" if len(self.names) > 1 else ""
        return f"→ takes {self.names[0]}{others}"


Complete = Callable[[str, str], Completion | None]
"""Returns the completion of a text, given the text before and after the cursor."""


def completion_of(typed: str, names: Sequence[str], closing: str = "") -> Completion | None:
    """The best names for the typed text; None if none match or it is complete."""
    found = [names[number] for number in ranked(typed, names, [""] * len(names), roughly=False)[:_MOST_COMPLETED]]
    if not found or (found[0] == typed and not closing):
        return None
    return Completion(typed, found, closing)


def complete_list(names: Sequence[str]) -> Complete:
    """Completes the last of several names with commas between, with a sign before it where it has one."""

    def complete(before: str, after: str) -> Completion | None:
        *others, last = before.split(",")
        typed = last.strip().lstrip("+-")
        written = {one.strip() for one in others}
        if not typed or after.strip():
            return None
        return completion_of(typed, [name for name in names if name not in written and "," not in name])

    return complete
