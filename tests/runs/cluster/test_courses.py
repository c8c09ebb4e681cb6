"""Whole courses of runs on worker processes, each held against the same run in one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runs.conftest import Project, project, server, until
from tui_evals.store import run_figures

pytest.importorskip("distributed", reason="the cluster extra is not installed")
pytest.importorskip("cryptography", reason="the cluster extra is not installed")

from tests.runs.cluster.byhand import ByHand, by_hand

pytestmark = pytest.mark.story

__all__ = ["project", "server"]
LOCAL = ("--cluster", "local:2")
JUDGE = '{{"reason": "fine", "score": {}}}'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[ByHand]:
    """Two workers that all runs of this module go to; they trust nobody's code."""
    with by_hand(tmp_path_factory.mktemp("cluster")) as made:
        homes = {name: str(made.folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")}
        made.schedule(**homes)
        for _ in range(2):
            made.work(**homes)
        yield made


def beside(project: Project, tmp_path_factory) -> Project:
    """The same project once more, for a run in one process."""
    other = Project(tmp_path_factory.mktemp("undisturbed"), project.server)
    for path in project.folder.rglob("*"):
        kept = other.folder / path.relative_to(project.folder)
        if path.is_file() and path.suffix in (".json", ".toml", ".prompty", ".py"):
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(path.read_bytes())
    return other


def questions(project: Project) -> dict[tuple[str, str], int]:
    """How often each question was put to each target; what a judge was asked at the same moment may come twice."""
    found = project.server.counts()["questions"]
    return {(one["model"], one["key"]): one["model"] == "judge-model" or one["asked"] for one in found}


def everything(project: Project) -> list[str]:
    """Conversations that fail in the middle, repeats, two prompts, two targets and a judge; returns how to run it."""
    project.server.behave(model="judge-model", say=JUDGE.format(4), markers=False)
    project.configure(
        f'[targets.other]\nmodel = "openai/other-model"\nbase_url = "{project.server.url}"\n'
        f'[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "{project.server.url}"\n[judge]\ntarget = "judge"'
    )
    for name in ("short", "long"):
        (project.folder / f"{name}.prompty").write_text(f"system:\nBe {name}.\n")
    alone = [{"prompt": f"question {number}", "expected_response": f"question {number}"} for number in range(6)]
    talks = [
        {"name": f"talk {number}", "turns": [{"prompt": f"{word} {number}"} for word in ("one", "two", "three")]}
        for number in range(4)
    ]
    talks[1]["turns"][1]["prompt"] += " [[400]]"
    talks[2]["turns"][0]["prompt"] += " [[empty_answer]]"
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"StartsWith": {"value": "Answer"}, "Relevance": {}}}
    (project.folder / "data.json").write_text(json.dumps({**document, "items": [*alone, *talks]}))
    prompts = ["-p", "short.prompty", "-p", "long.prompty"]
    return ["run", "data.json", "-t", "main", "-t", "other", *prompts, "-n", "2", "--judge", "judge", "--quiet"]


@pytest.mark.story
def test_conversations_prompts_targets_repeats_and_judges_are_as_in_one_process(project, cluster, tmp_path_factory):
    words = everything(project)
    other = beside(project, tmp_path_factory)
    other.do(*words)
    wanted, needed = other.table(), questions(project)
    assert {row[2] for row in wanted} == {"pass", "error", "fail"}, wanted
    assert {row[4] for row in wanted} >= {None, "turnSkipped", "agentRequestFailed"}
    project.server.reset()
    words = everything(project)
    project.do(*words, *cluster.options)
    assert project.table() == wanted
    assert questions(project) == needed
    project.server.reset()
    project.do(*words, *cluster.options)
    assert project.table() == wanted
    failing = [question["text"] for question in project.server.counts()["questions"]]
    assert failing and all("[[" in text for text in failing)
    for each in (other, project):
        project.server.reset()
        project.server.behave(model="judge-model", say=JUDGE.format(1), markers=False)
        each.do("rescore", "last", "--no-cache", "--quiet", *(LOCAL if each is project else ()))
        assert {model for model, _ in questions(project)} == {"judge-model"}
    assert project.table() == other.table() != wanted


def ended(driver, code: int) -> str:
    try:
        out, err = driver.communicate(timeout=120)
    finally:
        driver.kill()
    assert driver.returncode == code, f"exit {driver.returncode}\n{out}\n{err}"
    assert "Traceback" not in err and "distributed" not in err, err
    return out + err


def begun(project: Project, *words: str, more: int = 10) -> subprocess.Popen:
    """A run that has asked so many more questions."""
    before = project.server.counts()["asked"]
    run = project.start(*words, "--quiet")
    until(lambda: project.server.counts()["asked"] >= before + more or run.poll() is not None)
    return run


def leisurely(project: Project) -> None:
    project.server.behave(latency=0.2)
    project.configure(concurrency=4)
    project.dataset(150)


def went_on(project: Project) -> None:
    """The run can be brought to its end, and paid at most for what was in flight when it was stopped at once."""
    until(lambda: project.server.counts()["in_flight"] == 0)
    assert project.server.counts()["asked"] < 150
    project.server.behave(latency=0)
    project.do("resume", "last", "--quiet")
    assert [row[2] for row in project.table()] == ["pass"] * 150
    assert project.server.counts()["asked"] <= 150 + 4


@pytest.mark.nightly
def test_paused_and_interrupted_a_run_goes_on_where_it_was(project, cluster):
    leisurely(project)
    run = begun(project, "run", "data.json", "--target", "main", *cluster.options)
    project.do("pause", "last")
    until(lambda: json.loads(project.do("runs", "--json"))[0]["status"] == "paused")
    until(lambda: project.server.counts()["in_flight"] == 0)
    before = project.server.counts()["asked"]
    project.do("resume", "last")
    until(lambda: project.server.counts()["asked"] >= before + 10)
    run.send_signal(signal.SIGINT)
    ended(run, 130)
    assert project.server.counts()["in_flight"] == 0
    went_on(project)
    assert project.server.counts()["asked"] == 150


@pytest.mark.nightly
def test_stopped_from_elsewhere_and_interrupted_twice_a_run_goes_on_where_it_was(project, cluster):
    leisurely(project)
    run = begun(project, "run", "data.json", "--target", "main", *cluster.options)
    project.do("stop", "last")
    assert "continues" in ended(run, 130)
    assert project.server.counts()["in_flight"] == 0
    project.server.behave(latency=2)
    run = begun(project, "resume", "last", more=2)
    run.send_signal(signal.SIGINT)
    while "again" not in run.stderr.readline():
        assert run.poll() is None
    run.send_signal(signal.SIGINT)
    ended(run, 130)
    went_on(project)


@pytest.mark.nightly
def test_what_a_worker_lacks_is_a_sentence_that_names_it(project, cluster, tmp_path_factory):
    project.dataset(20)
    project.configure(api_key="env:ONLY_AT_HOME")
    said = project.do(
        "run", "data.json", "-t", "main", *cluster.options, "--quiet", code=3, ONLY_AT_HOME="the-key-at-home"
    )
    assert "on the worker tcp://127.0.0.1:" in said and "ONLY_AT_HOME" in said
    assert "hand yours on with --forward-env NAME" in said
    assert project.server.counts()["asked"] == 0
    project.configure(concurrency=2)
    project.server.behave(always="401")
    said = project.do("run", "data.json", "-t", "main", *cluster.options, "--quiet", code=3)
    project.server.behave()
    assert "on the worker tcp://127.0.0.1:" in said and "401" in said and "resume" in said
    assert project.server.counts()["asked"] <= 8
    assert "error" not in {row[2] for row in project.table()}
    text = (project.folder / ".evals/config.toml").read_text()
    (project.folder / ".evals/config.toml").write_text(text.replace(project.server.url, "http://127.0.0.1:1/v1"))
    project.dataset(3)
    said = project.do("run", "data.json", "-t", "main", *cluster.options, "--quiet", code=3)
    assert "on the worker tcp://127.0.0.1:" in said and "127.0.0.1:1" in said


def workers_under(cluster: ByHand) -> list[int]:
    """The worker processes of a cluster by hand, each of which has a nanny."""
    found = []
    for nanny in cluster.processes[1:]:
        for children in Path(f"/proc/{nanny.pid}/task").glob("*/children"):
            for child in children.read_text().split():
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


PRICED = (
    "[targets.main.price]\ninput_per_million = 1000.0\noutput_per_million = 1000.0\n"
    "[targets.main.params]\nmax_tokens = 50\n"
)
COST = 0.006
"""Of a call by these prices: two words asked, and four answered."""


@pytest.mark.nightly
def test_a_budget_is_kept_by_all_workers_together_even_when_one_is_killed(project, cluster):
    project.server.behave(latency=0.1)
    project.configure(PRICED, concurrency=6)
    project.dataset(120)
    run = project.start("run", "data.json", "-t", "main", "--max-cost", "0.6", *cluster.options, "--quiet")
    until(lambda: project.server.counts()["asked"] >= 12 or run.poll() is not None)
    os.kill(workers_under(cluster)[0], signal.SIGKILL)
    said = ended(run, 4)
    assert "the budget is spent" in said and "resume" in said
    with project.reader() as reader:
        last = reader.find_run("last").id
        cost, unpriced = run_figures.spent(reader, last), reader.totals(last).unpriced
        statuses = {row[2] for row in project.table()}
    assert 0.1 < cost <= 0.6 and not unpriced
    assert {"pass", "pending"} <= statuses <= {"pass", "pending", "running"}
    assert project.server.counts()["asked"] * COST <= 0.6
    project.do("resume", "last", "--max-cost", "50", "--quiet")
    assert [row[2] for row in project.table()] == ["pass"] * 120


@pytest.mark.nightly
def test_a_worker_that_is_told_to_wait_makes_all_wait(project, cluster):
    project.server.behave(latency=0.05, retry_after=3)
    project.configure(concurrency=8)
    project.dataset(120, lambda number: f"question {number}" + (" [[429*1]]" if number == 60 else ""))
    project.do("run", "data.json", "-t", "main", *cluster.options, "--quiet")
    assert [row[2] for row in project.table()] == ["pass"] * 120
    moments = project.server.moments()
    told = next(moment for moment, text in moments if "429" in text) + 0.05
    during = [moment - told for moment, _ in moments if told + 1.5 < moment < told + 2.9]
    assert not during
    assert any(moment > told + 2.9 for moment, _ in moments)


@pytest.mark.nightly
def test_a_rate_is_kept_by_all_workers_together(project, cluster):
    project.configure(concurrency=8, requests_per_minute=600)
    project.dataset(60)
    project.do("run", "data.json", "-t", "main", *cluster.options, "--quiet")
    moments = [moment for moment, _ in project.server.moments()]
    assert len(moments) == 60
    for first, begun in enumerate(moments):
        for last in range(first, len(moments)):
            assert last - first <= 10 * (moments[last] - begun) + 20 + 1


EVALUATOR = """
import os
class Mine:
    def __init__(self, **settings): pass
    def __call__(self, response, **others):
        return {"score": 1.0, "reason": "judged"}
"""


@pytest.mark.nightly
def test_code_of_the_project_judges_where_it_is_trusted_and_is_an_error_where_it_is_not(
    project, cluster, tmp_path_factory
):
    folder = project.folder / "custom-evaluators" / "mine"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(EVALUATOR)
    project.dataset(12, default_evaluators={"mine": {}})
    other = beside(project, tmp_path_factory)
    other.do("run", "data.json", "-t", "main", "--trust", "--quiet")
    project.do("run", "data.json", "-t", "main", "--trust", "--quiet", *LOCAL)
    assert project.table() == other.table()
    assert {row[6][2:] for row in project.table()} == {("pass", "judged")}
    project.do("run", "data.json", "-t", "main", "--trust", "--quiet", *cluster.options, code=None)
    ((result, reason),) = {row[6][2:] for row in project.table()}
    assert result == "error" and "TUI_EVALS_TRUST=" in reason and "'mine'" in reason


FUNCTIONS = """
import os, signal, time
def deadly(prompt):
    if "question 7" in prompt:
        os.kill(os.getpid(), signal.SIGKILL)
    return "Answer: " + prompt
def slow(prompt):
    time.sleep(float(os.environ["SLOWNESS"]))
    return f"Answer: {prompt} {os.environ['SLOWNESS']}"
"""


def functions(project: Project, name: str, count: int) -> None:
    project.configure(f'[targets.{name}]\nmodel = "python:functions:{name}"\nconcurrency = 8')
    (project.folder / "functions.py").write_text(FUNCTIONS)
    project.dataset(count)


@pytest.fixture
def own(tmp_path) -> Iterator[ByHand]:
    """A scheduler of one test's own."""
    with by_hand(tmp_path / "cluster") as made:
        made.schedule()
        yield made


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """A process that does nothing for a block, as of a machine that sleeps."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def worker_states(project: Project) -> list[str]:
    """How the workers of the last run are said to be."""
    with project.reader() as reader:
        return [worker.state for worker in reader.workers(reader.find_run("last").id)]


def impatient(project: Project, *words: str) -> subprocess.Popen:
    """A run that waits three seconds for a worker that is silent."""
    code = (
        "import sys; from tui_evals.runs.executors.cluster import executor; executor.SILENCE = 3.0\n"
        "from tui_evals.__main__ import main; main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=project.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.nightly
def test_a_conversation_that_no_worker_survives_is_an_error_and_all_others_pass(project, own):
    functions(project, "deadly", 20)
    for _ in range(2):
        own.work()
    project.do("run", "data.json", "-t", "deadly", *own.options, "--quiet")
    table = project.table()
    assert [row[2] for row in table] == ["error" if number == 7 else "pass" for number in range(20)]
    assert table[7][4] == "agentRequestFailed"
    with project.reader() as reader:
        said = reader.query("SELECT preview FROM answers WHERE status = 'error'", [])
    assert "every worker that held this conversation died" in str(list(said))


@pytest.mark.nightly
def test_the_cells_of_a_frozen_worker_go_to_others_and_it_may_come_back(project, own):
    project.server.behave(latency=0.1)
    project.configure(concurrency=8, timeout=60)
    project.dataset(200)
    for _ in range(2):
        own.work()
    run = impatient(project, "run", "data.json", "-t", "main", *own.options, "--quiet")
    until(lambda: project.server.counts()["asked"] >= 30 or run.poll() is not None)
    frozen = workers_under(own)[0]
    with stopped(frozen):
        ended(run, 0)
    assert [row[2] for row in project.table()] == ["pass"] * 200
    assert project.server.counts()["asked"] <= 200 + 8


@pytest.mark.nightly
def test_a_worker_that_freezes_before_it_says_a_word_holds_nothing_up(project, own):
    project.configure(concurrency=8, timeout=60)
    project.dataset(100)
    for _ in range(2):
        own.work()
    own.wait_for_workers()
    frozen = workers_under(own)[0]
    with stopped(frozen):
        ended(impatient(project, "run", "data.json", "-t", "main", *own.options, "--quiet"), 0)
    assert [row[2] for row in project.table()] == ["pass"] * 100
    assert project.server.counts()["asked"] == 100


@pytest.mark.nightly
def test_a_run_whose_only_worker_freezes_goes_on_with_the_next_one(project, own):
    project.server.behave(latency=0.1)
    project.configure(concurrency=8, timeout=60)
    project.dataset(100)
    own.work()
    run = impatient(project, "run", "data.json", "-t", "main", *own.options, "--quiet")
    until(lambda: project.server.counts()["asked"] >= 30 or run.poll() is not None)
    frozen = workers_under(own)[0]
    with stopped(frozen):
        until(lambda: "gone" in worker_states(project) or run.poll() is not None)
        own.work()
        ended(run, 0)
    assert [row[2] for row in project.table()] == ["pass"] * 100
    assert project.server.counts()["asked"] <= 100 + 8


@pytest.mark.nightly
def test_a_run_beside_a_frozen_worker_survives_the_death_of_the_others(project, own):
    project.server.behave(latency=0.1)
    project.configure(concurrency=8, timeout=60)
    project.dataset(400)
    for _ in range(2):
        own.work()
    own.wait_for_workers()
    run = impatient(project, "run", "data.json", "-t", "main", *own.options, "--quiet")
    until(lambda: project.server.counts()["asked"] >= 30 or run.poll() is not None)
    frozen, other = workers_under(own)
    with stopped(frozen):
        until(lambda: "gone" in worker_states(project) or run.poll() is not None)
        os.kill(other, signal.SIGKILL)
        ended(run, 0)
    assert [row[2] for row in project.table()] == ["pass"] * 400
    assert project.server.counts()["asked"] <= 400 + 2 * 8


@pytest.mark.nightly
def test_a_slow_worker_gives_back_what_it_has_not_begun(project, own):
    functions(project, "slow", 120)
    own.work(SLOWNESS="4")
    own.work(SLOWNESS="0.01")
    own.wait_for_workers()
    run = project.start("run", "data.json", "-t", "slow", *own.options, "--quiet")
    ended(run, 0)
    table = project.table()
    assert [row[2] for row in table] == ["pass"] * 120
    assert 0 < sum(row[5].endswith(" 4") for row in table) <= 40  # half of them without giving back


@pytest.mark.nightly
def test_without_its_scheduler_a_run_ends_in_a_sentence_and_goes_on_elsewhere(project, own):
    project.server.behave(latency=0.1)
    project.configure(concurrency=8)
    project.dataset(150)
    for _ in range(2):
        own.work()
    run = project.start("run", "data.json", "-t", "main", *own.options, "--quiet")
    until(lambda: project.server.counts()["asked"] >= 30 or run.poll() is not None)
    own.processes[0].kill()
    said = ended(run, 4)
    assert "scheduler" in said and "resume" in said
    project.do("resume", "last", "--cluster", "none", "--quiet")
    assert [row[2] for row in project.table()] == ["pass"] * 150
    assert project.server.counts()["asked"] <= 150 + 2 * 8


@pytest.mark.nightly
def test_a_worker_that_joins_in_the_middle_gets_work(project, own):
    project.server.behave(latency=1.5)  # more than a minute, in which a process starts on any machine
    project.configure(concurrency=8)
    project.dataset(400)
    own.work()
    run = project.start("run", "data.json", "-t", "main", *own.options, "--quiet")
    until(lambda: project.server.counts()["asked"] >= 20 or run.poll() is not None)
    own.work()
    own.wait_for_workers()
    project.server.behave(latency=0.2)
    ended(run, 0)
    with project.reader() as reader:
        workers = reader.workers(reader.find_run("last").id)
    assert len(workers) == 2 and all(worker.calls > 20 for worker in workers)
    assert sum(worker.calls for worker in workers) == project.server.counts()["asked"] == 400


@pytest.mark.nightly
def test_a_worker_of_another_release_that_joins_in_the_middle_stops_the_run_with_a_sentence(project, own, tmp_path):
    project.server.behave(latency=1.5)  # more than a minute, in which a process starts on any machine
    project.configure(concurrency=8)
    project.dataset(400)
    own.work()
    run = project.start("run", "data.json", "-t", "main", *own.options, "--quiet")
    until(lambda: project.server.counts()["asked"] >= 20 or run.poll() is not None)
    (tmp_path / "sitecustomize.py").write_text("import tui_evals.version as version; version.__version__ = '9.9.9'")
    own.work(PYTHONPATH=str(tmp_path))
    said = ended(run, 3)
    assert "on the worker tcp://" in said and "tui_evals 9.9.9" in said and "resume" in said
    assert "error" not in {row[2] for row in project.table()}
