"""Latency is shown with its unit, and slower is worse."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.past import Said, past
from tests.reports.written import report_text
from tests.store.helpers import judged
from tui_evals.compare.runs import read_comparison
from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.limits import Cost, Latency, Tokens
from tui_evals.evaluators.references import PartialMatch
from tui_evals.evaluators.registry import built_in
from tui_evals.store import database, schema
from tui_evals.store.reader import Reader
from tui_evals.text.measures import Measure, parse_measure, score_figures
from tui_evals.tui.answer.rows import AnswerView, answer_rows
from tui_evals.tui.answer_context import AnswerFinder, ComparedAnswer
from tui_evals.tui.compare.charts import chart_rows
from tui_evals.tui.compare.rows import head_lines
from tui_evals.tui.rows import row_text

pytestmark = pytest.mark.usefixtures("here")


def latency(milliseconds, threshold=1500.0):
    result = None if threshold is None else "pass" if milliseconds < threshold else "fail"
    return judged("Latency", milliseconds, result=result, threshold=threshold, reason="slow", measure="at most ms")


def timed(*milliseconds, threshold=1500.0):
    """A run whose answers took so long."""
    scores = [latency(took, threshold) for took in milliseconds]
    return past(*(Said(f"t{n}", "pass", "yes", scores=[one]) for n, one in enumerate(scores)))


def test_a_limit_that_was_broken_says_what_it_took_and_what_was_allowed_everywhere(shell):
    run = past(Said("t0", "fail", "yes", scores=[latency(1636.9)]))
    says = "Latency 1.64 s (at most 1.5 s)"
    assert says in shell("show", "last", "--item", "t0").out
    with Reader(".evals/evals.db") as reader:
        row = next(reader.all_rows(run.id))
        for kind in ("junit", "md"):
            assert says in report_text(kind, reader, [reader.run(run.id)]).replace("`", "")
        html = report_text("html", reader, [reader.run(run.id)])
    assert "1.64 s (at most 1.5 s)" in html and "threshold 1500" not in html
    case = ComparedAnswer(AnswerFinder(Path(".evals/evals.db")).find(row.id))
    text = "\n".join(row_text(line) for line in answer_rows(case, AnswerView(layout="unified"), 100))
    assert says in text and "of at least" not in text


@pytest.mark.nightly
@pytest.mark.story
def test_a_slower_run_is_worse_and_both_times_have_their_unit(shell):
    keys = [timed(*[at] * 12, threshold=None).key for at in (660.0, 1020.0)]
    done = shell("compare", *keys).out
    assert "0.660 s" in done and "1.020 s" in done and "+0.360 s" in done and "worse" in done
    assert "e+03" not in done and "Less is better: Latency" in done
    (against,) = json.loads(shell("compare", *keys, "--json").out)["against"]
    (test,) = (one for one in against["tests"] if one["evaluator"] == "Latency")
    assert (test["more_is"], test["unit"], test["before"]) == ("worse", "ms", 660.0)
    assert "Latency: 0.66 s in" in shell("trend", "--evaluator", "Latency").out
    with Reader(".evals/evals.db") as reader:
        runs = [reader.find_run(key) for key in keys]
        comparison = read_comparison(reader, [run.id for run in runs])
        assert "1.020 s" in report_text("md", reader, runs) and "1.020 s" in report_text("html", reader, runs)
    head = [row_text(line) for line in head_lines(comparison, 120, tall=True)]
    assert "Latency: 0.66 s in A, 1.02 s in B over 12 items: B is worse (p < 0.001)." in "\n".join(head)
    charts = "\n".join(row_text(line) for line in chart_rows(comparison, 100))
    assert "1.02 s" in charts and "e+03" not in charts


def test_means_have_their_unit(shell):
    timed(660.0, 1020.0)
    assert "mean 0.84 s" in shell("show", "last", "--by", "evaluator").out


@pytest.mark.parametrize(
    ("kind", "evidence", "threshold", "says"),
    [
        (Latency, {"latency_ms": 1636.9}, 1500, "1.64 s (at most 1.5 s)"),
        (Latency, {"latency_ms": 1500.0}, 1500, "1.5 s (below 1.5 s)"),
        (Latency, {"latency_ms": 1500.4}, 1500, "1.5004 s (at most 1.5 s)"),
        (Latency, {"latency_ms": 3.0}, 5, "3 ms (at most 5 ms)"),
        (Cost, {"cost": 0.00042}, 0.01, "$0.00042 (at most $0.01)"),
        (Tokens, {"tokens": 120}, 100, "120 tokens (at most 100 tokens)"),
        (Tokens, {"tokens": 1}, None, "1 token"),
        (PartialMatch, {"expected": "yes sir"}, 0.7, "0.667 (at least 0.7)"),
    ],
)
def test_every_evaluator_says_direction_and_unit_once(kind, evidence, threshold, says):
    options = {} if threshold is None else {"threshold": threshold}
    record = asyncio.run(evaluate(kind(kind.Options.model_validate(options)), Evidence(response="yes", **evidence)))
    assert score_figures(record.score, record.threshold, record.result, record.measure) == says


def test_a_verdict_that_is_turned_round_turns_its_direction_round():
    options = Latency.Options.model_validate({"threshold": 1500, "negate": True})
    record = asyncio.run(evaluate(Latency(options), Evidence(response="x", latency_ms=900.0)))
    assert (record.result, record.measure) == ("fail", "at least ms")
    assert score_figures(record.score, record.threshold, record.result, record.measure) == "0.9 s (at least 1.5 s)"


def test_an_evaluator_of_the_command_line_says_it_too(shell):
    done = shell("evaluators", "Latency")
    assert "passes with at most its threshold, in ms" in done.out
    assert json.loads(shell("evaluators", "Latency", "--json").out)["direction"] == "at most"


def test_a_measure_is_what_its_text_says():
    for kind in set(built_in().values()):
        assert parse_measure(str(kind.measure)) == kind.measure
    assert parse_measure("other than") == Measure("other than") == Measure("exactly").negated()


def test_an_older_store_learns_what_its_latencies_are_in(monkeypatch):
    path = Path("old.db")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", schema.STEPS[:4])
        patch.setattr(schema, "VERSION", 4)
        database.open_store(path)
    with sqlite3.connect(path) as connection:
        for key, evaluator, reason in (("a", "Latency", "x"), ("b", "Cost", "negated: x"), ("c", "Match", "x")):
            values = (1, 1, key, evaluator, 1.0, "pass", None, None, reason, "{}", 1.0)
            connection.execute("INSERT INTO scores VALUES (?,?,?,?,?,?,?,?,?,?,?)", values)
    database.open_store(path)
    with sqlite3.connect(path) as connection:
        kept = connection.execute("SELECT measure FROM scores ORDER BY key").fetchall()
    assert kept == [("at most ms",), ("at least USD",), ("",)]
