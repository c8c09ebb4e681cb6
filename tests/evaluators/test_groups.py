"""AtLeast: several evaluators as one, with weights, judges and what cannot stand in a group."""

import pytest
from pydantic import ValidationError

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.conditions import AtLeast, Expression
from tui_evals.evaluators.rows import RecordedReplies

A, B, Z = ({"type": "ContainsAll", "values": [sign]} for sign in "abz")


@each_row(
    ("threshold", "evaluators", "result", "share"),
    [
        (0.5, {"a": A, "z": Z}, "pass", 0.5),
        (0.51, {"a": A, "z": Z}, "fail", 0.5),
        (0.75, {"a": A, "z": {**Z, "weight": 1 / 3}}, "pass", 0.75),
        (1.0, {"a": A, "b": B}, "pass", 1.0),
        (1.0, {"a": A, "not z": {**Z, "negate": True}}, "pass", 1.0),
        (0.0, {"z": Z}, "pass", 0.0),
        (0.1 + 0.2, {"a": {**A, "weight": 0.3}, "z": {**Z, "weight": 0.7}}, "pass", 0.3),
    ],
)
def test_it_passes_when_enough_of_them_do(threshold, evaluators, result, share):
    record = score(AtLeast, {"threshold": threshold, "evaluators": evaluators}, response="ab")
    assert (record.result, record.score) == (result, pytest.approx(share))
    assert record.details["evaluators"].keys() == evaluators.keys()


def test_without_a_threshold_all_must_pass_and_the_reason_names_those_that_did_not():
    record = score(AtLeast, {"evaluators": {"a": A, "Last": Z}}, response="ab")
    assert record.result == "fail"
    assert record.reason.startswith("1 of 2 passed (Last: ")


def test_one_that_cannot_judge_keeps_the_group_from_judging_and_a_skipped_one_does_not_count():
    assert score(AtLeast, {"evaluators": {"a": A, "Equals": {}}}, response="ab").result == "error"
    assert score(AtLeast, {"evaluators": {"a": A, "Latency": {"threshold": 5}}}, response="ab").result == "pass"
    assert score(AtLeast, {"evaluators": {"Latency": {"threshold": 5}}}, response="ab").result == "skipped"


async def test_those_that_ask_a_judge_are_asked_of_its_own():
    options = AtLeast.Options.model_validate({"evaluators": {"a": A, "Rubric": {"criteria": "kind"}}, "judge": "j"})
    reply = '{"score": 5, "reason": "very kind"}'
    record = await evaluate(AtLeast(options, RecordedReplies([reply])), Evidence(response="ab"))
    assert record.result == "pass", record.reason
    assert (await evaluate(AtLeast(options), Evidence(response="ab"))).result == "skipped"
    assert AtLeast.is_judged({"evaluators": {"Rubric": {"criteria": "kind"}}})
    assert not AtLeast.is_judged({"evaluators": {"a": A}})


def test_words_and_parts_are_counted_by_the_filter_split():
    counted = {"expression": "response | split | length == 3 and response | split(', ') | length == 2"}
    assert score(Expression, counted, response=" one,  two, three").result == "fail"
    assert score(Expression, counted, response=" one, two  three").result == "pass"


@each_row(
    ("evaluators", "why"),
    [
        ({}, "at least 1"),
        ({"ContainsAl": {}}, "did you mean 'ContainsAll'"),
        ({"ContainsAll": {"value": "x"}}, r"ContainsAll\.value: Extra inputs"),
        ({"AtLeast": {"evaluators": {"a": A}}}, "it is another group"),
        ({"EmbeddingSimilarity": {"value": "x"}}, "embeddings"),
        ({"Rubric": {"criteria": "x", "judge": "y"}}, "a judge of its own"),
        ({"x": {"type": 3}}, "cannot be in a group"),
    ],
)
def test_what_cannot_stand_in_a_group_is_refused(evaluators, why):
    with pytest.raises(ValidationError, match=why):
        AtLeast.Options.model_validate({"evaluators": evaluators})
