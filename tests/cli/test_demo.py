"""The sample project: what it shows, and how it is opened."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs.conftest import until
from tui_evals.datasets.discover import make_demo
from tui_evals.datasets.document import load
from tui_evals.datasets.resolve import resolve_evaluators
from tui_evals.datasets.validate import dataset_of
from tui_evals.evaluators.registry import load_registry
from tui_evals.store.connection import alive, run_lock
from tui_evals.store.reader import Reader
from tui_evals.targets.config import load_settings
from tui_evals.targets.config_file import write_setting


def datasets(folder: Path) -> dict[str, object]:
    known = load_registry()
    return {file.name: dataset_of(load(file), known.catalogue, known.own) for file in (folder / "evals").iterdir()}


def test_the_sample_project_shows_every_part_of_a_dataset(tmp_path):
    first = make_demo(tmp_path)
    found = datasets(tmp_path)
    assert len(found) == 3 and first.name in found
    items = [item for dataset in found.values() for item in dataset.items]
    units = [unit for item in items for unit in item.units]
    assert 35 <= len(items) <= 60
    assert {unit.evaluators_mode for unit in units} >= {"extend", "replace"}
    assert any(item.tools for item in items) and any(item.messages for item in items)
    assert any(len(item.turns or ()) > 2 for item in items)
    assert len({item.category for item in found[first.name].items}) >= 4
    assert len({item.testId for item in items}) == len(items)
    overridden = [
        entry for item in found[first.name].items for entry in resolve_evaluators(found[first.name], item.units[0])
    ]
    assert any(entry.overridden is not None for entry in overridden)
    settings = load_settings(tmp_path)
    assert settings.run.targets == ("demo",) and settings.judge == "demo"


def test_nothing_is_written_over(tmp_path):
    make_demo(tmp_path)
    first = tmp_path / "evals" / "library-assistant.json"
    first.write_text("mine")
    with pytest.raises(FileExistsError, match="nothing was written"):
        make_demo(tmp_path)
    assert first.read_text() == "mine"


def command(folder: Path, *arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    how = ["-c", code] if code else ["-m", "tui_evals"]
    environment = {**os.environ, "TMPDIR": str(folder), "TUI_EVALS_DB": str(folder / "mine.db")}
    return subprocess.run(
        [sys.executable, *how, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.first
def test_plain_runs_it_here_with_passes_failures_and_errors(tmp_path):
    code = (
        "import sys; from tui_evals.targets import demo; demo._manner = lambda _: demo.Manner(0, 0)\n"
        "from tui_evals.cli.main import run; sys.exit(run(['demo', '--plain']))"
    )
    done = command(tmp_path, code=code)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("tui-evals-demo-*")
    assert str(folder) in done.stdout
    assert not (tmp_path / "mine.db").exists()
    with Reader(folder / ".evals" / "evals.db") as reader:
        run = reader.find_run("last")
        totals = reader.totals(run.id)
        assert run.status == "finished" and run.source == "evals/library-assistant.json"
        assert min(totals.passed, totals.failed, totals.errored) > 2


@pytest.mark.story
@pytest.mark.parametrize("name", ["moving-in", "wishes-as-json"])
def test_the_other_datasets_pass_and_fail_too(tmp_path, name):
    make_demo(tmp_path)
    write_setting(tmp_path, ("targets", "demo", "params"), {"latency_ms": 0, "jitter_ms": 0})
    done = command(tmp_path, "--db", "here.db", "run", f"evals/{name}.json", "--quiet")
    assert done.returncode == 0, done.stderr
    with Reader(tmp_path / "here.db") as reader:
        totals = reader.totals(reader.find_run("last").id)
    assert totals.passed > 2 and totals.failed > 1


@pytest.mark.story
def test_the_workbench_opens_on_a_run_that_is_under_way(tmp_path):
    code = (
        "import json, sys; sys.stdin.isatty = sys.stdout.isatty = lambda: True\n"
        "from tui_evals.cli.main import run; found = run(['demo'])\n"
        "print(json.dumps([str(found.root), str(found.database), str(found.dataset), found.run, found.demo]))"
    )
    done = command(tmp_path, code=code)
    assert done.returncode == 0, done.stderr
    root, database, dataset, key, is_demo = json.loads(done.stdout)
    (folder,) = tmp_path.resolve().glob("tui-evals-demo-*")
    assert (Path(root), Path(database), is_demo) == (folder, folder / ".evals" / "evals.db", True)
    assert Path(dataset) == folder / "evals" / "library-assistant.json"
    with Reader(Path(database)) as reader:
        run = reader.find_run(key)
        totals = reader.totals(run.id)
        assert run.status == "running" and totals.pending + totals.running > 0
    lock = run_lock(Path(database), key)
    os.kill(int(lock.read_text()), signal.SIGKILL)
    until(lambda: not alive(lock))
