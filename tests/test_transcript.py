"""The transcript: its JSON, which text is the answer, and the views of it."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui_evals.store.records import AnswerRecord, answer_steps, transcript_of
from tui_evals.store.rows import answer_record, body_of
from tui_evals.targets.answers import settled_reply
from tui_evals.targets.base import Reply
from tui_evals.text.model_output import Choice
from tui_evals.transcript import (
    Audio,
    Call,
    Citation,
    Document,
    File,
    Image,
    Message,
    Reasoning,
    Refusal,
    Result,
    Retrieval,
    Text,
    Took,
    Transcript,
    Unknown,
    answer_text,
    calls_with_results,
    documents_of,
    from_json,
    reasoning_text,
    split_think,
    steps_of,
    to_json,
    transcript_of_steps,
)

TOOK = Took(started=1.5, seconds=0.25, input_tokens=3, output_tokens=4, cost=0.0)
WHOLE = Transcript(
    (
        Message(
            role="assistant",
            parts=(
                Reasoning("first the order", {"thinking_blocks": [{"signature": "c2ln"}]}),
                Text("Let me look.", took=TOOK),
                Call("c1", "find", '{"order": 7}'),
                Unknown("video", {"url": "https://example.com/v"}),
            ),
            took=TOOK,
            model="m-1",
            name="clerk",
        ),
        Message(
            role="tool",
            parts=(
                Result("c1", "paid", took=Took(seconds=0.1)),
                Retrieval((Document("Refunds take 14 days.", "d1", "faq", score=0.5),), "refunds"),
            ),
        ),
        Message(
            role="assistant",
            parts=(
                Text("It is paid."),
                Citation("paid", "faq", start=6, end=10),
                Image("https://example.com/i.png"),
                Audio("It is paid.", data="UklGRg==", media_type="audio/wav"),
                File("a.pdf"),
                Refusal("no"),
            ),
        ),
    ),
    {"trace": "t1"},
)
_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=2))
_OBJECTS = st.dictionaries(st.sampled_from(("type", "text", "id", "name", "took", "documents", "odd")), _JSON)


def test_a_transcript_comes_back_from_json_and_from_the_store_as_it_was():
    assert from_json(json.loads(json.dumps(to_json(WHOLE)))) == WHOLE
    record = AnswerRecord(text="It is paid.", request={}, transcript=WHOLE)
    assert answer_record(*body_of(record)) == record


@given(st.lists(_OBJECTS, max_size=4))
@example([{"type": ""}])
def test_what_a_version_does_not_know_is_kept_and_written_back(parts):
    data = {"version": 1, "messages": [{"role": "assistant", "parts": parts, "mood": "glad"}], "later": [1]}
    assert to_json(from_json(data)) == data


def test_what_is_no_transcript_is_refused_with_the_reason():
    for data, reason in (
        ([], "list of messages"),
        ({"messages": [{"parts": []}]}, "role"),
        ({"messages": [{"role": "user", "parts": 1}]}, "parts"),
        ({"version": 2, "messages": []}, "version 2"),
    ):
        with pytest.raises(ValueError, match=reason):
            from_json(data)


def test_the_answer_is_the_last_text_of_the_assistant_without_reasoning():
    said = Message(role="assistant", parts=(Reasoning("hm"), Text("For"), Text("ty.")))
    thought = Message(role="assistant", parts=(Reasoning("done"),))
    for transcript, last in (
        (WHOLE, "It is paid."),
        (Transcript((said, thought)), "Forty."),
        (Transcript((said, Message(role="user", parts=(Text("Thanks"),)))), "Forty."),
        (Transcript((Message(role="assistant", parts=(Audio("Hello."),)),)), "Hello."),
        (Transcript((Message(role="assistant", parts=(Refusal("I will not."),)),)), "I will not."),
        (Transcript((thought,)), ""),
        (Transcript(), ""),
    ):
        assert answer_text(transcript) == last
    assert answer_text(WHOLE, "all") == "Let me look.\n\nIt is paid."


def test_calls_have_their_results_even_where_an_id_comes_again():
    again = Transcript((*WHOLE.messages[:2], *WHOLE.messages[:2], WHOLE.messages[0]))
    pairs = [(call.name, result and result.text) for call, result in calls_with_results(again)]
    assert pairs == [("find", "paid"), ("find", "paid"), ("find", None)]
    assert [document.text for document in documents_of(WHOLE)] == ["Refunds take 14 days."]
    assert reasoning_text(WHOLE) == "first the order"


def test_steps_that_were_stored_are_a_transcript_and_the_steps_of_one_are_the_same():
    steps = (
        {
            "asked": "Is 7 paid?",
            "text": "",
            "calls": [{"id": "c1", "name": "find", "arguments": "{}", "result": "no", "by": "mcp", "failed": True}],
            "parts": [{"type": "reasoning", "text": "look it up"}],
            "input_tokens": 4,
            "cost": 0.5,
            "latency_ms": 250.0,
        },
        {"text": "It is not.", "calls": [], "from_cache": True, "user": {"goal": "reached", "message": "Thanks"}},
    )
    assert steps_of(transcript_of_steps(steps)) == steps
    old = AnswerRecord(text="It is not.", request={}, steps=steps)
    assert [message.role for message in transcript_of(old).messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert answer_steps(old) == steps
    plain = AnswerRecord(text="Hi", request={}, tool_calls=({"id": "1", "name": "f", "arguments": "{}"},))
    assert answer_text(transcript_of(plain)) == "Hi" and answer_steps(plain) == ()


def test_thinking_is_split_from_the_beginning_of_a_text():
    for think, text, expected in (
        ("auto", "<think>\nhm\n</think>\n\n42", ("hm", "42")),
        ("auto", "  <THINK>hm</THINK>42", ("hm", "42")),
        ("auto", "<think>\n\n</think>\n42", ("", "42")),
        ("auto", "<think>cut off", ("cut off", "")),
        ("auto", "Use <think>x</think> tags", ("", "Use <think>x</think> tags")),
        ("auto", "hm</think>42", ("", "hm</think>42")),
        ("on", "hm</think>42", ("hm", "42")),
        ("on", "42", ("", "42")),
        ("off", "<think>hm</think>42", ("", "<think>hm</think>42")),
    ):
        assert split_think(text, think) == expected, (think, text)


def test_a_reply_that_arrives_has_its_reasoning_beside_the_text_and_likelihoods_where_they_were():
    reply = Reply(text="<think>2 or 3</think>\n42", choices=(Choice(7, "2", {}), Choice(22, "42", {})))
    settled = settled_reply(reply)
    assert (settled.text, reasoning_text(settled.transcript)) == ("42", "2 or 3")
    assert settled.choices == (Choice(0, "42", {}),)
    assert settled_reply(Reply(text="42")) == Reply(text="42")
    assert settled_reply(Reply(text="", transcript=WHOLE), "all").text == "Let me look.\n\nIt is paid."
