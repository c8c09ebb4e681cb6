"""Names in a registry: followed through their `id`s, matched by patterns, and the nearest to a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from .files import Entries, Entry


def resolved(entries: Entries, name: str, what: str) -> Entry:
    """The entry a name stands for in the end; DatasetError where the way there is broken or leads in a circle."""
    entry, trail = entries[name], [name]
    while "id" in entry.data:
        target = entry.data["id"]
        if not isinstance(target, str):
            raise entry.error(f"the id of '{entry.name}' must be the name of another {what}", "id")
        if target not in entries:
            said = f"'{entry.name}' stands for '{target[:80]}', and there is no such {what}{nearest(target, entries)}"
            raise entry.error(said, "id")
        if target in trail:
            raise entry.error(f"the ids lead in a circle: {' -> '.join((*trail, target))}", "id")
        trail.append(target)
        entry = entries[target]
    return entry


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names a pattern fits as a whole; `*` stands for anything, every other character for itself."""
    if "*" not in pattern:
        return [name for name in names if name == pattern]
    fits = re.compile(re.sub(r"(?:\\\*)+", ".*", re.escape(pattern)), re.DOTALL).fullmatch
    return [name for name in names if fits(name)]


def nearest(name: str, known: Iterable[str]) -> str:
    """The names most like an unknown one, as the end of a sentence; nothing where none is like it."""
    near = get_close_matches(name[:80], list(known), n=5, cutoff=0.6)
    return f"; did you mean {', '.join(near)}?" if near else ""
