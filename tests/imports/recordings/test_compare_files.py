"""Recorded results of every door stand for the run in them wherever runs are compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.imports.recordings.made import promptfoo_database
from tui_evals.imports.registry import built_in
from tui_evals.store.reader import Reader

pytestmark = pytest.mark.story

HERE = Path(__file__).parent
PROMPTPEX = HERE.parent / "promptpex"
OURS = {"json": "out.json", "jsonl": "out.jsonl", "csv": "out.csv", "oaieval-log": "out.log", "inspect": "log.json"}


def names() -> list[str]:
    with Reader(Path(".evals/evals.db")) as reader:
        return [run.name for run in reader.runs()]


@pytest.fixture
def database(project):
    data = json.loads((HERE / "promptfoo-output.json").read_text(encoding="utf-8"))
    promptfoo_database(project / "one.db", [data])
    other = {**data, "evalId": "other", "config": {**data["config"], "description": "the other"}}
    promptfoo_database(project / "two.db", [data, other])
    return project


@pytest.mark.nightly
def test_every_file_of_ours_compares_with_the_run_it_was_written_of(shell, project) -> None:
    items = [{"testId": "x", "prompt": "banana?"}, {"testId": "y", "prompt": "pear?"}]
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"ContainsAll": {"values": ["a"]}}, "items": items}
    Path("d.json").write_text(json.dumps(data))
    assert shell("run", "d.json", "--target", "demo").code == 0
    with Reader(Path(".evals/evals.db")) as reader:
        first = reader.find_run("last").key
    for kind, name in OURS.items():
        assert shell("export", first, "--to", kind, "-o", name, "--bare").code == 0
    assert all(shell("report", first, "-o", name, "--bare").code == 0 for name in ("out.html", "out.xml"))
    for name in (*OURS.values(), "out.html", "out.xml"):
        done = shell("compare", name, first)
        assert done.code == 0 and f"note: {name} " in done.err, name + done.err
        assert done.out.count("100.0 %  2 items") == 2, name + done.out
    assert len(names()) == 7  # a page holds the lines of its run, so it is the same one


@pytest.mark.nightly
def test_files_of_other_tools_stand_for_their_runs(shell, database) -> None:
    shutil.copytree(HERE / "bench_runs", "bench_runs")
    shutil.copytree(PROMPTPEX / "older", "older")
    shutil.copy(PROMPTPEX / "tone.prompty", "older.prompty")
    for name in ("promptfoo-output.json", "arithmetic.eval", "choices.json"):
        shutil.copy(HERE / name, name)
    done = shell("compare", "promptfoo-output.json", "arithmetic.eval")
    assert done.code == 0 and done.err.count("is now run") == 2, done.err
    known = shell("compare", "one.db", "choices.json")
    assert known.code == 0 and "note: one.db was imported before as run" in known.err, known.err
    done = shell("compare", "bench_runs/capitals/first", "bench_runs/capitals/second run/run.json")
    assert done.code == 0 and done.err.count("is now run") == 2, done.err
    done = shell("compare", "older", "last")
    assert done.code == 0 and ", with its dataset older/older.json; " in done.err, done.err
    assert len(names()) == 6


def test_what_holds_several_runs_or_none_is_said_with_the_way_on(shell, database) -> None:
    done = shell("compare", "two.db")
    assert done.code == 2 and "two.db holds 2 runs, which are imported now; name one of them:" in done.err, done.err
    assert done.err.count("the other") == 1 and len(names()) == 2
    Path("promptfooconfig.yaml").write_text("prompts: [hi]\nproviders: [echo]\n")
    Path("d.csv").write_text("input,target\n1?,1\n")
    Path("empty").mkdir()
    for name in ("promptfooconfig.yaml", "d.csv", "empty"):
        done = shell("compare", name, "last")
        assert done.code == 2 and f"{name} holds no results of a run; name a run, or one of these:" in done.err
    shutil.copytree(PROMPTPEX / "tone", "tone", ignore=shutil.ignore_patterns("test_results*", "*evals*", "overview*"))
    done = shell("compare", "tone", "last")
    assert done.code == 2 and "there are no answers in it; name a run, or results" in done.err, done.err


def test_every_door_of_recordings_is_among_them() -> None:
    ours = {"baseline", "results", "results-jsonl", "results-csv", "junit", "oaieval-log", "report"}
    others = {"promptfoo-results", "inspect", "bench", "promptpex"}
    assert {kind for kind, one in built_in().items() if one.recordings is not None} == ours | others
