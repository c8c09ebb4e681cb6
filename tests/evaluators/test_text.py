from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.evaluators.helpers import golden, score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.text import ContainsAll, ContainsAny, Equals, Regex, StartsWith
from tui_evals.evaluators.values import PatternBudget, quoted, same_json
from tui_evals.text.patterns import PatternTimeout

ALL: list[tuple[type[Evaluator], dict[str, Any]]] = [
    (Equals, {"value": "x"}),
    (StartsWith, {"value": "x"}),
    (ContainsAll, {"values": ["x"]}),
    (ContainsAny, {"values": ["x"]}),
    (Regex, {"pattern": "x"}),
]
USER = '{"user": {"name": "Ada", "age": 36, "tags": ["red", "Blue"], "ok": true, "note": null, "at": {"x": 1, "y": 2}}}'


@each_row(
    ("options", "response", "result"),
    [
        ({"value": "Paris"}, "Paris", "pass"),
        ({"targetValue": "Paris"}, "Paris", "pass"),
        ({"target_value": "Paris"}, "Paris", "pass"),
        ({"value": "Paris"}, "paris", "fail"),
        ({"value": "Paris"}, "Paris ", "fail"),
        ({"value": "Paris"}, "", "fail"),
        ({"value": ""}, "", "pass"),
        ({"value": "Straße", "ignore_case": True}, "STRASSE", "pass"),
        ({"value": "PARIS", "ignoreCase": True}, "paris", "pass"),
        ({"value": "PARIS", "case_sensitive": False}, "paris", "pass"),
        ({"value": "PARIS", "case_sensitive": True}, "paris", "fail"),
        ({"value": "PARIS", "compat": True}, "paris", "pass"),
        ({"value": "PARIS", "compat": True, "case_sensitive": True}, "paris", "pass"),
        ({"value": "PARIS", "compat": True, "case_sensitive": False}, "paris", "fail"),
        ({"value": "Straße", "compat": True}, "STRASSE", "fail"),
        ({"value": "Paris ", "compat": True}, "Paris", "fail"),
        ({"value": "Paris", "negate": True}, "Paris", "fail"),
        ({"value": "Paris", "negate": True}, "Rome", "pass"),
    ],
)
def test_equals(options: dict[str, Any], response: str, result: str) -> None:
    record = score(Equals, options, response=response)
    assert (record.result, record.score) == (result, float(result == "pass"))


@each_row(
    ("path", "value", "options", "result"),
    [
        ("$.user.name", "Ada", {}, "pass"),
        ("$.user.name", "ada", {}, "fail"),
        ("$.user.name", "ada", {"ignore_case": True}, "pass"),
        ("$.user.name", '"Ada"', {}, "pass"),
        ("$.user.age", "36", {}, "pass"),
        ("$.user.age", "36.0", {}, "pass"),
        ("$.user.ok", "true", {}, "pass"),
        ("$.user.ok", "1", {}, "fail"),
        ("$.user.ok", "TRUE", {"ignore_case": True}, "pass"),
        ("$.user.note", "null", {}, "pass"),
        ("$.user.at", '{"x":1,"y":2}', {}, "pass"),
        ("$.user.at", '{ "y": 2.0, "x": 1 }', {}, "pass"),
        ("$.user.at", '{ "Y": 2.0, "X": 1 }', {}, "fail"),
        ("$.user.at", '{ "Y": 2.0, "X": 1 }', {"ignore_case": True}, "pass"),
        ("$.user.at", '{"x": 1}', {}, "fail"),
        ("$.user.tags", '["red", "Blue"]', {}, "pass"),
        ("$.user.tags", '["Blue", "red"]', {}, "fail"),
        ("$.user.tags[*]", "Blue", {}, "pass"),
        ("$.user.tags[*]", "green", {}, "fail"),
        ("$", USER, {}, "pass"),
    ],
)
def test_equals_at_a_json_path(path: str, value: str, options: dict[str, Any], result: str) -> None:
    for name in ("json_path", "jsonPath"):
        assert score(Equals, {name: path, "value": value, **options}, response=USER).result == result


def test_without_a_path_json_is_text() -> None:
    assert score(Equals, {"value": '{"a": 1}'}, response='{"a":1}').result == "fail"


@each_row(("evaluator", "options"), ALL)
@each_row("response", ["not json", "{}", ""])
def test_a_path_without_a_value_fails_and_negate_does_not_turn_it(
    evaluator: type[Evaluator], options: dict[str, Any], response: str
) -> None:
    record = score(evaluator, {**options, "json_path": "$.name", "negate": True}, response=response)
    assert (record.result, record.score) == ("fail", 0.0)


@each_row(("evaluator", "options"), ALL)
def test_a_path_that_cannot_be_read_is_an_error(evaluator: type[Evaluator], options: dict[str, Any]) -> None:
    record = score(evaluator, {**options, "json_path": "$[["}, response="{}")
    assert (record.result, record.details["code"]) == ("error", "evaluatorConfigurationError")


@each_row("evaluator", [Equals, StartsWith, ContainsAny, ContainsAll])
def test_references_stand_in_for_the_value(evaluator: type[Evaluator]) -> None:
    assert score(evaluator, response="Rome", expected="Rome").result == "pass"
    assert score(evaluator, response="Rome", expected="Paris").result == "fail"
    both = score(evaluator, response="Rome", expected="Paris", alternatives=("Rome",))
    assert both.result == ("fail" if evaluator is ContainsAll else "pass")


@each_row("evaluator", [Equals, StartsWith, ContainsAny, ContainsAll])
def test_nothing_to_compare_with_is_an_error_even_negated(evaluator: type[Evaluator]) -> None:
    record = score(evaluator, {"negate": True}, response="Rome")
    assert (record.result, record.details["code"]) == ("error", "evaluatorConfigurationError")


@each_row(("evaluator", "options"), ALL)
def test_no_answer_is_an_error(evaluator: type[Evaluator], options: dict[str, Any]) -> None:
    assert score(evaluator, options).details["code"] == "agentRequestFailed"


@each_row(
    ("options", "response", "result"),
    [
        ({"value": "Yes"}, "Yes, sir", "pass"),
        ({"targetValue": "Yes"}, "Yesterday", "pass"),
        ({"value": "Yes"}, " Yes", "fail"),
        ({"value": "Yes"}, "yes", "fail"),
        ({"value": "Yes", "ignore_case": True}, "YES!", "pass"),
        ({"value": ""}, "", "pass"),
        ({"value": "Yes"}, "Ye", "fail"),
        ({"value": "Bl", "json_path": "$.user.tags[*]"}, USER, "pass"),
        ({"value": "3", "json_path": "$.user.age"}, USER, "pass"),
        ({"value": "Yes", "negate": True}, "Yes", "fail"),
    ],
)
def test_starts_with(options: dict[str, Any], response: str, result: str) -> None:
    assert score(StartsWith, options, response=response).result == result


@each_row(
    ("options", "response", "every", "some"),
    [
        ({"values": ["red", "blue"]}, "red and blue", "pass", "pass"),
        ({"targetValues": ["red", "blue"]}, "only red", "fail", "pass"),
        ({"target_values": ["red", "blue"]}, "green", "fail", "fail"),
        ({"values": []}, "anything", "pass", "fail"),
        ({"values": [""]}, "", "pass", "pass"),
        ({"values": ["RED"]}, "red", "fail", "fail"),
        ({"values": ["RED", "STRASSE"], "ignore_case": True}, "red straße", "pass", "pass"),
        ({"values": ["red", "Blue"], "json_path": "$.user.tags[*]"}, USER, "pass", "pass"),
        ({"values": ["red", "green"], "json_path": "$.user.tags[*]"}, USER, "fail", "pass"),
        ({"values": ["redBlue"], "json_path": "$.user.tags[*]"}, USER, "fail", "fail"),
        ({"values": ["red"], "negate": True}, "red", "fail", "fail"),
    ],
)
def test_contains(options: dict[str, Any], response: str, every: str, some: str) -> None:
    assert score(ContainsAll, options, response=response).result == every
    assert score(ContainsAny, options, response=response).result == some


def test_contains_says_what_was_missing_and_what_was_found() -> None:
    options = {"values": ["red", "blue", "green"]}
    assert score(ContainsAll, options, response="red").details["missing"] == ["blue", "green"]
    assert score(ContainsAny, options, response="red").details["found"] == ["red"]


@each_row(
    ("options", "response", "result"),
    [
        ({"pattern": r"\d{4}"}, "in 2031", "pass"),
        ({"pattern": r"\d{4}", "mode": "fullmatch"}, "in 2031", "fail"),
        ({"pattern": r"\d{4}", "mode": "fullmatch"}, "2031", "pass"),
        ({"pattern": "paris"}, "Paris", "fail"),
        ({"pattern": "paris", "ignore_case": True}, "Paris", "pass"),
        ({"pattern": r"(?<=€)\d+"}, "€5", "pass"),
        ({"pattern": r"(\w)\1"}, "abba", "pass"),
        ({"pattern": "^B", "json_path": "$.user.tags[*]"}, USER, "pass"),
        ({"pattern": "^36$", "json_path": "$.user.age"}, USER, "pass"),
        ({"pattern": "a", "negate": True}, "b", "pass"),
        ({"pattern": ""}, "", "pass"),
    ],
)
def test_regex(options: dict[str, Any], response: str, result: str) -> None:
    assert score(Regex, options, response=response).result == result


@pytest.mark.nightly
def test_an_evil_pattern_ends_with_a_record() -> None:
    assert score(Regex, {"pattern": "^(a+)+$"}, response="a" * 10_000 + "!").result == "fail"
    record = score(Regex, {"pattern": r"^(a|aa)+\1?(?=$)"}, response="a" * 60 + "!")
    assert record.result in ("fail", "error")
    assert record.result == "fail" or record.details["code"] == "patternTimeout"


@each_row("negate", [False, True])
def test_patterns_that_used_up_their_time_are_an_error(monkeypatch: pytest.MonkeyPatch, negate: bool) -> None:
    monkeypatch.setattr("tui_evals.evaluators.text.PatternBudget", lambda: PatternBudget(seconds=-1.0))
    record = score(Regex, {"pattern": "a", "negate": negate}, response="a")
    assert (record.result, record.details["code"]) == ("error", "patternTimeout")


def test_patience_is_used_up_by_searching() -> None:
    patience = PatternBudget(seconds=1e-9)
    assert patience.search(lambda text: text == "a" * 100_000, "a" * 100_000)
    with pytest.raises(PatternTimeout):
        patience.search(bool, "a")


@each_row(
    ("evaluator", "options"),
    [
        (Regex, {"pattern": "("}),
        (Regex, {}),
        (Regex, {"pattern": "a", "mode": "match"}),
        (Equals, {"value": 42}),
        (Equals, {"value": "a", "targetValue": "b"}),
        (Equals, {"value": "a", "threshold": 1}),
        (Equals, {"value": "a", "ignore_case": True, "case_sensitive": True}),
        (Equals, {"value": "a", "ignore_case": True, "compat": True}),
        (ContainsAll, {"values": "red"}),
        (StartsWith, {"values": ["red"]}),
    ],
)
def test_options_that_make_no_sense_are_refused(evaluator: type[Evaluator], options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        score(evaluator, options, response="a")


@each_row("row", golden("arthur_bench.json", "exact_match"))
def test_golden_exact_match(row: dict[str, Any]) -> None:
    args, expected = row["args"], row["expected"]
    options = {"case_sensitive": args["case_sensitive"], "compat": True}
    record = score(Equals, options, response=args["candidate"], expected=args["reference"])
    assert record.score == expected["score"]
    assert record.result == {"match": "pass", "non match": "fail"}[expected["category"]]


@each_row("row", golden("arthur_bench.json", "exact_match"))
def test_our_exact_match_means_what_case_sensitive_says(row: dict[str, Any]) -> None:
    args = row["args"]
    same = args["candidate"] == args["reference"]
    if not args["case_sensitive"]:
        same = args["candidate"].casefold() == args["reference"].casefold()
    record = score(
        Equals, {"case_sensitive": args["case_sensitive"]}, response=args["candidate"], expected=args["reference"]
    )
    assert record.result == ("pass" if same else "fail")


@each_row("row", golden("arthur_bench.json", "exact_match.batch"))
def test_golden_exact_match_batch_a_missing_candidate_is_an_error(row: dict[str, Any]) -> None:
    candidates, references = row["args"]["candidates"], row["args"]["references"]
    records = [
        score(Equals, {"compat": True}, response=dict(enumerate(candidates)).get(place), expected=reference)
        for place, reference in enumerate(references)
    ]
    assert [record.result for record in records] == ["pass", "error"]


@given(response=st.text(alphabet=st.characters(exclude_categories=())), value=st.text())
def test_any_unicode_gets_a_verdict(response: str, value: str) -> None:
    for evaluator, option in (
        (Equals, "value"),
        (StartsWith, "value"),
        (ContainsAll, "values"),
        (ContainsAny, "values"),
    ):
        given_value: object = [value] if option == "values" else value
        for ignore in (False, True):
            record = score(evaluator, {option: given_value, "ignore_case": ignore}, response=response)
            assert record.result in ("pass", "fail")
            record.reason.encode()
    assert score(Regex, {"pattern": r"\w\b|é", "ignore_case": True}, response=response).result in ("pass", "fail")


@given(st.text(min_size=1))
def test_every_text_equals_contains_and_starts_with_itself(text: str) -> None:
    for evaluator in (Equals, StartsWith, ContainsAll, ContainsAny):
        for ignore in (False, True):
            assert score(evaluator, {"ignore_case": ignore}, response=text, expected=text).result == "pass"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_a_json_value_is_the_same_as_itself_and_not_as_its_list(value: Any) -> None:
    assert same_json(value, value)
    assert not same_json(value, [value])


def test_json_comparison_tells_true_from_one_and_survives_depth() -> None:
    assert not same_json({"a": [1]}, {"a": [True]})
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert same_json(deep, deep)


def test_long_texts_are_quoted_short() -> None:
    assert quoted("a\x1b[2J") == r"'a\x1b[2J'"
    assert len(quoted("x" * 10_000)) == 82
