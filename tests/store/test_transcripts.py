"""Answers of before transcripts, and transcripts of any length: nothing stored is rewritten, and no key is another."""

import json

from tui_evals.runs.asking import cache_key
from tui_evals.runs.prompting import messages_of_answer
from tui_evals.store.records import AnswerRecord, answer_steps, transcript_of
from tui_evals.store.rows import answer_record, body_of
from tui_evals.targets.answers import settled_reply
from tui_evals.targets.base import HttpService, Reply, Request, TargetConfig
from tui_evals.targets.opening import identity
from tui_evals.transcript import Message, Text, Transcript, answer_text

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


def test_ten_thousand_parts_are_stored_and_come_back():
    messages = tuple(Message(role="assistant", parts=(Text(f"part {number}"),)) for number in range(10_000))
    record = AnswerRecord(text="part 9999", request={}, transcript=Transcript(messages))
    again = answer_record(*body_of(record))
    assert again == record and len(answer_steps(again)) == 10_000
    assert len(json.loads(body_of(record)[2])["transcript"]["messages"]) == 10_000
