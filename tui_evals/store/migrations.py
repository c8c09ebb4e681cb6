"""What the tables are, and how a store of an earlier version becomes one of today."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

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
    """What scores are in; of those kept until now the names of the limits tell."""
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
    """Answers that were called passed though nothing could fail them, and what the gates of a run came to."""
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
    """What a scoring pass under way makes of answers, until it is whole and counts."""
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
    """What answers were that were asked or judged again in the same run, because they had ended as errors."""
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
    """What calls may cost before anybody knows, and the replies of judges to what is not judged to its end."""
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
    """Of single answers that were judged again: in which pass, from which verdict, and by what if that was edited."""
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
    """The battles that were begun; of those before only the verdicts are known."""
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
    """The totals of runs that are over, until something changes of what they were counted from."""
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
    """A label, which only moves an answer up in what changed last, leaves the totals as they are."""
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


STEPS: tuple[Callable[[Tables], None], ...] = (
    *(_first, _comparing, _workers, _reasons),
    *(_measures, _unjudged, _endings, _waits, _staging, _earlier, _reservations, _rejudged, _token_details),
    *(_battles, _counted, _counted_alone),
)
VERSION = len(STEPS)


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
        connection.execute("UPDATE meta SET v = ? WHERE k = 'schema'", [len(steps)])
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={len(steps)}")


def _upgraded(connection: sqlite3.Connection) -> Database:
    """An older store with what steps may need; a new one is spared the import, which takes a second beside pandas."""
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


def back_up(connection: sqlite3.Connection, copy: Path) -> None:
    """A whole copy of the store, readable by its owner only, in place of an earlier one of that name."""
    copy.unlink(missing_ok=True)
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with contextlib.closing(sqlite3.connect(copy)) as target:
        connection.backup(target)
