"""A run as a log of OpenAI Evals: spec, events, final report, under the names its readers look for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.past import Said, past
from tests.reports.written import report_text
from tests.store.helpers import judged
from tui_evals.reports.oaieval import MISSING, Event, final_report, log_lines, report
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.usefixtures("here")

STORE = Path(".evals/evals.db")


def lines(run: RunRow) -> list[dict[str, Any]]:
    with Reader(STORE) as reader:
        return [json.loads(line) for line in log_lines(reader, run)]


def figures(run: RunRow) -> Mapping[str, float]:
    with Reader(STORE) as reader:
        return final_report(reader, run)


def graded(choice: str, score: float | None, *, metascore: float | None = None, reply: str = "") -> ScoreRecord:
    """What ModelGraded records of one grading call."""
    metric: dict[str, Any] = {"choice": choice, "score": score, "reply": reply or choice}
    metric |= {} if metascore is None else {"metascore": metascore}
    result = "error" if choice == "__invalid__" else "pass"
    return ScoreRecord(
        key="ModelGraded",
        evaluator="ModelGraded",
        score=score,
        result=result,
        label=choice,
        details={"metrics": {"choice": metric}},
    )


def test_the_first_line_is_the_spec_the_last_the_report_and_events_are_counted_between() -> None:
    run = past(Said("a.dev.0"), Said("a.dev.1", "fail", "no"))
    first, *events, last = lines(run)
    spec = first["spec"]
    assert (spec["completion_fns"], spec["eval_name"], spec["run_id"]) == (["demo"], "nightly", run.key)
    assert {"base_eval", "split", "run_config", "created_by", "created_at"} <= spec.keys()
    assert [event["event_id"] for event in events] == list(range(6))
    assert [event["type"] for event in events] == ["raw_sample", "sampling", "match"] * 2
    assert {event["run_id"] for event in events} == {run.key}
    assert all(event.keys() == events[0].keys() for event in events)
    assert events[0]["data"] == {"input": [{"role": "user", "content": "ask a.dev.0"}], "ideal": "yes"}
    assert events[1]["data"]["sampled"] == ["yes"] and events[1]["data"]["prompt"][0]["role"] == "user"
    assert events[2]["data"]["correct"] is True and events[2]["data"]["expected"] == "yes"
    assert last == {"final_report": {"accuracy": 0.5, "boostrap_std": pytest.approx(0.125**0.5)}, "run_id": run.key}


def test_the_name_of_an_eval_is_taken_apart() -> None:
    run = past(Said("x.dev.0"), name="x.dev.v1", config={"judge": {"name": "strict"}})
    spec = lines(run)[0]["spec"]
    assert (spec["base_eval"], spec["split"]) == ("x", "dev")
    assert spec["completion_fns"] == ["demo", "strict"], "the grader is the last, as there"


def test_choices_are_counted_and_their_scores_averaged_over_those_that_have_one() -> None:
    scores = [graded("Yes", 1.0, metascore=1.0), graded("No", 0.0, metascore=0.0), graded("__invalid__", None)]
    run = past(*(Said(f"t{n}", "pass", scores=[score]) for n, score in enumerate(scores)))
    assert figures(run) == {
        "counts/Yes": 1,
        "counts/No": 1,
        "counts/__invalid__": 1,
        "score": 0.5,
        "metascore": 0.5,
    }
    metrics = [event["data"] for event in lines(run) if event.get("type") == "metrics"]
    assert metrics[2] == {"choice": "__invalid__", "score": None}
    judge = [
        event["data"] for event in lines(run) if event.get("type") == "sampling" and event["data"]["prompt"] is None
    ]
    assert [data["sampled"] for data in judge] == [["Yes"], ["No"], ["__invalid__"]]


def test_several_grading_calls_have_figures_of_their_own() -> None:
    one = graded("Yes", 1.0)
    both = {"kind=a": one.details["metrics"]["choice"], "kind=b": {"choice": "No", "score": 0.0, "reply": "No"}}
    score = ScoreRecord(key="ModelGraded", evaluator="ModelGraded", score=0.5, result="fail", details={"metrics": both})
    assert figures(past(Said("a", scores=[score]))) == {
        "counts/kind=a/Yes": 1,
        "score/kind=a": 1.0,
        "counts/kind=b/No": 1,
        "score/kind=b": 0.0,
    }


def test_what_was_found_of_answers_together_counts_once() -> None:
    run = past(Said("a", scores=[]), Said("a", scores=[], repeat=1))
    with Writer(STORE.absolute()) as writer:
        asyncio.run(writer.group_scored(run.id, run.scoring_pass, 0, 0, graded("2", None)))
    assert figures(run) == {"counts/2": 1}
    events = lines(run)[1:-1]
    assert [event["type"] for event in events] == ["raw_sample", "sampling", "sampling", "sampling", "metrics"]
    assert events[-1]["sample_id"] == "a"


def test_measures_stand_beside_right_and_wrong() -> None:
    fuzzy = [judged("FuzzyMatch", 1.0, details={"f1": 0.5}), judged("FuzzyMatch", 0.0, details={"f1": 0.0})]
    run = past(*(Said(f"t{n}", scores=[score]) for n, score in enumerate(fuzzy)))
    assert figures(run) == {"accuracy": 0.5, "f1_score": 0.25}
    assert [e["data"]["picked"] for e in lines(run) if e.get("type") == "match"] == [["yes"], []]
    bleu = ScoreRecord(key="Translate", evaluator="Translate", score=40.0, result="pass", threshold=30.0)
    assert figures(past(Said("b", scores=[bleu]))) == {"accuracy": 1.0, "sacrebleu_sentence_score": 40.0}
    length = ScoreRecord(key="Readability", evaluator="Readability", score=60.0, result=None)
    assert figures(past(Said("c", scores=[length]))) == {"Readability": 60.0}


def test_tokens_are_added_up_and_what_has_no_answer_or_verdict_is_missing() -> None:
    used = {"input_tokens": 3, "output_tokens": 4}
    broken = ScoreRecord(
        key="Match", evaluator="Match", score=None, result="error", reason="why", details={"code": "judgeTimeout"}
    )
    run = past(
        Said("a", record=used), Said("b", record=used), Said("c", "error", None), Said("d", "partial", scores=[broken])
    )
    found = figures(run)
    assert (found["usage_prompt_tokens"], found["usage_total_tokens"]) == (6, 14)
    assert (found["accuracy"], found[MISSING]) == (1.0, 2)
    errors = [event["data"] for event in lines(run) if event.get("type") == "error"]
    assert [error["type"] for error in errors] == ["refused", "judgeTimeout"]


def test_columns_and_evaluators_are_told_apart() -> None:
    run = past(Said("a"), Said("a", "fail", target=1), targets=("one", "two"))
    assert {name: value for name, value in figures(run).items() if "std" not in name} == {
        "accuracy/one": 1.0,
        "accuracy/two": 0.0,
    }
    run = past(Said("a", scores=[judged("Match", 1.0), judged("Equals", 0.0)]))
    assert (figures(run)["accuracy/Match"], figures(run)["accuracy/Equals"]) == (1.0, 0.0)


def test_an_unfinished_run_has_a_log_of_what_there_is() -> None:
    run = past(Said("a"), Said("b", "pending"), status="interrupted")
    assert [line.get("type") for line in lines(run)] == [None, "raw_sample", "sampling", "match", "raw_sample", None]


def test_it_is_one_of_the_kinds_of_report() -> None:
    run = past(Said("a", text="half \ud800 a pair"))
    with Reader(STORE) as reader:
        assert json.loads(report_text("oaieval-log", reader, [run]).splitlines()[-1])["final_report"]["accuracy"] == 1.0


@given(st.lists(st.tuples(st.sampled_from(["Yes", "No", "a/b"]), st.none() | st.floats(0, 1)), min_size=1))
def test_counts_add_up_and_the_score_lies_between_the_scores(rows: list[tuple[str, float | None]]) -> None:
    found = report(Event("metrics", "s", {"choice": choice, "score": score}, 0.0) for choice, score in rows)
    assert sum(value for name, value in found.items() if name.startswith("counts/")) == len(rows)
    scores = [score for _, score in rows if score is not None]
    assert ("score" in found) == bool(scores)
    if scores:
        assert min(scores) - 1e-9 <= found["score"] <= max(scores) + 1e-9
