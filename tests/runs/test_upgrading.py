"""A package that is upgraded under a living run: no tables change beneath it, and it stops where it can be resumed."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import tui_evals
from tests.providers import openai_chat, speaking
from tests.runs.conftest import until
from tui_evals.store import schema
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import connect


def schema_of(path):
    with contextlib.closing(connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


@pytest.mark.nightly
def test_no_command_changes_the_tables_under_a_run_of_the_earlier_version(project, monkeypatch):
    project.dataset(1)
    project.do("run", "data.json", "--target", "main", "--quiet")
    with project.reader() as reader:
        key = reader.find_run("last").key
    before = schema_of(project.database)
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, lambda db: db.execute("ALTER TABLE runs ADD more TEXT")))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with hold(run_lock(project.database, key)):
        for command in (("runs",), ("show", key), ("watch", key), ("run", "data.json", "--target", "main")):
            said = project.do(*command, code=1)
            assert f"an earlier tui-evals, which is still executing run {key} (process " in said
            assert "`kill -INT " in said and "it can be resumed" in said
        assert schema_of(project.database) == before
    assert key in project.do("runs")
    assert schema_of(project.database) == before + 1


@pytest.mark.nightly
def test_a_package_that_is_upgraded_under_a_run_stops_it_before_old_code_meets_new(project, tmp_path):
    """What fails from then on may fail because of that, and is no row."""
    package = tmp_path / "installed" / "tui_evals"
    shutil.copytree(Path(tui_evals.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    project.dataset(40, lambda number: f"question {number}{' [[500]]' if number == 1 else ''}")
    project.configure(concurrency=4, retries=0)
    project.server.behave(latency=1.5)
    process = project.start("run", "data.json", "--target", "main", "--json", PYTHONPATH=str(package.parent))
    until(lambda: project.server.counts()["in_flight"] == 4)
    (package / "version.py").write_text('__version__ = "99.0"\n')
    out, err = process.communicate(timeout=60)
    end = json.loads(out.splitlines()[-1])
    assert "Traceback" not in err and process.returncode == 4, out + err
    assert (end["status"], end["exit_code"]) == ("interrupted", 4)
    assert "was upgraded to 99.0 while it was executing this run" in end["message"]
    assert f"`tui-evals resume {end['run']}`" in err
    assert project.server.counts()["asked"] <= 5  # and a short question, whether the target is there
    with project.reader() as reader:
        run = reader.find_run("last")
        totals = reader.totals(run.id)
        assert run.code == "upgraded" and totals.errored == 0
        assert totals.passed + totals.failed <= 3 and totals.total - totals.pending <= 3
    project.server.behave(latency=0.0)
    project.do("resume", "last", "--quiet")
    with project.reader() as reader:
        totals = reader.totals(run.id)
        assert (totals.passed + totals.failed, totals.errored) == (39, 1)


EARLIER = Path(__file__).parent / "earlier" / "before_transcripts.sql"
"""A store of the version before transcripts: a plain answer with chunks, one that begins with `<think>`, and one with
steps of tools, all judged over HTTP at http://judge.test/v1."""


@pytest.mark.nightly
def test_an_upgrade_alone_has_no_judge_asked_again_and_rewrites_no_body(project):
    def rows(query):
        with contextlib.closing(sqlite3.connect(project.database)) as connection:
            return connection.execute(query).fetchall()

    with speaking() as judge:
        judge.says(openai_chat(content='{"reason": "It is.", "score": 5}'))
        price = "price = { per_call = 0 }"
        target = f'[targets.judge]\nmodel = "openai/judge"\nbase_url = "{judge.url}"\n{price}'
        agent = '[targets.agent]\nmodel = "python:agent:answer"'
        (project.folder / ".evals" / "config.toml").write_text(f'[judge]\ntarget = "judge"\n{agent}\n{target}\n')
        with contextlib.closing(sqlite3.connect(project.database)) as connection:
            connection.executescript(EARLIER.read_text().replace("http://judge.test/v1", judge.url))
        before = rows("SELECT * FROM bodies")
        project.do("rescore", "old", "--trust", "--quiet")
        assert judge.asked == []
        held = dict(rows("SELECT pass, count(*) FROM scores GROUP BY pass"))
        assert held == {1: 8, 2: 8}
        assert {origin for (origin,) in rows("SELECT origin FROM scores WHERE pass = 2")} == {1}
        assert rows("SELECT * FROM bodies") == before
        said = project.do("show", "old", "--item", "tools")
        assert "step 1 of 2" in said and "← paid" in said
        assert "<think>six times seven</think>42" in project.do("show", "old", "--item", "think")
        project.do("rescore", "old", "--trust", "--quiet", "--no-cache")
        assert len(judge.asked) == 8, "otherwise the judge is asked"
