import asyncio
import socket
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.evaluators.helpers import golden, score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import Evaluator, Evidence, evaluate
from tui_evals.evaluators.structured import ContainsJson, JsonMatch, JsonSchema, JsonValid
from tui_evals.evaluators.values import PatternBudget
from tui_evals.text.patterns import PatternTimeout

pytestmark = pytest.mark.story

DEEP = "[" * 200_000
LONG = "1" * 6_000
ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


@each_row("row", golden("openai_evals.json", "JsonMatch.eval_sample"))
def test_golden_json_match(row: dict[str, Any]) -> None:
    record = score(JsonMatch, response=row["args"]["completion"], expected=row["args"]["ideal"])
    if "error" in row["expected"]:
        assert (record.result, record.details["code"]) == ("error", "evaluatorConfigurationError")
        return
    assert record.result == ("pass" if row["expected"]["correct"] else "fail")
    assert record.score == row["expected"]["accuracy"]


@each_row("row", golden("openai_evals.json", "JsonValidator.eval_sample"))
def test_golden_json_validator(row: dict[str, Any]) -> None:
    record = score(JsonValid, {"compat": True}, response=row["args"]["completion"])
    assert record.result == ("pass" if row["expected"]["correct"] else "fail")


@each_row(
    ("response", "ours", "python"),
    [
        ('{"a": [1, null]}', "pass", "pass"),
        ("1", "pass", "pass"),
        ('"x"', "pass", "pass"),
        (" null\n", "pass", "pass"),
        ("NaN", "fail", "pass"),
        ("[-Infinity]", "fail", "pass"),
        ("\ufeff{}", "pass", "fail"),
        ("", "fail", "fail"),
        ("{'a': 1}", "fail", "fail"),
        ("[1,]", "fail", "fail"),
        ("```json\n{}\n```", "fail", "fail"),
        ('{"a": 1} trailing', "fail", "fail"),
        (DEEP, "fail", "fail"),
        (LONG, "fail", "fail"),
    ],
)
def test_json_valid(response: str, ours: str, python: str) -> None:
    assert score(JsonValid, response=response).result == ours
    assert score(JsonValid, {"compat": True}, response=response).result == python


def test_json_valid_says_where_and_names_a_key_that_stands_twice() -> None:
    broken = score(JsonValid, response='{\n "a": x}')
    assert (broken.details["line"], broken.details["column"]) == (2, 7)
    twice = score(JsonValid, response='{"a": 1, "a": 2}')
    assert twice.result == "pass"
    assert "'a'" in str(twice.details["duplicate_key"])
    assert score(JsonValid, response='{"a": 1, "a": 2} x').result == "fail"


def test_negate_turns_validity() -> None:
    assert score(JsonValid, {"negate": True}, response="no").result == "pass"


@each_row(
    ("response", "expected", "result"),
    [
        ('{"a": 1, "b": [2, {"c": "x"}]}', '{"b":[2,{"c":"x"}],"a":1.0}', "pass"),
        ('{"a": 1}', '{"a": "1"}', "fail"),
        ('{"a": 1, "b": 2}', '{"a": 1}', "fail"),
        ("[1, 2]", "[1, 2, 3]", "fail"),
        ("[]", "{}", "fail"),
        ("{}", "{}", "pass"),
        ("[[null]]", "[[null]]", "fail"),
        ("true", "1", "pass"),
        ("NaN", "1", "fail"),
        ("[" * 300 + "]" * 300, "[" * 300 + "]" * 300, "pass"),
    ],
)
def test_json_match(response: str, expected: str, result: str) -> None:
    assert score(JsonMatch, response=response, expected=expected).result == result


def test_json_match_takes_any_reference_and_a_path() -> None:
    references = {"alternatives": ("[1]", "[2]")}
    record = score(JsonMatch, {"json_path": "$.a"}, response='{"a": [2]}', **references)
    assert (record.result, record.details["picked"]) == ("pass", "[2]")
    assert score(JsonMatch, {"json_path": "$"}, response="[2]", **references).result == "pass"
    assert score(JsonMatch, {"json_path": "$.b"}, response='{"a": [2]}', **references).result == "fail"


@each_row("reference", ["not json", "NaN", DEEP])
def test_a_reference_that_is_not_json_is_an_error(reference: str) -> None:
    record = score(JsonMatch, {"negate": True}, response="1", expected="1", alternatives=(reference,))
    assert (record.result, record.details["code"]) == ("error", "evaluatorConfigurationError")


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}


@each_row("response", ["not json", "", DEEP, LONG, "NaN"])
@each_row(
    ("evaluator", "options", "evidence"),
    [(JsonMatch, {}, {"expected": "1"}), (JsonSchema, {"schema": PERSON}, {})],
)
@each_row("path", [{}, {"json_path": "$"}])
def test_an_answer_that_is_not_json_fails_and_negate_does_not_turn_it(
    evaluator: type[Evaluator], options: dict[str, Any], evidence: dict[str, Any], path: dict[str, str], response: str
) -> None:
    for negate in (False, True):
        assert score(evaluator, {**options, **path, "negate": negate}, response=response, **evidence).result == "fail"


@each_row(("response", "result"), [("not json", "pass"), ("{}", "pass"), ('{"name": "Ada"}', "fail")])
def test_negate_passes_an_answer_that_is_not_json_where_that_is_a_violation(response: str, result: str) -> None:
    options = {"schema": PERSON, "no_json": "violation"}
    assert score(JsonSchema, {**options, "negate": True}, response=response).result == result
    assert score(JsonSchema, options, response=response).result != result


@each_row(
    ("response", "path"),
    [
        ('{"name": "Ada", "age": 36}', None),
        ('{"name": "Ada"}', None),
        ('{"age": 36}', "$"),
        ('{"name": 1}', "$.name"),
        ('{"name": "Ada", "age": -1}', "$.age"),
        ("[]", "$"),
    ],
)
def test_json_schema(response: str, path: str | None) -> None:
    for option in ("schema", "json_schema", "jsonSchema"):
        record = score(JsonSchema, {option: PERSON}, response=response)
        violations = record.details["violations"]
        assert isinstance(violations, list)
        assert [violation["path"] for violation in violations] == ([path] if path else [])
        assert record.result == ("fail" if path else "pass")


def test_json_schema_modifiers() -> None:
    people = '{"people": [{"name": "Ada"}, {"age": 1}]}'
    every = {"schema": PERSON, "json_path": "$.people[*]"}
    assert score(JsonSchema, every, response=people).result == "fail"
    assert score(JsonSchema, {**every, "json_path": "$.people[0]"}, response=people).result == "pass"
    assert score(JsonSchema, {"schema": PERSON, "negate": True}, response="[]").result == "pass"


def test_the_first_ten_violations_are_listed() -> None:
    record = score(JsonSchema, {"schema": {"items": {"type": "string"}}}, response=str(list(range(50))))
    violations = record.details["violations"]
    assert isinstance(violations, list)
    assert [violation["path"] for violation in violations] == [f"$[{place}]" for place in range(10)]


@each_row(
    ("schema", "response", "result"),
    [
        ({"pattern": r"^\d+$"}, '"12"', "pass"),
        ({"pattern": r"^\d+$"}, '"1x"', "fail"),
        ({"pattern": r"\p{Lu}"}, '"É"', "pass"),
        ({"pattern": "x"}, "12", "pass"),
        ({"patternProperties": {"^n": {"type": "number"}}}, '{"n1": 1, "x": "a"}', "pass"),
        ({"patternProperties": {"^n": {"type": "number"}}}, '{"n1": "a"}', "fail"),
        ({"properties": {"a": {}}, "additionalProperties": False}, '{"a": 1}', "pass"),
        ({"properties": {"a": {}}, "additionalProperties": False}, '{"b": 1}', "fail"),
        ({"patternProperties": {"^n": {}}, "additionalProperties": False}, '{"n1": 1}', "pass"),
        ({"patternProperties": {"^n": {}}, "additionalProperties": False}, '{"x": 1}', "fail"),
        ({"additionalProperties": {"type": "number"}}, '{"x": 1}', "pass"),
        ({"additionalProperties": {"type": "number"}}, '{"x": "1"}', "fail"),
        ({"additionalProperties": False}, "[1]", "pass"),
        ({"uniqueItems": True}, "[1, true, 0, false, [1], [true], {}, []]", "pass"),
        ({"uniqueItems": True}, "[1, 1.0]", "fail"),
        ({"uniqueItems": True}, '[{"a": 1, "b": [2]}, {"b": [2], "a": 1}]', "fail"),
        ({"uniqueItems": False}, "[1, 1]", "pass"),
        ({"unevaluatedProperties": False, "properties": {"a": {}}}, '{"b": 1}', "fail"),
        ({"format": "email"}, '"nobody"', "pass"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "number"}}}, '"1"', "fail"),
        ({"$ref": "#here", "$defs": {"n": {"$anchor": "here", "type": "number"}}}, '"1"', "fail"),
        ({"$ref": "/n", "$id": "https://e.org/s", "$defs": {"n": {"$id": "/n", "type": "number"}}}, '"1"', "fail"),
        ({"properties": {"next": {"$ref": "#"}}, "required": ["v"]}, '{"v": 1, "next": {"v": 2}}', "pass"),
        ({"properties": {"next": {"$ref": "#"}}, "required": ["v"]}, '{"v": 1, "next": {}}', "fail"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}, "[1]", "fail"),
        ({"$schema": "http://json-schema.org/draft-04/schema", "minimum": 1, "exclusiveMinimum": True}, "1", "fail"),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "divisibleBy": 2}, "3", "fail"),
        ({}, "1", "pass"),
    ],
)
def test_keywords(schema: dict[str, Any], response: str, result: str) -> None:
    assert score(JsonSchema, {"schema": schema}, response=response).result == result


@each_row(
    ("schema", "sentence"),
    [
        ({"type": "strin"}, "not a JSON Schema"),
        ({"properties": []}, "not a JSON Schema"),
        ({"pattern": "("}, ""),
        ({"patternProperties": {"(": {}}}, ""),
        ({"anything": {"pattern": "("}}, ""),
        ({"$schema": "https://e.org/own"}, "draft"),
        ({"$schema": 5}, "draft"),
        ({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "root"),
        ({"unevaluatedProperties": False, "x": {"patternProperties": {"a": {}}}}, "together"),
        ({"$ref": "http://127.0.0.1:1/"}, "not inside"),
        ({"$ref": "file:///etc/passwd"}, "not inside"),
        ({"items": {"$ref": "other.json"}}, "not inside"),
        ({"$id": "http://127.0.0.1:1/", "$ref": "two"}, "not inside"),
        ({"$dynamicRef": "#gone"}, "not inside"),
        ({"$ref": "#/$defs/gone"}, "not inside"),
        ({"$ref": "#/allOf/x", "allOf": [{}]}, "not inside"),
        ("{}", "dict"),
        (True, "dict"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(
    schema: object, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_socket(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", no_socket)
    with pytest.raises(ValidationError) as refused:
        JsonSchema.Options.model_validate({"schema": schema})
    assert sentence in str(refused.value)


def test_a_schema_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5_000):
        schema = {"not": schema}
    with pytest.raises(ValidationError):
        JsonSchema.Options.model_validate({"schema": schema})


def test_the_schema_is_required() -> None:
    with pytest.raises(ValidationError):
        JsonSchema.Options.model_validate({})


EVIL = "^(a+)+$"
TEXT = '"' + "a" * 50_000 + '!"'
DOUBLING = {"$ref": "#/$defs/0", "$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)}}
DOUBLING["$defs"]["40"] = False  # type: ignore[index]


MILLION = "[1" + ",1" * 999_999 + "]"
EVIL_CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "pattern": ({"pattern": EVIL}, TEXT, "fail"),
    "pattern property": ({"patternProperties": {EVIL: False}}, f"{{{TEXT}: 1}}", "pass"),
    "additional": ({"patternProperties": {EVIL: {}}, "additionalProperties": False}, f"{{{TEXT}: 1}}", "fail"),
    "property name": ({"propertyNames": {"pattern": EVIL}}, f"{{{TEXT}: 1}}", "fail"),
    "behind an unknown keyword": ({"not": {"$ref": "#/not/x", "x": {"pattern": EVIL}}}, TEXT, "pass"),
    "doubling": (DOUBLING, "1", "responseTooLarge"),
    "circle": ({"$ref": "#"}, "1", "responseTooLarge"),
    "unique at every depth": (
        {"uniqueItems": True, "items": {"$ref": "#"}},
        "[" * 50 + "[1]" + ",[1]" * 100_000 + "]" * 50,
        "responseTooLarge",
    ),
    "many items": ({"items": {"type": "number"}}, MILLION, "responseTooLarge"),
    "many items of any kind": ({"items": True}, MILLION, "responseTooLarge"),
    "many violations": ({"items": {"type": "string"}}, "[1" + ",1" * 40_000 + "]", "fail"),
    "many patterns": (
        {"patternProperties": {f"^{n}(a+)+$": {} for n in range(500)}},
        "{" + ",".join(f'"{n}": 1' for n in range(2_000)) + "}",
        "responseTooLarge",
    ),
    "a long message": ({"type": "object"}, MILLION, "fail"),
    "long messages that do not count": ({"anyOf": [{"type": "object"}] * 100}, MILLION, "responseTooLarge"),
}


@pytest.mark.cases(4)
@pytest.mark.parametrize("case", EVIL_CASES)
def test_evil_schemas_and_answers_end_with_a_record(case: str) -> None:
    schema, response, outcome = EVIL_CASES[case]
    options = JsonSchema.Options.model_validate({"schema": schema})
    start = perf_counter()
    record = asyncio.run(evaluate(JsonSchema(options), Evidence(response=response)))
    taken = perf_counter() - start
    assert record.details.get("code", record.result) == outcome
    assert taken < 10  # a second where nothing else runs, and for ever where the work is not bounded


def test_a_schema_that_names_its_draft_keeps_our_patterns_below_a_reference_to_itself() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "pattern": EVIL,
        "items": {"$ref": "#"},
    }
    assert score(JsonSchema, {"schema": schema}, response=f"[[{TEXT}]]").result == "fail"


def test_a_pattern_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> bool:
        raise PatternTimeout("too slow")

    monkeypatch.setattr(PatternBudget, "search", slow)
    record = score(JsonSchema, {"schema": {"pattern": "a"}, "negate": True}, response='"a"')
    assert (record.result, record.details["code"]) == ("error", "patternTimeout")


@given(ANY_TEXT, ANY_TEXT)
def test_any_unicode_gets_a_verdict(response: str, name: str) -> None:
    assert score(JsonValid, response=response).result in ("pass", "fail")
    assert score(JsonSchema, {"schema": PERSON}, response=response).result in ("pass", "fail")
    assert score(JsonSchema, {"schema": {"const": name}}, response=response).result in ("pass", "fail")
    assert score(JsonMatch, response=response, expected="1").result in ("pass", "fail")


@each_row("evaluator", [JsonValid, JsonMatch, JsonSchema])
def test_no_answer_is_an_error(evaluator: type[Evaluator]) -> None:
    options = {"schema": {}} if evaluator is JsonSchema else {}
    assert score(evaluator, options, expected="1").details["code"] == "agentRequestFailed"


def test_json_match_without_a_reference_is_an_error() -> None:
    assert score(JsonMatch, response="1").details["code"] == "evaluatorConfigurationError"


@each_row(
    ("response", "options", "result"),
    [
        ('Sure:\n```json\n{"a": 1}\n```', {}, "pass"),
        ("I list [1, 2] here", {}, "pass"),
        ("no json {here} [nor there", {}, "fail"),
        ('{"a": NaN} then {"b": 2}', {"schema": {"required": ["b"]}}, "pass"),
        ('first {"a": 1} then {"b": 2}', {"schema": {"type": "object", "required": ["b"]}}, "pass"),
        ('only {"a": 1}', {"schema": {"type": "object", "required": ["b"]}}, "fail"),
        ("nothing", {"negate": True}, "pass"),
    ],
)
def test_json_is_found_wherever_it_stands(response, options, result):
    record = score(ContainsJson, options, response=response)
    assert record.result == result, record.reason


@pytest.mark.parametrize("piece", ["[", "[1,", '{"a":', '{"a":"x"', "[NaN,"])
def test_the_search_for_json_has_an_end(piece):
    import time

    began = time.process_time()
    record = score(ContainsJson, response=piece * (1_000_000 // len(piece)))
    assert record.result in ("fail", "error") and time.process_time() - began < 3
