"""Finds schema objects of a store that tui-evals did not create, and whether they could change what is stored.

Triggers, unique indexes, conditions and views under our names can change a written row. Other tables, views and plain
indexes, as Datasette and sqlite-utils create them, cannot.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tui_evals.light_records import dataclass
from tui_evals.store import chains, ledger, views
from tui_evals.store.connection import StoreError, open_database

if TYPE_CHECKING:
    from sqlite_utils import Database

    Tables: TypeAlias = Database | sqlite3.Connection

APPLICATION = 0x7E5A15  # says "a store of tui-evals" in the header of the file

_FIRST = """
CREATE TABLE meta(k TEXT PRIMARY KEY, v INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('seq', 0), ('generation', 0), ('schema', 0);
CREATE TABLE snapshots(hash TEXT PRIMARY KEY, name TEXT NOT NULL, document TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE runs(
  id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL, suite TEXT NOT NULL,
  source TEXT NOT NULL, snapshot TEXT NOT NULL, status TEXT NOT NULL, control TEXT NOT NULL, targets TEXT NOT NULL,
  prompts TEXT NOT NULL, tags TEXT NOT NULL, parent INTEGER, created REAL NOT NULL, started REAL, finished REAL,
  total INTEGER, config TEXT NOT NULL, note TEXT NOT NULL, pid INTEGER, host TEXT, heartbeat REAL,
  scoring_pass INTEGER NOT NULL);
CREATE TABLE answers(
  id INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, seq INTEGER NOT NULL, pos INTEGER NOT NULL,
  cell INTEGER NOT NULL, item INTEGER NOT NULL, turn INTEGER NOT NULL, prompt INTEGER NOT NULL,
  target INTEGER NOT NULL, repeat INTEGER NOT NULL, name TEXT NOT NULL, category TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending', score REAL, input_tokens INTEGER, output_tokens INTEGER, cost REAL,
  latency_ms REAL, attempts INTEGER NOT NULL DEFAULT 0, from_cache INTEGER NOT NULL DEFAULT 0,
  scripted INTEGER NOT NULL DEFAULT 0, started REAL, code TEXT, preview TEXT NOT NULL DEFAULT '', body INTEGER);
CREATE UNIQUE INDEX answers_run_pos ON answers(run, pos);
CREATE UNIQUE INDEX answers_seq ON answers(seq);
CREATE TABLE bodies(id INTEGER PRIMARY KEY, request TEXT NOT NULL, text TEXT, answer TEXT NOT NULL);
CREATE TABLE passes(
  run INTEGER NOT NULL, pass INTEGER NOT NULL, created REAL NOT NULL, config TEXT NOT NULL,
  PRIMARY KEY(run, pass)) WITHOUT ROWID;
CREATE TABLE scores(
  answer INTEGER NOT NULL, pass INTEGER NOT NULL, key TEXT NOT NULL, evaluator TEXT NOT NULL, score REAL, result TEXT,
  threshold REAL, label TEXT, reason TEXT NOT NULL, details TEXT NOT NULL, weight REAL NOT NULL,
  PRIMARY KEY(answer, pass, key)) WITHOUT ROWID;
CREATE TABLE group_scores(
  run INTEGER NOT NULL, pass INTEGER NOT NULL, item INTEGER NOT NULL, turn INTEGER NOT NULL, key TEXT NOT NULL,
  evaluator TEXT NOT NULL, score REAL, result TEXT, threshold REAL, label TEXT, reason TEXT NOT NULL,
  details TEXT NOT NULL, weight REAL NOT NULL, PRIMARY KEY(run, pass, item, turn, key)) WITHOUT ROWID;
CREATE TABLE calls(
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL, answer INTEGER, kind TEXT NOT NULL, target TEXT NOT NULL,
  attempt INTEGER NOT NULL, started REAL NOT NULL, latency_ms REAL NOT NULL, input_tokens INTEGER,
  output_tokens INTEGER, cost REAL, code TEXT, message TEXT, from_cache INTEGER NOT NULL);
CREATE INDEX calls_run ON calls(run, answer);
CREATE TABLE cache(
  key TEXT PRIMARY KEY, recipe TEXT NOT NULL, target TEXT NOT NULL, body INTEGER NOT NULL, created REAL NOT NULL
  ) WITHOUT ROWID;
CREATE TABLE labels(
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL, answer INTEGER NOT NULL, evaluator TEXT,
  verdict TEXT NOT NULL CHECK(verdict IN ('pass', 'fail')), author TEXT NOT NULL, time REAL NOT NULL,
  note TEXT NOT NULL);
CREATE INDEX labels_run ON labels(run, answer);
CREATE TABLE drafts(file TEXT PRIMARY KEY, digest TEXT NOT NULL, data TEXT NOT NULL, time REAL NOT NULL);
CREATE TABLE session(k TEXT PRIMARY KEY, v TEXT NOT NULL) WITHOUT ROWID;
"""


def _execute_each(database: Tables, statements: str) -> None:
    """Do statements that end where a line ends; sqlite-utils would look for their ends letter by letter."""
    for statement in statements.split(";\n"):
        if statement.strip():
            database.execute(statement)


def _first(database: Tables) -> None:
    _execute_each(database, _FIRST)


def _comparing(database: Tables) -> None:
    _execute_each(
        database,
        """
        CREATE TABLE baselines(
          source TEXT PRIMARY KEY, run INTEGER NOT NULL, author TEXT NOT NULL, time REAL NOT NULL) WITHOUT ROWID;
        CREATE TABLE bouts(
          left INTEGER NOT NULL, right INTEGER NOT NULL, judge TEXT NOT NULL, question TEXT NOT NULL,
          first TEXT, second TEXT, reason TEXT NOT NULL, time REAL NOT NULL,
          PRIMARY KEY(left, right, judge, question)) WITHOUT ROWID;
        ALTER TABLE labels ADD COLUMN blind INTEGER NOT NULL DEFAULT 0;
        """,
    )


def _workers(database: Tables) -> None:
    _execute_each(
        database,
        """
        CREATE TABLE workers(
          run INTEGER NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL CHECK(state IN ('alive', 'silent', 'gone')),
          cells INTEGER NOT NULL, calls INTEGER NOT NULL, rate REAL NOT NULL, errors INTEGER NOT NULL,
          seen REAL NOT NULL, PRIMARY KEY(run, name)) WITHOUT ROWID;
        INSERT INTO meta VALUES ('workers', 0);
        """,
    )


def _reasons(database: Tables) -> None:
    _execute_each(
        database,
        """
        ALTER TABLE runs ADD COLUMN message TEXT NOT NULL DEFAULT '';
        ALTER TABLE runs ADD COLUMN code TEXT NOT NULL DEFAULT '';
        """,
    )


def _measures(database: Tables) -> None:
    """Add the measures of scores; for older scores they are derived from the names of their limits."""
    for table in ("scores", "group_scores"):
        _execute_each(
            database,
            f"""
            ALTER TABLE {table} ADD COLUMN measure TEXT NOT NULL DEFAULT '';
            UPDATE {table} SET measure = iif(substr(reason, 1, 8) = 'negated:', 'at least ', 'at most ')
              || CASE evaluator WHEN 'Latency' THEN 'ms' WHEN 'Cost' THEN 'USD' ELSE 'tokens' END
              WHERE evaluator IN ('Latency', 'Cost', 'Tokens');
            """,
        )


def _unjudged(database: Tables) -> None:
    """Correct answers that counted as passed though nothing could fail them, and add the results of gates."""
    current = (
        "SELECT 1 FROM scores s JOIN runs r ON r.id = answers.run "
        "WHERE s.answer = answers.id AND s.pass = r.scoring_pass"
    )
    together = (
        "SELECT 1 FROM group_scores g JOIN runs r ON r.id = g.run WHERE g.run = answers.run "
        "AND g.pass = r.scoring_pass AND g.item = answers.item AND g.turn = answers.turn AND g.result IS NOT 'skipped'"
    )
    _execute_each(
        database,
        f"""
        ALTER TABLE runs ADD COLUMN verdict TEXT NOT NULL DEFAULT '';
        UPDATE answers SET status =
          CASE WHEN EXISTS ({current} AND s.result IS NULL) OR EXISTS ({together}) THEN 'scored' ELSE 'unjudged' END
          WHERE status = 'pass' AND NOT EXISTS ({current} AND s.result IN ('pass', 'fail'))
          AND run NOT IN (SELECT id FROM runs WHERE json_extract(config, '$.recorded') IS NOT NULL);
        """,
    )


def _endings(database: Tables) -> None:
    _execute_each(
        database,
        """
        ALTER TABLE answers ADD COLUMN ending TEXT NOT NULL DEFAULT '';
        UPDATE answers SET ending = ifnull((
          SELECT CASE
            WHEN json_extract(b.answer, '$.diagnostics.refusal') != '' THEN 'refusal'
            WHEN lower(json_extract(b.answer, '$.finish_reason')) IN ('length', 'max_tokens') THEN 'length'
            WHEN lower(json_extract(b.answer, '$.finish_reason')) = 'content_filter' THEN 'content_filter'
            ELSE '' END
          FROM bodies b WHERE b.id = answers.body), '');
        """,
    )


def _waits(database: Tables) -> None:
    _execute_each(database, "ALTER TABLE runs ADD COLUMN waiting TEXT NOT NULL DEFAULT '';")


def _staging(database: Tables) -> None:
    """Add the results of a staged scoring pass, until it is complete."""
    _execute_each(
        database,
        """
        ALTER TABLE runs ADD COLUMN staged_pass INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE runs ADD COLUMN staged_total INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE staged(answer INTEGER PRIMARY KEY, run INTEGER NOT NULL, status TEXT NOT NULL, score REAL);
        CREATE INDEX staged_run ON staged(run);
        """,
    )


def _earlier(database: Tables) -> None:
    """Add earlier states of answers that were retried in the same run after an error."""
    _execute_each(
        database,
        """
        CREATE TABLE earlier(
          id INTEGER PRIMARY KEY, run INTEGER NOT NULL, answer INTEGER NOT NULL, time REAL NOT NULL, body INTEGER,
          scores TEXT NOT NULL);
        CREATE INDEX earlier_answer ON earlier(answer);
        """,
    )


def _reservations(database: Tables) -> None:
    """Add reservations for calls of unknown cost, and replies of judges to unfinished answers."""
    _execute_each(
        database,
        """
        ALTER TABLE runs ADD COLUMN reserved REAL NOT NULL DEFAULT 0;
        ALTER TABLE calls ADD COLUMN may_cost REAL;
        CREATE TABLE replies(
          run INTEGER NOT NULL, pass INTEGER NOT NULL, key TEXT NOT NULL, text TEXT, reply TEXT NOT NULL,
          PRIMARY KEY(run, pass, key)) WITHOUT ROWID;
        """,
    )


def _rejudged(database: Tables) -> None:
    """Add, for single answers that were judged again, the pass, the earlier verdict, and an edited expectation."""
    _execute_each(
        database,
        """
        ALTER TABLE earlier ADD COLUMN judging TEXT;
        CREATE INDEX earlier_judging ON earlier(run) WHERE judging IS NOT NULL;
        """,
    )


def _token_details(database: Tables) -> None:
    """Which of the tokens the provider had cached, and with which the model thought."""
    _execute_each(
        database,
        """
        ALTER TABLE answers ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE answers ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE calls ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE calls ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;
        """,
    )


def _battles(database: Tables) -> None:
    """Add battles; of earlier ones only the verdicts are known."""
    _execute_each(
        database,
        """
        CREATE TABLE battles(
          id INTEGER PRIMARY KEY AUTOINCREMENT, sides TEXT NOT NULL, judge TEXT NOT NULL, question TEXT NOT NULL,
          criteria TEXT NOT NULL, pairs INTEGER, seed INTEGER, time REAL NOT NULL, cost REAL NOT NULL,
          summary TEXT NOT NULL);
        """,
    )


def _counted(database: Tables) -> None:
    """Add the cached totals of runs that are over, until their rows change."""
    of_run = "BEGIN DELETE FROM counted WHERE run ="
    _execute_each(
        database,
        f"""
        CREATE TABLE counted(
          run INTEGER NOT NULL, query TEXT NOT NULL, rows TEXT NOT NULL, PRIMARY KEY(run, query)) WITHOUT ROWID;
        CREATE TRIGGER answer_changed AFTER UPDATE ON answers {of_run} NEW.run; END;
        CREATE TRIGGER answer_deleted AFTER DELETE ON answers {of_run} OLD.run; END;
        CREATE TRIGGER call_noted AFTER INSERT ON calls {of_run} NEW.run; END;
        """,
    )


def _counted_alone(database: Tables) -> None:
    """Let a label keep the cached totals of its run: it changes only the sequence number of its answer."""
    _execute_each(
        database,
        """
        DROP TRIGGER answer_changed;
        CREATE TRIGGER answer_changed AFTER UPDATE OF
          run, target, status, code, body, cost, from_cache, scripted, input_tokens, output_tokens, cached_tokens,
          reasoning_tokens ON answers
        BEGIN DELETE FROM counted WHERE run = NEW.run; END;
        """,
    )


def _ledger(database: Tables) -> None:
    """The counts of every run, which the writer keeps instead of triggers that dropped them."""
    for trigger in ("answer_changed", "answer_deleted", "call_noted"):
        database.execute(f"DROP TRIGGER {trigger}")
    database.execute("DROP TABLE counted")
    for table in ledger.TABLES:
        database.execute(table)
    ledger.recount_all(database.conn if hasattr(database, "conn") else database)


def _gates(database: Tables) -> None:
    """Add the gates of a run one by one; of earlier ones only the sentence is known."""
    _execute_each(database, "ALTER TABLE runs ADD COLUMN gates TEXT NOT NULL DEFAULT '';")


def _origins(database: Tables) -> None:
    """Add the pass that a kept score comes from."""
    for table in ("scores", "group_scores"):
        _execute_each(database, f"ALTER TABLE {table} ADD COLUMN origin INTEGER NOT NULL DEFAULT 0;\n")


def _identity(database: Tables) -> None:
    """Random numbers that tell a store, and the process that began to write into it last, from all others."""
    _execute_each(
        database,
        """
        INSERT OR IGNORE INTO meta VALUES ('store', random()), ('writer', random());
        """,
    )


def _chains(database: Tables) -> None:
    """Create the tables of signed chains and of the run that produced each cached answer."""
    _execute_each(database, chains.TABLES)


def _activities(database: Tables) -> None:
    """Battles and generations while they are executed, which any process can watch and stop."""
    _execute_each(
        database,
        """
        CREATE TABLE activities(
          id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, about TEXT NOT NULL,
          request TEXT NOT NULL, status TEXT NOT NULL, control TEXT NOT NULL, done INTEGER NOT NULL,
          total INTEGER NOT NULL, cost REAL NOT NULL, facts TEXT NOT NULL, messages TEXT NOT NULL,
          message TEXT NOT NULL, code TEXT NOT NULL, created REAL NOT NULL, started REAL, finished REAL);
        CREATE INDEX activities_about ON activities(kind, about);
        """,
    )


def _views(database: Tables) -> None:
    """Add the views for other tools, and the purpose of a call: an evaluator, or a phase of a battle or generation."""
    _execute_each(
        database,
        """
        ALTER TABLE calls ADD COLUMN evaluator TEXT NOT NULL DEFAULT '';
        ALTER TABLE calls ADD COLUMN phase TEXT NOT NULL DEFAULT '';
        """,
    )
    views.make_views(database)
    database.execute(f"INSERT INTO meta VALUES ('views', {views.VERSION})")


STEPS: tuple[Callable[[Tables], None], ...] = (
    *(_first, _comparing, _workers, _reasons),
    *(_measures, _unjudged, _endings, _waits, _staging, _earlier, _reservations, _rejudged, _token_details),
    *(_battles, _counted, _counted_alone, _ledger, _gates, _origins, _identity),
    _chains,
    _activities,
    _views,
)
VERSION = len(STEPS)
SIGNED = STEPS.index(_chains) + 1
"""The version of stores from which on runs have chains."""


def migrate(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Take the steps a store of this version has not seen, after a backup; only for the holder of the lock."""
    if version:
        back_up(connection, Path(f"{path}.bak.{version}"))
    make_tables(connection, STEPS, version)


def make_tables(connection: sqlite3.Connection, steps: Sequence[Callable[[Tables], None]], version: int = 0) -> None:
    """Take those of the steps that a store of this version has not seen, all or none."""
    connection.execute("PRAGMA journal_mode=WAL")
    database = _upgraded(connection) if version else connection
    with _transaction(connection):
        for step in steps[version:]:
            step(database)
        if version >= SIGNED:
            chains.migrated(connection, version, len(steps))
        connection.execute("UPDATE meta SET v = ? WHERE k = 'schema'", [len(steps)])
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={len(steps)}")


def _upgraded(connection: sqlite3.Connection) -> Database:
    """An older store with an interface for the steps; a new store avoids this import, which takes a second."""
    from sqlite_utils import Database

    return Database(connection, recursive_triggers=False, execute_plugins=False)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def back_up(connection: sqlite3.Connection, copy: Path, *, durable: bool = True) -> None:
    """A whole copy of the store, readable by its owner only, in place of an earlier one of that name.

    One that need not be `durable` may be lost in a power cut.
    """
    copy.unlink(missing_ok=True)
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with contextlib.closing(open_database(copy)) as target:
        if not durable:
            target.execute("PRAGMA synchronous=OFF")
        connection.backup(target)


NEWEST = "f2c939d572893a770adcaf43738fa96e18a9ba67a65cdfe05c18b91c8ddec9d4"
"""The digest of the schema that the migrations make, so that a store which has it needs no closer look."""
_SPARED = re.compile(r"[\s\"`\[\]]+")
_CONDITIONS = re.compile(r"(?i)\b(check|references|collate|conflict|generated|as|unique)\b")
_SHOWN = 5
_Row = tuple[str, str, str, str | None]
_sound: set[tuple[int, int, int]] = set()
"""The files whose schema was looked at, with its version."""


@dataclass(frozen=True, slots=True)
class SchemaFindings:
    """The parts of a store's schema beyond our tables."""

    harmful: tuple[str, ...] = ()
    """Objects that could change what is stored, as in `the trigger wins on answers`."""
    others: tuple[str, ...] = ()
    """Harmless objects, as in `the table notes`."""
    replaced: frozenset[str] = frozenset()
    """Our tables that are something else, or lacking."""

    @property
    def sentence(self) -> str:
        """The harmful objects in one sentence."""
        more = f" and {len(self.harmful) - _SHOWN} more" if len(self.harmful) > _SHOWN else ""
        return f"it has {', '.join(self.harmful[:_SHOWN])}{more}, which tui-evals did not make"


def schema_findings(connection: sqlite3.Connection) -> SchemaFindings:
    """The parts of a store's schema besides our tables."""
    every = _rows(connection)
    rows = [row for row in every if _is_text(row)]
    if rows == every and _digest(rows) == NEWEST:
        return SchemaFindings()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    expected, newest = _made_by(STEPS[: max(version, 0)]), _made_by(STEPS)
    ours = {name for name in expected if expected[name][0] == "table"}
    later = {name for name in newest if newest[name][0] in ("table", "view")} - expected.keys()
    there = {name.lower(): (kind, name, table, sql) for kind, name, table, sql in rows}
    replaced = frozenset(name for name in ours if there.get(name, ("",))[0] != "table")
    harmful, others = [f"no table {name}" for name in sorted(ours - there.keys())], []
    if rows != every:
        harmful.append("entries without a name in its schema")
    for key, row in sorted(there.items()):
        kind, name, table, _ = row
        if key.startswith("sqlite_") or _is_expected(row, expected.get(key)):
            continue
        said = f"the {kind} {name!r}" + (f" on {table}" if kind in ("trigger", "index") else "")
        if key in ours or key in later or key in expected:
            if kind != "table" or key in later:
                harmful.append(f"{said} under a name of ours")
            elif not _same_columns(connection, name, row, expected[key]):
                harmful.append(f"other columns or conditions in the table {name}")
        elif kind == "trigger" and table.lower() in ours:
            harmful.append(said)
        elif kind == "index" and table.lower() in ours and (why := _index_trouble(connection, name, table)):
            harmful.append(f"{why} {name!r} on {table}")
        else:
            others.append(said)
    return SchemaFindings(tuple(harmful), tuple(others), replaced)


def demand_own_schema(connection: sqlite3.Connection, path: Path, *, write: bool = True) -> None:
    """Raise StoreError if an object of the schema could change what is written, or replaces one of our tables."""
    status = path.stat()
    (cookie,) = connection.execute("PRAGMA schema_version").fetchone()
    state = (status.st_dev, status.st_ino, cookie)
    if state in _sound:
        return
    found = schema_findings(connection)
    if found.replaced and not write:
        raise StoreError(f"{path} cannot be read as a store: {found.sentence}. Name another with --db.")
    if found.harmful and write:
        raise StoreError(
            f"nothing is written into {path}: {found.sentence}. It could change your results. `tui-evals db repair` "
            "makes a new store of its rows without that, or name another with --db."
        )
    if not found.harmful:
        _sound.add(state)


def schema_digest(connection: sqlite3.Connection) -> str:
    """The digest of everything in the schema of a store."""
    return _digest(_rows(connection))


def _rows(connection: sqlite3.Connection) -> list[_Row]:
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()


def _is_text(row: Sequence[object]) -> bool:
    """Whether an entry names something, which one on a damaged page need not."""
    return all(isinstance(word, str) for word in row[:3]) and isinstance(row[3], str | None)


def _digest(rows: Iterable[_Row]) -> str:
    text = "\0".join(f"{kind}\0{name}\0{sql}" for kind, name, _, sql in rows if not name.startswith("sqlite_stat"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@cache
def _made_by(steps: tuple[Callable[[Tables], None], ...]) -> dict[str, _Row]:
    """The objects that some migrations create, by name."""
    with closing(open_database(":memory:")) as connection:
        for step in steps:
            step(connection)
        return {row[1].lower(): row for row in _rows(connection)}


def _is_expected(row: _Row, expected: _Row | None) -> bool:
    return expected is not None and row[0] == expected[0] and _plain(row[3]) == _plain(expected[3])


def _plain(sql: str | None) -> str:
    return _SPARED.sub("", sql or "").lower()


def _same_columns(connection: sqlite3.Connection, name: str, row: _Row, expected: _Row) -> bool:
    """Whether a table that is written down otherwise has the same columns, and neither has a condition."""
    texts = (row[3] or "", expected[3] or "")
    if any(_CONDITIONS.search(text) for text in texts) or len({"rowid" in text.lower() for text in texts}) > 1:
        return False
    with closing(open_database(":memory:")) as other:
        other.execute(texts[1])
        return _columns(connection, name) == _columns(other, expected[1])


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    quoted = table.replace('"', '""')
    return [tuple(column[1:]) for column in connection.execute(f'PRAGMA table_xinfo("{quoted}")').fetchall()]


def _index_trouble(connection: sqlite3.Connection, name: str, table: str) -> str:
    """What makes an index more than a list of rows; empty if it is only that."""
    indexes = connection.execute('SELECT name, "unique", partial FROM pragma_index_list(?)', [table]).fetchall()
    for index, is_unique, is_partial in indexes:
        if index == name:
            if is_unique:
                return "the unique index"
            if is_partial:
                return "the index of a condition"
    columns = connection.execute("SELECT cid, coll FROM pragma_index_xinfo(?)", [name]).fetchall()
    if any(column == -2 or collation not in ("BINARY", "NOCASE", "RTRIM") for column, collation in columns):
        return "the index of an expression"
    return ""
