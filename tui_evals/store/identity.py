"""Which store a file is, whose it is, and whether it is still the store that this process opened."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_state_path

from tui_evals.light_records import dataclass
from tui_evals.store import schema
from tui_evals.store.connection import (
    Base,
    Connection,
    Note,
    StoreError,
    StoreLock,
    StoreTrouble,
    TroubleCode,
    empty_log,
    file_identity,
    note_in,
    open_database,
)

_KEYS = "('store', 'writer', 'seq')"


def read_base(path: Path) -> Base | None:
    """The identity and state of a store file without its log; None if it is unreadable."""
    try:
        with contextlib.closing(connect_alone(path, limited=True)) as connection:
            rows = dict(connection.execute(f"SELECT k, v FROM meta WHERE k IN {_KEYS}").fetchall())
    except sqlite3.Error:
        return None
    seq = rows.get("seq")
    return Base(rows.get("store"), rows.get("writer"), seq) if isinstance(seq, int) else None


def connect_alone(path: Path, *, limited: bool = False) -> Connection:
    """A connection that reads the file without its log, and leaves no file next to it."""
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    return open_database(address, limited=limited)


def has_foreign_log(path: Path) -> bool:
    """Whether the log next to a store was written for a later state of the file, or for another file."""
    try:
        if not os.stat(f"{path}-wal").st_size:
            return False
        descriptor = os.open(f"{path}.lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        note = note_in(descriptor)
    finally:
        os.close(descriptor)
    if note is None or note.is_moving:
        return False
    base = read_base(path)
    return base is not None and base.is_before(note.base)


def copy_base(path: Path) -> None:
    """Make the file a new one with the same content, and set its log aside; for the holder of the lock."""
    copy = path.with_name(f"{path.name}.parting-{os.getpid()}")
    copy.unlink(missing_ok=True)
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with (
            contextlib.closing(connect_alone(path)) as base,
            contextlib.closing(open_database(copy)) as target,
        ):
            base.backup(target)
        if os.path.exists(f"{path}-wal"):
            set_log_aside(path)
        os.replace(copy, path)
    finally:
        copy.unlink(missing_ok=True)


def set_log_aside(path: Path) -> Path:
    """Move the log of a store to a name of its own, so that SQLite does not play it into the file."""
    day = time.strftime("%Y-%m-%d")
    names = (Path(f"{path}-wal.of-{day}{more}") for more in ("", *(f"-{number}" for number in range(2, 1_000))))
    aside = next(name for name in names if not os.path.lexists(name))
    os.rename(f"{path}-wal", aside)
    Path(f"{path}-shm").unlink(missing_ok=True)
    return aside


SETTLING = 1.0  # seconds without a change after which a copy over the file counts as finished; longer than a look lasts
_LONGEST_SETTLING = 10.0
_ROWS = "SELECT k, v FROM meta WHERE k IN ('schema', 'seq', 'store', 'writer')"


class StoreProof:
    """The knowledge of one writing connection about its file. Methods that read the file need the lock."""

    def __init__(self, connection: sqlite3.Connection, path: Path, lock: StoreLock) -> None:
        self.trouble: StoreTrouble | None = None
        """Why nothing may be written any more, once that is so."""
        self._connection = connection
        self._path = path
        self._lock = lock
        self._names = tuple(f"{path}{end}" for end in ("", "-wal", "-shm"))
        self._files = self._identities()
        self._state = self._file_state()
        self._base = read_base(path)
        self._mark = secrets.randbits(62)
        self._marks: set[object] = set()
        self._store: int | None = None
        self._seq = 0
        self._is_noted = self._is_marked = False
        self._had_log = self._log_size() > 0

    @property
    def is_moved(self) -> bool:
        """Whether the store or its log was deleted, or another file has its name."""
        return self._identities() != self._files

    @property
    def seems_changed(self) -> bool:
        """Whether the file is worth another look; needs no lock."""
        return self.trouble is None and (self.is_moved or self._file_state() != self._state)

    @property
    def _is_replaced(self) -> bool:
        return file_identity(self._names[0]) != self._files[0]

    def check_file(self) -> None:
        """StoreTrouble where the file holds anything else than this process, or another one of ours, has left in it."""
        if self.trouble is not None:
            raise self.trouble
        if ((state := self._file_state()) == self._state and self._is_noted) or self._is_replaced:
            return
        note, base = self._lock.note, read_base(self._path)
        if base is None and (self._base is None or (note is not None and note.is_moving)):
            empty_log(self._connection)  # a process was killed while it moved the log into the file
            state, base = self._file_state(), read_base(self._path)
        if base is None and self._base is not None:
            self._refuse(f"{self._path} was cut off or overwritten while tui-evals was using it.")
        known = self._known(note)
        if base is not None and known:
            marks = {*self._marks, *(one.writer for one in known), self._current_mark()}
            if base.writer not in marks or any(base.is_before(one) for one in known):
                self._refuse_overwritten()
        self._state, self._base = state, base
        if base is not None:
            self._lock.write_note(base)
            self._is_noted = True

    def check_rows(self) -> None:
        """Refuse a replaced store by its identity rows; inside a transaction, before the first write."""
        rows = self._rows()
        if rows["schema"] > schema.VERSION:
            self._refuse(
                f"{self._path} was brought up to date by a newer tui-evals (its schema is {rows['schema']}, this "
                f"process knows {schema.VERSION}).",
                "upgraded",
            )
        if self._is_marked and (rows["store"] != self._store or rows["seq"] < self._seq):
            self._refuse_overwritten()
        if not self._is_marked:
            self._store = rows["store"]
            self._connection.execute("UPDATE meta SET v = ? WHERE k = 'writer'", [self._mark])
        self._marks |= {rows["writer"], self._mark}

    def highest(self) -> int:
        """The sequence number as this transaction leaves it, to be `noted` once that is committed."""
        return int(self._rows()["seq"])

    def noted(self, seq: int) -> None:
        """Remember the state after a commit."""
        self._seq, self._is_marked = seq, True

    def empty_log(self) -> bool:
        """Empty the log into the file, and note its new state; False if part of the log remains."""
        if self._base is not None:
            self._lock.write_note(self._base, is_moving=True)
        is_empty = empty_log(self._connection)
        self._state, self._base = self._file_state(), read_base(self._path)
        if self._base is not None:
            self._lock.write_note(self._base)
        return is_empty

    def close(self) -> None:
        """Close the connection; the log of a file that was overwritten is not played into it."""
        with contextlib.suppress(StoreError, sqlite3.Error):
            if self.seems_changed and not self._is_replaced:
                with self._lock.held("closing the store"):
                    self.check_file()
        if self.trouble is not None and self.trouble.code == "overwritten" and not self._is_replaced:
            self._part()
        self._connection.close()

    def _part(self) -> None:
        """Leave an overwritten file to others, without the log that was written for its earlier content.

        It becomes a new file, because SQLite would replay the log into the old one when its last connection closes, and
        shares its state between all connections of a process.
        """
        if self._settled():
            with (
                contextlib.suppress(StoreError, sqlite3.Error, OSError),
                self._lock.held("leaving an overwritten store"),
            ):
                copy_base(self._path)
                return
        # A file that cannot be read or copied keeps its log: nothing is replayed while it has another name.
        aside = self._path.with_name(f"{self._path.name}.parting-{os.getpid()}")
        with contextlib.suppress(OSError):
            os.rename(self._path, aside)
            try:
                self._connection.close()
            finally:
                os.rename(aside, self._path)

    def _settled(self) -> bool:
        """Whether the file can be read after a moment without writes."""
        deadline = time.monotonic() + _LONGEST_SETTLING
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if time.time() - os.stat(self._path).st_mtime > SETTLING or read_base(self._path) is None:
                    break
            time.sleep(0.05)
        return read_base(self._path) is not None

    def _known(self, note: Note | None) -> list[Base]:
        """The earlier states of the file: known to this process, and noted last by another."""
        noted = None if note is None else note.base
        known = (self._base, noted)
        if not self._is_noted:  # unchanged since it was opened, unless it had a log to match
            known = (None, noted) if self._had_log else (self._base, None)
        return [base for base in known if base is not None]

    def _rows(self) -> dict[str, Any]:
        return dict(self._connection.execute(_ROWS).fetchall())

    def _current_mark(self) -> object:
        try:
            return self._rows().get("writer")
        except sqlite3.Error:  # pages of two stores
            return None

    def _identities(self) -> list[tuple[int, int] | None]:
        return [file_identity(name) for name in self._names]

    def _log_size(self) -> int:
        try:
            return os.stat(f"{self._path}-wal").st_size
        except OSError:
            return 0

    def _file_state(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._names[0])
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def _refuse_overwritten(self) -> None:
        self._refuse(
            f"{self._path} was overwritten while tui-evals was using it, with an earlier state of it or another store."
        )

    def _refuse(self, message: str, code: TroubleCode = "overwritten") -> None:
        self.trouble = StoreTrouble(message, code)
        raise self.trouble


How = Literal["begun", "adopted"]
_trusted: set[Path] = set()
"""The stores that this process uses like its user's own, because it was told to trust their projects."""
_unrecorded: set[int] = set()
"""The stores of this process whose numbers could not be kept."""
_noticed: dict[Path, int | None] = {}
"""The numbers of the stores that this process opened."""
_known: set[tuple[str, int]] = set()


@dataclass(frozen=True, slots=True)
class Adopted:
    """A foreign store that the user allowed."""

    path: Path
    time: float


def store_number(connection: Connection) -> int | None:
    """The random number of a store; None before schema 18, and where it cannot be read."""
    try:
        row = connection.brief_row("SELECT v FROM meta WHERE k = 'store'")
    except sqlite3.DatabaseError:
        return None
    return row[0] if row is not None and isinstance(row[0], int) else None


def notice(path: Path, connection: Connection) -> None:
    """Remember for this process which store is at a path."""
    _noticed[path] = store_number(connection)


def noticed_number(path: Path) -> int | None:
    """The number of a store that this process has opened."""
    return _noticed.get(path)


def is_own(path: Path, number: int | None) -> bool:
    """Whether a store is the user's own, or this process was told to trust it.

    One that cannot say its number any more is known by its file.
    """
    if path in _trusted or number in _unrecorded:
        return True
    folder = _folder()
    if number is None:
        return any(record.get("path") == str(path) and _same_file(record, path) for record in _records(folder))
    if (str(folder), number) not in _known:
        if not os.path.isfile(_file(folder, number)):
            return False
        _known.add((str(folder), number))
    return True


def own(path: Path, number: int | None, how: How) -> None:
    """Keep the number of a store as the user's own; without a folder for that it is theirs in this process only."""
    if number is None:
        return
    folder = _folder()
    inode = file_identity(path)
    record = {"path": str(path), "inode": list(inode) if inode else None, "how": how, "time": time.time()}
    try:
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        file = _file(folder, number)
        draft = file.with_suffix(f".{os.getpid()}")
        with open(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as stream:
            json.dump(record, stream)
        os.replace(draft, file)
    except OSError:
        _unrecorded.add(number)


def is_unrecorded(path: Path) -> bool:
    """Whether a store is the user's own in this process only, because their state folder cannot be written."""
    return _noticed.get(path) in _unrecorded


def trust(path: Path, *, trusting: bool) -> None:
    """Use the store at a path like one of the user's own in this process, or no longer."""
    (_trusted.add if trusting else _trusted.discard)(path.absolute())


def adopted_below(root: Path) -> list[Adopted]:
    """The stores in a folder and below it that were adopted."""
    folder = _folder()
    records = (record for record in _records(folder) if record.get("how") == "adopted")
    found = [Adopted(Path(str(record["path"])), float(record["time"])) for record in records]
    return sorted((one for one in found if one.path.is_relative_to(root)), key=lambda one: one.time)


def disown_below(root: Path) -> int:
    """Make those foreign again; returns how many there were."""
    folder, count = _folder(), 0
    for file in _files(folder):
        record = _record(file)
        if record.get("how") == "adopted" and Path(str(record["path"])).is_relative_to(root):
            file.unlink(missing_ok=True)
            _known.discard((str(folder), int(file.name)))
            count += 1
    return count


def _folder() -> Path:
    return _folder_at(os.environ.get("XDG_STATE_HOME"), os.environ.get("HOME"))


@cache
def _folder_at(*_: str | None) -> Path:
    """The folder for these variables, which takes longer to find than the store to open."""
    return user_state_path("tui_evals") / "stores"


def _file(folder: Path, number: int) -> Path:
    return folder / str(number)


def _files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (file for file in folder.iterdir() if file.name.lstrip("-").isdigit())


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    return map(_record, _files(folder))


def _record(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        record = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(record, dict):
            return record
    return {}


def _same_file(record: dict[str, Any], path: Path) -> bool:
    inode = file_identity(path)
    return inode is not None and record.get("inode") == list(inode)
