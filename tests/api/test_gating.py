"""Gates of the library: they decide as those of the command line do, over the same store."""

from __future__ import annotations

import pytest

from tests.server import hanging_up
from tui_evals import CannotPlan, EveryCallFailed, GatesNotMet, RunStopped, TargetError, evaluate, gate
from tui_evals.store.baselines import set_baseline
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("here")]

ITEMS = [{"prompt": f"ask {number}", "expected_response": "right"} for number in range(20)]


def run_with(wrong, name):
    right = {item["prompt"] for item in ITEMS[wrong:]}
    return evaluate(ITEMS, lambda prompt: "right" if prompt in right else "no", evaluators="Includes", name=name)


def test_a_run_without_gates_meets_them():
    assert gate(run_with(3, "a")).met


@pytest.mark.parametrize(("least", "met"), [(75, True), (75.1, False)])
def test_the_least_score(least, met):
    results = gate(run_with(5, "a"), fail_under=least)
    assert results.met is met
    (check,) = results.checks
    assert check.gate == f"--fail-under {least:g}" and bool(check.says) is not met


@pytest.mark.parametrize(("mildest", "met"), [("error", True), ("partial", True), ("fail", False)])
def test_the_mildest_result_that_is_not_let_pass(mildest, met):
    assert gate(run_with(5, "a"), fail_on=mildest).met is met


@pytest.mark.nightly
def test_a_run_is_measured_against_another_and_named_as_one_likes():
    before, after = run_with(0, "before"), run_with(10, "after")
    for run, baseline in ((after, before), (after.key, before.key), ("after", "before")):
        results = gate(run, baseline=baseline, fail_on_regression=True)
        assert not results.met and results.baseline == before.key
        assert "10 fewer of 20 items pass" in results.checks[0].says[0]
    assert gate(before, baseline=after, fail_on_regression=0.05).met
    compared = gate(after, baseline=before)
    assert compared.met and "10 fewer" in compared.verdict


def test_the_baseline_of_the_dataset_is_measured_against(project):
    before, after = run_with(0, "before"), run_with(10, "after")
    with pytest.raises(CannotPlan, match="no baseline is set"):
        gate(after, fail_on_regression=True)
    path = open_store(project / ".evals" / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        row = reader.find_run(before.key)
        set_baseline(writer, row.source, row.id, "me")
    results = gate(after, fail_on_regression=True)
    assert results.baseline == before.key and not results.met


@pytest.mark.nightly
def test_a_run_that_stopped_meets_no_gate(project):
    (project / ".evals").mkdir()
    (project / ".env.local").write_text("GONE_KEY=x\n")
    with hanging_up() as address, pytest.raises(RunStopped) as stopped:
        settings = f'[targets.gone]\nmodel = "openai/x"\nbase_url = "{address}"\napi_key = "env:GONE_KEY"\n'
        (project / ".evals" / "config.toml").write_text(settings)
        evaluate(ITEMS[:2], "gone", evaluators="Includes")
    results = gate(stopped.value.run, fail_under=0)
    (check,) = results.checks
    assert not results and check.gate == "--fail-under 0" and check.verdict == "not decided"
    (check,) = gate(stopped.value.run).checks
    assert check.gate == "finished" and "interrupted" in check.sentence
    assert check.says[0].startswith(f"{stopped.value.run.key} is interrupted: ") and "127.0.0.1" in check.says[0]


def test_a_run_without_an_answer_meets_no_gate():
    def silent(prompt):
        raise TargetError("agentRequestFailed", "no")

    with pytest.raises(EveryCallFailed) as failed:
        evaluate(ITEMS[:1], silent, evaluators="Includes")
    assert not gate(failed.value.run).met


@pytest.mark.parametrize(
    "given",
    [
        {"fail_under": 101},
        {"fail_under": True},
        {"fail_under_score": -1},
        {"fail_on": "pass"},
        {"fail_on_broken": 0},
        {"fail_on_broken": 1.5},
        {"fail_on_regression": 1.0},
        {"fail_on_regression": 0.0},
    ],
)
def test_what_is_no_gate_is_refused(given):
    with pytest.raises(ValueError, match="|".join(given)):
        gate("last", **given)


def test_a_run_that_is_not_there_is_named():
    run_with(0, "a")
    with pytest.raises(CannotPlan, match="nowhere"):
        gate("nowhere")


def test_results_are_true_where_every_gate_is_met_so_that_assert_works():
    run = run_with(5, "a")
    assert gate(run, fail_under=75)
    assert not gate(run, fail_under=95)
    gate(run, fail_under=75).raise_unless_met()
    with pytest.raises(GatesNotMet, match=r"--fail-under 95: 75.0 % of 20 answers pass, less than 95"):
        gate(run, fail_under=95).raise_unless_met()
    with pytest.raises(AssertionError):
        gate(run, fail_under=95).raise_unless_met()


def test_each_check_has_its_figure():
    (rate,) = gate(run_with(5, "a"), fail_under=75).checks
    assert (rate.figure.value, rate.figure.items, rate.figure.method) == (0.75, 20, "three more items")
    (score,) = gate("a", fail_under_score=75).checks
    assert (score.figure.value, score.figure.unit) == (75.0, "score")


@pytest.mark.cases(4)
@pytest.mark.parametrize(("allowed", "met"), [(True, False), (2, False), (3, True), (False, True), (None, True)])
def test_items_that_broke_since_the_baseline(allowed, met):
    before, after = run_with(0, "before"), run_with(2, "after")
    assert gate(after, baseline=before, fail_on_broken=allowed).met is met


@pytest.mark.nightly
def test_the_configuration_keeps_the_rules_of_0_2(project):
    before, after = (run_with(0, name) for name in ("before", "after"))
    few = evaluate(ITEMS[:3], lambda prompt: "right", evaluators="Includes", name="few")
    assert not gate(few, baseline=before, fail_on_regression=True, max_missing=100)
    (project / ".evals" / "config.toml").write_text('[run]\ngates = "0.2"\n')
    assert gate(few, baseline=before, fail_on_regression=True, max_missing=100)
    assert gate(after, baseline=before, fail_on_regression=True).checks[0].note == ""
