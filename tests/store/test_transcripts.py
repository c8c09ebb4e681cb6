"""Answers of before transcripts, and transcripts of any length: nothing stored is rewritten, and no key is another."""

import tracemalloc

import pytest

from tui_evals.present.transcripts import text_lines, transcript_lines
from tui_evals.runs.asking import cache_key
from tui_evals.runs.prompting import messages_of_answer
from tui_evals.store.connection import StoreError
from tui_evals.store.records import AnswerRecord, answer_steps, step_count, transcript_of
from tui_evals.store.rows import answer_record, body_of
from tui_evals.targets.answers import settled_reply
from tui_evals.targets.base import HttpService, Reply, Request, TargetConfig
from tui_evals.targets.opening import identity
from tui_evals.transcript import Call, Message, Reasoning, Result, Text, Took, Transcript, answer_text

pytestmark = pytest.mark.story

OLD = [
    (
        '{"messages":[{"role":"user","content":"Is 7 paid?"}]}',
        "<think>hm</think>It is paid.",
        '{"diagnostics":{"reasoning":"hm"},"input_tokens":3,"output_tokens":4,"latency_ms":5.0,"model":"m",'
        '"finish_reason":"stop"}',
    ),
    (
        "{}",
        "It is paid.",
        '{"tool_calls":[{"id":"c1","name":"find","arguments":"{}"}],"steps":[{"text":"","calls":[{"id":"c1","name":'
        '"find","arguments":"{}","result":"paid","by":"scripted","ms":0.1}],"input_tokens":3,"latency_ms":5.0},'
        '{"text":"It is paid.","calls":[]}]}',
    ),
]
"""Bodies as version 0.2.0 wrote them."""


def test_bodies_of_before_are_read_as_transcripts_and_written_as_they_were():
    for body in OLD:
        record = answer_record(*body)
        assert body_of(record) == body and record.transcript is None
    plain, agent = (answer_record(*body) for body in OLD)
    assert answer_text(transcript_of(plain)) == plain.text == "<think>hm</think>It is paid.", (
        "stored ones are not split"
    )
    assert [message.role for message in transcript_of(agent).messages] == ["assistant", "tool", "assistant"]
    assert [message["role"] for message in messages_of_answer(agent)] == ["assistant", "tool", "assistant"]
    assert messages_of_answer(plain) == [{"role": "assistant", "content": plain.text}]


def test_a_plain_answer_takes_no_more_room_than_before():
    record = AnswerRecord(text="It is paid.", request={}, model="m")
    assert body_of(record) == ("{}", "It is paid.", '{"model":"m"}')
    assert settled_reply(Reply(text="It is paid.")).transcript is None


def test_keys_of_questions_are_those_of_before():
    request = Request(
        messages=(
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Is order 7 paid?"},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "And 8?"},
        ),
        params={"temperature": 0},
    )
    model = TargetConfig(name="m", model="openai/gpt-4o-mini", params={"temperature": 0})
    http = HttpService(url="https://host/chat", body={"q": "{{ prompt }}"}, answer="$.text", tool_calls="$.calls")
    service = TargetConfig(name="s", model="http:x", http=http)
    for config, key in (
        (model, "0401244033c3347e002c13e5eafadec86e58261262b4f4acb37553db16d6496f"),
        (service, "8927b977dceb482b932705e464cd970808ccb727ca48c8982bcd1cbade05f08a"),
    ):
        assert cache_key(identity(config, {}), request) == key, "recorded with version 0.2.0"


def long_answer(count=10_000):
    """An answer of so many parts with a kilobyte each: in turn what an agent thought, said, called and was given."""
    messages = []
    for number in range(count // 4):
        call = Call(f"c{number}", "find", f"order {number} {'z' * 1000}")
        parts = Reasoning(f"think {number} {'y' * 1000}"), Text(f"step {number} {'x' * 1000}"), call
        messages.append(Message(role="assistant", parts=parts, took=Took(seconds=0.5, cost=0.001)))
        messages.append(Message(role="tool", parts=(Result(f"c{number}", f"found {number} {'r' * 1000}"),)))
    messages.append(Message(role="assistant", parts=(Text("done"),)))
    return AnswerRecord(text="done", request={}, transcript=Transcript(tuple(messages)))


def peak_of(work):
    """The most memory that some work took beyond what it began with, in bytes."""
    tracemalloc.start()
    try:
        began = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - began
    finally:
        tracemalloc.stop()


@pytest.mark.nightly
def test_ten_thousand_parts_are_stored_and_come_back():
    record = long_answer()
    body = body_of(record)
    again = answer_record(*body)
    assert again == record and body_of(again) == body
    assert again.transcript.messages[-1] == record.transcript.messages[-1]
    assert again.transcript.messages[3:6] == record.transcript.messages[3:6]
    assert list(text_lines(again)) == list(text_lines(record))
    assert step_count(again) == len(answer_steps(again)) == 2501


@pytest.mark.nightly
def test_ten_thousand_parts_are_read_and_shown_one_message_at_a_time():
    body = body_of(long_answer())
    size = len(body[2])
    assert size > 10_000_000
    record = answer_record(*body)
    assert list(text_lines(long_answer(4))), "what is imported on first use is there"
    assert peak_of(lambda: answer_record(*body)) < size / 4
    assert peak_of(lambda: sum(len(line) for line in text_lines(record))) < size / 4
    lines = transcript_lines(record)
    assert peak_of(lambda: (len(lines), lines[7_000], [line for line in lines if line.depth == 0])) < size / 4
    assert [lines[number] for number in (0, 5_000, -1)] == [list(lines)[number] for number in (0, 5_000, -1)]


@pytest.mark.parametrize("broken", ["", '"messages":[{}]', '"messages":[{"role":1}]', '"messages":{}', '"messages":[1'])
def test_a_long_transcript_that_cannot_be_read_is_found_when_it_is_read(broken):
    text = f'{{"model":"{"m" * 300_000}","transcript":{{"version":1,{broken}}}}}'
    with pytest.raises(StoreError):
        answer_record("{}", "x", text)


def test_what_steps_an_answer_took_is_counted_as_they_are_told():
    call, result = Call("c", "find", "{}"), Result("c", "paid")
    said = Message(role="assistant", parts=(Text("It is paid."),))
    for messages in (
        (),
        (said,),
        (said, said),
        (Message(role="assistant", parts=(call,)),),
        (Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,))),
        (said, Message(role="tool", parts=(result,))),
        (Message(role="user", parts=(Text("And 8?"),)), said),
    ):
        record = AnswerRecord(text="x", request={}, transcript=Transcript(messages))
        assert step_count(record) == len(answer_steps(record))
