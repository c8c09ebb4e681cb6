"""Starting runs from the workbench: the form as a request, what it costs, and why a run does not begin."""

import pytest

from tui_evals.runs.errors import MissingJudge
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.project import load_project
from tui_evals.runs.start import prepare
from tui_evals.tui.runs.starting import WITHOUT, RunOrder, faults_of, price_words

DATA = {
    "schemaVersion": "1.11.0",
    "default_evaluators": {"Includes": {}},
    "items": [{"prompt": str(n)} for n in range(9)],
}


def test_an_order_says_all_its_values(tmp_path):
    values = {
        "targets": ["a", "b"],
        "other targets": "openai/x, replay:y.csv",
        "judge": "j",
        "repeats": 3,
        "budget": 2.5,
        "concurrency": 4,
        "name": "n",
        "ask again": True,
    }
    (tmp_path / "d.json").write_text("{}")
    request = RunOrder(DATA, tmp_path / "d.json", (0, 1, 7), values, "k3y").request(tmp_path)
    assert request.targets == ("a", "b", "openai/x", "replay:y.csv")
    assert (request.judge, request.repeats, request.max_cost, request.concurrency) == ("j", 3, 2.5, 4)
    assert (request.name, request.source, request.parent, request.use_cache) == ("n", "d.json", "k3y", False)
    assert request.items == frozenset((0, 1, 7))
    plain = RunOrder(DATA, tmp_path / "d.json", None, {"judge": WITHOUT}).request(tmp_path)
    assert plain.without_judges and plain.judge is None and plain.items is None and plain.name == "d"


def test_what_a_run_costs_is_a_sentence():
    assert price_words(Estimate(1, 0, 0.0)) == "1 call, free"
    assert price_words(Estimate(20, 40, 1.234)) == "20 calls and 40 of the judge, about $1.23"
    assert price_words(Estimate(2, 0, 0.0, unpriced=("m",))) == "2 calls, cost unknown: the price of m is not known"
    assert price_words(Estimate(0, 1, 0.0)) == "1 call of the judge, free"
    assert price_words(Estimate(20, 0, 1.234, with_files=4)) == (
        "20 calls, about $1.23, without the pictures, sounds and PDFs in 4 calls, which are not counted"
    )


def test_an_order_is_priced_without_a_process_or_a_store(tmp_path):
    (tmp_path / ".evals").mkdir()
    order = RunOrder(DATA, tmp_path / "d.json", (0, 1, 2), {"targets": ["demo"], "repeats": 2})
    prepared = prepare(order.request(tmp_path), load_project(tmp_path))
    assert prepared.estimate() == Estimate(6, 0, 0.0)
    assert not (tmp_path / ".evals" / "evals.db").exists()


def test_a_missing_judge_is_told_by_the_name_of_the_evaluator(tmp_path):
    data = {**DATA, "default_evaluators": {"Relevance": {}}}
    order = RunOrder(data, tmp_path / "d.json", None, {"targets": ["demo"]})
    with pytest.raises(MissingJudge) as refusal:
        prepare(order.request(tmp_path), load_project(tmp_path))
    assert refusal.value.evaluator == "Relevance"


def test_the_form_refuses_what_the_command_line_would():
    assert set(faults_of({})) == {"targets"}
    assert set(faults_of({"targets": ["demo"], "repeats": 0, "budget": 0, "concurrency": -1})) == {
        "repeats",
        "budget",
        "concurrency",
    }
    assert faults_of({"other targets": "openai/x"}) == {}
