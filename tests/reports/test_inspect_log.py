"""A run as a log of Inspect: read back by the importer of such logs, and opened by Inspect itself where it is there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.reports.stores import Given, Ran, bad, errored, good, store, unjudged
from tests.reports.written import report_text
from tests.store.helpers import judged, said
from tui_evals.imports.inspect import read
from tui_evals.store.reader import Reader

ITEMS = [
    {"testId": "a", "prompt": "2+2?", "expected_response": "4", "ideal": ["4", "four"], "category": "sums"},
    {"testId": "b", "prompt": "what?", "expected_response": "yes"},
    {"testId": "c", "prompt": "call"},
    {"testId": "d", "prompt": "break"},
    {"testId": "e", "prompt": "silent"},
]
CALL = {"id": "c1", "name": "add", "arguments": '{"x": 2}'}
ANSWERS = {
    "a": good("4"),
    "b": bad("no"),
    "c": Given(said("5", tool_calls=(CALL,)), "scored", (judged("F1", 0.25, evaluator="f1", result=None),)),
    "d": errored(),
    "e": unjudged(),
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a run with an answer of every kind, twice each."""
    with Reader(store(tmp_path, Ran(ITEMS, lambda row: ANSWERS[row.name], repeats=2))) as reader:
        file = tmp_path / "run.inspect.json"
        file.write_text(report_text("inspect", reader, [reader.run(1)]))
    return file


def test_what_was_written_is_read_back(log):
    recording, _ = read(log)
    assert [item["testId"] for item in recording.document["items"]] == list("abcde")
    assert (recording.targets, recording.name, recording.document["repeats"]) == (("demo",), "nightly", 2)
    assert recording.document["items"][0]["ideal"] == ["4", "four"]
    found = {(answer.item, answer.repeat): answer for answer in recording.answers}
    assert len(found) == 10
    for place, name in enumerate("abcde"):
        written, again = ANSWERS[name], found[place, 1]
        assert (again.answer.text, again.answer.latency_ms) == (written.record.text, written.record.latency_ms)
        assert (again.scores, again.status) == (written.scores, written.status)
    assert found[3, 0].answer.message == "nobody answered"
    assert found[2, 0].answer.tool_calls[0]["name"] == "add"
    assert found[0, 0].scores[0].reason == "as expected"


def test_several_targets_and_runs_stand_in_one_log_told_apart(tmp_path):
    made = Ran(ITEMS[:2], lambda row: good(), targets=("one", "two"))
    with Reader(store(tmp_path, made, Ran(ITEMS[:1], lambda row: bad()))) as reader:
        first, second = reader.run(1), reader.run(2)
        samples = json.loads(report_text("inspect", reader, [first]))["samples"]
        assert [sample["id"] for sample in samples] == ["one / a", "two / a", "one / b", "two / b"]
        both = json.loads(report_text("inspect", reader, [first, second]))
        assert [sample["id"] for sample in both["samples"]][-1] == f"{second.key} / a"
        assert both["eval"]["model"] == "one,two,demo"


def test_inspect_itself_opens_it(log):
    python = os.environ.get("INSPECT_PYTHON")
    if not python:
        pytest.skip("needs INSPECT_PYTHON, the interpreter of an environment with inspect-ai (tests/interop)")
    script = Path(__file__).parent.parent / "interop" / "inspect_export.py"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([python, script, log], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["status"], found["model"], len(found["samples"])) == ("success", "demo", 10)
    assert found["figures"]["F1"] == {"mean": 0.25}
    by_name = {sample["id"]: sample for sample in found["samples"]}
    assert (by_name["a"]["answer"], by_name["a"]["target"]) == ("4", ["4", "four"])
    assert by_name["a"]["scores"].popitem()[1] == "C" and by_name["b"]["scores"] == {"Match": "I"}
    assert by_name["c"]["calls"] == ["add"] and by_name["d"]["error"] == "nobody answered"
    assert by_name["e"]["scores"] == {}
