"""Latency and cost of a cached answer are judged as those of its first call."""

import csv
import json

import pytest

from tests.reports.written import report_text
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader

CONFIG = """\
[targets.served]
model = "openai/served"
base_url = "{url}"
price = {{ input_per_million = 1000000, output_per_million = 1000000 }}
"""


@pytest.fixture
def slow(tmp_path, monkeypatch, one_server):
    """A project whose dataset no target answers fast or cheaply enough."""
    monkeypatch.chdir(tmp_path)
    project = tmp_path
    one_server.reset()
    (project / ".evals").mkdir()
    (project / ".evals" / "config.toml").write_text(CONFIG.format(url=one_server.url))
    evaluators = {"Latency": {"threshold": 0.001}, "Cost": {"threshold": 0.001}}
    document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": [{"prompt": "Say yes"}]}
    (project / "slow.json").write_text(json.dumps(document))
    return project


def test_a_gate_that_fails_on_time_and_money_fails_on_the_cached_answer_too(slow, shell):
    first = shell("run", "slow.json", "-t", "served", "--fail-under", "100")
    second = shell("run", "slow.json", "-t", "served", "--fail-under", "100")
    assert (first.code, second.code) == (1, 1)
    with Reader(slow / ".evals" / "evals.db") as reader:
        runs = reader.runs(limit=2)[::-1]
        rows = [next(reader.all_rows(run.id)) for run in runs]
        scores = [{record.key: record for _, record in read_scores(reader, run.id)} for run in runs]
        totals = reader.totals(runs[1].id)
    assert [row.from_cache for row in rows] == [False, True]
    assert rows[0].latency_ms == rows[1].latency_ms and totals.cost == 0
    for key in ("Latency", "Cost"):
        asked, cached = (one[key] for one in scores)
        assert (cached.score, cached.result) == (asked.score, asked.result) == (asked.score, "fail")
        assert "cached" in cached.reason and "cached" not in asked.reason


def test_what_is_shown_and_written_of_a_cached_answer_says_that_it_is_cached(slow, shell):
    shell("run", "slow.json", "-t", "served", "--quiet")
    shell("run", "slow.json", "-t", "served", "--quiet")
    assert "from the cache" in shell("show", "last", "--item", "#1").out
    with Reader(slow / ".evals" / "evals.db") as reader:
        run = [reader.find_run("last")]
        junit = report_text("junit", reader, run)
        assert 'time="0.000"' not in junit and "1 answer from the cache, with the time of the first call" in junit
        (row,) = csv.DictReader(report_text("csv", reader, run).splitlines())
    assert row["from_cache"] == "true" and float(row["latency_ms"]) > 0


def test_a_rescored_run_of_cached_answers_is_judged_by_the_first_call_too(slow, shell):
    shell("run", "slow.json", "-t", "served", "--quiet")
    shell("run", "slow.json", "-t", "served", "--quiet")
    shell("rescore", "last", "--quiet")
    assert "cached" in shell("show", "last", "--item", "#1").out
