"""Files for the results of a run, battle or generation that the store could not take.

Only the owner can read them. A file is next to the store if there is room, else in the user's state folder, else among
temporary files. Its rows are already free of secrets. It is locked while it is written, because two battles of a run
may overlap.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from tui_evals.files import make_private_folder
from tui_evals.store import identity, ledger, results

from .database import StoreError, spill_places
from .records import RunRow
from .results import Answered, CacheKey, Kind, Scored

_LONGEST_HEAD = 2**16
_ANSWERED, _CALLED, _SCORE, _GROUP_SCORED = 13, 16, 11, 15
"""How many values such a row has."""


def _whole(values: Sequence[Any], count: int) -> tuple[Any, ...]:
    """A row with the counts that an earlier version did not know yet."""
    return (*values, *(0,) * (count - len(values)))


def _row_of_answered(row: Mapping[str, Any]) -> Answered:
    cache = CacheKey(**row["cache"]) if row["cache"] else None
    request, text, rest = row["body"]
    scored = _row_of_scored(row["scored"]) if row.get("scored") else None
    return Answered(row["answer"], _whole(row["values"], _ANSWERED), (request, text, rest), cache, row["now"], scored)


def _row_of_scored(row: Mapping[str, Any]) -> Scored:
    return Scored(**{**row, "scores": tuple(_whole(score, _SCORE) for score in row["scores"])})


def _row_of_cached(row: Sequence[Any]) -> tuple[CacheKey, tuple[str, str | None, str], float]:
    key, (request, text, rest), now = row
    return CacheKey(**key), (request, text, rest), now


LASTING: Mapping[Kind, Callable[[Any], Any]] = {
    results.answered: _row_of_answered,
    results.cached: _row_of_cached,
    results.scored: _row_of_scored,
    results.group_scored: lambda row: _whole(row, _GROUP_SCORED),
    results.called: lambda row: _whole(row, _CALLED),
    results.called_in_battle: lambda row: (_whole(row[0], _CALLED), tuple(row[1])),
    results.changed: tuple,
    results.replied: tuple,
    results.fought: tuple,
    results.battled: tuple,
}
"""The rows that were paid for, in storing order, with how to build each from JSON. Others only describe a past state.
"""
_NAMES = {kind.__name__: kind for kind in LASTING}


class Spill:
    """The files of one execution that take what its store does not."""

    def __init__(self, store: Path, run: RunRow) -> None:
        self.answers = 0
        """How many answers are in them."""
        self.cacheable = 0
        """How many of those another run that asks the same can take from the cache."""
        self.files: list[Path] = []
        self.written = threading.Event()
        """Whether they have all rows that were kept until then."""
        self._store = store
        self._run = run
        self._locked: list[int] = []

    def add(self, rows: Sequence[tuple[Kind, Any]]) -> None:
        """Keep rows, which are on the disk when this returns; OSError where no place has room."""
        lines = [json.dumps([kind.__name__, _plain(row)]) for kind, row in rows]
        if not lines:
            return
        if not self.files or not _appended(self.files[-1], lines):
            self.files.append(self._new_file(lines))
        answered = [row for kind, row in rows if kind is results.answered]
        self.answers += len(answered)
        self.cacheable += sum(row.cache is not None for row in answered)

    def release(self) -> None:
        """Unlock the files, so that other processes can store their rows."""
        while self._locked:
            os.close(self._locked.pop())

    def _new_file(self, lines: Sequence[str]) -> Path:
        number = identity.noticed_number(self._store)
        head = {"store": str(self._store), "number": number, "run": self._run.key, "created": self._run.created}
        problem = OSError("there is no place")
        for place in spill_places(self._store):
            try:
                make_private_folder(place)
                descriptor, name = tempfile.mkstemp(".jsonl", f"{_prefix(self._run.key)}", place)
            except OSError as failure:
                problem = failure
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _appended(Path(name), [json.dumps(head), *lines]):
                self._locked.append(descriptor)
                return Path(name)
            os.close(descriptor)
            os.unlink(name)
        raise problem


def spilled_files(store: Path, run: str) -> list[Path]:
    """The files with unstored rows of a run, the oldest first."""
    found = _files(store, _prefix(run))
    return sorted(found, key=lambda file: file.stat().st_mtime)


def orphaned_files(store: Path) -> list[Path]:
    """All files with unstored rows of any run in a store.

    A clone may contain such a file too, so one counts only if it names a store of the user.
    """
    heads = [(file, _readable_head(file)) for file in _files(store, _PREFIX)]
    return [file for file, head in heads if head.get("store") == str(store) and _is_of_own_store(head, store)]


def _readable_head(file: Path) -> Mapping[str, Any]:
    """The run and store of a file that may be foreign; empty if unreadable."""
    try:
        with open(file, encoding="utf-8") as stream:
            head = json.loads(stream.readline(_LONGEST_HEAD))
    except (OSError, ValueError, RecursionError):
        return {}
    return head if isinstance(head, dict) else {}


def _is_of_own_store(head: Mapping[str, Any], store: Path) -> bool:
    number = head.get("number")
    return isinstance(number, int) and identity.is_own(store, number)


@contextmanager
def claimed(file: Path) -> Iterator[bool]:
    """Whether such a file exists and no other process uses it; holds it for the block."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _lock(descriptor) and os.fstat(descriptor).st_nlink > 0
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def store_spilled(connection: sqlite3.Connection, file: Path, run: RunRow) -> int:
    """Store the rows of a file once, even if called again; returns how many answers they are.

    Some may be in the store already: a file also has rows committed shortly before its store was overwritten.
    """
    head, rows = _rows_in(file)
    if (head.get("run"), head.get("created")) != (run.key, run.created):
        raise StoreError(f"{file} is of another run than {run.key}, though its name says so. Move it away.")
    if not _is_new(connection, file):
        return 0
    is_new = _new_calls(connection, run.id)
    rows[results.called] = [call for call in rows[results.called] if is_new(call)]
    rows[results.called_in_battle] = [row for row in rows[results.called_in_battle] if is_new(row[0])]
    rows[results.battled] = _new_battled(connection, rows[results.battled])
    with ledger.following(connection, results.touched((kind, row) for kind in rows for row in rows[kind])):
        for kind, of_kind in rows.items():
            if kind is results.scored:
                of_kind = _of_stored_answers(connection, of_kind)
            if of_kind:
                kind(connection, of_kind)
    return len(rows[results.answered])


def cache_orphaned(connection: sqlite3.Connection, file: Path) -> bool:
    """Cache the answers in a file whose run is not in the store, once; True if all of them were cached.

    This includes a run that is known but has no answers since a repair: nothing can be stored in it.
    """
    head, rows = _rows_in(file)
    known = "SELECT 1 FROM runs r WHERE key = ? AND created = ? AND EXISTS (SELECT 1 FROM answers WHERE run = r.id)"
    if connection.execute(known, [head.get("run"), head.get("created")]).fetchone() or not _is_new(connection, file):
        return False
    answers: list[Answered] = rows[results.answered]
    cached = [(row.cache, row.body, row.now) for row in answers if row.cache is not None]
    results.cached(connection, [*cached, *rows[results.cached]])
    return len(cached) == len(answers)


def _head(lines: Iterator[Any]) -> Mapping[str, Any]:
    """The run and store in the first line."""
    head: Mapping[str, Any] = next(lines, {})
    return head


def _rows_in(file: Path) -> tuple[Mapping[str, Any], dict[Kind, list[Any]]]:
    lines = _whole_lines(file)
    head = _head(lines)
    rows: dict[Kind, list[Any]] = {kind: [] for kind in LASTING}
    for name, row in lines:
        kind = _NAMES[name]
        rows[kind].append(LASTING[kind](row))
    return head, rows


def _is_new(connection: sqlite3.Connection, file: Path) -> bool:
    """Whether the rows of a file were not stored yet, which they count as from now on."""
    return connection.execute("INSERT OR IGNORE INTO session VALUES (?, 'true')", [_mark(file)]).rowcount == 1


def _new_calls(connection: sqlite3.Connection, run: int) -> Callable[[Sequence[Any]], bool]:
    """Whether the store does not have a call; two that are alike in a file are two."""
    query = "SELECT run, answer, kind, target, attempt, started FROM calls WHERE run = ?"
    known = set(connection.execute(query, [run]).fetchall())
    return lambda call: tuple(call[:6]) not in known


def _new_battled(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The ends of battles that the store does not have, by their time."""
    known = {time for (time,) in connection.execute("SELECT time FROM battles").fetchall()} if rows else set()
    return [row for row in rows if row[5] not in known]


def _of_stored_answers(connection: sqlite3.Connection, rows: Sequence[Scored]) -> list[Scored]:
    """The verdicts on answers that are not lost; others would count for the next answer to the same question."""
    query = (
        "SELECT id FROM answers WHERE id IN (SELECT value FROM json_each(?)) AND status NOT IN ('pending', 'running')"
    )
    known = {answer for (answer,) in connection.execute(query, [json.dumps([row.answer for row in rows])]).fetchall()}
    return [row for row in rows if row.answer in known]


def forget_spilled(connection: sqlite3.Connection, file: Path) -> None:
    """Remove the mark that the rows of a deleted file were stored."""
    connection.execute("DELETE FROM session WHERE k = ?", [_mark(file)])


def _mark(file: Path) -> str:
    return f"stored {file.name}"


_PREFIX = "unstored-"


def _prefix(run: str) -> str:
    return f"{_PREFIX}{run}-"


def _files(store: Path, prefix: str) -> list[Path]:
    """The files of this user in which rows lie that could not be stored."""
    found: list[Path] = []
    for place in spill_places(store):
        try:
            files = [place / name for name in os.listdir(place) if name.startswith(prefix) and name.endswith(".jsonl")]
        except OSError:
            continue  # no folder, no files
        found += filter(_is_ours, files)
    return found


def _plain(row: Any) -> Any:
    if is_dataclass(row) and not isinstance(row, type):
        return asdict(row)
    return [asdict(part) if isinstance(part, CacheKey) else part for part in row]


def _appended(file: Path, lines: Sequence[str]) -> bool:
    """Append lines to a file and sync it; False if there is no room, and then none of them is written."""
    with open(file, "ab", buffering=0) as stream:
        end = stream.seek(0, os.SEEK_END)
        content = "".join(f"{line}\n" for line in lines).encode()
        try:
            if stream.write(content) != len(content):
                raise OSError
            os.fsync(stream.fileno())
        except OSError:
            with suppress(OSError):  # an incomplete last line is not read
                stream.truncate(end)
            return False
    return True


def _whole_lines(file: Path) -> Iterator[Any]:
    """The lines of a file; a last one that a kill cut off was never acknowledged."""
    with open(file, encoding="utf-8") as stream:
        for line in stream:
            if line.endswith("\n"):
                yield json.loads(line)


def _is_ours(file: Path) -> bool:
    """Whether a file is ours: other users can create temporary files too."""
    status = os.lstat(file)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
