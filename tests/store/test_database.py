"""The file itself: modes, versions, damage, locks, and errors that are sentences."""

import contextlib
import os
import signal
import sqlite3
import stat
import tempfile
from pathlib import Path

import pytest

from tests.store.helpers import cells, judged, new_run, process, said
from tui_evals.store import connection as database_files
from tui_evals.store import ledger, run_figures, schema, views
from tui_evals.store.connection import StoreLock, alive, hold, run_lock
from tui_evals.store.database import StoreError, connect, open_store
from tui_evals.store.reader import Reader
from tui_evals.store.upkeep import check
from tui_evals.store.writer import Writer


def test_folder_and_files_are_for_their_owner_only(path, writer):
    writer.plan(new_run(), cells(3))
    with hold(run_lock(path, "abc123")):
        found = {file.relative_to(path.parent): stat.S_IMODE(file.stat().st_mode) for file in path.parent.rglob("*")}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    names = {str(name) for name in found}
    assert {"evals.db", "evals.db-wal", "evals.db-shm", "evals.db.lock", "locks/abc123.lock"} <= names
    assert {name: mode for name, mode in found.items() if mode != 0o600} == {Path("locks"): 0o700}


def test_connections_never_checkpoint_by_themselves_and_readers_cannot_write(path):
    writing, reading = connect(path, write=True), connect(path)
    assert writing.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert writing.execute("PRAGMA synchronous").fetchone() == (1,)
    for connection in (writing, reading):
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reading.execute("DELETE FROM runs")
    writing.close()
    reading.close()


def test_the_indexes_of_answers_are_the_two_that_pay(path):
    connection = connect(path)
    names = [row[1] for row in connection.execute("PRAGMA index_list(answers)")]
    connection.close()
    assert sorted(names) == ["answers_run_pos", "answers_seq"]


def test_a_newer_store_is_refused_and_left_alone(path):
    connection = connect(path, write=True)
    connection.execute(f"PRAGMA user_version={schema.VERSION + 1}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = path.read_bytes()
    for opening in (open_store, Reader):
        with pytest.raises(StoreError, match=r"written by a newer tui-evals.*Update"):
            opening(path)
    assert path.read_bytes() == before


@pytest.mark.story
def test_an_earlier_store_is_backed_up_and_brought_up_to_date(path, monkeypatch):
    with Writer(path) as writer:
        run = writer.plan(new_run(), cells(2))
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, lambda db: db.execute("ALTER TABLE runs ADD more TEXT")))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with pytest.raises(StoreError, match="earlier tui-evals"):
        Reader(path)
    open_store(path)
    with Reader(path) as reader:
        assert reader.find_run("last").key == run.key
    connection = connect(path)
    assert "more" in {row[1] for row in connection.execute("PRAGMA table_info(runs)")}
    assert connection.execute("SELECT v FROM meta WHERE k = 'schema'").fetchone() == (schema.VERSION,)
    connection.close()
    copy = Path(f"{path}.bak.{schema.VERSION - 1}")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    connection = sqlite3.connect(copy)
    assert connection.execute("SELECT key FROM runs").fetchall() == [(run.key,)]
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION - 1,)
    connection.close()


def test_a_step_that_fails_leaves_the_store_as_it_was(path, monkeypatch):
    def broken(db):
        db.execute("ALTER TABLE runs ADD COLUMN more TEXT")
        raise sqlite3.OperationalError("no")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, broken))
        patch.setattr(schema, "VERSION", schema.VERSION + 1)
        with pytest.raises(StoreError):
            open_store(path)
    with Reader(path) as reader:
        assert reader.runs() == []


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to look at" * 100, b"SQLite format 3\0" * 300]
)
def test_a_file_that_is_no_database_is_reported_and_left_alone(tmp_path, content):
    path = tmp_path / "evals.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged or is not a tui-evals store.*left as it is"):
        open_store(path)
    assert path.read_bytes() == content


def test_damage_inside_is_reported_and_left_alone(path):
    with Writer(path) as writer:
        writer.plan(new_run(), cells(2_000))
    assert check(path).problems == ()
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :: 7] = b"\xff" * len(content[len(content) // 2 :: 7])
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged.*left as it is"):
        open_store(path)
    assert check(path).problems
    assert path.read_bytes() == bytes(content)


def test_a_schema_whose_text_is_not_utf8_is_damage_in_a_sentence(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE wrong (a)")
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE wrong", b"CREATE TAB\xc1E wr\xfeng"))
    with pytest.raises(StoreError, match=r"damaged.*left as it is"):
        open_store(path)


def test_a_database_of_another_program_is_refused(tmp_path):
    path = tmp_path / "places.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE places(url)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        open_store(path)


def test_reading_a_store_that_is_not_there_says_so(tmp_path):
    with pytest.raises(StoreError, match=r"no store at .*nothing.db yet"):
        Reader(tmp_path / "nothing.db")


@pytest.fixture
def open_folder():
    """A folder everybody may enter, so that the test can stop being root in it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture
def nobody():
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.mark.parametrize("name", ["evals.db", "new.db", "deeper/new.db"])
def test_a_folder_one_may_not_write_in_is_a_sentence(open_folder, name, request):
    open_store(open_folder / "evals.db")
    os.chmod(open_folder / "evals.db", 0o644)
    os.chmod(open_folder, 0o555)
    request.getfixturevalue("nobody")
    try:
        with pytest.raises(StoreError, match="may write in the folder"):
            Writer(open_store(open_folder / name))
    finally:
        if not os.getuid():
            os.seteuid(0)
        os.chmod(open_folder, 0o755)


HOLDER = """
import sys, time
from pathlib import Path
from tui_evals.store.database import StoreLock
with StoreLock(Path(sys.argv[1])).held("testing patience"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_stopped_holder_of_the_lock_is_named_and_nobody_hangs(path, writer, monkeypatch):
    monkeypatch.setattr(database_files, "LOCK_SECONDS", 0.2)
    holder = process(HOLDER, path, stdin=-1)
    assert holder.stdout.readline() == "held\n"
    holder.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match=f"locked .* process {holder.pid}, testing patience"):
            writer.session_put("a", 1)
    finally:
        holder.kill()
        holder.communicate()
    writer.session_put("a", 2)
    with Reader(path) as reader:
        assert reader.session("a") == 2


def test_threads_of_one_process_exclude_each_other(path, monkeypatch):
    monkeypatch.setattr(database_files, "LOCK_SECONDS", 0.05)
    lock, other = StoreLock(path), StoreLock(path)
    with lock.held("a test"):
        for second in (lock, other):
            with pytest.raises(StoreError, match=f"process {os.getpid()}, a test"), second.held("more"):
                pass
    with other.held("it is free again"):
        pass
    lock.close()
    other.close()


def test_a_large_wal_is_emptied_by_its_writer(path, writer, monkeypatch):
    monkeypatch.setattr(database_files, "_WAL_LIMIT", 100_000)
    monkeypatch.setattr(database_files, "_CHECKPOINT_PAUSE", 0)
    sizes = []
    for n in range(20):
        writer.session_put(f"key {n}", "x" * 20_000)
        sizes.append(Path(f"{path}-wal").stat().st_size)
    assert max(sizes) < 200_000
    assert min(sizes) == 0


def test_a_reader_in_the_way_of_a_checkpoint_is_not_waited_for(path, writer, monkeypatch):
    monkeypatch.setattr(database_files, "_WAL_LIMIT", 0)
    monkeypatch.setattr(database_files, "_CHECKPOINT_PAUSE", 0)
    long = connect(path)
    long.execute("BEGIN")
    long.execute("SELECT * FROM session").fetchall()
    for n in range(3):
        writer.session_put("key", n)
    assert Path(f"{path}-wal").stat().st_size > 0
    long.execute("COMMIT")
    long.close()
    writer.session_put("key", "last")
    assert Path(f"{path}-wal").stat().st_size == 0


RUNNER = """
import sys
from pathlib import Path
from tui_evals.store.connection import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_lives_as_long_as_its_owner(path, writer, reader, monkeypatch):
    monkeypatch.setattr("tui_evals.store.connection._PATIENCE", 0.05)
    run = writer.plan(new_run(), cells(1))
    lock = run_lock(path, run.key)
    assert not alive(lock)
    owner = process(RUNNER, lock, stdin=-1)
    assert owner.stdout.readline() == "held\n"
    writer.run_status(run.id, "running", pid=owner.pid, started=1.0)
    assert alive(lock)
    assert reader.find_run("last").status == "running"
    with (
        pytest.raises(StoreError, match=rf"run {run.key} is being executed by another process \({owner.pid}\)"),
        hold(lock),
    ):
        pass
    with pytest.raises(StoreError, match="Stop it"):
        writer.delete_run(run)
    owner.kill()
    owner.communicate()
    assert not alive(lock)
    for status in ("running", "paused", "stopping"):
        writer.run_status(run.id, status)
        assert reader.find_run("last").status == "interrupted"
    writer.run_status(run.id, "running", host="somewhere else")
    assert reader.find_run("last").status == "running"
    with hold(lock):
        assert alive(lock)


async def test_answers_that_nothing_could_fail_are_no_passes_any_more(path, monkeypatch):
    """Before version 6 they were stored as passed (issue 17, 2)."""
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(), cells(4))
        ids = list(reader.ids(run.id))
        given = [[judged()], [judged(result=None)], [judged(result="skipped", score=None)], []]
        for answer, records in zip(ids, given, strict=True):
            await writer.answered(answer, said(), "answered")
            await writer.scored(answer, 1, records, "pass", None)
    connection = sqlite3.connect(path)
    with connection:
        for view in views.VIEWS:
            connection.execute(f"DROP VIEW {view}")
        connection.execute("ALTER TABLE calls DROP COLUMN evaluator")
        connection.execute("ALTER TABLE calls DROP COLUMN phase")
        connection.execute("DELETE FROM meta WHERE k = 'views'")
        for table in ledger.NAMES:
            connection.execute(f"DROP TABLE {table}")
        connection.execute("ALTER TABLE runs DROP COLUMN gates")
        connection.execute("ALTER TABLE runs DROP COLUMN verdict")
        connection.execute("ALTER TABLE answers DROP COLUMN ending")
        for table in ("answers", "calls"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN cached_tokens")
            connection.execute(f"ALTER TABLE {table} DROP COLUMN reasoning_tokens")
        for table in ("scores", "group_scores"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN origin")
        connection.execute("ALTER TABLE runs DROP COLUMN waiting")
        connection.execute("ALTER TABLE runs DROP COLUMN staged_pass")
        connection.execute("ALTER TABLE runs DROP COLUMN staged_total")
        connection.execute("DROP TABLE staged")
        connection.execute("ALTER TABLE runs DROP COLUMN reserved")
        connection.execute("ALTER TABLE calls DROP COLUMN may_cost")
        connection.execute("DROP TABLE replies")
        connection.execute("DROP TABLE battles")
        connection.execute("DROP TABLE activities")
        for table in ("earlier", "chain", "statements"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("ALTER TABLE cache DROP COLUMN run")
        connection.execute("PRAGMA user_version=5")
    connection.close()
    with Reader(open_store(path)) as reader:
        assert [row.status for row in reader.rows(ids)] == ["pass", "scored", "unjudged", "unjudged"]


def test_a_store_of_schema_4_learns_how_its_answers_ended(path, monkeypatch):
    """What lay in the bodies only becomes a column; finding 16 of issue 17."""
    path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", schema.STEPS[:4])
        patch.setattr(schema, "VERSION", 4)
        open_store(path)
        connection = connect(path, write=True)
        fields = (
            "key, name, suite, source, snapshot, status, control, targets, prompts, tags, created, total, config, note"
        )
        values = "'k', 'n', '', '', '', 'finished', '', '[]', '[]', '[]', 0, 3, '{}', ''"
        connection.execute(f"INSERT INTO runs({fields}, scoring_pass) VALUES ({values}, 1)")
        bodies = ('{"finish_reason":"length"}', '{"diagnostics":{"refusal":"no"}}', '{"finish_reason":"stop"}')
        for n, rest in enumerate(bodies, 1):
            connection.execute("INSERT INTO bodies VALUES (?,'{}','x',?)", [n, rest])
            connection.execute(
                "INSERT INTO answers(run, seq, pos, cell, item, turn, prompt, target, repeat, name, category, body) "
                "VALUES (1,?,?,?,?,0,0,0,0,'a','',?)",
                [n, n - 1, n, n, n],
            )
        connection.close()
    open_store(path)
    with Reader(path) as reader:
        assert [row.ending for row in reader.window(1, 0, 9)] == ["length", "refusal", ""]


def test_a_store_of_schema_10_learns_what_calls_may_cost(path, monkeypatch):
    path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", schema.STEPS[:10])
        patch.setattr(schema, "VERSION", 10)
        open_store(path)
        with contextlib.closing(connect(path, write=True)) as connection:
            connection.execute(
                "INSERT INTO runs(key, name, suite, source, snapshot, status, control, targets, prompts, tags, "
                "created, total, config, note, scoring_pass) "
                "VALUES ('k', 'n', '', '', '', 'interrupted', '', '[]', '[]', '[]', 0, 0, '{}', '', 1)"
            )
            connection.execute(
                "INSERT INTO calls(run, kind, target, attempt, started, latency_ms, code, from_cache) "
                "VALUES (1, 'target', 't', 1, 0, 0, 'agentTimeout', 0)"
            )
    with Writer(open_store(path)) as writer, Reader(path) as reader:
        assert (run_figures.may_cost(reader, 1), reader.reserved(1), reader.totals(1).may_cost) == (0.0, 0.0, 0.0)
        writer.reserved(1, 0.25)
        writer.flush()
        assert reader.run(1).reserved == reader.totals(1).may_cost == 0.25


def test_a_store_of_schema_12_takes_the_counts_of_cached_and_thinking_tokens(path, monkeypatch):
    path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", schema.STEPS[:12])
        patch.setattr(schema, "VERSION", 12)
        open_store(path)
        with contextlib.closing(connect(path, write=True)) as connection:
            connection.execute(
                "INSERT INTO calls(run, kind, target, attempt, started, latency_ms, input_tokens, from_cache) "
                "VALUES (1, 'target', 't', 1, 0, 0, 7, 0)"
            )
    with Reader(open_store(path)) as reader:
        (call,) = reader.calls(1)
    assert (call.input_tokens, call.cached_tokens, call.reasoning_tokens) == (7, 0, 0)
