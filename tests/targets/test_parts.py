"""What providers say beside a text: reasoning, citations, pictures, sounds, refusals, in every protocol they speak."""

import json

from tui_evals.evaluators.base import Evidence
from tui_evals.evaluators.limits import FinishReason
from tui_evals.targets.chat import join_chunks, parse_completion, parse_response
from tui_evals.transcript import Audio, Citation, Image, Reasoning, Refusal, answer_text, parts_of, reasoning_text


def completion(finish="stop", choice=None, **message):
    message = {"role": "assistant", "content": "Paris.", **message}
    return {"choices": [{"index": 0, "finish_reason": finish, "message": message, **(choice or {})}]}


def test_what_stands_beside_the_text_of_a_completion_is_kept_and_not_in_it():
    link = {
        "type": "url_citation",
        "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 5},
    }
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    reply = parse_completion(completion(reasoning="hm", annotations=[link], images=[picture]))
    assert (reply.text, reasoning_text(reply.transcript)) == ("Paris.", "hm")
    (cited,), (image,) = parts_of(reply.transcript, Citation), parts_of(reply.transcript, Image)
    assert (cited.source, cited.title, cited.start, cited.end) == ("https://a.example", "A", 0, 5)
    assert image.url == "data:image/png;base64,AAAA"
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Paris."}]
    assert parse_completion(completion(content=blocks)).text == "Paris."
    for plain in (completion(), completion(reasoning_content=None, annotations=[], audio=None), completion(refusal="")):
        assert parse_completion(plain).transcript is None, "a plain answer is nothing but its text"


def test_an_answer_that_is_spoken_is_what_was_said():
    spoken = {"id": "a1", "data": "UklGRg==", "transcript": "Paris it is."}
    reply = parse_completion(completion(content=None, audio=spoken))
    (sound,) = parts_of(reply.transcript, Audio)
    assert (reply.text, sound.transcript, sound.data) == ("Paris it is.", "Paris it is.", "UklGRg==")
    pieces = [{"audio": {"id": "a1", "transcript": "Paris "}}, {"audio": {"transcript": "it is.", "data": "UklG"}}]
    chunks = [{"choices": [{"delta": piece}]} for piece in pieces] + [
        {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    ]
    assert parse_completion(join_chunks(chunks)).text == "Paris it is."


def test_reasoning_that_is_streamed_is_joined():
    for name in ("reasoning_content", "reasoning"):
        pieces = [{name: "first "}, {name: "this"}, {"content": "Par"}, {"content": "is."}]
        chunks = [{"choices": [{"delta": piece}]} for piece in pieces]
        reply = parse_completion(join_chunks([*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]))
        (thought,) = parts_of(reply.transcript, Reasoning)
        assert (reply.text, thought.text) == ("Paris.", "first this")
        assert thought.block == {"message": {name: "first this"}}, "it goes back in the field in which it came"


def test_the_items_of_a_response_are_parts():
    note = {"type": "url_citation", "url": "https://a.example", "title": "A"}
    output = [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "look"}]},
        {"type": "web_search_call", "id": "w", "status": "completed"},
        {"type": "image_generation_call", "id": "i", "result": "AAAA"},
        {"type": "message", "content": [{"type": "output_text", "text": "Paris.", "annotations": [note]}]},
    ]
    reply = parse_response({"object": "response", "status": "completed", "output": output, "model": "m"})
    assert (reply.text, answer_text(reply.transcript), reply.diagnostics) == ("Paris.", "Paris.", None)
    assert [type(part).__name__ for part in reply.transcript.parts] == [
        "Reasoning",
        "Unknown",
        "Image",
        "Text",
        "Citation",
    ]
    refused = [{"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}]
    told = parse_response({"object": "response", "status": "completed", "output": refused})
    assert told.text == "I will not." and told.diagnostics == {"refusal": "I will not."}
    assert told.transcript is None or parts_of(told.transcript, Refusal)
    json.dumps(reply.transcript.messages[0].parts[1].data)


def test_why_a_response_is_incomplete_is_kept_also_where_the_reason_is_new():
    output = [{"type": "message", "content": [{"type": "output_text", "text": "Par"}]}]
    known = {"max_output_tokens": "length", "content_filter": "content_filter", "out_of_luck": "out_of_luck"}
    for reason, end in [*known.items(), (None, "incomplete")]:
        details = {"status": "incomplete", "incomplete_details": {"reason": reason} if reason else None}
        assert parse_response({"object": "response", "output": output, **details}).finish_reason == end


def test_a_malformed_call_of_gemini_is_no_usual_end():
    fields = {"native_finish_reason": "MALFORMED_FUNCTION_CALL"}
    reply = parse_completion(completion(content="", choice={"provider_specific_fields": fields}))
    record = FinishReason().score(Evidence(response=reply.text, finish_reason=reply.finish_reason))
    assert record.result == "fail" and "wrote wrongly (malformed_call)" in record.reason
