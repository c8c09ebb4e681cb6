"""Conversations from files in OpenAI's format become items, with the checks their last answers suggest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.paths import CannotEdit, DatasetError
from tui_evals.datasets.validate import parse_dataset
from tui_evals.evaluators.base import Evidence, ToolCall, evaluate
from tui_evals.evaluators.registry import load_registry
from tui_evals.imports.chats import item_from, read_conversations, read_messages, with_suggestions


def user(content):
    return {"role": "user", "content": content}


def answer(content):
    return {"role": "assistant", "content": content}


SYSTEM = {"role": "system", "content": "be brief"}
CHAT = [SYSTEM, user("q"), answer("a")]
CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"x": 1}'}}],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}


def read(value):
    return read_messages(json.dumps(value), "f.json")


def lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize(
    "value",
    [
        CHAT,
        {"messages": CHAT},
        {"model": "m", "messages": CHAT[:2], "choices": [{"index": 0, "message": {**answer("a"), "refusal": None}}]},
        {"request": {"messages": CHAT[:2]}, "response": {"choices": [{"message": answer("a")}]}},
        {"body": {"messages": CHAT[:2]}, "response": {"status_code": 200, "body": {"choices": [{"message": CHAT[2]}]}}},
        [CHAT],
        [{"messages": CHAT}],
        [{**CHAT[0], "role": "developer"}, *CHAT[1:]],
        [SYSTEM, {**user("q"), "id": "m1"}, {**answer("a"), "weight": 1, "tool_calls": []}],
    ],
)
def test_every_shape_of_one_conversation_is_read(value):
    assert read(value) == [CHAT]


def test_lines_are_conversations_or_the_messages_of_one():
    assert read_messages(lines({"messages": CHAT}, {"messages": CHAT[:2]}), "f.jsonl") == [CHAT, CHAT[:2]]
    assert read_messages("\ufeff" + lines(*CHAT) + "\n", "f.jsonl") == [CHAT]
    assert read_messages(lines(CHAT, CHAT), "f.jsonl") == [CHAT, CHAT]
    assert read([CHAT, {"messages": CHAT}]) == [CHAT, CHAT]


def test_blocks_tool_calls_and_results_are_kept():
    chat = [user([{"type": "text", "text": "q"}, {"type": "image_url", "image_url": {"url": "u"}}]), CALL, RESULT]
    assert read({"messages": chat}) == [chat]


def test_functions_of_early_files_are_tools():
    legacy = [
        user("q"),
        {"role": "assistant", "content": None, "function_call": {"name": "find", "arguments": "{}"}},
        {"role": "function", "name": "find", "content": "42"},
    ]
    (found,) = read_conversations(json.dumps({"messages": legacy, "functions": [{"name": "find"}]}), "f.json")
    assert found.tools == [{"type": "function", "function": {"name": "find"}}]
    assert found.messages[1]["tool_calls"][0]["id"] == found.messages[2]["tool_call_id"]
    assert found.messages[2] == {"role": "tool", "content": "42", "tool_call_id": "call_1"}


def test_a_refusal_is_the_answer():
    assert read([user("q"), {"role": "assistant", "content": None, "refusal": "no"}]) == [[user("q"), answer("no")]]


@pytest.mark.parametrize(
    ("given", "form"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, "json"),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}, {"type": "object"}),
    ],
)
def test_tools_and_format_of_a_request_come_along(given, form):
    (found,) = read_conversations(json.dumps({"messages": CHAT, "tools": [TOOL], "response_format": given}), "f.json")
    assert (found.tools, found.response_format) == ([TOOL], form)
    item, _ = item_from(found.messages, found.tools, found.response_format)
    assert item["tools"] == [TOOL] and item.get("response_format") == form
    assert parse_dataset({"items": [item]})[1] == []


def test_a_trailing_answer_suggests_that_the_next_one_is_the_same():
    item, suggested = item_from(CHAT)
    assert item == {"messages": [SYSTEM], "prompt": "q", "expected_response": "a"}
    assert suggested == {"ExactMatch": {"mode": "equals", "case_sensitive": True}}


def test_trailing_tool_calls_suggest_that_they_are_made_each_once():
    twice = {**CALL, "tool_calls": [*CALL["tool_calls"] * 2, {"id": "c2", "function": {"name": "book"}}]}
    item, suggested = item_from([user("q"), twice])
    assert item == {"prompt": "q"}
    assert suggested == {
        "ToolCalled": {"tool_name": "find"},
        "ToolCalled_2": {"type": "ToolCalled", "tool_name": "book"},
    }


def test_a_conversation_without_a_trailing_answer_suggests_nothing():
    assert item_from([user("q")]) == ({"prompt": "q"}, {})
    assert item_from([user("q"), answer("")])[1] == {}
    assert item_from([user("q"), CALL, RESULT]) == ({"messages": [user("q"), CALL, RESULT]}, {})


def test_what_tools_said_stays_before_the_answer_that_is_asked_for():
    chat = [user("q"), CALL, RESULT, answer("a")]
    assert item_from(chat)[0] == {"messages": chat[:3], "expected_response": "a"}
    longer = [*chat, user("more"), answer("b")]
    assert item_from(longer)[0] == {"messages": chat, "prompt": "more", "expected_response": "b"}


def test_several_exchanges_are_turns_and_the_last_holds_the_suggestions():
    item, suggested = item_from([user("1"), answer("one"), user("2"), answer("two")])
    noted = with_suggestions(item, suggested)
    assert noted["turns"] == [
        {"prompt": "1", "expected_response": "one"},
        {"prompt": "2", "expected_response": "two", "extensions": {"suggested": suggested}},
    ]
    assert with_suggestions({"prompt": "q", "extensions": {"x": 1}}, suggested)["extensions"] == {
        "x": 1,
        "suggested": suggested,
    }
    assert with_suggestions(item, {}) is item


async def test_suggested_checks_pass_on_the_answer_they_come_from_and_on_no_other():
    known = load_registry()

    async def result(suggested, **evidence):
        (options,) = suggested.values()
        (name,) = suggested
        return (await evaluate(known.build(name, options), Evidence(**evidence))).result

    item, same = item_from(CHAT)
    _, called = item_from([user("q"), CALL])
    expected = item["expected_response"]
    assert await result(same, response="a", expected=expected) == "pass"
    assert await result(same, response="A", expected=expected) == "fail"
    assert await result(same, response="a b", expected=expected) == "fail"
    assert await result(called, response="", tool_calls=(ToolCall("find", {}),)) == "pass"
    assert await result(called, response="", tool_calls=()) == "fail"


def test_only_an_answer_is_no_item():
    with pytest.raises(CannotEdit, match="nothing that was asked"):
        item_from([answer("a")])


@given(st.lists(st.sampled_from([SYSTEM, user("q"), user([{"type": "text", "text": "b"}]), answer("a"), CALL, RESULT])))
def test_every_conversation_with_a_question_becomes_a_valid_item(chat):
    if all(message["role"] == "assistant" for message in chat):
        with pytest.raises(DatasetError):
            read(chat)
        return
    (messages,) = read({"messages": chat})
    assert messages == chat
    item, suggested = item_from(messages)
    assert parse_dataset({"items": [with_suggestions(item, suggested)]})[1] == []


def said(text):
    with pytest.raises(DatasetError) as refused:
        read_messages(text, "f.json")
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "f.json:1: holds no message"),
        ("text", "f.json:1: must be a list of messages"),
        ({"input": "q"}, "f.json:1: has no messages"),
        ({"messages": {"role": "user"}}, "f.json:2: messages: must be a list of messages"),
        ([user("q"), {"content": "x"}], "f.json:6: [1]: role is missing"),
        ([user("q"), {"role": "bot", "content": "x"}], "f.json:7: [1].role: must be 'system'"),
        ([user(3)], "f.json:4: [0].content: must be text or a list of content blocks"),
        ([user(None)], "f.json:2: [0]: content is missing"),
        ([user([{"type": "text"}])], "f.json:5: [0].content[0]: a text block needs its text"),
        ([user([{"text": "x"}])], "f.json:5: [0].content[0]: type is missing"),
        ([user("q"), "a"], "f.json:6: [1]: must be a message with a role"),
        ([user("q"), {**RESULT, "tool_call_id": None}], "f.json:6: [1]: tool_call_id is missing"),
        (
            [user("q"), {**CALL, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}],
            "f.json:12: [1].tool_calls[0].function.arguments: must be text, not an object",
        ),
        ([{**CALL, "role": "user"}], "f.json:4: [0].tool_calls: only an assistant calls tools"),
        ({"choices": [{"message": answer("a")}]}, "f.json:1: holds an answer and nothing that was asked"),
        ({"messages": [user("q")], "choices": []}, "f.json:8: choices: has no message as its first choice"),
        ({"messages": [user("q")], "tools": ["find"]}, "f.json:9: tools[0]: must be an object"),
    ],
)
def test_a_malformed_file_is_named_with_line_and_field(value, sentence):
    sentences = said(json.dumps(value, indent=1))
    assert any(one.startswith(sentence) for one in sentences), sentences


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "f.json:1: is empty"),
        ('[\n{"role": "user",}\n]', "f.json:2: not valid JSON"),
        (lines({"messages": CHAT}) + '{"messages": [\n', "f.json:2: not valid JSON"),
        (lines({"messages": CHAT}, {"messages": [user(3)]}), "f.json:2: messages[0].content: must be text"),
        ("\n" + lines(user("q"), {"role": "bot"}), "f.json:3: [1].role: must be"),
        (lines({"messages": CHAT}, 3), "f.json:2: must be a list of messages"),
    ],
)
def test_a_malformed_line_is_named(text, sentence):
    assert any(one.startswith(sentence) for one in said(text)), said(text)
