"""Checks a run against its signatures: its chain from the first record to the last, and each part as it is now."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.provenance.chain import DELETIONS, BrokenLink, Change, Link, Record, difference, read_chain
from tui_evals.provenance.keys import is_signed

from . import chains
from .chains import DIGESTS, Ask
from .database import connect, explained

UNSTATED = "unstated"
"""The column that differs in a part that no record covers."""


@dataclass(frozen=True, slots=True)
class CachedFrom:
    """Answers of a run that another run asked, from whose answers they were cached."""

    run: str
    """The key of the run that asked; empty if not recorded."""
    answers: int
    standing: str = ""
    """The state of that run in this store: kept, deleted or absent."""
    key: str = ""
    """The public key that signed its answers; empty if unsigned."""
    changed: bool = False
    """Whether its answers were changed since."""
    different: int = 0
    """How many cached answers are no longer among the answers of that run."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a run's answers."""

    asked: int = 0
    cached: tuple[CachedFrom, ...] = ()
    imported: int = 0
    by: str = ""
    """The tool or file that imported answers come from."""
    unanswered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of verifying a run against its chain."""

    run: str
    records: tuple[tuple[Record, Link], ...] = ()
    broken: str = ""
    """Why the chain does not hold; then nothing it states counts."""
    changes: tuple[Change, ...] = ()
    """Differences to the last statements."""
    names: Mapping[int, str] = field(default_factory=dict)
    """The names of answers at the positions in changes."""
    later: int = 0
    """Answers and verdicts that came after the last record: the process was killed before it could sign them."""
    later_calls: int = 0
    """Calls that were noted after the last record."""
    sources: Sources = Sources()

    @property
    def is_deleted(self) -> bool:
        """Whether the run was deleted, so that its chain alone is left."""
        return bool(self.records) and self.records[-1][0].kind in DELETIONS

    @property
    def stated_by(self) -> dict[str, tuple[Record, Link]]:
        """The record that states each part last."""
        return {part: pair for pair in self.records for part in pair[0].states}

    @property
    def keys(self) -> tuple[str, ...]:
        """The public keys that signed the current parts, an empty one for an unsigned record."""
        pairs = self.stated_by.values() or self.records[-1:]
        return tuple(dict.fromkeys(link.key for _, link in sorted(pairs, key=lambda pair: pair[0].number)))

    @property
    def unexpected(self) -> tuple[tuple[Record, Change], ...]:
        """Unrecorded changes before a record, as that record reports them."""
        return tuple((record, _change(kept)) for record, _ in self.records for kept in record.unexpected)

    @property
    def found(self) -> int:
        """How many answers were there, unsigned, before the execution at whose end they were signed."""
        counts = (record.about.get("found") for record, _ in self.records)
        return sum(count for count in counts if isinstance(count, int))

    @property
    def head(self) -> str:
        """The digest of the last record, which identifies the whole chain."""
        return self.records[-1][1].digest if self.records else ""


def _change(kept: Mapping[str, Any]) -> Change:
    rows = (tuple(kept.get(name, ())) for name in ("changed", "gone", "added"))
    return Change(kept["part"], tuple(kept["columns"]), *rows)


def verify(path: Path, key: str, *, with_sources: bool = True) -> Verified:
    """Check the run with this key, which may be deleted; everything is read in one transaction."""
    try:
        with closing(connect(path)) as connection:
            connection.execute("BEGIN")
            return _verified(chains.lossless_query(connection), key, with_sources)
    except sqlite3.Error as problem:
        raise explained(problem, path) from problem


def _verified(ask: Ask, key: str, with_sources: bool) -> Verified:
    run = next((number for (number,) in ask("SELECT id FROM runs WHERE key = ?", [key])), None)
    sources = _sources(ask, run) if run is not None and with_sources else Sources()
    try:
        records = tuple(read_chain(key, chains.links_of(ask, key), is_signed))
    except BrokenLink as problem:
        return Verified(run=key, broken=str(problem), sources=sources)
    found = Verified(run=key, records=records, sources=sources)
    if run is None or not records:
        if records and not found.is_deleted:
            return Verified(run=key, records=records, broken="the run was deleted, and its chain does not say so")
        return found
    if found.is_deleted:
        return Verified(run=key, records=records, broken="the chain says that the run was deleted", sources=sources)
    changes = tuple(_changes(ask, run, found))
    later, calls = _later(ask, run, key)
    return Verified(
        run=key,
        records=records,
        changes=changes,
        names=_names(ask, run, changes, found.unexpected),
        later=later,
        later_calls=calls,
        sources=sources,
    )


def _changes(ask: Ask, run: int, found: Verified) -> Iterator[Change]:
    stated = found.stated_by
    for part in chains.parts_of(ask, run):
        if part not in stated:
            yield Change(part, (UNSTATED,))
    for part, (record, _) in stated.items():
        if (change := _change_of(ask, run, found.run, part, record)) is not None:
            yield change


def _change_of(ask: Ask, run: int, key: str, part: str, record: Record) -> Change | None:
    """How a part differs from the statement in a record."""
    said = chains.kept_statement(ask, key, part)
    if said is None or said.digest != record.states[part]:
        return Change(part, (DIGESTS,))
    return None if said.open is None else difference(part, said, chains.current_statement(ask, run, part, said))


def _later(ask: Ask, run: int, key: str) -> tuple[int, int]:
    """How many answers and verdicts, and how many calls, are not stated yet."""
    came: set[int] = set()
    for part in ("answers", "verdicts"):
        said = chains.kept_statement(ask, key, part)
        came |= set(said.open or () if said else ()) - set(chains.open_places(ask, run, part) or ())
    calls = chains.kept_statement(ask, key, "calls")
    upto = calls.upto if calls and calls.upto is not None else 0
    ((count,),) = ask("SELECT count(*) FROM calls WHERE run = ? AND id > ?", [run, upto])
    return len(came), count


def _names(
    ask: Ask, run: int, changes: Sequence[Change], unexpected: Sequence[tuple[Record, Change]]
) -> dict[int, str]:
    """The answers that changes name: by item, and by turn, repeat, prompt and target where there are several."""
    places = {place for one in (*changes, *(change for _, change in unexpected)) for place in _answers_of(one)}
    if not places:
        return {}
    rows = ask("SELECT pos, name, turn, repeat, prompt, target FROM answers WHERE run = ?", [run])
    is_varied = [len({row[at] for row in rows}) > 1 for at in range(2, 6)]
    words = ("turn", "repeat", "prompt", "target")
    return {
        pos: ", ".join(
            [
                str(name),
                *(
                    f"{word} {number + 1 if isinstance(number, int) else number}"
                    for word, number, varied in zip(words, numbers, is_varied, strict=True)
                    if varied
                ),
            ]
        )
        for pos, name, *numbers in rows
        if pos in places
    }


def _answers_of(change: Change) -> Iterator[int]:
    """The positions of answers that a change names; some parts have other rows."""
    if change.part.partition("/")[0] in ("answers", "verdicts", "scores", "earlier", "labels"):
        yield from (*change.changed, *change.gone, *change.added)


# -- where answers come from


def _sources(ask: Ask, run: int) -> Sources:
    by = "iif(json_valid(config), config ->> '$.recorded.by', NULL)"
    ((imported_by,),) = ask(f"SELECT {by} FROM runs WHERE id = ?", [run])
    counted: Counter[str] = Counter()
    cached: dict[str, list[str | None]] = {}
    query = (
        "SELECT a.from_cache, a.body IS NULL OR a.code IS NOT NULL, b.text, "
        "iif(json_valid(b.answer), b.answer ->> '$.cached_from', NULL) "
        "FROM answers a LEFT JOIN bodies b ON b.id = a.body WHERE a.run = ?"
    )
    for from_cache, is_missing, text, asked_by in ask(query, [run]):
        if is_missing:
            counted["unanswered"] += 1
        elif imported_by is not None:
            counted["imported"] += 1
        elif from_cache:
            cached.setdefault(str(asked_by or ""), []).append(text)
        else:
            counted["asked"] += 1
    found = tuple(_cached_from(ask, key, texts) for key, texts in sorted(cached.items()))
    return Sources(counted["asked"], found, counted["imported"], str(imported_by or ""), counted["unanswered"])


def _cached_from(ask: Ask, key: str, texts: Sequence[str | None]) -> CachedFrom:
    """Compare answers cached from a run with the current answers of that run."""
    if not key:
        return CachedFrom("", len(texts))
    run = next((number for (number,) in ask("SELECT id FROM runs WHERE key = ?", [key])), None)
    try:
        of_run = Verified(run=key, records=tuple(read_chain(key, chains.links_of(ask, key), is_signed)))
    except BrokenLink:
        return CachedFrom(key, len(texts), "absent" if run is None else "kept", changed=True)
    record, link = of_run.stated_by.get("answers", (None, None))
    signer = link.key if link else ""
    if run is None:
        return CachedFrom(key, len(texts), "deleted" if of_run.is_deleted else "absent", signer)
    changed = record is not None and _change_of(ask, run, key, "answers", record) is not None
    query = "SELECT b.text FROM answers a JOIN bodies b ON b.id = a.body WHERE a.run = ?"
    own = {text for (text,) in ask(query, [run])}
    return CachedFrom(key, len(texts), "kept", signer, changed, sum(text not in own for text in texts))


def find_key(path: Path, word: str) -> str:
    """The key of the run that a word names, even a deleted one: `last`, a key, a name, or the beginning of one key."""
    try:
        with closing(connect(path)) as connection:
            ask = chains.lossless_query(connection)
            for query, values in _WAYS.items():
                found = ask(query, [word] * values)
                if len(found) == 1 or (found and values < _BEGINNING):
                    return str(found[0][0])
    except sqlite3.Error as problem:
        raise explained(problem, path) from problem
    raise LookupError(f"there is no run {word!r} in {path}, and no chain of one. `tui-evals runs` lists the runs.")


_BEGINNING = 4
_WAYS = {
    "SELECT key FROM runs WHERE ? = 'last' AND total > 0 ORDER BY id DESC LIMIT 1": 1,
    "SELECT key FROM runs WHERE key = lower(?) OR name = ? ORDER BY key = lower(?) DESC, id DESC LIMIT 1": 3,
    "SELECT run FROM chain WHERE run = lower(?) LIMIT 1": 1,
    "SELECT key FROM runs WHERE ? != '' AND substr(key, 1, length(?)) = lower(?) AND ? != ''": _BEGINNING,
}
"""How a run is found, and how often each query takes the word."""
