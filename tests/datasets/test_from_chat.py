"""A chat becomes the item that asks it again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.fields import MAX_TURNS, item_of_messages
from tui_evals.datasets.paths import CannotEdit
from tui_evals.datasets.validate import parse_dataset

PICTURE = [{"type": "image_url", "image_url": {"url": "data:"}}]


def user(content):
    return {"role": "user", "content": content}


def answer(content):
    return {"role": "assistant", "content": content}


SYSTEM = {"role": "system", "content": "be brief"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
RESULT = {"role": "tool", "content": "42", "tool_call_id": "1"}


def test_one_exchange_is_a_single_prompt():
    assert item_of_messages([user("q"), answer("a")], {"name": "Ada"}) == {
        "variables": {"name": "Ada"},
        "prompt": "q",
        "expected_response": "a",
    }
    assert item_of_messages([SYSTEM, user("q"), answer("a")]) == {
        "messages": [SYSTEM],
        "prompt": "q",
        "expected_response": "a",
    }


def test_several_exchanges_are_turns_and_what_came_before_is_history():
    chat = [SYSTEM, answer("hello"), user("1"), answer("one"), SYSTEM, user("2"), answer("two")]
    assert item_of_messages(chat) == {
        "messages": [SYSTEM, answer("hello")],
        "turns": [
            {"prompt": "1", "expected_response": "one"},
            {"messages": [SYSTEM], "prompt": "2", "expected_response": "two"},
        ],
    }


def test_the_answer_after_tool_calls_is_the_expected_one():
    assert item_of_messages([user("q"), CALL, RESULT, answer("a")]) == {"prompt": "q", "expected_response": "a"}
    thinking = [user("q"), answer("let me see"), CALL, RESULT, answer("a")]
    assert item_of_messages(thinking) == {"prompt": "q", "expected_response": "a"}
    assert item_of_messages([user("q"), CALL]) == {"prompt": "q"}


def test_history_keeps_tool_calls_and_nothing_that_is_null():
    history = [user(PICTURE), CALL, RESULT]
    item = item_of_messages([*history, user("q")])
    assert item["messages"] == [history[0], {"role": "assistant", "tool_calls": CALL["tool_calls"]}, RESULT]


def test_a_question_nobody_answered_waits_for_the_next_or_is_the_last():
    assert item_of_messages([user("1"), user("2"), answer("two")]) == {
        "messages": [user("1")],
        "prompt": "2",
        "expected_response": "two",
    }
    assert item_of_messages([user("1"), answer("one"), user("2")])["turns"][1] == {"prompt": "2"}


def test_text_blocks_are_text_and_a_picture_is_asked_as_it_is():
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert item_of_messages([user(blocks)]) == {"prompt": "a\nb"}
    assert item_of_messages([SYSTEM, user(PICTURE), answer("a cat")]) == {
        "messages": [SYSTEM, user(PICTURE)],
        "expected_response": "a cat",
    }
    mixed = user([*blocks, *PICTURE])
    assert item_of_messages([user("q"), answer("a"), mixed]) == {"messages": [user("q"), answer("a"), mixed]}
    shown = item_of_messages([user(PICTURE), answer("a cat"), user("sure?"), answer("yes")])
    assert shown == {"messages": [user(PICTURE), answer("a cat")], "prompt": "sure?", "expected_response": "yes"}


def test_of_a_long_chat_the_last_exchanges_are_turns():
    chat = [message for number in range(MAX_TURNS + 5) for message in (user(f"q{number}"), answer(f"a{number}"))]
    item = item_of_messages(chat)
    assert item["messages"] == chat[:10]
    assert [turn["prompt"] for turn in item["turns"]] == [f"q{number}" for number in range(5, MAX_TURNS + 5)]
    assert len(item["turns"]) == MAX_TURNS


def test_an_empty_chat_is_a_sentence():
    with pytest.raises(CannotEdit, match="nothing has been said yet"):
        item_of_messages([])


texts = st.sampled_from(["", "x", "y", None]) | st.just(PICTURE)
messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "user", "user", "assistant", "assistant", "tool"]),
    texts,
)


@given(st.lists(messages, min_size=1, max_size=60))
def test_every_chat_becomes_a_valid_item_that_asks_its_last_question(chat):
    item = item_of_messages(chat)
    assert parse_dataset({"items": [item]})[1] == []
    unit = item["turns"][-1] if "turns" in item else item
    asked = [*unit.get("messages", []), *([user(unit["prompt"])] if "prompt" in unit else [])]
    questions = [message for message in chat if message["role"] == "user"]
    if questions and questions[-1]["content"] is not None:
        assert asked[-1] == questions[-1]
