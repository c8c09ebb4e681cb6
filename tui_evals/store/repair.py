"""Saving what can be read of a damaged store: into a new one, which then takes its place."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.store import chains, identity, ledger
from tui_evals.store import schema as migrations
from tui_evals.store.connection import StoreLock, copy_readable, open_database, refuse_live_runs
from tui_evals.store.database import StoreError, check_files, explained, page_errors, refuse_read_only, schema_version
from tui_evals.store.housekeeping import PLANNED_TOGETHER
from tui_evals.store.identity import connect_alone
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.results import take_seq
from tui_evals.store.rows import dumps
from tui_evals.store.upkeep import (
    Backup,
    can_restore,
    connect_damaged,
    highest_keys,
    in_readable_ranges,
    indexes,
    is_lost,
    newest_backup,
    readable_number,
    readable_schema,
    written_rows,
)
from tui_evals.text.measures import counted

PlanAgain = Callable[[Mapping[str, Any], Mapping[str, Any], int, int], Sequence[PlannedAnswer]]
"""Gives the answers of a run by its config, its dataset, and how many prompts and targets it has; none if unknown."""

LOST = "lost"
"""The key in the config of a run for how many of its answers are lost and cannot be asked again."""


@dataclass(frozen=True, slots=True)
class IncompleteRun:
    """A run some of whose answers were lost."""

    key: str
    name: str
    lost: int
    total: int
    """How many answers were planned."""
    can_resume: bool
    """Whether the lost part is pending now."""


def plan_lost_again(store: sqlite3.Connection, plan_again: PlanAgain, remade: set[str]) -> list[IncompleteRun]:
    """Make the lost answers of every run pending again, except for runs whose dataset was `remade`."""
    lost = (
        "SELECT id, key, name, total, config, prompts, targets, snapshot FROM runs "
        "WHERE total > (SELECT count(*) FROM answers WHERE run = runs.id) ORDER BY id"
    )
    runs = []
    for run, key, name, total, config, prompts, targets, digest in store.execute(lost).fetchall():
        there = dict(store.execute("SELECT pos, id FROM answers WHERE run = ?", [run]).fetchall())
        documents = store.execute("SELECT document FROM snapshots WHERE hash = ?", [digest]).fetchall()
        planned: Sequence[PlannedAnswer] = ()
        if documents and digest not in remade:
            counts = len(json.loads(prompts)), len(json.loads(targets))
            planned = plan_again(json.loads(config), json.loads(documents[0][0]), *counts)
        can_resume = len(planned) == total and _fits(store, run, planned)
        if can_resume:
            _insert(store, run, planned, there)
        else:
            _close_gaps(store, run, len(there))
        incomplete = IncompleteRun(key, name, total - len(there), total, can_resume)
        _interrupt(store, run, incomplete, config)
        runs.append(incomplete)
    return runs


def _fits(store: sqlite3.Connection, run: int, planned: Sequence[PlannedAnswer]) -> bool:
    """Whether every answer that is left is where the plan has it."""
    query = "SELECT pos, cell, item, turn, prompt, target, repeat FROM answers WHERE run = ?"
    for pos, *place in store.execute(query, [run]):
        if pos >= len(planned):
            return False
        a = planned[pos]
        if place != [a.cell, a.item, a.turn, a.prompt, a.target, a.repeat]:
            return False
    return True


def _insert(store: sqlite3.Connection, run: int, planned: Sequence[PlannedAnswer], there: Mapping[int, int]) -> None:
    lost = [pos for pos in range(len(planned)) if pos not in there]
    ids = _ids(store, lost, there)
    seq = take_seq(store, len(lost))
    store.executemany(
        "INSERT INTO answers(id, run, seq, pos, cell, item, turn, prompt, target, repeat, name, category) "
        "VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
        [
            (ids.get(pos), run, seq + n, pos, a.cell, a.item, a.turn, a.prompt, a.target, a.repeat, a.name, a.category)
            for n, (pos, a) in enumerate((pos, planned[pos]) for pos in lost)
        ],
    )


def _ids(store: sqlite3.Connection, lost: Sequence[int], there: Mapping[int, int]) -> dict[int, int]:
    """The ids that lost answers had, by position: those that were planned together follow each other.

    What a run could not store names answers by their ids, so a new id would lose it.
    """
    offsets = {pos // PLANNED_TOGETHER: answer - pos for pos, answer in there.items()}
    ids: dict[int, int] = {}
    offset = next(iter(offsets.values()), None)
    for pos in lost:
        offset = offsets.get(pos // PLANNED_TOGETHER, offset)
        if offset is not None and pos + offset > 0:
            ids[pos] = pos + offset
    taken = "SELECT 1 FROM answers WHERE id IN (SELECT value FROM json_each(?))"
    return {} if store.execute(taken, [json.dumps(list(ids.values()))]).fetchone() else ids


def _close_gaps(store: sqlite3.Connection, run: int, count: int) -> None:
    """Positions without a gap, by a way on which no two answers ever are at the same one."""
    ordered = "SELECT id, row_number() OVER (ORDER BY pos) AS place FROM answers WHERE run = ?"
    store.execute(f"UPDATE answers SET pos = -o.place FROM ({ordered}) o WHERE answers.id = o.id", [run])
    store.execute("UPDATE answers SET pos = -pos - 1 WHERE run = ?", [run])
    store.execute("UPDATE runs SET total = ? WHERE id = ?", [count, run])


def _interrupt(store: sqlite3.Connection, run: int, incomplete: IncompleteRun, config: str) -> None:
    """Store with the run that it is incomplete, for every interface to show."""
    said = f"{incomplete.lost:,} of its {counted(incomplete.total, 'answer')} were lost with a damaged store"
    values: dict[str, object] = {"status": "interrupted", "finished": None, "verdict": "", "code": "store"}
    if incomplete.can_resume:
        values["message"] = f"{said} and are pending again"
    else:
        values["message"] = f"{said} and cannot be asked again"
        values["config"] = json.dumps({**json.loads(config), LOST: incomplete.lost}, ensure_ascii=False)
    known = {name for _, name, *_ in store.execute("PRAGMA table_info(runs)").fetchall()}  # an older store lacks some
    values = {name: value for name, value in values.items() if name in known}
    sets = ", ".join([*(f"{name} = ?" for name in values), "note = iif(note = '', '', note || '; ') || ?"])
    store.execute(f"UPDATE runs SET {sets} WHERE id = ?", [*values.values(), said, run])


_PAGE = 1_000
_SQLITE_READERS = 0x40000002, 510  # the bytes of a database that every open connection holds a lock on
_REFERENCES = {
    "bodies": (("answers", "body"), ("cache", "body"), ("earlier", "body")),
    **dict.fromkeys(("scores", "staged", "bouts"), (("answers", "id"),)),
    **dict.fromkeys(("passes", "group_scores", "workers"), (("runs", "id"),)),
}
"""The columns that hold keys of a table, saved before it."""
_JSON = {
    "snapshots": {"document": "object"},
    "runs": {"targets": "array", "prompts": "array", "tags": "array", "config": "object"},
    "bodies": {"request": "object", "answer": "object"},
    "passes": {"config": "object"},
    "scores": {"details": "object"},
    "group_scores": {"details": "object"},
    "earlier": {"scores": "array", "judging": "object"},
    "battles": {"sides": "array"},
    "activities": {"request": "object", "facts": "object", "messages": "array"},
    "session": {"v": "any"},
}
_OF_RUNS = (
    "answers",
    "passes",
    "group_scores",
    "calls",
    "labels",
    "baselines",
    "workers",
    "staged",
    "earlier",
    "replies",
)
_CONSISTENT = (
    *(f"DELETE FROM {table} WHERE run NOT IN (SELECT id FROM runs)" for table in _OF_RUNS),
    *(
        f"DELETE FROM {table} WHERE {column} NOT IN (SELECT id FROM answers)"
        for table, column in (("scores", "answer"), ("labels", "answer"), ("staged", "answer"), ("earlier", "answer"))
    ),
    "DELETE FROM bouts WHERE left NOT IN (SELECT id FROM answers) OR right NOT IN (SELECT id FROM answers)",
    "DELETE FROM battles WHERE EXISTS (SELECT 1 FROM json_each(sides) WHERE value ->> 0 NOT IN (SELECT id FROM runs))",
    "DELETE FROM cache WHERE body NOT IN (SELECT id FROM bodies)",
    "UPDATE answers SET body = NULL WHERE body NOT IN (SELECT id FROM bodies)",
    "UPDATE earlier SET body = NULL WHERE body NOT IN (SELECT id FROM bodies)",
    "UPDATE calls SET answer = NULL WHERE answer NOT IN (SELECT id FROM answers)",
    "UPDATE runs SET parent = NULL WHERE parent NOT IN (SELECT id FROM runs)",
    "DELETE FROM bodies WHERE id NOT IN (SELECT body FROM answers WHERE body) AND id NOT IN (SELECT body FROM cache) "
    "AND id NOT IN (SELECT body FROM earlier WHERE body)",
    "UPDATE meta SET v = max(v, (SELECT ifnull(max(seq), 0) FROM answers)) WHERE k = 'seq'",
    "UPDATE meta SET v = v + 1 WHERE k = 'generation'",
)
_LOST_DATASETS = (
    "SELECT snapshot, max(source) FROM runs WHERE snapshot != '' AND snapshot NOT IN (SELECT hash FROM snapshots) "
    "GROUP BY snapshot"
)


@dataclass(frozen=True, slots=True)
class SavedTable:
    """The result of saving the rows of a table."""

    table: str
    saved: int
    known: int | None
    """The former number of rows; None if nothing readable tells."""
    dropped: int
    """The number of readable rows that belonged to lost ones."""
    remade: int = 0
    """How many lost rows were rebuilt from what is left; for answers, how many are pending again."""
    from_backup: int = 0
    """How many of those saved come from a backup."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A new store next to a damaged one."""

    path: Path
    tables: tuple[SavedTable, ...]
    incomplete: tuple[IncompleteRun, ...]
    """The runs that lost answers."""
    backup: Backup | None
    """The copy from which was taken what could not be read."""
    _new: Path
    _is_own: bool

    def saved(self, table: str) -> int:
        """How many rows of a table are in the new store."""
        return next(one.saved for one in self.tables if one.table == table)

    def put_in_place(self) -> Path:
        """Replace the damaged store by the new one; returns where the damaged one is kept, with its log."""
        kept = _free_name(self.path)
        with contextlib.suppress(FileNotFoundError):  # it was deleted, and comes from a backup
            try:
                os.link(self.path, kept)
            except FileNotFoundError:
                raise
            except OSError:  # a file system without links
                os.rename(self.path, kept)
        # The log first: it would be replayed into any database next to it.
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{self.path}-wal", f"{kept}-wal")
        Path(f"{self.path}-shm").unlink(missing_ok=True)
        os.replace(self._new, self.path)
        _sync(self.path.parent)
        if self._is_own:
            with contextlib.closing(connect_alone(self.path)) as connection:
                identity.own(self.path, identity.store_number(connection), "begun")
        return kept


@contextlib.contextmanager
def repairing(path: Path, plan_again: PlanAgain = lambda *_: ()) -> Iterator[Repair]:
    """Save the readable parts of a store into a new one, without changing it; no other process may have it open.

    Unreadable parts come from the newest backup, if it has them; lost answers are planned again.
    """
    # Looked for before the store is held, because SQLite drops the locks of this process when it closes a file.
    is_there, restoring, backup = path.exists(), can_restore(path), newest_backup(path)
    if not restoring:
        _demand_tables(path)
    refuse_read_only(path)
    refuse_live_runs(path)
    try:
        with (
            contextlib.closing(StoreLock(path)) as lock,
            lock.held("repairing the store"),
            _alone(path) if is_there else contextlib.nullcontext(),
        ):
            folder = Path(tempfile.mkdtemp(prefix=".repair-", dir=path.parent))
            try:
                yield _salvage(path, folder, plan_again, backup, restoring)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except (sqlite3.Error, OSError) as problem:
        raise explained(problem, path) from problem


def _demand_tables(path: Path) -> None:
    """Raise StoreError if there is nothing to save rows from: no store, or views under the names of our tables."""
    with contextlib.closing(connect_damaged(path)) as connection:
        schema = readable_schema(connection)
    if views := [one for one in schema.harmful if one.endswith("under a name of ours")]:
        raise StoreError(f"{path} cannot be repaired: it has {', '.join(views)}. Put a backup in its place.")


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock every other process out of the database; refused while one has it open."""
    check_files(path)
    with open(path, "r+b") as file:
        try:
            start, length = _SQLITE_READERS
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        except OSError as problem:
            if problem.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise StoreError(
                f"{path} is open in another process, a workbench or a watch. End it, then try again."
            ) from None
        yield


def _salvage(path: Path, folder: Path, plan_again: PlanAgain, backup: Backup | None, restoring: bool) -> Repair:
    new = folder / "evals.db"
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_database(new.absolute().as_uri())))
        source = _empty_copy(folder, backup) if restoring and backup else _readable_copy(path, folder)
        damaged = stack.enter_context(contextlib.closing(connect_damaged(source)))
        damaged.text_factory = lambda text: text.decode("utf-8", "replace")
        store.execute("PRAGMA synchronous=OFF")  # it is not used before it is completely on the disk
        migrations.make_tables(store, migrations.STEPS[: schema_version(damaged, path)])
        if backup is not None:
            store.execute("ATTACH ? AS backup", [f"{backup.path.absolute().as_uri()}?mode=ro&immutable=1"])
        store.execute("BEGIN")
        known, whole = _save_tables(damaged, store)
        _drop_garbage(store, known)
        readable = {table: _rows(store, table) for table in known}
        torn = [table for table, rows in known.items() if restoring or table not in whole or readable[table] != rows]
        added = {table: _add_from_backup(store, table) for table in torn} if backup is not None else {}
        _make_consistent(store)
        digests = _remake_datasets(store)
        remade = {"snapshots": len(digests), "passes": _remake_passes(store)}
        before = _rows(store, "answers")
        incomplete = tuple(plan_lost_again(store, plan_again, digests))
        remade["answers"] = _rows(store, "answers") - before
        if schema_version(damaged, path) >= ledger.SINCE:
            ledger.recount_all(store)
        if schema_version(damaged, path) >= migrations.SIGNED:
            chains.repaired(store)
        store.execute("COMMIT")
        if problems := page_errors(store):
            raise StoreError(f"the new store next to {path} could not be written whole: {problems[0]}.")
        tables = [_saved(store, table, known[table], readable[table], added, remade) for table in known]
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        is_own = identity.is_own(path.absolute(), identity.store_number(damaged)) or (
            restoring and identity.is_own(path.absolute(), identity.store_number(store))
        )
    _sync(new)
    return Repair(path, tuple(tables), incomplete, backup if any(added.values()) else None, new, is_own)


def _readable_copy(path: Path, folder: Path) -> Path:
    """A copy of the readable parts of a store and its log."""
    copy = folder / "damaged.db"
    for end in ("", "-wal"):
        with contextlib.suppress(FileNotFoundError):
            copy_readable(Path(f"{path}{end}"), Path(f"{copy}{end}"))
    return copy


def _empty_copy(folder: Path, backup: Backup) -> Path:
    """A store with nothing in it, and the tables of a backup."""
    with contextlib.closing(connect_alone(backup.path)) as kept:
        version = schema_version(kept, backup.path)
    copy = folder / "damaged.db"
    with contextlib.closing(open_database(copy)) as empty:
        migrations.make_tables(empty, migrations.STEPS[:version])
    return copy


def _add_from_backup(store: sqlite3.Connection, table: str) -> int:
    """Add the rows of a backup that could not be read from the store; returns how many.

    A row deleted since the backup looks like a lost one. It is left out if its run is known to be deleted.
    """
    ours, theirs = (
        [name for _, name, *_ in store.execute(f"PRAGMA {schema}.table_info({table})").fetchall()]
        for schema in ("main", "backup")
    )
    names = ", ".join(f'"{name}"' for name in ours if name in theirs)
    if not names:
        return 0
    insert = f"INSERT OR {'REPLACE' if table == 'meta' else 'IGNORE'} INTO main.{table}({names}) "
    return max(store.execute(f"{insert} SELECT {names} FROM backup.{table}").rowcount, 0)


def _saved(
    store: sqlite3.Connection,
    table: str,
    known: int | None,
    readable: int,
    added: Mapping[str, int],
    remade: Mapping[str, int],
) -> SavedTable:
    again, extra = remade.get(table, 0), added.get(table, 0)
    saved = _rows(store, table) - again
    return SavedTable(table, saved, known, max(readable + extra - saved, 0), again, extra)


# -- rows


def _save_tables(damaged: sqlite3.Connection, store: sqlite3.Connection) -> tuple[dict[str, int | None], set[str]]:
    """Copy the readable rows of every table; returns their former numbers, None if unknown, and the complete tables."""
    query = "SELECT name, sql LIKE '%WITHOUT ROWID%' FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
    known: dict[str, int | None] = {}
    whole = set()
    for table, without_rowid in store.execute(query).fetchall():
        if not table.startswith("sqlite_") and table not in ledger.NAMES:
            if _save(damaged, store, table, without_rowid):
                whole.add(table)
            known[table] = _rows(store, table) if table in whole else _known(damaged, store, table)
    return known, whole


def _rows(store: sqlite3.Connection, table: str) -> int:
    return int(store.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _save(damaged: sqlite3.Connection, store: sqlite3.Connection, table: str, without_rowid: bool) -> bool:
    """Copy every row of a table that can be read; whether all of them could."""
    columns = store.execute(f"PRAGMA table_info({table})").fetchall()
    names = ", ".join(f'"{name}"' for _, name, *_ in columns)
    insert = f"INSERT OR {'REPLACE' if table == 'meta' else 'IGNORE'} INTO {table}({names}) VALUES "
    insert += f"({', '.join('?' * len(columns))})"

    keys, is_number = ["rowid"], True
    if without_rowid:
        parts = sorted((place, name, kind) for _, name, kind, _, _, place in columns if place)
        keys, is_number = [f'"{name}"' for _, name, _ in parts], parts[0][2] == "INTEGER"

    def copy(rest: str) -> None:
        rows = damaged.execute(f"SELECT {names} FROM {table} NOT INDEXED {rest}")
        while page := rows.fetchmany(_PAGE):
            store.executemany(insert, page)

    def copy_ends(where: str, keys: Sequence[str]) -> None:
        """Copy the rows at both ends of a range, each up to the first unreadable one."""
        for direction in ("ASC", "DESC"):
            order = ", ".join(f"{key} {direction}" for key in keys)
            _is_readable(partial(copy, f"{where} ORDER BY {order}"))

    def attempt(low: int, high: int) -> None:
        if low == high and keys[1:]:
            copy_ends(f"WHERE {keys[0]} = {low}", keys[1:])
        else:
            copy(f"WHERE {keys[0]} BETWEEN {low} AND {high}")

    if _is_readable(partial(copy, "")):
        return True
    high = _highest_key(damaged, store, table, keys[0]) if is_number else None
    if high is None:
        copy_ends("", keys)
    else:
        in_readable_ranges(attempt, 0, high)
    return False


def _is_readable(action: Callable[[], object]) -> bool:
    """Do something up to the first unreadable row; returns whether there was none."""
    try:
        action()
    except sqlite3.DatabaseError as problem:
        if not is_lost(problem):
            raise
        return False
    return True


def _highest_key(damaged: sqlite3.Connection, store: sqlite3.Connection, table: str, key: str) -> int | None:
    high = readable_number(damaged, highest_keys(damaged, table, key))
    referred = [f"SELECT max({column}) FROM {other}" for other, column in _REFERENCES.get(table, ())]
    return max((number for number in (high, readable_number(store, referred)) if number is not None), default=None)


def _known(damaged: sqlite3.Connection, store: sqlite3.Connection, table: str) -> int | None:
    """The former number of a table's rows, from its indexes or from references; None if nothing tells."""
    by_index = [f"SELECT count(*) FROM {table} INDEXED BY {index}" for index in indexes(damaged, table)]
    number = readable_number(damaged, by_index)
    if number is None and table == "answers":
        return readable_number(store, ["SELECT sum(total) FROM runs"])
    if table == "bodies":
        referred = "SELECT body FROM answers WHERE body UNION SELECT body FROM cache"
        return readable_number(store, [f"SELECT count(*) FROM ({referred})"])
    return number


def _drop_garbage(store: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Leave out rows with garbage: SQLite takes every byte of a page that it can follow for data."""
    for table in tables:
        store.execute(f"DELETE FROM {table} WHERE NOT ({written_rows(store, table)})")
    store.create_function("holds", 2, _holds, deterministic=True)
    for table, columns in _JSON.items():
        known = {name for _, name, *_ in store.execute(f"PRAGMA table_info({table})").fetchall()}
        for column, kind in columns.items():
            if column not in known:  # a store of an earlier version lacks it
                continue
            store.execute(f"DELETE FROM {table} WHERE NOT holds({column}, ?)", [kind])


def _holds(text: str, kind: str) -> bool:
    """Whether a text is JSON of a kind."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list) if kind == "array" else kind == "any" or isinstance(value, dict)


_NOTE = "UPDATE runs SET note = iif(note = '', '', note || '; ') || ?"


def _make_consistent(store: sqlite3.Connection) -> None:
    """Delete rows that belong to lost ones, and clear optional references to them."""
    for statement in _CONSISTENT:
        _is_readable(partial(store.execute, statement))  # a store of an earlier version lacks some of the tables


def _remake_passes(store: sqlite3.Connection) -> int:
    """Add the initial scoring pass for each run whose current one is lost; returns how many."""
    lost = "SELECT id, scoring_pass, created, config FROM runs"
    return store.execute(f"INSERT OR IGNORE INTO passes {lost}").rowcount


def _remake_datasets(store: sqlite3.Connection) -> set[str]:
    """Rebuild lost datasets from stored requests, with a note in their runs; returns their hashes."""
    datasets = store.execute(_LOST_DATASETS).fetchall()
    for digest, name in datasets:
        document = dumps({"items": _asked(store, digest)})
        store.execute("INSERT INTO snapshots VALUES (?,?,?,?)", [digest, name, document, time.time()])
        said = "its dataset was lost with a damaged store; this one has its questions, without evaluators"
        store.execute(f"{_NOTE} WHERE snapshot = ?", [said, digest])
    return {digest for digest, _ in datasets}


def _asked(store: sqlite3.Connection, digest: str) -> list[dict[str, str]]:
    """The items of a lost dataset, from their names and requests."""
    rows = store.execute(
        "SELECT a.item, a.name, b.request FROM answers a JOIN runs r ON r.id = a.run AND r.snapshot = ? "
        "LEFT JOIN bodies b ON b.id = a.body WHERE a.turn = 0 GROUP BY a.item ORDER BY a.item",
        [digest],
    ).fetchall()
    items = [{"prompt": f"#{number + 1}"} for number in range(rows[-1][0] + 1 if rows else 0)]
    for item, name, request in rows:
        messages = json.loads(request or "{}").get("messages") or [{}]
        content = messages[-1].get("content")
        items[item] = {"prompt": content if isinstance(content, str) and content else name}
        if not name.startswith("#"):
            items[item]["testId"] = name
    return items


def _free_name(path: Path) -> Path:
    """The new name of the damaged file."""
    day = time.strftime("%Y-%m-%d")
    names = (Path(f"{path}.damaged-{day}{more}") for more in ("", *(f"-{number}" for number in range(2, 1_000))))
    return next(name for name in names if not os.path.lexists(name))


def _sync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
