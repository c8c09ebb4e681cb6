"""Every figure of a comparison is over what the runs share, and what an earlier run measured is never tested."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from tests.cli.past import Said, passing, past
from tests.reports.written import report_text
from tests.store.helpers import judged
from tui_evals.cli.main import run as command
from tui_evals.compare.baseline import BaselineComparison
from tui_evals.compare.runs import read_comparison
from tui_evals.compare.sides import EVALUATORS, FORM_KEY, judges_calls
from tui_evals.evaluators import limits
from tui_evals.runs.scoring import FORMAT_KEY
from tui_evals.store.baselines import set_baseline
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.tui.compare.charts import chart_rows
from tui_evals.tui.compare.rows import head_lines
from tui_evals.tui.rows import row_text
from tui_evals.tui.runs.rows import read_trend

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("here")]


@pytest.fixture
def reader(project):
    """Opened by whoever needs it, after the runs are made."""

    def opened():
        return Reader(project / ".evals" / "evals.db")

    return opened


def faces(shell, opened, *runs) -> dict[str, str]:
    """A comparison as text, on every face that shows one."""
    with opened() as reader:
        rows = [reader.run(run.id) for run in runs]
        comparison = read_comparison(reader, [run.id for run in runs])
        drawn = [*head_lines(comparison, 160, tall=True), *chart_rows(comparison, 160)]
        return {
            "terminal": shell("compare", *(run.key for run in runs)).out,
            "json": report_text("json", reader, rows),
            "markdown": report_text("md", reader, rows),
            "html": re.sub("<[^>]*>", "", unescape(report_text("html", reader, rows))),
            "workbench": "\n".join(map(row_text, drawn)),
        }


# -- one population


def subset(count, good, of, **given):
    """A run of the first items of a dataset, of which the first ones pass."""
    items = [{"testId": f"t{n}", "prompt": f"ask t{n}", "expected_response": "yes"} for n in range(of)]
    return past(*passing(count, good, **given), items=items, config={"only": list(range(count))})


@pytest.mark.story
def test_no_face_shows_a_rate_of_more_than_both_runs_judged(shell, reader):
    whole, part = past(*passing(30, 20, category="all")), subset(10, 4, 30, category="all")
    for name, text in faces(shell, reader, whole, part).items():
        assert "66.7" not in text and "20/30" not in text and "20 of 30" not in text, name
        if name != "json":
            assert "100.0 %" in text and "40.0 %" in text and "10 items" in text, name
            assert "over the items that both runs judged" in text, name
        assert "10 of 30 items" in text or '"of": 30' in text, name  # B is marked as partial
    (a, b) = json.loads(shell("compare", whole.key, part.key, "--json").out)["runs"]
    assert [(run["pass_rates"][0]["value"], run["pass_rates"][0]["items"]) for run in (a, b)] == [(1.0, 10), (0.4, 10)]
    assert (a["partial"], b["partial"]) == (None, {"items": 10, "of": 30})


@pytest.mark.nightly
def test_rates_and_verdict_say_the_same_of_runs_that_judged_different_items(shell, reader):
    """39.1 % (436/1115) beside 36.2 % (203/561), and then "the same of 293 items", must not happen."""
    one, other = past(*passing(40, 16)), past(*reversed(passing(40, 16)[8:28]))
    out = faces(shell, reader, one, other)["terminal"]
    assert re.search(rf"^A +{one.key} .* 40.0 % +20 items", out, re.MULTILINE)
    assert re.search(rf"^B +{other.key} .* 40.0 % +20 items", out, re.MULTILINE)
    assert "B passes the same of 20 items as A: no difference." in out
    assert "No figure counts 20 items that only A asked." in out


@pytest.mark.nightly
def test_cost_tokens_and_latency_are_those_of_shared_answers(shell, reader):
    def run(count):
        return past(*passing(count, count, record={"cost": 0.25, "latency_ms": 2000.0, "input_tokens": 100}))

    one, other = run(40), run(10)
    out = faces(shell, reader, one, other)["terminal"]
    assert "10 shared answers: cost $2.50 → $2.50 · tokens 1.0k → 1.0k · median latency 2.0 s → 2.0 s" in out


@pytest.mark.nightly
def test_columns_of_a_grid_have_a_rate_each_and_together_only_a_difference(shell, reader):
    def run(shift):
        verdicts = [
            (n, t, "pass" if (n < 8) == (t == 0) or (t == 0 and n < 8 + shift) else "fail")
            for n in range(10)
            for t in (0, 1)
        ]
        return past(*(Said(f"t{n}", status, target=t) for n, t, status in verdicts), targets=("small", "large"))

    one, other = run(0), run(1)
    texts = faces(shell, reader, one, other)
    for name in ("terminal", "markdown", "workbench"):
        assert "80.0 %" in texts[name] and "20.0 %" in texts[name] and "90.0 %" in texts[name], name
        assert "50.0 %" not in texts[name] and "55.0 %" not in texts[name], name
        assert "10 items (each the mean of its 2 columns)" in texts[name], name
    (against,) = json.loads(shell("compare", one.key, other.key, "--json").out)["against"]
    assert (against["passes"]["before"], against["passes"]["after"], against["passes"]["columns"]) == (None, None, 2)


# -- measurements of an earlier run


def timed(seconds, cached, limit=2.0, item_count=20, others=True):
    """A run whose answers took so long, judged by their time."""

    def answer(n):
        quick = seconds < limit
        scores = [
            judged(
                "Latency",
                1000 * seconds,
                result="pass" if quick else "fail",
                threshold=1000 * limit,
                measure="at most ms",
            )
        ]
        scores += [judged("Match", 1.0, threshold=0.5)] if others else []
        record = {"from_cache": cached, "latency_ms": 1000 * seconds, "cost": 0.03}
        return Said(f"t{n}", "pass" if quick else "fail", scores=scores, record=record)

    items = [
        {"testId": f"t{n}", "prompt": f"ask {n}", "evaluators": {"Latency": {}, "Match": {}}} for n in range(item_count)
    ]
    return past(*map(answer, range(item_count)), items=items)


@pytest.mark.nightly
def test_a_run_replayed_from_the_cache_is_not_worse_than_itself(shell, reader):
    fresh, replayed = timed(1.0, cached=False), timed(3.0, cached=True)
    for name, text in faces(shell, reader, fresh, replayed).items():
        assert "B is worse" not in text, name
        assert not re.search(r"\b20 broken", text), name
        assert "Latency of 20 items is not tested for B" in text, name
        assert "compared without the verdict on time or cost" in text, name
    out = shell("compare", fresh.key, replayed.key).out
    assert "B passes the same of 20 items as A: no difference." in out
    assert "cost $0.600 → $0 ·" in out and "median latency 1.0 s → cached · from the cache 0 → 20" in out
    found = json.loads(shell("compare", fresh.key, replayed.key, "--json").out)
    (against,) = found["against"]
    assert (against["broken"], against["lines"]["broken"], against["compared_without_time_and_cost"]) == (0, 0, 20)
    assert against["items_not_tested_because_cached"] == {"Latency": 20}
    assert [test["evaluator"] for test in against["tests"]] == ["Match"]
    assert found["lines"][0]["without_time_and_cost"] is True


def test_the_same_difference_is_found_where_both_runs_made_their_calls(shell):
    fresh, slower = timed(1.0, cached=False), timed(3.0, cached=False)
    out = shell("compare", fresh.key, slower.key).out
    assert "B is worse: 20 fewer of 20 items pass" in out and "20 broken" in out
    assert re.search(r"^Latency .* worse$", out, re.MULTILINE)


def test_the_pass_rates_of_the_run_itself_keep_the_verdicts_on_time(shell):
    timed(1.0, cached=False)
    replayed = timed(3.0, cached=True)
    assert "0 of 20 pass" in shell("show", replayed.key).out


@pytest.mark.nightly
def test_an_answer_that_only_its_time_was_judged_by_is_not_comparable_from_the_cache(shell, reader):
    fresh, replayed = timed(1.0, cached=False, others=False), timed(3.0, cached=True, others=False)
    out = faces(shell, reader, fresh, replayed)["terminal"]
    assert "20 not comparable" in out and "B is worse" not in out
    assert "There is no item that both runs judged" in out


def test_the_baseline_and_its_gate_do_not_take_a_replay_for_a_regression(shell, reader, project):
    (project / "evals.json").write_text("{}")
    fresh, replayed = timed(1.0, cached=False), timed(3.0, cached=True)
    with Writer(project / ".evals" / "evals.db") as writer:
        set_baseline(writer, "evals.json", fresh.id, "me")
    with reader() as opened:
        against = BaselineComparison(project).measure(opened, opened.run(replayed.id))
        assert against.columns[0, 0].difference == 0
        slow = timed(3.0, cached=False)
        assert BaselineComparison(project).measure(opened, opened.run(slow.id)).columns[0, 0].difference == -1


def test_what_judges_calls_is_known_by_the_names_of_its_evaluators():
    of_calls = [
        one.name
        for one in vars(limits).values()
        if isinstance(one, type)
        and issubclass(one, limits.Evaluator)
        and getattr(one, "name", "")
        and {"latency_ms", "first_token_ms", "tokens_per_second", "cost"} & set(one.score.__code__.co_names)
    ]
    assert sorted(of_calls) == sorted(EVALUATORS) and FORM_KEY == FORMAT_KEY
    assert judges_calls({"default_evaluators": {"LATENCY": {}}})
    assert judges_calls({"items": [{"turns": [{"evaluators": {"quick": {"type": "Latency"}}}]}]})
    assert not judges_calls({"items": [{"evaluators": {"Match": {}, "Cost of it": None}}]})


# -- partial runs in a trend


def test_a_rerun_of_what_failed_is_a_hollow_point_beside_the_line(shell):
    half, again = past(*passing(10, 5)), subset(5, 0, 10)
    out = shell("trend").out
    assert re.search(r"^demo +▅○ +50.0 % +50.0 % *$", out, re.MULTILINE)
    assert "pts" not in out
    assert re.search(rf"^{again.key} .* ○ 5 of 10 items +0.0 % +5 items", out, re.MULTILINE)
    assert re.search(rf"^{half.key} .* all +50.0 % +10 items", out, re.MULTILINE)
    assert "○ is a partial run, which is in neither the bars nor the change." in out
    found = json.loads(shell("trend", "--json").out)
    assert [run["partial"] for run in found["runs"]] == [None, {"items": 5, "of": 10}]
    (series,) = found["series"]
    assert (series["values"], series["partial_values"]) == ([0.5, None], [None, 0.0])
    assert series["last_against_first"] is None


def test_the_trend_page_of_the_workbench_draws_a_partial_run_hollow_with_its_own_items(project):
    past(*passing(10, 5))
    past(*passing(10, 7))
    subset(5, 0, 10)
    page = read_trend(project / ".evals" / "evals.db", project, "evals.json")
    text = [row_text(row) for row in page.rows(120)]
    half, most, part = (line for line in text if re.search(r"\d\.\d %", line) and "nightly" in line)
    assert "▓" in half and "▓" in most and "○" not in half + most
    assert "○" in part and "▓" not in part and "0.0 %" in part and "5 of 10 items" in part
    assert any("more of 10 items" in sentence for sentence in page.sentences)  # of the two whole runs
    assert "○ is a partial run" in " ".join(" ".join(text).split())


def test_a_run_that_was_limited_to_all_its_items_is_no_partial_one(shell):
    past(*passing(10, 5))
    subset(10, 9, 10)
    assert re.search(r"^demo +▅█ +50.0 % +90.0 % +\+40.0 pts *$", shell("trend").out, re.MULTILINE)


def test_a_dataset_that_grew_has_no_partial_runs(shell):
    past(*passing(5, 5))
    past(*passing(10, 5))
    assert "○" not in shell("trend").out


def test_a_run_asked_with_limit_is_marked_by_what_the_command_line_stores(shell, project):
    items = [
        {"testId": f"t{n}", "prompt": "hi", "expected_response": "hi", "evaluators": {"Includes": {}}} for n in range(4)
    ]
    (project / "evals.json").write_text(json.dumps({"default_evaluators": {}, "items": items}))
    for more in ((), ("--limit", "2"), ("--items", "1,3-4")):
        assert command(["run", "evals.json", "--target", "demo", "--quiet", "--no-cache", *more]) == 0
    texts = [run["partial"] for run in json.loads(shell("trend", "evals.json", "--json").out)["runs"]]
    assert texts == [None, {"items": 2, "of": 4}, {"items": 3, "of": 4}]
