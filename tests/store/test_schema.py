"""What stands in a schema beside our tables, and the one way in which a database is opened."""

import ast
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import tui_evals
from tui_evals.store import schema
from tui_evals.store.connection import StoreError, open_database
from tui_evals.store.database import connect, open_store
from tui_evals.store.schema import NEWEST, schema_digest, schema_findings


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / ".evals" / "evals.db")


def test_the_digest_is_of_what_the_migrations_make():
    with closing(open_database(":memory:")) as connection:
        for step in schema.STEPS:
            step(connection)
        assert schema_digest(connection) == NEWEST, "a new step gives the schema another digest"


@pytest.mark.parametrize("version", range(1, schema.VERSION + 1))
def test_every_version_has_nothing_beside_its_tables(version):
    with closing(open_database(":memory:")) as connection:
        schema.make_tables(connection, schema.STEPS[:version])
        assert schema_findings(connection).harmful == ()
        assert schema_findings(connection).others == ()


def test_a_table_that_is_written_down_otherwise_is_the_same_table(store):
    with closing(sqlite3.connect(store)) as other:
        (sql,) = other.execute("SELECT sql FROM sqlite_master WHERE name = 'bodies'").fetchone()
        other.execute("DROP TABLE bodies")
        other.execute(sql.replace("CREATE TABLE bodies(", 'create table "bodies" (\n  ').replace(", ", ",\n"))
        other.commit()
    connect(store, write=True).close()


@pytest.mark.parametrize("name", ["Answers", "ANSWERS_SEQ"])
def test_a_name_of_ours_in_other_letters_is_ours(name, store):
    kind = "TABLE Answers RENAME TO other" if name == "Answers" else "TABLE answers RENAME TO other"
    with closing(sqlite3.connect(store)) as other:
        other.execute(f"ALTER {kind}")
        other.execute(f"CREATE VIEW {name if name == 'Answers' else 'ANSWERS'} AS SELECT * FROM other")
        other.commit()
    with pytest.raises(StoreError, match="under a name of ours"):
        connect(store, write=True)
    with pytest.raises(StoreError, match="cannot be read as a store"):
        connect(store)


def test_an_earlier_store_with_a_trigger_is_not_brought_up_to_date(tmp_path):
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        schema.make_tables(old, schema.STEPS[:5])
        old.execute("CREATE TRIGGER wins AFTER UPDATE ON meta BEGIN UPDATE runs SET status = 'finished'; END")
    with pytest.raises(StoreError, match="the trigger 'wins' on meta"):
        open_store(path)
    with closing(sqlite3.connect(path)) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (5,)


def test_a_query_that_takes_too_long_is_cut_off():
    with closing(open_database(":memory:")) as connection:
        connection.limit(0.01)
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute(endless)
        with pytest.raises(sqlite3.DataError, match="too big"):
            connection.execute("SELECT hex(zeroblob(900000000))")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_nothing_else_opens_a_database():
    folder = Path(tui_evals.__file__).parent
    opening = set()
    for file in folder.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        if "sqlite3" not in source:
            continue
        tree = ast.parse(source)
        names = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr == "connect"
            and isinstance(node.value, ast.Name)
            and node.value.id == "sqlite3"
        }
        imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "sqlite3"]
        if names or any(alias.name in ("connect", "Connection") for node in imported for alias in node.names):
            opening.add(file.relative_to(folder).as_posix())
    assert opening == {"store/connection.py"}
