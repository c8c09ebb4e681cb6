"""The canonical form of what a run keeps: which columns are covered, as which bytes, and what digests are made of them.

A form is never changed. A store that keeps something else gets a new form, and what was signed in an earlier one is
still checked in that.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any

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
"""How many of the first columns are covered of a row that is open: what was planned."""
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
    """What is said of one part of a run: a digest of each column, and a short one of each row to name it by."""

    form: int
    rows: int
    columns: Mapping[str, str]
    """The digest of each column over all rows in order. These are what proves; the short ones below only name."""
    hints: bytes = b""
    """The place and a short digest of each row; of rows at one place together."""
    open: tuple[int, ...] | None = ()
    """The places of what was still to come; None where all of it was."""
    upto: int | None = None
    """The number of the last row, where rows are only ever added."""

    @property
    def digest(self) -> str:
        """One digest of it all, which a record of the chain holds."""
        return digest_of(canonical([self.plain(), self.hints.hex()]))

    def plain(self) -> dict[str, Any]:
        """All but the hints, as plain data."""
        places = None if self.open is None else list(self.open)
        return {"form": self.form, "rows": self.rows, "columns": self.columns, "open": places, "upto": self.upto}

    @classmethod
    def of(cls, plain: Mapping[str, Any], hints: bytes) -> Statement:
        """What was kept as plain data; ValueError where it is nothing of the kind."""
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
    """How one part of a run differs from what was said of it."""

    part: str
    columns: tuple[str, ...]
    """The columns that differ; empty where only rows are gone or new."""
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
        """Take in rows, each with its place and the columns; of one that is open only what was planned counts."""
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
        """What is to be said of the rows so far."""
        columns = {name: digest.hexdigest() for name, digest in zip(self._columns, self._digests, strict=True)}
        return Statement(self._form, self._rows, columns, b"".join(self._hints or ()), still_open, upto)


def _place(place: object) -> bytes:
    """A place in the hints; what is none, in a store that was tampered with, is at the first."""
    try:
        return _packed(place)
    except struct.error:
        return _packed(-(2**31))


def difference(part: str, said: Statement, now: Statement) -> Change | None:
    """How a part differs from what was said of it; None where it does not."""
    columns = tuple(name for name, digest in said.columns.items() if now.columns.get(name) != digest)
    if not columns and said.rows == now.rows:
        return None
    return Change(part, columns, *_places(said, now, frozenset()))


def unexpected(part: str, said: Statement, now: Statement, expected: Collection[int] = ()) -> Change | None:
    """The rows that differ from what was said of them though nothing was to come there; None without any.

    What was open then was to come; `expected` names other places where something was to. Which columns they are is not
    known, because the others changed too.
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
