from typing import Any

import pytest
from pydantic import ValidationError

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.limits import Cost, Latency, Length, TimeToFirstToken, Tokens, TokensPerSecond

MEASURED: list[tuple[type[Evaluator], str]] = [
    *((Latency, "latency_ms"), (Cost, "cost"), (Tokens, "tokens"), (TimeToFirstToken, "first_token_ms"))
]


@each_row(("evaluator", "field"), MEASURED)
@each_row(("value", "result"), [(0, "pass"), (9, "pass"), (10, "fail"), (11, "fail")])
@each_row("option", ["threshold", "targetThreshold", "target_threshold"])
def test_strictly_below_the_limit_passes(
    evaluator: type[Evaluator], field: str, value: int, result: str, option: str
) -> None:
    record = score(evaluator, {option: 10}, response="x", **{field: value})
    assert (record.result, record.score, record.threshold) == (result, value, 10)


@each_row(("evaluator", "field"), MEASURED)
def test_negate_turns_the_verdict_and_keeps_the_number(evaluator: type[Evaluator], field: str) -> None:
    record = score(evaluator, {"threshold": 10, "negate": True}, response="x", **{field: 9})
    assert (record.result, record.score) == ("fail", 9)


@each_row(("evaluator", "field"), MEASURED)
def test_without_a_limit_the_number_is_only_shown(evaluator: type[Evaluator], field: str) -> None:
    record = score(evaluator, response="x", **{field: 9})
    assert (record.result, record.score, record.threshold) == (None, 9, None)


@each_row("evaluator", [Latency, Cost, TimeToFirstToken, TokensPerSecond])
@each_row("negate", [False, True])
def test_what_was_not_measured_is_skipped_and_never_zero(evaluator: type[Evaluator], negate: bool) -> None:
    record = score(evaluator, {"threshold": 10, "negate": negate}, response="x")
    assert (record.result, record.score) == ("skipped", None)


@each_row(("evaluator", "field"), [(Latency, "latency_ms"), (Cost, "cost")])
def test_a_cached_answer_is_judged_by_the_call_that_first_gave_it(evaluator: type[Evaluator], field: str) -> None:
    for value, result in ((1.0, "pass"), (11.0, "fail")):
        record = score(evaluator, {"threshold": 10}, response="x", from_cache=True, **{field: value})
        assert (record.result, record.score) == (result, value) and "cached" in record.reason


def test_a_pace_passes_from_the_threshold_up() -> None:
    for pace, result in ((19.9, "fail"), (20.0, "pass"), (64.0, "pass")):
        record = score(TokensPerSecond, {"threshold": 20}, response="x", tokens_per_second=pace)
        assert (record.result, record.score, record.threshold) == (result, pace, 20)
        assert record.reason.endswith("tokens/s, wanted at least 20 tokens/s")


def test_a_cached_answer_of_which_no_time_was_kept_is_skipped() -> None:
    record = score(Latency, {"threshold": 10}, response="x", from_cache=True)
    assert record.result == "skipped" and "cached" in record.reason


@each_row(
    ("evidence", "tokens", "estimated"),
    [
        ({"response": "abcde", "tokens": 7}, 7, False),
        ({"response": "abcde"}, 2, True),
        ({"response": ""}, 0, True),
        ({"response": "abcde", "tokens": 0}, 0, False),
        ({"response": "\ud800"}, 1, True),
    ],
)
def test_tokens_are_counted_or_estimated_and_say_which(evidence: dict[str, Any], tokens: int, estimated: bool) -> None:
    record = score(Tokens, {"threshold": 100}, **evidence)
    assert (record.score, record.details) == (tokens, {"estimated": estimated})
    assert ("about" in record.reason) == estimated


@each_row(("evaluator", "field"), MEASURED)
def test_a_measurement_that_is_no_number_is_an_error(evaluator: type[Evaluator], field: str) -> None:
    record = score(evaluator, {"threshold": 10}, response="x", **{field: float("nan")})
    assert record.result == "error"


@each_row(("evaluator", "field"), MEASURED)
def test_no_answer_is_an_error(evaluator: type[Evaluator], field: str) -> None:
    assert score(evaluator, {"threshold": 10}, **{field: 1}).details["code"] == "agentRequestFailed"


@each_row("evaluator", [Latency, Cost, Tokens])
@each_row(
    "options", [{"threshold": -1}, {"threshold": "10"}, {"threshold": float("nan")}, {"limit": 1}, {"threshold": True}]
)
def test_bad_limits_are_refused(evaluator: type[Evaluator], options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        score(evaluator, options, response="x")


@each_row(
    ("options", "result", "count"),
    [
        ({}, None, 11),
        ({"at_most": 11}, "pass", 11),
        ({"atMost": 10}, "fail", 11),
        ({"unit": "words", "at_least": 2, "at_most": 2}, "pass", 2),
        ({"unit": "words", "at_least": 3}, "fail", 2),
        ({"unit": "lines", "at_most": 1}, "fail", 2),
        ({"unit": "tokens", "at_most": 3}, "pass", 3),
        ({"unit": "words", "at_most": 1, "negate": True}, "pass", 2),
    ],
)
def test_length_keeps_inclusive_bounds(options: dict[str, Any], result: str | None, count: int) -> None:
    record = score(Length, options, response="hello\nworld")
    assert (record.result, record.score) == (result, count)
    assert f"{count:,} {options.get('unit', 'characters')}" in record.reason and record.measure


def test_bounds_that_nothing_keeps_are_refused() -> None:
    with pytest.raises(ValidationError, match="at_least 5 is more than at_most 4"):
        Length.Options.model_validate({"at_least": 5, "at_most": 4})
