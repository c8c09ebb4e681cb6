"""Exit 0 and "met" imply that at least 95 % of what was planned was answered and judged, and
that the stated share passed, whatever became of the answers, whoever judged them and whichever gates were set."""

from __future__ import annotations

import contextlib
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.past import Said, past
from tui_evals.present.gates import gates_event
from tui_evals.runs.gate_options import Gates
from tui_evals.runs.gates import GateResults, check_gates
from tui_evals.runs.status import status_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import ScoreRecord

pytestmark = pytest.mark.story

EMPTY = "(empty)"


@dataclass(frozen=True)
class Asked:
    """One planned answer: whether it came, and what each evaluator made of it."""

    came: bool
    text: str = "yes"
    results: tuple[str | None, ...] = ()

    @property
    def status(self):
        return status_of([record(n, result) for n, result in enumerate(self.results)]) if self.came else "error"

    @property
    def judged(self):
        """Whether it was answered, and something gave it a verdict or a value while nothing failed to."""
        return self.came and "error" not in self.results and any(result != "skipped" for result in self.results)


def record(number, result):
    """What an evaluator says: one without a threshold gives a value and no result."""
    threshold = None if result is None else 0.5
    key = f"e{number}"
    value = None if result in ("error", "skipped") else float(result == "pass")
    return ScoreRecord(key=key, evaluator=key, score=value, result=result, threshold=threshold)


def kept(name, asked):
    """A run of these answers in the store of the current folder."""
    answers = []
    for number, one in enumerate(asked):
        scores = [record(n, result) for n, result in enumerate(one.results)]
        answers.append(Said(f"t{number}", one.status, one.text if one.came else None, scores=scores))
    return past(*answers, name=name)


RESULTS = st.sampled_from(["pass", "pass", "pass", "fail", None, "error", "skipped"])
GOOD = Asked(True, results=("pass",))
ANSWERS = st.one_of(
    st.just(GOOD),
    st.just(GOOD),
    st.builds(Asked, st.just(True), st.just("yes"), st.lists(RESULTS, max_size=3).map(tuple)),
    st.sampled_from([Asked(False), Asked(True, "", ("fail",)), Asked(True, EMPTY, ())]),
)
MOSTLY_GOOD = st.tuples(st.lists(ANSWERS, max_size=4), st.integers(0, 40)).map(lambda two: [*two[0], *[GOOD] * two[1]])
RUNS = st.one_of(MOSTLY_GOOD, st.lists(ANSWERS, min_size=1, max_size=25)).filter(bool)
GATES = st.builds(
    Gates,
    fail_under=st.none() | st.sampled_from([0, 1, 50, 90, 100]),
    fail_on=st.none() | st.sampled_from(["fail", "partial", "error"]),
    fail_on_regression=st.none() | st.just(0.05),
)


def verdict_on(asked, gates, before=None) -> GateResults:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        if gates.measuring:
            gates = replace(gates, baseline="baseline", baseline_run=kept("baseline", before or asked))
        run = kept("run", asked)
        with Reader(Path(".evals/evals.db")) as reader:
            return check_gates(reader, run, reader.totals(run.id), gates)


def check_promise(asked, gates, met):
    """What "met" promises of a run."""
    if not met:
        return
    assert sum(one.judged for one in asked) >= 0.95 * len(asked)
    if gates.fail_under is not None:
        counted = [one.status == "pass" for one in asked if one.status != "scored"]
        assert counted and 100 * sum(counted) / len(counted) >= gates.fail_under - 1e-9
    bad = {"fail": ("fail", "partial", "error"), "partial": ("partial", "error"), "error": ("error",), None: ()}
    assert not any(one.status in bad[gates.fail_on] for one in asked)


@pytest.mark.nightly
@given(RUNS, GATES.filter(lambda gates: gates.deciding))
def test_what_is_met_was_answered_judged_and_passed(asked, gates):
    results = verdict_on(asked, gates)
    check_promise(asked, gates, results.met)
    assert results.line.startswith("met: " if results.met else "not met: ")
    assert gates_event(results)["met"] is results.met is bool(results)


@pytest.mark.nightly
@given(RUNS, RUNS)
def test_a_regression_gate_is_met_over_19_of_20_of_what_the_baseline_judged(asked, before):
    gates = Gates(fail_on_regression=0.05)
    results = verdict_on(asked, gates, before)
    check_promise(asked, gates, results.met)
    if results.met:
        judged = [n for n, one in enumerate(before) if one.status in ("pass", "fail", "scored")]
        both = [n for n in judged if n < len(asked) and asked[n].status in ("pass", "fail", "scored")]
        assert len(both) >= 0.95 * len(judged)


@given(RUNS)
def test_without_a_gate_only_a_run_that_came_to_nothing_is_not_let_pass(asked):
    results = verdict_on(asked, Gates())
    given_anything = any(result in ("pass", "fail", None) for one in asked if one.came for result in one.results)
    wanted = any(one.results for one in asked if one.came)
    answered = any(one.came and one.text for one in asked)
    assert results.met == (answered and (given_anything or not wanted))


STATES = {"ok": "right", "bad": "wrong", "empty": "", "error": None}


@given(
    st.lists(st.sampled_from(["ok"] * 8 + ["bad", "empty", "error"]), min_size=1, max_size=22),
    st.sampled_from([{"Includes": {}}, {"Includes": {}, "Readability": {}}, {"Readability": {}}, {}]),
    st.sampled_from([0, 50, 100]),
)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_command_line_keeps_the_promise(folder, shell, states, evaluators, least):
    for old in folder.glob(".evals/evals.db*"):
        old.unlink()
    items = [{"prompt": f"ask {n}", "expected_response": "right"} for n in range(len(states))]
    document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": items}
    Path("data.json").write_text(json.dumps(document))
    texts = [(item["prompt"], STATES[state]) for item, state in zip(items, states, strict=True)]
    lines = [json.dumps({"prompt": prompt, "response": text}) for prompt, text in texts if text is not None]
    Path("answers.jsonl").write_text("\n".join(lines) + "\n")
    done = shell("run", "data.json", "-t", "replay:answers.jsonl", "--no-cache", "--fail-under", least)
    assert (done.code == 0) == ("met: --fail-under" in done.out)
    if done.code == 0:
        assert "Includes" in evaluators and states.count("error") <= 0.05 * len(states)
        assert 100 * states.count("ok") >= least * len(states)
