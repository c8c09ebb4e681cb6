"""`show --map`: what failed in a run, and the filter that lists a cluster."""

import json
from pathlib import Path

from tests.compare.planted_faults import faulty_run
from tui_evals.compare import failure_map
from tui_evals.store import failures
from tui_evals.store.reader import Reader


async def test_the_map_names_the_faults_and_its_filter_lists_a_cluster(tmp_path, monkeypatch, shell):
    await faulty_run(tmp_path, 30)
    monkeypatch.chdir(tmp_path)
    shown = shell("show", "last", "--map")
    assert shown.code == 0
    assert all(word in shown.out for word in ("target small", "prompt friendly", "category refunds", "Relevance"))
    data = json.loads(shell("show", "last", "--map", "--json").out)
    assert [cluster["count"] for cluster in data["clusters"]] == [90, 30, 15, 12]
    assert data["clusters"][1]["mostly"] == {"prompt": ["friendly"]}
    for cluster in data["clusters"]:
        listed = json.loads(shell("show", "last", "--only", f"cluster:{cluster['key'][:8]}", "--json").out)
        assert [answer["id"] for answer in listed["answers"]] == cluster["answers"]
    assert shell("show", "last", "--map", "--by", "target").code == 2
    assert shell("show", "last", "--only", "cluster:zebra").code == 2


async def test_the_map_of_a_run_without_failures_says_so(tmp_path, monkeypatch, shell):
    await faulty_run(tmp_path, 3, healthy=True)
    monkeypatch.chdir(tmp_path)
    shown = shell("show", "last", "--map").out
    assert "No failures in 18 answers." in shown
    assert "slowest" in shown and "most expensive" in shown


def test_what_is_asked_for_the_end_of_a_run_is_done_and_its_failure_changes_nothing(tmp_path, monkeypatch, shell):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.json").write_text('{"items": [{"prompt": "hello"}], "default_evaluators": {}}')
    asked = ("run", "data.json", "--target", "demo", "--quiet")
    done = shell(*asked, "--on-finish", 'echo "$TUI_EVALS_RUN $TUI_EVALS_STATUS $TUI_EVALS_EXIT" > ended.txt')
    key, status, code = (tmp_path / "ended.txt").read_text().split()
    assert (status, code) == ("finished", str(done.code))
    assert shell("show", key).code == 0
    failing = shell(*asked, "--on-finish", "exit 7")
    assert failing.code == done.code
    assert "--on-finish ended with exit code 7: exit 7" in failing.err


def test_the_process_of_a_large_run_keeps_its_failure_map_before_it_ends(tmp_path, monkeypatch, shell):
    monkeypatch.chdir(tmp_path)
    items = [{"prompt": f"question {number}", "expected_response": "no such answer"} for number in range(4)]
    (tmp_path / "data.json").write_text(json.dumps({"items": items, "default_evaluators": {"Includes": {}}}))
    for least, kept in ((5, False), (4, True)):
        for module in (failure_map, failures):
            monkeypatch.setattr(module, "MADE_AHEAD", least)
        shell("run", "data.json", "--target", "demo", "--quiet")
        with Reader(Path(".evals/evals.db")) as reader:
            assert (reader.kept_failures(reader.runs(1)[0]) is not None) == kept
