from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import Evaluator, Score, ToolCall
from tui_evals.evaluators.tools import (
    ToolCalled,
    ToolCalledWith,
    ToolCallExecution,
    ToolCallSelection,
    ValidToolCalls,
)


def tool(name: str | None, **more: object) -> dict[str, object]:
    """`crm.find` as evidence; a question mark is a name that is not known."""
    plugin, _, function = (name or "").partition(".")
    return {
        "plugin_name": None if plugin == "?" else plugin,
        "function_name": None if function == "?" else function,
    } | more


def expected(*names: str, **more: object) -> dict[str, object]:
    return {"calls": [{"tool": tool(name)} for name in names]} | more


def selection(options: dict[str, object], selected: Any, executions: Any = None) -> Score:
    diagnostics = {"tool_calls": {"selected_functions": selected, "executions": executions}}
    return score(ToolCallSelection, options, response="done", diagnostics=diagnostics)


def execution(options: dict[str, object], executions: Any, selected: Any = None) -> Score:
    diagnostics = {"tool_calls": {"selected_functions": selected, "executions": executions}}
    return score(ToolCallExecution, options, response="done", diagnostics=diagnostics)


def assert_verdict(record: Score, result: str) -> None:
    assert record.result == result and record.reason
    if result == "error":
        assert record.details["code"] == "toolCallEvidenceIndeterminate"
    else:
        assert (record.score, record.threshold) == (float(result == "pass"), 1.0)


@each_row("only", [False, True])
@each_row(
    ("wanted", "selected", "result", "result_only"),
    [
        (["a.x"], ["a.x"], "pass", "pass"),
        (["a.x"], ["a.x", "a.x"], "pass", "pass"),
        (["a.x", "a.x"], ["a.x"], "pass", "pass"),
        (["a.x"], ["a.x", "a.y"], "pass", "fail"),
        (["a.x"], ["a.y"], "fail", "fail"),
        (["a.x"], ["A.x"], "fail", "fail"),
        (["a.x"], [" a . x "], "pass", "pass"),
        (["a.x"], ["b.x"], "fail", "fail"),
        (["a.x", "a.y"], ["a.y"], "fail", "fail"),
        (["a.x"], [], "fail", "fail"),
        (["a.x"], ["?.x"], "error", "error"),
        (["a.x"], ["?.?"], "error", "error"),
        (["a.x"], ["."], "error", "error"),
        (["a.x"], ["?.y"], "fail", "fail"),
        (["a.x", "a.y"], ["?.x"], "fail", "fail"),
        (["a.x"], ["a.x", "?.y"], "pass", "error"),
        (["a.x"], ["a.x", "?.x"], "pass", "error"),
        (["a.x"], ["?.x", "b.z"], "error", "fail"),
    ],
)
def test_selection(wanted: list[str], selected: list[str], result: str, result_only: str, only: bool) -> None:
    options = expected(*wanted, allow_additional_calls=not only)
    assert_verdict(selection(options, [tool(name) for name in selected]), result_only if only else result)


@each_row(
    ("selected", "ran", "result", "result_only"),
    [
        (["a.x"], ["a.x"], "pass", "pass"),
        (["a.x"], [], "pass", "pass"),
        (["a.x"], ["?.x"], "pass", "pass"),
        ([], ["a.x"], "error", "error"),
        ([], ["a.y"], "fail", "fail"),
        (["a.x"], ["a.y"], "pass", "error"),
        (["a.x", "?.?"], ["a.y"], "pass", "error"),
    ],
)
def test_selection_against_what_ran(selected: list[str], ran: list[str], result: str, result_only: str) -> None:
    for only, wanted in ((False, result), (True, result_only)):
        executions = [tool(name, response_status=200) for name in ran]
        options = expected("a.x", allow_additional_calls=not only)
        assert_verdict(selection(options, [tool(name) for name in selected], executions), wanted)


def test_selection_names_what_was_missing_and_what_was_too_much() -> None:
    options = expected("a.x", "a.y", allow_additional_calls=False)
    record = selection(options, [tool("a.x"), tool("b.z")])
    assert record.details == {"missing": ["a.y"], "additional": ["b.z"]}


@each_row(
    ("wanted", "ran", "result"),
    [
        (["a.x"], [("a.x", 200)], "pass"),
        (["a.x"], [("a.x", 299)], "pass"),
        (["a.x"], [(" a . x ", 204)], "pass"),
        (["a.x"], [("a.x", 199)], "fail"),
        (["a.x"], [("a.x", 300)], "fail"),
        (["a.x"], [("a.x", 500), ("a.x", 200)], "pass"),
        (["a.x"], [("a.x", 200), ("b.z", 500)], "pass"),
        (["a.x", "a.x"], [("a.x", 200)], "fail"),
        (["a.x", "a.x"], [("a.x", 200), ("a.x", 201)], "pass"),
        (["a.x", "a.y"], [("a.x", 200)], "fail"),
        (["a.x"], [], "fail"),
        (["a.x"], [("a.x", None)], "error"),
        (["a.x"], [("a.x", "200")], "error"),
        (["a.x"], [("a.x", True)], "error"),
        (["a.x"], [("a.x", 200), ("a.x", None)], "pass"),
        (["a.x"], [("?.x", 200)], "error"),
        (["a.x"], [("a.?", 200)], "error"),
        (["a.x"], [("?.?", None)], "error"),
        (["a.x"], [("?.x", 500)], "fail"),
        (["a.x"], [("?.y", 200)], "fail"),
        (["a.x", "a.x"], [("?.x", 200)], "fail"),
        (["a.x", "a.x"], [("?.x", 200), ("a.x", 200)], "error"),
    ],
)
def test_execution(wanted: list[str], ran: list[tuple[str, Any]], result: str) -> None:
    executions = [tool(name, response_status=status) for name, status in ran]
    assert_verdict(execution(expected(*wanted), executions), result)


@each_row(
    ("selected", "result"), [(None, "pass"), (["a.x"], "pass"), (["?.x"], "pass"), ([], "error"), (["a.y"], "error")]
)
def test_execution_against_what_was_selected(selected: list[str] | None, result: str) -> None:
    chosen = None if selected is None else [tool(name) for name in selected]
    assert_verdict(execution(expected("a.x"), [tool("a.x", response_status=200)], chosen), result)


M365 = [ToolCallSelection, ToolCallExecution]


@each_row("evaluator", M365)
@each_row(
    "diagnostics",
    [
        None,
        {},
        {"tool_calls": None},
        {"tool_calls": []},
        {"tool_calls": {}},
        {"tool_calls": {"selected_functions": None, "executions": None}},
        {"tool_calls": {"selected_functions": "a.x", "executions": 3}},
        {"tool_calls": {"selected_functions": [], "executions": [], "evidence_error": "lost"}},
    ],
)
def test_evidence_that_is_not_known(evaluator: type[Evaluator], diagnostics: Any) -> None:
    options = expected("a.x", negate=True)
    assert_verdict(score(evaluator, options, response="", diagnostics=diagnostics), "error")


@each_row("evaluator", M365)
def test_negate_m365(evaluator: type[Evaluator]) -> None:
    calls = {"selected_functions": [tool("a.x")], "executions": [tool("a.x", response_status=200)]}
    evidence: dict[str, Any] = {"response": "", "diagnostics": {"tool_calls": calls}}
    assert score(evaluator, expected("a.x"), **evidence).result == "pass"
    assert score(evaluator, expected("a.x", negate=True), **evidence).result == "fail"
    assert score(evaluator, expected("b.y", negate=True), **evidence).result == "pass"


@each_row("evaluator", M365)
@each_row(
    "options",
    [
        {},
        {"calls": []},
        {"calls": [{}]},
        {"calls": [{"tool": {"plugin_name": "a"}}]},
        {"calls": [{"tool": {"plugin_name": "", "function_name": "x"}}]},
        {"calls": [{"tool": {"plugin_name": "a", "function_name": "x", "more": 1}}]},
        {"calls": [{"id": "", "tool": {"plugin_name": "a", "function_name": "x"}}]},
        {"calls": [{"tool": {"plugin_name": "a", "function_name": "x"}}], "threshold": 1},
    ],
)
def test_options_that_are_refused(evaluator: type[Evaluator], options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        evaluator.Options.model_validate(options)


def test_only_selection_allows_additional_calls_to_be_forbidden() -> None:
    with pytest.raises(ValidationError):
        ToolCallExecution.Options.model_validate(expected("a.x", allow_additional_calls=False))


def test_an_id_is_a_label() -> None:
    options = {"calls": [{"id": "first", "tool": tool("a.x")}]}
    assert selection(options, [tool("a.x")]).result == "pass"


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "x", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["plugin_name", "function_name", "response_status"]), inner)
    ),
    max_leaves=8,
)


@given(odd, odd, odd)
def test_no_shape_of_evidence_breaks_an_evaluator(selected: Any, executions: Any, problem: Any) -> None:
    calls = {"selected_functions": selected, "executions": executions, "evidence_error": problem}
    for evaluator in M365:
        record = score(evaluator, expected("a.x"), response="", diagnostics={"tool_calls": calls})
        assert record.details.get("code") in (None, "toolCallEvidenceIndeterminate")


def test_too_many_calls_end_with_a_record() -> None:
    record = selection(expected("a.x"), [tool(f"a.{number}") for number in range(100_000)])
    assert record.details["code"] == "responseTooLarge"


SEARCH = ToolCall("search", {"query": "weather", "Limit": 3, "near": {"lat": 1, "tags": ["a", {"b": True, "c": 2}]}})
PLAIN = ToolCall("plain")
BROKEN = ToolCall("search", '{"query": ')


def called(evaluator: type[Evaluator], calls: tuple[ToolCall, ...] | None, **options: object) -> Score:
    return score(evaluator, options, response="", tool_calls=calls)


@each_row(
    ("name", "calls", "result"),
    [
        ("search", (SEARCH,), "pass"),
        ("search", (PLAIN, SEARCH), "pass"),
        ("search", (BROKEN,), "pass"),
        ("Search", (SEARCH,), "fail"),
        ("search", (PLAIN,), "fail"),
        ("search", (), "fail"),
        ("search", None, "error"),
    ],
)
@each_row("spelling", ["toolName", "tool_name"])
def test_tool_called(name: str, calls: tuple[ToolCall, ...] | None, result: str, spelling: str) -> None:
    record = called(ToolCalled, calls, **{spelling: name})
    assert record.result == result and record.reason
    turned = {"pass": "fail", "fail": "pass", "error": "error"}[result]
    assert called(ToolCalled, calls, negate=True, **{spelling: name}).result == turned


def test_tool_called_says_what_was_called() -> None:
    record = called(ToolCalled, (PLAIN, PLAIN, SEARCH), toolName="other")
    assert record.reason == "other was not called; called was 'plain', 'search'"
    assert record.details["called"] == ["plain", "plain", "search"]
    assert called(ToolCalled, (), toolName="other").reason == "other was not called; called was no tool at all"


@each_row(
    ("options", "calls", "result"),
    [
        ({"argKeyName": "query"}, (SEARCH,), "pass"),
        ({"arg_key_name": "query"}, (PLAIN, SEARCH), "pass"),
        ({"argKeyName": "limit"}, (SEARCH,), "fail"),
        ({"argKeyName": "limit", "ignoreCase": True}, (SEARCH,), "pass"),
        ({"argKeyName": "LIMIT", "ignore_case": True}, (SEARCH,), "pass"),
        ({"argKeyName": "lat"}, (SEARCH,), "fail"),
        ({"argKeyName": "query"}, (BROKEN,), "fail"),
        ({"argKeyName": "query"}, (BROKEN, SEARCH), "pass"),
        ({"argKeyName": "query"}, (ToolCall("search"),), "fail"),
        ({"argKeyName": "query"}, (ToolCall("search", ["query"]),), "fail"),
        ({"argKeyName": "query"}, (ToolCall("search", {"query": None}),), "pass"),
        ({"argKeyName": "query"}, (ToolCall("other", {"query": 1}),), "fail"),
        ({"argKeyName": "query"}, (), "fail"),
        ({"argKeyName": "query"}, None, "error"),
        ({"arguments": {"query": "weather"}}, (SEARCH,), "pass"),
        ({"arguments": {}}, (ToolCall("search"),), "pass"),
        ({"arguments": {}}, (PLAIN,), "fail"),
        ({"arguments": {"query": "Weather"}}, (SEARCH,), "fail"),
        ({"arguments": {"limit": 3}}, (SEARCH,), "fail"),
        ({"arguments": {"limit": 3}, "ignoreCase": True}, (SEARCH,), "pass"),
        ({"arguments": {"LIMIT": 3}, "ignoreCase": True}, (SEARCH,), "pass"),
        ({"arguments": {"Limit": 3.0}}, (SEARCH,), "pass"),
        ({"arguments": {"Limit": "3"}}, (SEARCH,), "fail"),
        ({"arguments": {"near": {"lat": 1}}}, (SEARCH,), "pass"),
        ({"arguments": {"near": {"lat": True}}}, (SEARCH,), "fail"),
        ({"arguments": {"near": {"LAT": 1}}, "ignoreCase": True}, (SEARCH,), "fail"),
        ({"arguments": {"near": {"tags": ["a", {"b": True}]}}}, (SEARCH,), "pass"),
        ({"arguments": {"near": {"tags": ["a"]}}}, (SEARCH,), "fail"),
        ({"arguments": {"near": {"tags": [{"b": True}, "a"]}}}, (SEARCH,), "fail"),
        ({"arguments": {"near": {"tags": "a"}}}, (SEARCH,), "fail"),
        ({"arguments": {"query": {"x": 1}}}, (SEARCH,), "fail"),
        ({"arguments": {"absent": None}}, (SEARCH,), "fail"),
        ({"arguments": {"a": 1, "b": 2}}, (ToolCall("search", {"a": 1}), ToolCall("search", {"b": 2})), "fail"),
        ({"argKeyName": "Limit", "arguments": {"query": "weather"}}, (SEARCH,), "pass"),
        ({"argKeyName": "absent", "arguments": {"query": "weather"}}, (SEARCH,), "fail"),
        ({"arguments": {"a": 1}, "match": "exact"}, (ToolCall("search", {"a": 1}),), "pass"),
        ({"arguments": {"a": 1}, "match": "exact"}, (ToolCall("search", {"a": 1, "b": 2}),), "fail"),
        ({"arguments": {"a": 1}, "match": "exact"}, (ToolCall("search", {"a": True}),), "fail"),
        ({"arguments": {"a": {"b": 1}}, "match": "exact"}, (ToolCall("search", {"a": {"b": 1, "c": 2}}),), "fail"),
        ({"arguments": {"a": 1, "id": 5}, "ignore": ["id"]}, (ToolCall("search", {"a": 1, "id": 7}),), "pass"),
        ({"arguments": {"a": 1}, "match": "exact", "ignore": ["b"]}, (ToolCall("search", {"a": 1, "b": 2}),), "pass"),
        ({"arguments": {"a": 1}, "match": "exact", "ignore": ["b"]}, (ToolCall("search", {"a": 2, "b": 2}),), "fail"),
        ({"arguments": {"A": 1}, "ignore": ["A"], "ignoreCase": True}, (ToolCall("search", {"a": 2}),), "pass"),
        ({"arguments": {}, "match": "exact"}, (ToolCall("search"),), "pass"),
        ({"arguments": {}, "match": "exact"}, (ToolCall("search", {"a": 1}),), "fail"),
    ],
)
def test_tool_called_with(options: dict[str, Any], calls: tuple[ToolCall, ...] | None, result: str) -> None:
    record = called(ToolCalledWith, calls, toolName="search", **options)
    assert record.result == result and record.reason


def test_negate_turns_a_clear_verdict_and_not_arguments_that_cannot_be_read() -> None:
    options = {"toolName": "search", "argKeyName": "absent", "negate": True}
    assert called(ToolCalledWith, (SEARCH,), **options).result == "pass"
    assert called(ToolCalledWith, (), **options).result == "pass"
    assert called(ToolCalledWith, (SEARCH, BROKEN), **options).result == "fail"
    assert called(ToolCalledWith, None, **options).result == "error"


@each_row(
    "options",
    [
        {},
        {"toolName": "search"},
        {"toolName": "", "argKeyName": "a"},
        {"toolName": "search", "argKeyName": ""},
        {"toolName": "search", "arguments": ["a"]},
        {"toolName": "search", "argKeyName": "a", "json_path": "$"},
        {"argKeyName": "a"},
        {"toolName": "search", "argKeyName": "a", "match": "exact"},
        {"toolName": "search", "argKeyName": "a", "ignore": ["b"]},
        {"toolName": "search", "arguments": {}, "match": "near"},
    ],
)
def test_options_that_tool_called_with_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ToolCalledWith.Options.model_validate(options)


@each_row("evaluator", [*M365, ToolCalled, ToolCalledWith])
def test_without_an_answer_there_is_nothing_to_judge(evaluator: type[Evaluator]) -> None:
    example: dict[str, Any] = dict(evaluator.example)
    options = example.pop("options")
    assert score(evaluator, options, **example).result == "pass"
    assert score(evaluator, options, **(example | {"response": None})).details["code"] == "agentRequestFailed"


OFFERED = {
    "type": "function",
    "function": {
        "name": "search",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
}
PING = {"name": "ping"}


@each_row(
    ("calls", "options", "result", "said"),
    [
        ((ToolCall("search", {"n": 1}), ToolCall("ping")), {}, "pass", "2 valid tool calls"),
        ((ToolCall("search", {"n": "1"}),), {}, "fail", "search at $.n"),
        ((ToolCall("ping"), ToolCall("search", {})), {}, "fail", "call 2 of 2"),
        ((ToolCall("search", "{broken"),), {}, "fail", "not a JSON object"),
        ((ToolCall("delete", {}),), {}, "fail", "no tool that was offered"),
        ((), {}, "fail", "at least 1"),
        ((), {"at_least": 0}, "pass", "0 valid"),
        ((ToolCall("search", {}),), {"tools": [{"name": "search"}]}, "pass", "1 valid tool call"),
    ],
)
def test_valid_calls_fit_the_tools_that_were_offered(calls, options, result, said):
    record = score(ValidToolCalls, options, response="", tool_calls=calls, tools=(OFFERED, PING))
    assert record.result == result and said in record.reason, record.reason


def test_calls_cannot_be_valid_where_no_tools_are_known():
    record = score(ValidToolCalls, response="", tool_calls=(ToolCall("search", {}),))
    assert record.result == "error" and "give the item its tools" in record.reason
