"""The one door to a run: whoever starts it, the same is planned, stored, and said when it cannot go on."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.server import hanging_up
from tui_evals import evaluate
from tui_evals.datasets.document import load
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.execution import execute
from tui_evals.runs.project import load_project
from tui_evals.runs.resuming import stored_job
from tui_evals.runs.selection import ItemSelection, items_in_run
from tui_evals.runs.start import RunRequest, prepare, rerun_items
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader

ITEMS = [{"prompt": f"question {number}", "expected_response": "yes"} for number in range(4)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": ITEMS}
    (tmp_path / "data.json").write_text(json.dumps(document))
    return tmp_path


def request_of(project: Path, **more) -> RunRequest:
    document = load(project / "data.json")
    return RunRequest(document=document, source="data.json", name="data", **{"targets": ("demo",), **more})


async def test_a_request_becomes_a_plan_a_run_and_an_outcome(project):
    here = load_project(project)
    prepared = prepare(request_of(project, items=ItemSelection(items="2-3"), repeats=2), here)
    assert prepared.estimate().answers == 4
    assert not (project / ".evals" / "evals.db").exists()
    with here.writer() as writer:
        outcome = await execute(prepared.store(writer), writer)
    assert outcome.finished and outcome.exit_code == 0 and outcome.totals.total == 4
    assert (outcome.run.status, outcome.run.message, outcome.run.code) == ("finished", "", "")


@pytest.mark.parametrize(
    ("more", "blame", "says"),
    [
        ({"items": ItemSelection(items="9")}, "arguments", "the dataset has items 1 to 4"),
        ({"items": ItemSelection(only="nothing like it")}, "arguments", "no item of the dataset fits"),
        ({"items": ItemSelection(only="failed")}, "arguments", "--from RUN"),
        ({"parent": "gone"}, "arguments", "there is no run 'gone'"),
        ({"evaluators": {"Relevance": {}}}, "configuration", "no judge is named"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(project, more, blame, says):
    with pytest.raises(CannotPlan, match=says) as refusal:
        prepare(request_of(project, **more), load_project(project))
    assert refusal.value.blame == blame


def test_the_library_obeys_the_variable_that_names_the_store(project, monkeypatch):
    elsewhere = project / "elsewhere" / "runs.db"
    monkeypatch.setenv("TUI_EVALS_DB", str(elsewhere))
    run = evaluate(ITEMS, lambda prompt: "yes", evaluators="Includes")
    with Reader(elsewhere) as reader:
        assert reader.find_run("last").key == run.key
    assert not (project / ".evals" / "evals.db").exists()


def test_a_run_of_the_library_is_rescored_by_the_metrics_beside_its_prompt(project, shell):
    beside = project / "beside"
    beside.mkdir()
    (beside / "p.prompty").write_text("---\nname: p\n---\nuser:\nAnswer {{question}}.\n")
    (beside / "short.metric.prompty").write_text("---\nname: short\n---\nsystem:\nIs {{output}} short? OK or ERR.\n")
    (project / "answers.py").write_text(
        "def answer(prompt):\n    return 'yes'\ndef verdict(prompt):\n    return 'OK'\n"
    )
    run = evaluate(
        [{"variables": {"question": "what"}, "prompt": "now"}],
        "python:answers:answer",
        prompts=["beside/p.prompty"],
        evaluators={"short": {}},
        judge="python:answers:verdict",
        name="first",
    )
    assert run.passed
    done = shell("rescore", "last", "--without-judges")
    assert "Traceback" not in done.err and done.code == 0, done.err


def test_a_custom_evaluator_that_was_deleted_is_a_sentence(project, shell):
    folder = project / "custom-evaluators" / "kind"
    folder.mkdir(parents=True)
    code = "class Kind:\n    def __init__(self, **_): ...\n    def __call__(self, **_): return {'score': 1.0}\n"
    (folder / "kind.py").write_text(code)
    document = json.loads((project / "data.json").read_text()) | {"default_evaluators": {"kind": {}}}
    (project / "data.json").write_text(json.dumps(document))
    assert shell("run", "data.json", "--target", "demo", "--trust", "--quiet").code == 0
    shutil.rmtree(folder)
    for words in (("rescore", "last"), ("rerun", "last", "--only", "id:*")):
        done = shell(*words)
        assert done.code == 3 and "unknown evaluator 'kind'" in done.err and "Traceback" not in done.err


def test_why_a_run_stopped_is_in_the_store_and_said_by_every_command(project, shell, monkeypatch):
    monkeypatch.setenv("NOTHING", "key-1234567890")
    with hanging_up() as address:
        configure_dead(project, address)
        done = shell("run", "data.json", "--target", "dead", "--json")
    with Reader(project / ".evals" / "evals.db") as reader:
        run = reader.find_run("last")
        totals = reader.totals(run.id)
    assert (run.status, totals.running) == ("interrupted", 0)
    assert run.code in ("configuration", "failed") and "connect" in run.message
    end = json.loads(done.out.splitlines()[-1])
    assert (end["event"], end["status"], end["message"]) == ("end", "interrupted", run.message)


def test_a_run_that_cannot_go_on_says_why_in_the_store(project, shell, monkeypatch):
    monkeypatch.setenv("NOTHING", "key-1234567890")
    with hanging_up() as address:
        configure_dead(project, address)
        shell("run", "data.json", "--target", "dead")
    monkeypatch.delenv("NOTHING")
    done = shell("resume", "last")
    assert done.code == 3
    with Reader(project / ".evals" / "evals.db") as reader:
        run = reader.find_run("last")
    assert (run.status, run.code) == ("interrupted", "configuration") and "NOTHING" in run.message


def configure_dead(project, address):
    (project / ".evals" / "config.toml").write_text(
        f'[targets.dead]\nmodel = "openai/x"\nbase_url = "{address}"\napi_key = "env:NOTHING"\n'
    )


def test_a_killed_run_is_interrupted_with_nothing_in_flight(project):
    answering = "import time\ndef slow(prompt):\n    time.sleep(60)\n"
    (project / "slow.py").write_text(answering)
    words = ["run", "data.json", "--target", "python:slow:slow", "--quiet"]
    process = subprocess.Popen([sys.executable, "-m", "tui_evals", *words], stdin=subprocess.DEVNULL)
    store = project / ".evals" / "evals.db"
    try:
        deadline = time.monotonic() + 30
        while not store.exists() or not _in_flight(store):
            assert time.monotonic() < deadline, "nothing was asked"
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with Reader(store) as reader:
        run = reader.find_run("last")
        totals, rows = reader.totals(run.id), reader.window(run.id, 0, 10)
        waiting = reader.ids(run.id, _filter("status:pending"))
        assert (run.status, run.code) == ("interrupted", "killed") and "without a word" in run.message
        assert (totals.running, totals.pending) == (0, 4) and {row.status for row in rows} == {"pending"}
        assert len(waiting) == 4 and not reader.ids(run.id, _filter("status:running"))
        assert sum(one.pending for one in reader.totals_by(run.id, "target").values()) == 4
        assert reader.detail(rows[0].id).row.status == "pending"


async def test_a_run_asked_again_keeps_what_it_was_asked_with(project):
    here = load_project(project)
    with here.writer() as writer:
        first = await execute(prepare(request_of(project, targets=("replay:data.json",)), here).store(writer), writer)
        assert first.causes and sum(cause.count for cause in first.causes) == 4
        with Reader(here.store) as reader:
            again = rerun_items(first.run, items_in_run(reader, first.run, "errored"), reader, here)
            assert again.plan.only == frozenset(range(4)) and not again.terms.use_cache
            assert stored_job(first.run, reader, here).plan.targets == again.plan.targets
        assert again.store(writer).run.parent == first.run.id


def _in_flight(store: Path) -> bool:
    try:
        with Reader(store) as reader:
            return reader.totals(reader.find_run("last").id).running > 0
    except (LookupError, StoreError):
        return False


def _filter(text: str):
    from tui_evals.store.filters import parse_filter

    return parse_filter(text)
