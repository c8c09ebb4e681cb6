"""The canonical form of a run's data, and the chain of its records, each of which refers to the one before."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, get_args

from tui_evals.light_records import dataclass

FORM = 1
"""The form in which is signed now."""

_CELL = ("pos", "cell", "item", "turn", "prompt", "target", "repeat", "name", "category")
_SCORE = (
    *("key", "evaluator", "score", "result", "threshold", "label", "reason", "details", "weight", "measure", "origin"),
)
FORMS: Mapping[int, Mapping[str, tuple[str, ...]]] = {
    1: {
        "plan": ("key", "suite", "source", "snapshot", "targets", "prompts", "created", "total", "config", "document"),
        "about": ("name", "tags", "note"),
        "outcome": ("status", "started", "finished", "scoring_pass", "verdict", "gates", "message", "code"),
        "answers": (
            *_CELL,
            *("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost", "latency_ms", "attempts"),
            *("from_cache", "scripted", "started", "code", "preview", "ending", "request", "text", "answer"),
        ),
        "verdicts": ("pos", "status", "score"),
        "pass": ("pass", "created", "config", "document"),
        "scores": ("pos", *_SCORE),
        "together": ("item", "turn", *_SCORE),
        "earlier": ("pos", "time", "scores", "judging", "request", "text", "answer"),
        "calls": (
            *("pos", "kind", "target", "attempt", "started", "latency_ms", "input_tokens", "output_tokens", "cost"),
            *("code", "message", "from_cache", "may_cost", "cached_tokens", "reasoning_tokens"),
        ),
        "labels": ("pos", "evaluator", "verdict", "author", "time", "note", "blind"),
    }
}
"""The columns of each part of a run, in the order in which they are covered, by the number of the form."""
ALWAYS_KNOWN: Mapping[str, int] = {"answers": len(_CELL)}
"""How many of the first columns are covered for an open row: the planned ones."""
_HINT = 12
_PLACES = struct.Struct(">i")
_PLACE = _PLACES.size
_ENTRY = _PLACE + _HINT
_packed = _PLACES.pack

_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False, check_circular=False
).encode


def canonical(value: object) -> bytes:
    """The bytes of plain data: JSON with sorted keys in UTF-8, floats as Python writes them.

    What JSON lacks is an object with one name: `{"bytes": HEX}`, `{"float": "inf"}`. Halves of characters stay halves.
    """
    try:
        text = _encode(value)
    except (TypeError, ValueError):
        text = _encode(_spelled(value))
    return text.encode("utf-8", "surrogatepass")


def _spelled(value: object) -> object:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"float": repr(value)}
    if isinstance(value, Mapping):
        return {str(name): _spelled(part) for name, part in value.items()}
    return [_spelled(part) for part in value] if isinstance(value, list | tuple) else value


def digest_of(content: bytes) -> str:
    """The digest of some bytes, as records hold it."""
    return sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement about one part of a run: a digest of each column, and a short one of each row to identify it."""

    form: int
    rows: int
    columns: Mapping[str, str]
    """The digest of each column over all rows in order. These are what proves; the short ones below only name."""
    hints: bytes = b""
    """The position and a short digest of each row; rows at one position share one."""
    open: tuple[int, ...] | None = ()
    """The positions that were open; None if all were."""
    upto: int | None = None
    """The number of the last row, where rows are only ever added."""

    @property
    def digest(self) -> str:
        """The digest of the statement, for a record of the chain."""
        return digest_of(canonical([self.plain(), self.hints.hex()]))

    def plain(self) -> dict[str, Any]:
        """All but the hints, as plain data."""
        places = None if self.open is None else list(self.open)
        return {"form": self.form, "rows": self.rows, "columns": self.columns, "open": places, "upto": self.upto}

    @classmethod
    def of(cls, plain: Mapping[str, Any], hints: bytes) -> Statement:
        """A statement from plain data; raises ValueError."""
        try:
            places = plain["open"]
            return cls(
                form=int(plain["form"]),
                rows=int(plain["rows"]),
                columns={str(name): str(digest) for name, digest in plain["columns"].items()},
                hints=hints,
                open=None if places is None else tuple(map(int, places)),
                upto=plain["upto"],
            )
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError(f"no statement: {problem}") from None

    def by_place(self) -> dict[int, bytes]:
        """The short digest of each place."""
        entries = (self.hints[at : at + _ENTRY] for at in range(0, len(self.hints) - _ENTRY + 1, _ENTRY))
        return {_PLACES.unpack(entry[:_PLACE])[0]: entry[_PLACE:] for entry in entries}


@dataclass(frozen=True, slots=True)
class Change:
    """How one part of a run differs from its statement."""

    part: str
    columns: tuple[str, ...]
    """The columns that differ; empty if rows were only added or removed."""
    changed: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    added: tuple[int, ...] = ()

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data."""
        rows = {name: list(getattr(self, name)) for name in ("changed", "gone", "added") if getattr(self, name)}
        return {"part": self.part, "columns": list(self.columns), **rows}


class Builder:
    """Makes the statement of one part of a run of its rows, a page at a time."""

    def __init__(self, part: str, form: int = FORM, *, named: bool = True) -> None:
        self._part = part
        self._form = form
        self._columns = FORMS[form][part.partition("/")[0]]
        self._digests = [sha256() for _ in self._columns]
        self._hints: list[bytes] | None = [] if named else None
        self._rows = 0

    def add(self, page: Sequence[tuple[Any, ...]], still_open: Collection[int] = frozenset()) -> None:
        """Add rows, each with its position and columns; of an open row only planned columns count."""
        if still_open:
            page = list(self._closed(page, still_open))
        if not page:
            return
        self._rows += len(page)
        _, *columns = zip(*page, strict=True)
        for digest, column in zip(self._digests, columns, strict=True):
            digest.update(canonical(column)[1:-1] + b",")
        if self._hints is not None:
            # Data as plain as this is written the same by every Python, and in half the time that JSON takes.
            written = [(row[0], ascii(row)) for row in page]
            if len(dict(written)) < len(written):
                written = [
                    (place, "".join([text for _, text in group])) for place, group in groupby(written, itemgetter(0))
                ]
            self._hints += [_place(place) + sha256(text.encode()).digest()[:_HINT] for place, text in written]

    def _closed(self, page: Iterable[tuple[Any, ...]], still_open: Collection[int]) -> Iterator[tuple[Any, ...]]:
        known = ALWAYS_KNOWN.get(self._part, 0)
        for row in page:
            if row[0] not in still_open:
                yield row
            elif known:
                yield (*row[: known + 1], *(None,) * (len(row) - known - 1))

    def statement(self, still_open: tuple[int, ...] | None = (), upto: int | None = None) -> Statement:
        """The statement about the rows so far."""
        columns = {name: digest.hexdigest() for name, digest in zip(self._columns, self._digests, strict=True)}
        return Statement(self._form, self._rows, columns, b"".join(self._hints or ()), still_open, upto)


def _place(place: object) -> bytes:
    """A position in the hints; an invalid one, in a manipulated store, becomes the first."""
    try:
        return _packed(place)
    except struct.error:
        return _packed(-(2**31))


def difference(part: str, said: Statement, now: Statement) -> Change | None:
    """How a part differs from its statement; None if it does not."""
    columns = tuple(name for name, digest in said.columns.items() if now.columns.get(name) != digest)
    if not columns and said.rows == now.rows:
        return None
    return Change(part, columns, *_places(said, now, frozenset()))


def unexpected(part: str, said: Statement, now: Statement, expected: Collection[int] = ()) -> Change | None:
    """The rows that differ from their statement without a record; None without any.

    Positions that were open then, and those in `expected`, may differ. The columns are unknown, because the others
    changed too.
    """
    if said.open is None:
        return None
    changed, gone, added = _places(said, now, frozenset((*said.open, *expected)))
    return Change(part, (), changed, gone, added) if changed or gone or added else None


def _places(said: Statement, now: Statement, expected: Collection[int]) -> Iterator[tuple[int, ...]]:
    before, after = said.by_place(), now.by_place()
    yield tuple(place for place in before if before[place] != after.get(place, before[place]) and place not in expected)
    yield tuple(place for place in before if place not in after and place not in expected)
    yield tuple(place for place in after if place not in before and place not in expected)


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
"""What a record reports: a run ended, was interrupted or imported, its state, name or tags changed; a scoring pass
counts, an answer was judged again, errors are retried, a person gave a verdict; the run was deleted, its store was
migrated or repaired.
"""
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
    """The digest of the statement about each part that this record states again; null if the part is empty."""
    unexpected: Sequence[Mapping[str, Any]] = ()
    """Unrecorded changes since the record before."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """The event, as plain data."""
    unsigned: str = ""
    """Why it is not signed; empty if it is."""

    @property
    def text(self) -> str:
        """The record as it is stored and signed."""
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
    """A stored record: its text, the public key of its signer, and the signature; both empty if it is unsigned."""

    number: int
    text: str
    key: str
    signature: str

    @property
    def digest(self) -> str:
        """The digest by which the next record refers to this one."""
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
    """The digest by which the next record refers to this one."""
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
