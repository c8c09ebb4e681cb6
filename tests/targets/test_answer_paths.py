"""Where the answer is in a reply whose form nobody described."""

import json

import pytest

from tui_evals.targets.answers import answer_path

LONG = "a text that is longer than any answer here"


@pytest.mark.parametrize(
    ("reply", "path"),
    [
        ({"answer": "Hi", "greeting": LONG}, "$.answer"),
        ({"greeting": LONG, "data": {"output": "Hi", "session_id": LONG}}, "$.data.output"),
        ({"id": LONG, "choices": [{"message": {"role": LONG, "content": "Hi"}}]}, "$.choices[0].message.content"),
        ({"reply": "Hi", "text": LONG}, "$.text"),
        ({"one": "Hi", "other": LONG}, "$.other"),
        ({"responseId": LONG, "one": "Hi"}, "$.one"),
        ({"api_key": LONG, "type": "x"}, "$.api_key"),
        (["Hi", LONG], "$[1]"),
        ({"answer": 3, "done": True}, None),
        ({}, None),
        ("answer", None),
    ],
)
def test_the_answer_is_the_text_whose_name_is_like_one_else_the_longest(reply, path):
    assert answer_path(json.dumps(reply)) == path


def test_a_reply_that_is_no_json_has_no_path():
    assert answer_path("Hi") is None and answer_path("[" * 100_000) is None
