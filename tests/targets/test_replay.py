"""Answers captured earlier: which one is given for which item and turn, and what is said where there is none."""

import pytest

from tui_evals.targets.answers import Replay, captured
from tui_evals.targets.base import ConfigurationError, Request, TargetError

ITEMS = [
    {"testId": "A", "prompt": "1", "response": "first"},
    {"testId": "B", "turns": [{"prompt": "2", "response": "second"}, {"prompt": "3", "response": "third"}]},
    {"prompt": "4", "response": ""},
    {"testId": "D", "prompt": "5"},
    {"testId": "E", "response": "one of two"},
    {"testId": "E", "response": "two of two"},
    {"testId": "G", "response": None, "diagnostics": {"tool_calls": {"executions": [{"name": "f", "arguments": {}}]}}},
    {"testId": "H", "turns": []},
]


async def ask(item, position, turn=0, items=ITEMS):
    target = Replay(captured(items, "answers.csv"), "answers.csv")
    return await target.ask(Request(messages=(), item=item, position=position, turn=turn))


@pytest.mark.parametrize(
    ("item", "position", "turn", "text"),
    [
        ("A", 0, 0, "first"),
        ("B", 0, 0, "second"),  # the name wins over the position
        ("B", 1, 1, "third"),
        ("#1", 0, 0, "first"),  # a dataset without names
        ("X", 2, 0, ""),  # captured answers without names
        ("E", 4, 0, "one of two"),
        ("E", 5, 0, "two of two"),  # a name that appears twice says nothing
        ("E#6", 5, 0, "two of two"),  # as a run names it
    ],
)
async def test_an_answer_is_found_by_name_or_place(item, position, turn, text):
    reply = await ask(item, position, turn)
    assert reply.text == text
    assert not reply.scripted
    assert reply.cost is None


@pytest.mark.parametrize(
    ("item", "position", "turn", "said"),
    [
        ("D", 3, 0, "item D has no response in answers.csv"),
        ("B", 1, 2, "item B, turn 3, has no response in answers.csv"),
        ("A", 0, 1, "item A, turn 2, has no response"),
        ("Z", 0, 0, "item Z has no response in answers.csv: none has this testId once, and item 1 is A"),
        ("E", 0, 0, "none has this testId once, and item 1 is A"),
        ("A#6", 5, 0, "none has this testId once, and item 6 is E"),
        ("#9", 8, 0, "item #9 has no response in answers.csv, which ends with item 8"),
        ("G", 6, 0, "item G has no response"),
        ("H", 7, 0, "item H has no response"),
    ],
)
async def test_a_missing_answer_is_a_sentence(item, position, turn, said):
    with pytest.raises(TargetError) as raised:
        await ask(item, position, turn)
    assert said in str(raised.value)
    assert raised.value.code == "agentRequestFailed"
    assert not raised.value.retryable


async def test_diagnostics_and_executed_calls_travel_along():
    executions = [
        {"plugin_name": "crm", "function_name": "find", "arguments": {"name": "Ada"}, "response_status": 200},
        {"plugin_name": "crm", "function_name": "log", "response_status": 200},
    ]
    diagnostics = {"tool_calls": {"selected_functions": [], "executions": executions}, "retrieval_executions": []}
    reply = await ask("A", 0, items=[{"testId": "A", "response": "Found.", "diagnostics": diagnostics}])
    assert reply.diagnostics == diagnostics
    assert reply.tool_calls == ({"id": "call_1", "name": "find", "arguments": '{"name": "Ada"}'},)


@pytest.mark.parametrize(
    "call",
    [
        {"id": "x", "name": "f", "arguments": {"a": 1}},
        {"id": "x", "name": "f", "arguments": '{"a": 1}'},
        {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
    ],
)
async def test_calls_without_words_are_an_answer(call):
    reply = await ask("A", 0, items=[{"testId": "A", "tool_calls": [call]}])
    assert (reply.text, reply.tool_calls) == ("", ({"id": "x", "name": "f", "arguments": '{"a": 1}'},))


@pytest.mark.parametrize(
    ("items", "said"),
    [
        (["text"], "answers.csv, item 1, is not an object"),
        ([{"turns": "none"}], "answers.csv, item 1, has turns that are not a list"),
        ([{"response": "a"}, {"response": "b", "tool_calls": [{}]}], "answers.csv, item 2: tool call 1 has no name"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(items, said):
    with pytest.raises(ConfigurationError, match=said):
        captured(items, "answers.csv")
