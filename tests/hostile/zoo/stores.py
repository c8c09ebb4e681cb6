"""What can be wrong with the store that comes with a clone."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from .malice import TEXTS, Malice, Wild, poisoned

STORE_FILE = ".evals/evals.db"
_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
_VALUES: tuple[object, ...] = (None, -1, 2**62, 1e308, "", "x", b"\x00\xff", "[" * 5000, '{"a":' * 2000, float("inf"))


def _told(*statements: str) -> Malice:
    """What SQL does to it, by somebody who may change the schema as well."""

    def do(file: Path, wild: Wild) -> None:
        with closing(_opened(file)) as store:
            for statement in statements:
                store.execute(statement)

    return do


def _opened(file: Path) -> sqlite3.Connection:
    store = sqlite3.connect(file, isolation_level=None)
    store.execute("PRAGMA journal_mode=DELETE")
    return store


def _columns(store: sqlite3.Connection, kind: str) -> list[tuple[str, str]]:
    tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")]
    return [
        (table, row[1])
        for table in tables
        if not table.startswith("sqlite_")
        for row in store.execute(f"PRAGMA table_info({table})")
        if row[2] == kind
    ]


def _each_text(file: Path, wild: Wild) -> None:
    """A hostile text in many columns of texts, one that holds no JSON as likely as one that does."""
    with closing(_opened(file)) as store:
        for table, column in wild.chance.sample(columns := _columns(store, "TEXT"), min(12, len(columns))):
            _set(store, table, column, wild.chance.choice(TEXTS))


def _odd_values(file: Path, wild: Wild) -> None:
    with closing(_opened(file)) as store:
        columns = [*_columns(store, "TEXT"), *_columns(store, "INTEGER"), *_columns(store, "REAL")]
        for table, column in wild.chance.sample(columns, 4):
            _set(store, table, column, wild.chance.choice(_VALUES))


def _set(store: sqlite3.Connection, table: str, column: str, value: object) -> None:
    try:
        store.execute(f"UPDATE {table} SET {column} = ?", (value,))
    except sqlite3.IntegrityError:  # a column that is unique, or that must not be null
        return


def _poisoned_json(file: Path, wild: Wild) -> None:
    """Something else in the JSON that columns hold."""
    with closing(_opened(file)) as store:
        for table, column in _columns(store, "TEXT"):
            found = store.execute(f"SELECT DISTINCT {column} FROM {table} WHERE json_valid({column})").fetchall()
            for (text,) in found:
                if isinstance(text, str) and text[:1] in ("[", "{") and wild.chance.random() < 0.5:
                    value = json.dumps(poisoned(json.loads(text), wild, 2))
                    store.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (value, text))


def _replaced_by_view(file: Path, wild: Wild) -> None:
    with closing(_opened(file)) as store:
        table = wild.chance.choice(["runs", "answers", "scores"])
        names = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
        store.execute("PRAGMA legacy_alter_table=ON")
        store.execute(f"ALTER TABLE {table} RENAME TO kept_{table}")
        listed = ", ".join(f'(SELECT max("{name}") FROM kept_{table}) AS "{name}"' for name in names)
        store.execute(f"CREATE VIEW {table} AS SELECT {listed} FROM ({_ENDLESS})")


def _huge_text(file: Path, wild: Wild) -> None:
    """A text of 60 MB in every row of a column."""
    with closing(_opened(file)) as store:
        table, column = wild.chance.choice(
            [one for one in _columns(store, "TEXT") if one[0] in ("answers", "bodies", "runs", "snapshots", "scores")]
        )
        _set(store, table, column, "x" * 60_000_000)


def _many_runs(file: Path, wild: Wild) -> None:
    """So many runs that a list of them all is long; the columns that must differ do."""
    with closing(_opened(file)) as store:
        names = [row[1] for row in store.execute("PRAGMA table_info(runs)")]
        given = [name for name in names if name not in ("id", "key")]
        new = ", ".join(["id", "key", *given])
        old = ", ".join(["1000 + n.i", "'k' || n.i", *(f"runs.{name}" for name in given)])
        counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        store.execute("BEGIN")
        store.execute(f"INSERT OR IGNORE INTO runs ({new}) {counted} SELECT {old} FROM runs, n WHERE runs.id = 1")
        store.execute("COMMIT")


def _broken_pages(file: Path, wild: Wild) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(6):
        at = wild.chance.randrange(100, len(data))
        data[at : at + 40] = wild.chance.randbytes(40)
    file.write_bytes(data)


def _odd_head(file: Path, wild: Wild) -> None:
    """Another size of a page, version or count in the first hundred bytes."""
    data = bytearray(file.read_bytes())
    for _ in range(3):
        data[wild.chance.randrange(16, 100)] = wild.chance.randrange(256)
    file.write_bytes(data)


def _beside(ending: str, make: Callable[[Path, Wild], None]) -> Malice:
    def do(file: Path, wild: Wild) -> None:
        other = file.with_name(file.name + ending)
        other.unlink(missing_ok=True)
        make(other, wild)

    return do


def _noise(file: Path, wild: Wild) -> None:
    file.write_bytes(wild.chance.randbytes(9000))


_SCHEMA = "UPDATE sqlite_master SET sql = 'CREATE TABLE runs(x' WHERE name = 'runs'"

STORE: Mapping[str, Malice] = {
    "trigger": _told("CREATE TRIGGER t AFTER INSERT ON scores BEGIN UPDATE answers SET status = 'pass'; END"),
    "blowing": _told(
        "CREATE TRIGGER b BEFORE UPDATE ON runs BEGIN INSERT INTO scores SELECT * FROM scores; END",
        "CREATE TRIGGER c AFTER INSERT ON runs BEGIN SELECT randomblob(900000000); END",
    ),
    "views": _told(f"CREATE VIEW endless AS {_ENDLESS}", "CREATE VIEW runs2 AS SELECT * FROM runs2"),
    "replaced": _replaced_by_view,
    "index": _told("CREATE UNIQUE INDEX odd ON answers(length(hex(id)), id)"),
    "columns": _told("ALTER TABLE runs ADD COLUMN extra TEXT DEFAULT 'x'", "ALTER TABLE answers ADD COLUMN more"),
    "names": _told('CREATE TABLE "\x1b]52;c;aGk=\x07" (x)', 'CREATE TABLE "\u202e; DROP TABLE runs" (x)'),
    "virtual": _told("CREATE VIRTUAL TABLE words USING fts5(text)", "PRAGMA user_version=3"),
    "missing": _told("DROP TABLE scores"),
    "newer": _told("PRAGMA user_version=999999"),
    "other": _told("PRAGMA application_id=7"),
    "schema": _told("PRAGMA writable_schema=ON", _SCHEMA),
    "texts": _each_text,
    "values": _odd_values,
    "json": _poisoned_json,
    "huge": _huge_text,
    "many": _many_runs,
    "pages": _broken_pages,
    "head": _odd_head,
    "log": _beside("-wal", _noise),
    "log-out": _beside("-wal", lambda file, wild: file.symlink_to(wild.outside / "secret.txt")),
    "lock-out": _beside(".lock", lambda file, wild: file.symlink_to(wild.outside / "secret.txt")),
    "lock-pipe": _beside(".lock", lambda file, wild: os.mkfifo(file)),
}
MAY_RAISE = ("json", "values")
"""After which a command may end in a traceback: a run's configuration is read in many places, each by its own keys."""
