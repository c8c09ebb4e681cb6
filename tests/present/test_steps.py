"""The way an agent took, as every face tells it; what models and tools say acts nowhere."""

import json

from tests.store.helpers import said
from tui_evals.present.answers import answer_words
from tui_evals.present.transcripts import _other, transcript_lines, transcript_text, understood_text
from tui_evals.reports.page.texts import answer_block
from tui_evals.store.rows import answer_record, body_of
from tui_evals.transcript import (
    Audio,
    Call,
    Citation,
    Document,
    File,
    Image,
    Message,
    Reasoning,
    Result,
    Retrieval,
    Transcript,
)

from .rows import an_answer

HOSTILE = "\x1b]52;c;aGk=\x07[/b]</pre>\n{{ secret }}"
FOUND = {"id": "a", "name": "find", "arguments": '{"id": 7}', "result": "Ada", "by": "scripted", "ms": 0.1}
FAILED = {"id": "b", "name": "pay", "arguments": "not JSON", "result": HOSTILE, "by": "shop.py", "ms": 1_500.0}
STEPS = (
    {"text": "I look.", "calls": [FOUND], "input_tokens": 10, "output_tokens": 5, "cost": 0.01, "latency_ms": 800.0},
    {"text": "", "calls": [{**FAILED, "failed": True, "traceback": "shop.py:3 in pay"}], "from_cache": True},
    {"text": "", "calls": [{"id": "c", "name": "gone", "arguments": {"x": 1}}], "latency_ms": 5.0},
    {"text": "Done.", "calls": []},
)


def test_a_transcript_tells_each_step_in_order():
    record = said("Done.", steps=STEPS)
    assert transcript_text(record) == "\n".join(
        [
            "step 1 of 4 · 800 ms · 10 tokens in, 5 out · $0.0100",
            "    I look.",
            '  → find {"id": 7}',
            "    ← Ada · scripted",
            "step 2 of 4 · from the cache",
            "  → pay not JSON",
            "    ! \x1b]52;c;aGk=\x07[/b]</pre> · shop.py · 1.5 s",
            "    {{ secret }}",
            "    shop.py:3 in pay",
            "step 3 of 4 · 5 ms",
            '  → gone {"x": 1}',
            "    not called",
            "step 4 of 4",
            "    the answer",
        ]
    )
    assert (
        [line.kind for line in transcript_lines(record)][-1] == "left"
        and not transcript_text(said())
        and not transcript_text(None)
    )
    assert "4 steps" in answer_words(an_answer(), record).text


def test_a_page_shows_the_steps_instead_of_the_calls():
    calls = ({"id": "a", "name": "find", "arguments": "{}"},)
    block = answer_block(an_answer(), said("Done.", steps=STEPS, tool_calls=calls), (), (), "")
    assert block.calls == () and block.steps is not None
    assert answer_block(an_answer(), said("Done.", tool_calls=calls), (), (), "").calls


def test_steps_come_out_of_the_store_as_they_went_in():
    record = said("Done.", steps=json.loads(json.dumps(STEPS)))
    assert transcript_text(answer_record(*body_of(record))) == transcript_text(record)


def test_a_picture_a_sound_and_a_file_are_told_by_their_kind_address_and_size():
    parts = (
        (Image(media_type="image/png", data="QUJD"), "[image, image/png, 3 bytes]"),
        (Image(url="data:image/png;base64,QUJDREVG"), "[image, 6 bytes]"),
        (Image(url="https://example.org/a.png"), "[image, https://example.org/a.png]"),
        (Audio(media_type="audio/wav", data="QUJD", transcript="hello"), "[audio, audio/wav, 3 bytes]: hello"),
        (File(name="a.pdf", url="https://example.org/" + "a" * 300), f"[file a.pdf, https://example.org/{'a' * 180}]"),
    )
    for part, text in parts:
        assert [line.text for line in _other(part)] == [text]


def test_what_was_understood_of_a_reply_is_named_with_its_number():
    assert understood_text("", 0, None) == "text – · tool calls – · chunks – · reasoning –"
    assert understood_text("hi", 2, None).startswith("text ✓ · 2 tool calls ✓ · chunks –")
    one, two, found = Call(id="a", name="find"), Call(id="b", name="pay"), Result(id="a", text="Ada")
    other = Result(id="b", text="paid")

    def of(*parts):
        return understood_text("", 0, Transcript(messages=(Message(role="assistant", parts=parts),)))

    assert "1 tool call ✓" in of(one) and "1 tool call with results ✓" in of(one, found)
    assert "2 tool calls with 1 result ✓" in of(one, two, found)
    assert "2 tool calls with results ✓" in of(one, two, found, other)
    assert of(Retrieval(documents=(Document(text="x"),))).endswith("1 chunk ✓ · reasoning –")
    seen = of(
        Retrieval(documents=(Document(text="x"), Document(text="y"))),
        Reasoning(text="why"),
        Citation(),
        Image(),
        File(),
    )
    assert seen.endswith("2 chunks ✓ · reasoning ✓ · 1 citation ✓ · 2 attachments ✓")
