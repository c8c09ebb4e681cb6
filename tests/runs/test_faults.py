"""Runs against a real server that fails, and processes that are killed: nothing is lost, nothing is paid twice."""

import json
import random
import sqlite3
import subprocess
import sys

import pytest

from tests.runs.conftest import Project, kill, until
from tui_evals.runs.executors import local
from tui_evals.store import run_figures
from tui_evals.store.writer import Writer

CONCURRENCY = 10


def undisturbed(project: Project, tmp_path_factory: pytest.TempPathFactory) -> list[tuple]:
    other = Project(tmp_path_factory.mktemp("undisturbed"), project.server)
    other.configure(concurrency=CONCURRENCY)
    other.dataset(500)
    other.do("run", "data.json", "--target", "main", "--quiet")
    return other.table()


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("rounds", [1, 3, 10, 100])
def test_killed_at_random_moments_a_run_ends_as_if_undisturbed(project, tmp_path_factory, rounds):
    wanted = undisturbed(project, tmp_path_factory)
    server = project.server
    server.reset()
    server.behave(latency=0.02, jitter=0.02)
    project.configure(concurrency=CONCURRENCY)
    project.dataset(500)
    draw = random.Random(rounds)
    moments = sorted(draw.sample(range(1, 495), rounds))
    process = project.start("run", "data.json", "--target", "main", "--quiet")
    for moment in moments:
        until(lambda moment=moment, process=process: server.counts()["asked"] >= moment or process.poll() is not None)
        kill(process)
        assert project.database.exists(), "the plan is committed before the first question"
        process = project.start("resume", "last", "--quiet")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert project.table() == wanted
    counts = server.counts()
    assert len(counts["questions"]) == 500
    assert counts["asked"] <= 500 + rounds * CONCURRENCY
    integrity = sqlite3.connect(project.database).execute("PRAGMA integrity_check").fetchone()
    assert integrity == ("ok",)


def test_nothing_that_was_answered_and_committed_is_asked_again(project):
    server = project.server
    server.behave(latency=0.02)
    project.configure(concurrency=CONCURRENCY)
    project.dataset(200)
    process = project.start("run", "data.json", "--target", "main", "--quiet")
    until(lambda: server.counts()["asked"] >= 80)
    kill(process)
    with project.reader() as reader:
        run = reader.find_run("last")
        assert run.status == "interrupted"
        committed = {row.name for row in reader.all_rows(run.id) if row.status not in ("pending", "running")}
    assert committed
    project.do("resume", "last", "--quiet")
    asked = {question["text"]: question["asked"] for question in server.counts()["questions"]}
    assert {asked[f"question {int(name.removeprefix('#')) - 1}"] for name in committed} == {1}


@pytest.mark.nightly
def test_a_verdict_that_needs_nothing_else_is_in_the_commit_of_its_answer(project, monkeypatch):
    scored: list[int] = []

    async def count(writer, answer, *verdict, real=Writer.scored):
        scored.append(answer)
        await real(writer, answer, *verdict)

    monkeypatch.setattr(Writer, "scored", count)
    project.configure(concurrency=4)
    project.dataset(9)
    project.do("run", "data.json", "--target", "main")
    together = project.table()
    assert scored == [] and {row[2] for row in together} == {"pass"}
    project.dataset(9, default_evaluators={"Includes": {}, "JavaScript": {"code": "true"}})
    project.do("run", "data.json", "--target", "main", "--trust")
    assert len(scored) == 9 and {row[2] for row in project.table()} == {"pass"}


def test_an_answer_is_kept_though_judging_it_breaks(project, monkeypatch):
    async def broken(*_):
        raise RuntimeError("the judging broke")

    monkeypatch.setattr(local, "judge", broken)
    project.configure(concurrency=1)
    project.dataset(1)
    with pytest.raises(RuntimeError, match="the judging broke"):
        project.do("run", "data.json", "--target", "main", "--quiet")
    (row,) = project.table()
    assert row[2] == "answered"


def test_a_tenth_429_and_a_tenth_500_lose_nothing(project):
    project.server.behave(shares={"429": 0.1, "500": 0.1}, retry_after=0.05)
    project.configure(concurrency=20)
    project.dataset(200)
    project.do("run", "data.json", "--target", "main", "--quiet")
    statuses = [row[2] for row in project.table()]
    assert statuses == ["pass"] * 200
    met = project.server.counts()["met"]
    assert met["429"] and met["500"]


def test_calls_that_hang_end_as_timeouts_and_do_not_hold_up_the_rest(project):
    project.configure(timeout=0.5, concurrency=20)
    project.dataset(60, lambda number: f"question {number}" + (" [[hang]]" if number % 20 == 0 else ""))
    project.do("run", "data.json", "--target", "main", "--quiet")
    codes = [row[4] for row in project.table()]
    assert [number for number, code in enumerate(codes) if code] == [0, 20, 40]
    assert {code for code in codes if code} == {"agentTimeout"}


@pytest.mark.nightly
@pytest.mark.parametrize("count", [1_000, pytest.param(5_000, marks=pytest.mark.nightly)])
def test_two_runs_at_once_and_a_reader_share_one_database(project, count):
    project.configure(concurrency=50)
    project.dataset(count)
    first = project.start("run", "data.json", "--target", "main", "--quiet", "--name", "one", "--no-cache")
    second = project.start("run", "data.json", "--target", "main", "--quiet", "--name", "two", "--no-cache")
    until(lambda: project.database.exists())
    until(lambda: len(json.loads(project.do("runs", "--json"))) == 2)
    seen = 0
    with project.reader() as reader:
        while first.poll() is None or second.poll() is None:
            rows = reader.changed(seen)
            seen = max([seen, *(row.seq for row in rows)])
            assert all(row.preview for row in rows if row.status == "pass")
    for process in (first, second):
        out, err = process.communicate()
        assert (process.returncode, err) == (0, ""), out
    with project.reader() as reader:
        for name in ("one", "two"):
            totals = reader.totals(reader.find_run(name).id)
            assert (totals.total, totals.passed) == (count, count)


def test_a_budget_is_never_exceeded_and_the_run_can_go_on(project):
    project.configure(
        "[targets.main.price]\ninput_per_million = 1000.0\noutput_per_million = 1000.0\n"
        "[targets.main.params]\nmax_tokens = 50\n",
        concurrency=5,
    )
    project.dataset(40)
    said = project.do("run", "data.json", "--target", "main", "--max-cost", "0.15", "--quiet", code=4)
    assert "the budget is spent" in said and "resume" in said
    with project.reader() as reader:
        run = reader.find_run("last")
        cost, totals = run_figures.spent(reader, run.id), reader.totals(run.id)
    assert 0 < cost <= 0.15 and not totals.unpriced
    assert 0 < totals.passed < 40 and totals.errored == 0
    project.do("resume", "last", "--max-cost", "50", "--quiet")
    assert [row[2] for row in project.table()] == ["pass"] * 40


def test_a_budget_without_a_price_is_refused_before_anything_is_spent(project):
    project.dataset(3)
    said = project.do("run", "data.json", "--target", "main", "--max-cost", "1", "--quiet", code=3)
    assert "price" in said and project.server.counts()["asked"] == 0


CANARY = "sk-canary-9f8e7d6c5b4a"


def test_no_secret_is_stored_or_exported(project):
    project.configure(api_key="env:MY_API_KEY")
    project.dataset(4, lambda number: f"question {number}" + (" [[echo]]" if number % 2 else ""))
    (project.folder / ".env.local.user").write_text(f"OTHER_TOKEN={CANARY}\n")
    process = project.start("run", "data.json", "--target", "main", MY_API_KEY=CANARY)
    out, err = process.communicate()
    kept = [path for path in project.folder.rglob("*") if path.is_file() and path.name != ".env.local.user"]
    for kind in ("json", "csv", "jsonl"):
        project.do("export", "last", "--to", kind)
    kept += (project.folder / ".evals" / "results").iterdir()
    assert CANARY not in out + err
    for path in kept:
        assert CANARY.encode() not in path.read_bytes(), path


@pytest.mark.story
def test_a_full_disk_ends_in_a_sentence_and_the_run_goes_on_when_there_is_room(project):
    project.configure(concurrency=5, max_outage=0.5)
    project.dataset(300)
    limited = f"trap '' XFSZ; ulimit -f 600; exec {sys.executable} -m tui_evals run data.json --target main --quiet"
    done = subprocess.run(["bash", "-c", limited], cwd=project.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert "asking waits, because " in done.stderr and "which is stored first" in done.stderr
    assert "What was committed is safe" in done.stderr and "tui-evals resume" in done.stderr
    project.do("resume", "last", "--quiet")
    assert [row[2] for row in project.table()] == ["pass"] * 300
    assert [question["asked"] for question in project.server.counts()["questions"]] == [1] * 300


@pytest.mark.parametrize("path", ["/proc/nowhere/evals.db", "data.json"])
def test_a_database_that_cannot_be_used_is_a_sentence(project, path):
    project.dataset(2)
    before = (project.folder / "data.json").read_bytes()
    said = project.do("--db", path, "run", "data.json", "--target", "main", code=1)
    assert path in said
    assert (project.folder / "data.json").read_bytes() == before
