"""The chain of a run: records that each name the one before by its digest, what they state, and who signed them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, get_args

from tui_evals.light_records import dataclass

from .canonical import Change, canonical, digest_of

CHAIN = 1
"""The version of records. A later one reads this one too."""
_PURPOSE = b"tui-evals chain of a run, record with the digest "
_FIRST = "0" * 64
_LATEST = 2.0**36  # seconds, some two thousand years

Kind = Literal[
    "end",
    "interruption",
    "import",
    "state",
    "edit",
    "pass",
    "rejudged",
    "reopened",
    "verdict",
    "deletion",
    "prune",
    "migration",
    "repair",
]
"""What a record says: a run ended or was interrupted, was imported, its state, its name or its tags changed; a scoring
pass counts, an answer was judged again, errors are asked again, a person gave a verdict; the run was deleted,
its store was brought up to date or repaired."""
DELETIONS: frozenset[Kind] = frozenset(("deletion", "prune"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One link of the chain."""

    run: str
    number: int
    kind: Kind
    time: float
    previous: str
    """The digest of the record before; zeros for the first."""
    program: str
    """The version of tui-evals that wrote it."""
    states: Mapping[str, str] = field(default_factory=dict)
    """The digest of the statement about each part that this record states anew; null where there is nothing of it."""
    unexpected: Sequence[Mapping[str, Any]] = ()
    """What had changed since the record before, though nothing was to change there."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What happened, as plain data."""
    unsigned: str = ""
    """Why it is not signed; empty if it is."""

    @property
    def text(self) -> str:
        """The record as it is kept and signed."""
        return canonical(
            {
                "chain": CHAIN,
                "run": self.run,
                "number": self.number,
                "kind": self.kind,
                "time": self.time,
                "previous": self.previous,
                "program": self.program,
                "states": self.states,
                "unexpected": self.unexpected,
                "about": self.about,
                "unsigned": self.unsigned,
            }
        ).decode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Link:
    """A record as it is kept: its text, the public key of who signed it, and the signature; both empty without one."""

    number: int
    text: str
    key: str
    signature: str

    @property
    def digest(self) -> str:
        """The digest by which the next record names this one."""
        return digest_of(self.text.encode("utf-8", "surrogatepass"))

    @property
    def signed(self) -> bytes:
        """The bytes that a signature is of."""
        return _PURPOSE + self.digest.encode()


Check = Callable[[str, str, bytes], bool]
"""Whether a signature under a public key is of these bytes."""
Sign = Callable[[bytes], tuple[str, str]]
"""The public key and the signature of some bytes."""


class BrokenLink(ValueError):
    """A record that does not hold; the message says which and why."""


def appended(record: Record, sign: Sign | None) -> Link:
    """A record as the next link of its chain."""
    unsigned = Link(record.number, record.text, "", "")
    return unsigned if sign is None else Link(record.number, record.text, *sign(unsigned.signed))


def next_previous(last: Link | None) -> str:
    """By which digest the record after this one names it."""
    return _FIRST if last is None else last.digest


def read_chain(run: str, links: Iterable[Link], check: Check) -> list[tuple[Record, Link]]:
    """The records of a chain, the first one first; BrokenLink names the first that does not hold."""
    found: list[tuple[Record, Link]] = []
    previous: Link | None = None
    for number, link in enumerate(links, 1):
        if link.number != number:
            raise BrokenLink(f"record {number} of the chain is missing")
        record = _record(link)
        if record.run != run or record.number != number:
            raise BrokenLink(f"record {number} of the chain belongs elsewhere (run {record.run}, {record.number})")
        if record.previous != next_previous(previous):
            raise BrokenLink(f"record {number} of the chain ({record.kind}) does not follow the record before it")
        if bool(link.key) != bool(link.signature) or bool(link.key) == bool(record.unsigned):
            raise BrokenLink(f"record {number} of the chain ({record.kind}) lacks its signature")
        if link.key and not check(link.key, link.signature, link.signed):
            raise BrokenLink(f"record {number} of the chain ({record.kind}) was changed, or its signature was")
        found.append((record, link))
        previous = link
    return found


def _record(link: Link) -> Record:
    try:
        kept = json.loads(link.text)
        version, kind = kept.pop("chain"), kept["kind"]
        if version != CHAIN:
            raise BrokenLink(
                f"record {link.number} of the chain is of version {version}, and this tui-evals knows {CHAIN}"
            )
        record = Record(**kept)
        if kind not in get_args(Kind) or record.text != link.text or not _is_written(record):
            raise ValueError("not as it is written")
    except BrokenLink:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BrokenLink(f"record {link.number} of the chain cannot be read") from None
    return record


def _is_written(record: Record) -> bool:
    """Whether a record has all fields of a record. Any key may have signed it."""
    kinds = ((record.time, float | int), (record.about, dict), (record.states, dict), (record.unexpected, list))
    if not all(isinstance(value, kind) for value, kind in kinds) or not 0 <= record.time < _LATEST:
        return False
    are_texts = all(isinstance(text, str) for text in (record.program, record.unsigned, *record.states.values()))
    return are_texts and all(map(_is_change, record.unexpected))


def _is_change(kept: Mapping[str, Any]) -> bool:
    lists = [kept.get(name, []) for name in ("columns", "changed", "gone", "added")]
    columns, *places = lists
    return (
        isinstance(kept["part"], str)
        and all(isinstance(one, list) for one in lists)
        and all(isinstance(name, str) for name in columns)
        and all(type(place) is int for one in places for place in one)
    )


def plain_changes(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Changes as a record holds them."""
    return [change.plain for change in changes]
