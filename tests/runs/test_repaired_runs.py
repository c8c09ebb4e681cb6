"""Runs in a store that was damaged: what is lost comes from a backup or is asked again."""

import contextlib
import json
import sqlite3
import subprocess
import sys

import pytest

from tests.runs.conftest import kill, until

COUNT = 60
PAGE = 4096


def run(project, name="", **more):
    project.do("run", "data.json", "--target", "main", "--quiet", *(("--name", name) if name else ()), **more)


def pages_of(path, table, share=0.5):
    """The numbers of the last leaf pages of a table."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
        try:
            pages = [page for (page,) in connection.execute(query, [table])]
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no dbstat")
    return pages[int(len(pages) * (1 - share)) :]


def spoil(path, pages):
    content = bytearray(path.read_bytes())
    for page in pages:
        content[(page - 1) * PAGE : page * PAGE] = b"\xff" * PAGE
    path.write_bytes(content)


def test_answers_that_are_lost_are_pending_and_their_run_is_never_finished(project):
    project.dataset(COUNT)
    run(project)
    for file in (project.database.parent / "backups").iterdir():
        file.unlink()
    project.do("runs")
    spoil(project.database, pages_of(project.database, "answers"))
    with project.reader() as reader:
        key = reader.find_run("last").key
    said = project.do("db", "repair", "--yes")
    with project.reader() as reader:
        row = reader.find_run("last")
        totals = reader.totals(row.id)
    lost = totals.pending
    assert 0 < lost < COUNT and (row.total, totals.total, row.status) == (COUNT, COUNT, "interrupted")
    assert f"run {key} (data): {lost} of {COUNT} answers lost; `tui-evals resume {key}` asks them again" in said
    sentence = f"{lost} of its {COUNT} answers were lost with a damaged store and are pending again"
    for words in (("runs",), ("show", key), ("watch", key), ("watch", key, "--json"), ("runs", "--json")):
        assert sentence in " ".join(project.do(*words).split()), words
    shown = project.do("show", key)
    assert "interrupted" in shown and "finished" not in shown
    before = project.server.counts()["asked"]
    project.do("resume", key, "--quiet")
    assert [line[2] for line in project.table()] == ["pass"] * COUNT
    assert project.server.counts()["asked"] - before <= lost
    with project.reader() as reader:
        assert reader.find_run(key).status == "finished"


@pytest.mark.nightly
def test_what_was_finished_comes_from_the_backup_that_its_end_has_made(project):
    project.dataset(COUNT)
    run(project, "first")
    project.do("runs")
    backups = project.database.parent / "backups"
    (first,) = backups.iterdir()
    assert first.stat().st_mode & 0o777 == 0o600 and backups.stat().st_mode & 0o777 == 0o700
    wanted = project.table()
    for number in range(3):
        run(project, f"later {number}")
    assert sorted(file.name for file in backups.iterdir()) == ["evals.db.1", "evals.db.2"]
    project.do("runs")
    spoil(project.database, pages_of(project.database, "answers") + pages_of(project.database, "scores"))
    said = project.do("db", "repair", "--yes")
    assert f"{4 * COUNT:,} of {4 * COUNT:,} answers saved, " in said and "of them from the backup" in said
    assert "What could not be read comes from the backup of 20" in said
    assert [row["status"] for row in json.loads(project.do("runs", "--json"))] == ["finished"] * 4
    assert project.table() == wanted


@pytest.mark.parametrize("how", ["deleted", "emptied", "garbage", "made anew"])
def test_a_store_that_is_gone_comes_back_from_its_backup(project, how):
    project.dataset(3)
    run(project)
    wanted = project.table()
    for file in project.database.parent.glob("evals.db*"):
        file.unlink()
    if how == "made anew":
        project.do("runs", code=1)
    elif how != "deleted":
        project.database.write_bytes(b"" if how == "emptied" else b"x" * 10_000)
    said = project.do("db", "repair", "--yes")
    assert "3 of 3 answers saved" in said or "3 answers saved" in said
    assert project.table() == wanted and project.do("db", "check").startswith("✓")
    assert [row["status"] for row in json.loads(project.do("runs", "--json"))] == ["finished"]


def test_a_run_that_was_deleted_does_not_come_back(project):
    project.dataset(COUNT)
    run(project, "kept")
    run(project, "gone")
    project.do("delete", "gone", "--yes")
    project.do("runs")
    spoil(project.database, pages_of(project.database, "answers"))
    project.do("db", "repair", "--yes")
    assert [row["name"] for row in json.loads(project.do("runs", "--json"))] == ["kept"]


def test_a_damaged_store_makes_no_backup(project):
    project.dataset(COUNT)
    run(project)
    project.do("runs")
    (backup,) = (project.database.parent / "backups").iterdir()
    before = backup.read_bytes()
    spoil(project.database, pages_of(project.database, "bodies", 0.1))
    content = project.database.read_bytes()
    assert content != before
    with contextlib.suppress(AssertionError):
        project.do("run", "data.json", "--target", "main", "--quiet")
    assert [file.name for file in backup.parent.iterdir()] == ["evals.db.1"] and backup.read_bytes() == before


def test_a_run_whose_dataset_is_lost_too_says_that_its_answers_cannot_be_asked_again(project):
    project.dataset(COUNT)
    run(project)
    for file in (project.database.parent / "backups").iterdir():
        file.unlink()
    project.do("runs")
    spoil(project.database, pages_of(project.database, "answers"))
    with contextlib.closing(sqlite3.connect(project.database)) as connection, connection:
        connection.execute("DELETE FROM snapshots")
    said = project.do("db", "repair", "--yes")
    with project.reader() as reader:
        row = reader.find_run("last")
        assert row.status == "interrupted" and reader.totals(row.id).total == row.total < COUNT
    assert f"{COUNT - row.total} of {COUNT} answers lost for good" in said
    assert "cannot be asked again" in project.do("runs")
    refused = project.do("resume", "last", code=3)
    assert f"{COUNT - row.total} answers of {row.key} were lost" in refused and "`tui-evals run data.json`" in refused


@pytest.mark.nightly
def test_what_a_run_holds_finds_its_answers_after_a_repair(project):
    """A store that is cut off under a run: the run leaves a file, the repair plans again, and `resume` joins both."""
    project.dataset(200)
    project.configure(concurrency=4)
    run(project)  # so that the file is large, and what is cut off is of it
    project.server.behave(latency=0.02)
    process = project.start("run", "data.json", "--target", "main", "--no-cache", "--name", "cut")
    until(lambda: project.server.counts()["answered"] >= 240)
    kill(process)
    project.do("runs")
    process = project.start("resume", "last", "--json")
    until(lambda: project.server.counts()["answered"] >= 280)
    size = project.database.stat().st_size
    code = "import os, sys; os.truncate(sys.argv[1], int(sys.argv[2]))"

    subprocess.run([sys.executable, "-c", code, project.database, str(size * 8 // 10)], check=True)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4, out + err
    key = json.loads(out.splitlines()[-1])["run"]
    (file,) = project.database.parent.glob(f"unstored-{key}-*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    kept = {row["answer"] for name, row in lines if name == "answered"}
    assert len(kept) >= 20
    project.do("db", "repair", "--yes")
    project.do("resume", "cut", "--quiet")
    assert [line[2] for line in project.table()] == ["pass"] * 200 and not file.exists()
    asked = {question["text"]: question["asked"] for question in project.server.counts()["questions"]}
    with project.reader() as reader:
        rows = list(reader.rows(kept))
    # Once by the run before and once by this one, but for the four in flight when it was killed.
    assert len(rows) == len(kept) and sum(asked[f"question {row.item}"] for row in rows) <= 2 * len(kept) + 4
