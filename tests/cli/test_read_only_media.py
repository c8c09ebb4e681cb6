"""A store on a file system that is mounted read-only, with and without a log left beside it, and in a closed folder."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reports.stores import Ran, every, good, store
from tests.store.helpers import process
from tests.tui.story import at_the_workbench
from tui_evals.store import connection
from tui_evals.store.database import StoreError, open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

ITEMS = [{"testId": name, "prompt": f"ask {name}", "expected_response": "yes"} for name in "ab"]
LEFT_BEHIND = (
    "import os, signal, sys; from pathlib import Path; from tui_evals.store.writer import Writer\n"
    "Writer(Path(sys.argv[1])).edit(1, name='renamed in the log'); os.kill(os.getpid(), signal.SIGKILL)"
)


@pytest.fixture
def medium(folder: Path) -> Iterator[Path]:
    """A file system of its own, which `frozen` makes read-only."""
    place = folder / "medium"
    place.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "none", place], capture_output=True).returncode:
        pytest.skip("only root mounts a file system")
    yield place
    os.chdir(folder)
    subprocess.run(["umount", "-l", place], check=True)


def frozen(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)


def test_a_store_on_read_only_media_is_read_by_every_command_that_reads(shell, medium, monkeypatch):
    store(medium, Ran(ITEMS, every(good())), Ran(ITEMS, every(good()), name="second"))
    (medium / "d.json").write_text(json.dumps({"items": ITEMS}))
    monkeypatch.chdir(medium)
    frozen(medium)
    for words in (
        ("runs",),
        ("show", "last"),
        ("show", "last", "--item", "a"),
        ("search", "yes"),
        ("compare", "nightly", "second"),
        ("diff", "last"),
        ("trend",),
        ("watch", "last"),
        ("report", "last", "--to", "md", "-o", "-"),
        ("export", "last", "-o", "-"),
        ("cache", "info"),
        ("db", "check"),
        ("db", "backup", "../copy.db"),
    ):
        done = shell(*words)
        assert done.code == 0 and done.out, (words, done)
        if words[0] != "db":
            said = "evals.db can only be read: its file system is mounted read-only"
            assert done.err.count(said) == 1, (words, done)
    assert "is sound; 2 runs" in shell("doctor").out
    for words in (
        ("label", "last", "a", "pass"),
        ("delete", "last", "--yes"),
        ("cache", "clear", "--yes"),
        ("baseline", "set", "last"),
        ("run", "d.json", "--target", "demo", "--without-judges"),
        ("db", "vacuum"),
    ):
        done = shell(*words)
        assert done.code in (1, 2, 3) and "can only be read: its file system" in done.err, (words, done)
    done = shell("export", "last")
    assert done.code == 1 and "Read-only file system" in done.err and "-o names another place" in done.err
    assert set(os.listdir(medium / ".evals")) == {"evals.db", "evals.db.lock"}


@pytest.mark.parametrize("beside", [("-wal",), ("-wal", "-shm")])
def test_a_log_left_on_read_only_media_is_read_too(shell, medium, monkeypatch, beside):
    path = store(medium, Ran(ITEMS, every(good())))
    killed = process(LEFT_BEHIND, path)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL and os.stat(f"{path}-wal").st_size
    if "-shm" not in beside:
        os.unlink(f"{path}-shm")
    monkeypatch.chdir(medium)
    frozen(medium)
    monkeypatch.setattr(connection, "_copies", copies := {})
    for _ in range(2):
        assert [run["name"] for run in json.loads(shell("runs", "--json").out)] == ["renamed in the log"]
    assert len(copies) == (0 if "-shm" in beside else 1)
    for folder in copies.values():
        assert os.stat(folder.name).st_mode & 0o777 == 0o700
        folder.cleanup()
    copies.clear()


@pytest.fixture
def frozen_run(medium):
    store(medium, Ran(ITEMS, every(good()), name="frozen run"))
    frozen(medium)


async def test_the_workbench_shows_a_store_on_read_only_media(medium, frozen_run):
    async with at_the_workbench(medium, size=(160, 40)) as person:
        await person.sees("can only be read")
        await person.press("6")
        await person.sees("frozen run")
        await person.app.keep_drafts()
        assert "could not" not in person.said()


def test_a_store_in_a_closed_folder_of_somebody_else_is_read(tmp_path):
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    folder = Path("/tmp") / f"closed-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        path = open_store(folder / "evals.db")
        path.chmod(0o644)
        os.seteuid(65534)
        with Reader(open_store(path)) as reader:
            assert reader.runs() == []
        with pytest.raises(StoreError, match="can only be read: you may not write to"):
            Writer(path)
    finally:
        os.seteuid(0)
        shutil.rmtree(folder)
