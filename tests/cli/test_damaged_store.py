"""A store that is cut off, has broken pages, or is none: what doctor says, and check, repair, vacuum and backup."""

import asyncio
import errno
import json
import os
import random
import signal
import sqlite3
import threading
from pathlib import Path

import pytest

from tests.store.helpers import cells, judged, new_run, process, said
from tests.tui.terminal import workbench
from tui_evals.present import stores
from tui_evals.store import ledger, upkeep
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import StoreError, open_store
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord
from tui_evals.store.repair import copy_readable, repairing
from tui_evals.store.upkeep import back_up
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.story

EACH = 300
PAGE = 4096


async def _fill(writer):
    for name in ("first", "second", "third"):
        items = [{"testId": f"{name} {n}", "prompt": f"ask {n}"} for n in range(EACH)]
        run = writer.plan(new_run(name=name, snapshot=writer.snapshot({"items": items}, name)), cells(EACH))
        ids = range((run.id - 1) * EACH + 1, run.id * EACH + 1)
        await asyncio.gather(*(writer.answered(number, said(f"text {number} " * 20), "answered") for number in ids))
        await asyncio.gather(*(writer.scored(number, 1, [judged()], "pass", 1.0) for number in ids))
        for number in ids:
            call = CallRecord(answer=number, kind="target", target="demo", attempt=1, started=1.0, latency_ms=2.0)
            writer.call(call, run.id)
        await writer.group_scored(run.id, 1, 0, 0, judged("Together"))
        writer.run_status(run.id, "finished", finished=9.0)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store of three finished runs, as bytes."""
    path = open_store(tmp_path_factory.mktemp("sound") / "evals.db")
    with Writer(path) as writer:
        asyncio.run(_fill(writer))
    return path.read_bytes()


@pytest.fixture
def store(folder):
    """Where the store of the project is."""
    path = folder / ".evals" / "evals.db"
    path.parent.mkdir()
    return path


def _broken(content, *pages):
    spoilt, noise = bytearray(content), random.Random(7)
    for page in pages:
        spoilt[page * PAGE : (page + 1) * PAGE] = noise.randbytes(PAGE)
    return bytes(spoilt)


def _answers(path, run):
    with Reader(path) as reader:
        row = reader.find_run(run)
        told = list(read_details(reader, row, reader.all_rows(row.id)))
        assert [one.row.pos for one in told] == list(range(row.total))
        return row, told


REFERENCES = (
    ("answers", "run", "SELECT id FROM runs"),
    ("answers", "body", "SELECT id FROM bodies"),
    ("scores", "answer", "SELECT id FROM answers"),
    ("calls", "answer", "SELECT id FROM answers"),
    ("group_scores", "run", "SELECT id FROM runs"),
    ("runs", "snapshot", "SELECT hash FROM snapshots"),
)


def _loose(path):
    """Rows that refer to a row that is not there."""
    with sqlite3.connect(path) as connection:
        return {
            f"{table}.{column}": rows
            for table, column, there in REFERENCES
            if (rows := connection.execute(f"SELECT {column} FROM {table} WHERE {column} NOT IN ({there})").fetchall())
            and any(value is not None for (value,) in rows)
        }


def test_a_store_that_was_cut_off_is_said_checked_and_saved(shell, store, sound):
    store.write_bytes(sound)
    assert "evals.db is sound; 3 runs, 900 answers and 900 scores" in shell("doctor").out
    whole = shell("db", "check")
    assert whole.code == 0 and "is sound" in whole.out
    assert "nothing to repair" in shell("db", "repair", "--yes").out
    cut = sound[: len(sound) * 6 // 10]
    store.write_bytes(cut)
    told = shell("doctor")
    line = next(line for line in told.out.splitlines() if " database " in line)
    assert told.code == 1 and "✗" in line and "is damaged" in line and "`tui-evals db repair`" in line
    assert "readable are 3 runs," in line and " answers and " in line and " scores" in line
    checked = shell("db", "check", "--json")
    data = json.loads(checked.out)
    assert checked.code == 1 and data["sound"] is False and data["problems"] and data["readable"]["runs"] == 3
    assert 0 < data["readable"]["answers"] < 900
    assert "`tui-evals db repair` saves what can be read" in shell("runs").err
    done = shell("db", "repair", "--yes")
    assert done.code == 0, done.err
    assert "3 of 3 runs saved" in done.out and " of 900 answers saved" in done.out
    (kept,) = store.parent.glob("evals.db.damaged-????-??-??")
    assert kept.read_bytes() == cut and str(kept) in done.out
    assert shell("db", "check").code == 0 and _loose(store) == {}
    every = [_answers(store, name) for name in ("first", "second", "third")]
    assert sum(row.total for row, _ in every) == data["readable"]["answers"]
    assert any(f"of its {EACH} answers were lost with a damaged store" in row.note for row, _ in every)
    assert any(one.answer and one.answer.text and one.scores for _, told in every for one in told)
    assert [path for path in store.parent.iterdir() if path.name.startswith(".repair")] == []


@pytest.mark.cases(6)
@pytest.mark.parametrize("percent", range(20, 95, 5))
def test_what_can_be_read_of_one_that_was_cut_off_is_what_is_saved(folder, sound, percent):
    path = folder / "evals.db"
    path.write_bytes(sound[: len(sound) * percent // 100])
    checked = upkeep.check(path)
    with repairing(path) as repair:
        assert repair.saved("answers") == checked.readable["answers"]


@pytest.mark.parametrize("seed", range(4))
def test_all_is_saved_but_for_broken_pages(folder, sound, seed):
    path = folder / "evals.db"
    pages = random.Random(seed).sample(range(1, len(sound) // PAGE), 6)
    path.write_bytes(_broken(sound, *pages))
    content = path.read_bytes()
    checked = upkeep.check(path)
    with repairing(path) as repair:
        assert repair.saved("answers") == checked.readable["answers"]
        assert repair.put_in_place().read_bytes() == content
    assert upkeep.check(path, thorough=True).problems == () and _loose(path) == {}
    with Reader(path) as reader:
        for run in reader.runs():
            assert reader.dataset(run).items
            assert len(list(reader.all_rows(run.id))) == run.total
    with Writer(path) as writer:  # numbers go on where they were
        assert writer.plan(new_run(name="next"), cells(2)).total == 2


_MADE_AGAIN = {"meta", *ledger.NAMES, "sqlite_sequence"}
"""Tables that are made again of the others."""


def _roots(path):
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT tbl_name, rootpage FROM sqlite_master WHERE rootpage > 1").fetchall()
    roots = {}
    for table, page in rows:
        roots.setdefault(table, []).append(page - 1)
    return {table: pages for table, pages in roots.items() if table not in _MADE_AGAIN}


@pytest.mark.nightly
def test_of_every_table_that_cannot_be_read_at_all_a_repair_says_that_it_is_lost(shell, store, sound):
    store.write_bytes(sound)
    roots = _roots(store)
    assert len(roots) > 15
    for table, pages in roots.items():
        store.write_bytes(_broken(sound, *pages))
        lines = shell("db", "repair", "--yes").out.splitlines()
        noun = stores._NOUNS[table][1]
        of_table = [line for line in lines if line.startswith("  ") and noun in line]
        assert any("0 of 900" in line or "how many there were is lost" in line for line in of_table), (table, lines)


def test_what_was_in_the_log_is_saved_and_kept_beside_the_damaged_file(folder, sound):
    path = folder / "evals.db"
    path.write_bytes(_broken(sound, 40))
    code = (
        "import os, signal, sys; from pathlib import Path; from tui_evals.store.writer import Writer\n"
        "writer = Writer(Path(sys.argv[1])); writer.edit(1, note='noted in the log')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = process(code, path)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    log = Path(f"{path}-wal").read_bytes()
    assert log
    with repairing(path) as repair:
        kept = repair.put_in_place()
    assert Path(f"{kept}-wal").read_bytes() == log
    with Reader(path) as reader:
        assert "noted in the log" in reader.run(1).note


def test_a_lost_dataset_is_made_again_of_what_was_asked(folder, sound):
    path = folder / "evals.db"
    path.write_bytes(sound)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM snapshots WHERE name = 'second'")
    with repairing(path) as repair:
        repair.put_in_place()
        assert "2 of 2 datasets saved; 1 more rebuilt from what is left" in list(stores.saved_lines(repair.tables))
    with Reader(path) as reader:
        row = reader.find_run("second")
        items = list(reader.dataset(row).items)
        assert row.note.startswith("its dataset was lost with a damaged store") and not reader.find_run("first").note
    assert len(items) == EACH and items[0]["prompt"] == "?" and _loose(path) == {}


def test_nobody_is_repaired_or_made_smaller_under_a_run_or_a_watcher(shell, store, sound):
    store.write_bytes(_broken(sound, 40))
    with hold(run_lock(store, "abc123")):
        for words in (("db", "repair", "--yes"), ("db", "vacuum")):
            done = shell(*words)
            assert done.code == 1 and "abc123 is being executed" in done.err and "stop abc123" in done.err
    code = (
        "import sys; from pathlib import Path; from tui_evals.store.database import connect\n"
        "connection = connect(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    watcher = process(code, store, stdin=-1)
    assert watcher.stdout.readline() == "open\n"
    done = shell("db", "repair", "--yes")
    assert done.code == 1 and "is open in another process" in done.err
    watcher.communicate()
    assert shell("db", "repair", "--yes").code == 0


def test_a_repair_without_a_yes_leaves_everything_as_it_was(shell, store, sound, monkeypatch):
    content = _broken(sound, 40)
    store.write_bytes(content)
    with open(os.devnull) as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        done = shell("db", "repair")
    assert done.code == 2 and "--yes" in done.err and " answers saved" in done.out
    assert store.read_bytes() == content and not list(store.parent.glob("*damaged*"))


def test_a_person_at_a_terminal_is_asked_and_says_yes(store, folder, sound):
    content = _broken(sound, 40)
    store.write_bytes(content)
    with workbench(folder, "db", "repair", size=(160, 24)) as terminal:
        terminal.wait(r"3 of 3 runs saved")
        terminal.wait(r"under another name\? \[y/N\]")
        assert store.read_bytes() == content
        terminal.press("y\r")
        assert terminal.end() == 0
    assert upkeep.check(store).problems == () and len(list(store.parent.glob("evals.db.damaged-*"))) >= 1


def test_space_of_what_was_deleted_is_given_back(shell, store, sound):
    store.write_bytes(sound)
    shell("delete", "third", "--yes")
    done = shell("db", "vacuum")
    assert done.code == 0 and " before, " in done.out and store.stat().st_size < len(sound) * 0.8
    assert shell("db", "check").code == 0


def test_a_backup_is_whole_while_somebody_writes_and_replaces_nothing_unasked(shell, store, sound):
    store.write_bytes(sound)
    with Writer(store) as writer:
        done = threading.Event()

        def write():
            while not done.is_set():
                writer.edit(1, note="x" * 1_000)

        busy = threading.Thread(target=write)
        busy.start()
        try:
            assert shell("db", "backup", "copy.db").code == 0
        finally:
            done.set()
            busy.join()
    assert os.stat("copy.db").st_mode & 0o777 == 0o600
    assert shell("db", "check", "copy.db").code == 0 and len(_answers(Path("copy.db"), "third")[1]) == EACH
    again = shell("db", "backup", "copy.db")
    assert again.code == 1 and "already there" in again.err and "--force" in again.err
    assert shell("db", "backup", "copy.db", "--force").code == 0
    Path("folder").mkdir()
    assert "folder/evals.db" in shell("db", "backup", "folder").out
    assert "already there" in shell("db", "backup", str(store), "--force").err
    assert "could not be written" in shell("db", "backup", "nowhere/copy.db").err
    store.write_bytes(_broken(sound, 40))
    with pytest.raises(StoreError, match="is damaged"):
        back_up(store, Path("of_damage.db"))
    assert not os.path.exists("of_damage.db")


def test_files_that_are_no_store_are_refused_with_a_sentence(shell, folder):
    with sqlite3.connect("places.sqlite") as other:
        other.execute("CREATE TABLE places(url)")
    Path("garbage.db").write_bytes(random.Random(1).randbytes(20_000))
    Path("empty.db").touch()
    for name, sentence in (
        ("places.sqlite", "database of another program"),
        ("garbage.db", "is not a tui-evals store"),
        ("empty.db", "is empty"),
        ("missing.db", "there is no store"),
    ):
        before = Path(name).read_bytes() if Path(name).exists() else None
        for words in (("check", name), ("repair", name, "--yes"), ("vacuum", name)):
            done = shell("db", *words)
            assert done.code in (1, 2) and sentence in done.err, (words, done)
        done = shell("--db", name, "db", "backup", "copy.db")
        assert done.code == 1 and sentence in done.err and not Path("copy.db").exists()
        assert (Path(name).read_bytes() if Path(name).exists() else None) == before


def test_a_look_that_has_no_more_time_says_so(folder, sound, monkeypatch):
    Path("evals.db").write_bytes(sound)
    monkeypatch.setattr(upkeep, "_STEPS", 100)
    checked = upkeep.check(Path("evals.db"), seconds=0.0)
    assert not checked.whole and checked.problems == ()


def test_sectors_that_the_disk_does_not_give_are_zeros_in_the_copy(tmp_path, monkeypatch):
    source, content = tmp_path / "damaged.db", random.Random(3).randbytes(3 * 256 * PAGE + 77)
    source.write_bytes(content)
    bad, pread = 300 * PAGE, os.pread

    def failing(file, size, at):
        if at <= bad < at + size:
            raise OSError(errno.EIO, "Input/output error")
        return pread(file, size, at)

    monkeypatch.setattr(os, "pread", failing)
    copy_readable(source, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes() == content[:bad] + b"\0" * PAGE + content[bad + PAGE :]


@pytest.mark.parametrize("row", ["NULL, NULL, NULL, 0, NULL", "x'00', 1, 2.5, 0, NULL"])
def test_a_schema_with_an_entry_that_names_nothing_is_said_and_repaired(row, shell, store, sound):
    """A page of zeros in the schema of a store that was cut off."""
    store.write_bytes(sound)
    with sqlite3.connect(store) as other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute(f"INSERT INTO sqlite_master VALUES ({row})")
    other.close()
    checked = shell("db", "check")
    assert checked.code == 1 and "entries without a name in its schema" in checked.out + checked.err
    done = shell("db", "repair", "--yes")
    assert done.code == 0, done.err
    assert "is sound; 3 runs, 900 answers" in shell("db", "check").out
