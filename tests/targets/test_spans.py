"""What failed in the spans of an answer is in its transcript, and nothing else is said to have failed."""

import json

import pytest

from tui_evals.targets.spans import spans_of_otlp, transcript_of_spans
from tui_evals.transcript import Result, Text, Unknown

MODEL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Let me see."}]}]
    ),
}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1"}


def transcript(attributes, status, **more):
    told = [{"key": key, "value": {"stringValue": value}} for key, value in {**attributes, **more}.items()]
    span = {"traceId": "t", "spanId": "s", "name": "x", "attributes": told, "status": status}
    return transcript_of_spans(
        spans_of_otlp(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode())
    )


@pytest.mark.parametrize(
    ("status", "more", "error"),
    [
        ({}, {}, ""),
        ({"code": 1, "message": "fine"}, {}, ""),
        ({"code": "STATUS_CODE_OK"}, {"error.type": "none"}, ""),
        ({"code": 2, "message": "no quota"}, {"error.type": "RateLimit"}, "no quota"),
        ({"code": "STATUS_CODE_ERROR"}, {"error.type": "RateLimit"}, "RateLimit"),
        ({"code": 2}, {}, "failed"),
    ],
)
def test_a_span_that_failed_says_why_after_what_it_said(status, more, error):
    (answer,) = transcript(MODEL, status, **more).messages
    assert answer.parts == (Text("Let me see."), *([Unknown("error", {"message": error})] if error else []))
    *_, told = transcript(TOOL, status, **more).messages
    (result,) = told.parts
    assert isinstance(result, Result)
    assert (result.text, result.failed) == (error, bool(error))
    *_, told = transcript(TOOL, status, **more, **{"gen_ai.tool.call.result": "order 7"}).messages
    assert (told.parts[0].text, told.parts[0].failed) == ("order 7", bool(error))
