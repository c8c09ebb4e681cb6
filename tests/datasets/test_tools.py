"""Tools and JSON Schemas: what is misspelt is named with what was meant; what providers add is let through."""

import json

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from tui_evals.datasets.document import load
from tui_evals.datasets.fields import new_tool
from tui_evals.datasets.tools import _WANTED, schema_problems, tool_problems
from tui_evals.datasets.validate import _check_schema, validate
from tui_evals.evaluators.registry import load_registry


def said(problems):
    return [(".".join(map(str, problem.path)), problem.message) for problem in problems]


def function(**changes):
    return {"type": "function", "function": {**new_tool()["function"], **changes}}


@pytest.mark.parametrize(
    "tool",
    [
        new_tool(),
        function(strict=True, cache_control={"type": "ephemeral"}),
        {"type": "web_search_preview", "user_location": {}},
        {"name": "flat", "description": "d", "input_schema": {"type": "object", "properties": {"nme": {}}}},
        {"type": "function", "name": "responses", "parameters": {"type": ["object", "null"], "x-own": 1}},
        function(parameters={"$defs": {"a": {"type": "integer"}}, "properties": {"b": {"$ref": "#/$defs/a"}}}),
    ],
)
def test_what_can_be_sent_has_no_warning(tool):
    assert said(tool_problems(tool)) == []


@pytest.mark.parametrize(
    ("tool", "place", "message"),
    [
        ({"type": "function", "function": {"nme": "f"}}, "function.nme", "unknown key 'nme' (did you mean 'name'?)"),
        ({"type": "function", "functon": {}}, "functon", "unknown key 'functon' (did you mean 'function'?)"),
        ({"type": "function"}, "", "function is missing, an object with a name and parameters"),
        ({"type": "function", "function": {"description": "d"}}, "function", "name is missing"),
        (
            function(parameters={"type": "object", "propertes": {}}),
            "function.parameters.propertes",
            "unknown key 'propertes' (did you mean 'properties'?)",
        ),
        (
            function(parameters={"properties": {"a": {"type": "strng"}}}),
            "function.parameters.properties.a.type",
            "there is no type 'strng' (did you mean 'string'?)",
        ),
        (
            function(parameters={"properties": {"city": {}}, "required": ["ctiy"]}),
            "function.parameters.required.0",
            "'ctiy' is none of the properties (did you mean 'city'?)",
        ),
        (
            function(parameters={"anyOf": [{"minLength": "3"}]}),
            "function.parameters.anyOf.0.minLength",
            "must be a whole number of 0 or more",
        ),
    ],
)
def test_what_was_most_likely_meant_is_said_once_at_its_place(tool, place, message):
    assert said(tool_problems(tool)) == [(place, message)]


def test_a_schema_of_answers_is_looked_at_too():
    assert said(schema_problems({"type": "objct"})) == [("type", "there is no type 'objct' (did you mean 'object'?)")]
    assert said(schema_problems([])) == [("", "must be a JSON Schema: an object, or true or false")]
    assert said(schema_problems({"properties": {"a": 5, "b": True}, "items": [{"type": ["null", 3]}]})) == [
        ("properties.a", "must be a JSON Schema: an object, or true or false"),
        (
            "items.0.type.1",
            "there is no type '3'; there are string, number, integer, boolean, object, array, null",
        ),
    ]


@pytest.mark.parametrize("schema", [Draft202012Validator.META_SCHEMA, Draft7Validator.META_SCHEMA])
def test_the_schemas_of_schemas_themselves_have_no_warning(schema):
    assert said(schema_problems(schema)) == []


@pytest.mark.parametrize("keyword", sorted(_WANTED.keys() - {"nullable"}))
def test_what_a_keyword_wants_is_what_the_schema_of_schemas_wants(keyword):
    standard = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    for value in ("x", 3, 3.0, -1, True, None, 0.5, [], ["a"], [3], {}, {"a": ["b"]}):
        ours, theirs = list(schema_problems({keyword: value})), list(standard.iter_errors({keyword: value}))
        assert not ours or theirs, (keyword, value, "is let through by the standard")


def test_validation_warns_on_the_line_and_refuses_nothing(tmp_path):
    tool, answer = {"type": "function", "function": {"nme": "f"}}, {"type": "objct"}
    items = [
        {"prompt": "a", "tools": [tool]},
        {"prompt": "b", "tools": [tool]},
    ]
    file = tmp_path / "evals.json"
    file.write_text(json.dumps({"schemaVersion": "1.11.0", "response_format": answer, "items": items}, indent=1))
    report = validate(load(file), load_registry(tmp_path, None, None).catalogue)
    lines = file.read_text().splitlines()
    assert report.valid and report.dataset is not None
    told = [(problem.where, lines[problem.line - 1].strip()) for problem in report.problems]
    assert told == [
        ("response_format.type", '"type": "objct"'),
        ("items[0].tools[0].function.nme", '"nme": "f"'),
        ("items[1].tools[0].function.nme", '"nme": "f"'),
    ]


def test_what_is_nested_too_deeply_is_said_to_be():
    deep = {}
    for _ in range(5000):
        deep = {"not": deep}
    assert [problem.message for problem in _check_schema(schema_problems, deep)] == [
        "is nested too deeply to be checked"
    ]
