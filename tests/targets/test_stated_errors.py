"""Errors that a provider states inside HTTP 200, instead of the answer or in the middle of a stream."""

import json

import pytest

from tests.server import running
from tui_evals.targets.base import Request, TargetConfig, TargetError
from tui_evals.targets.failures import Failures, StatedError, error_in, stated_status
from tui_evals.targets.openai import OpenAI


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


async def outcome(server, text, **settings):
    config = TargetConfig(name="t", model="openai/m", base_url=server.url, **settings)
    target = OpenAI(config, {})
    try:
        return await target.ask(Request(messages=({"role": "user", "content": text},)))
    except TargetError as error:
        return error
    finally:
        await target.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("kind", "code", "status", "again", "said"),
    [
        ("stated529", "agentRequestFailed", 529, True, "answered 529: Overloaded. It may pass; ask again."),
        ("stated401", "agentAuthenticationError", 401, False, "answered 401: User not found. Check the key"),
        ("stream_error", "agentRequestFailed", 502, True, "answered 502: Provider returned error. It may pass"),
    ],
)
async def test_an_error_in_a_reply_is_classified_like_the_status_that_it_carries(
    server, kind, code, status, again, said, stream
):
    error = await outcome(server, f"[[{kind}]]", stream=stream)
    assert isinstance(error, TargetError), error
    assert (error.code, error.status, error.retryable, error.fault) == (code, status, again, "unknown")
    assert said in str(error) and "chat completion" not in str(error)
    assert error.unbilled == (kind != "stream_error"), "a stream that began may be billed"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 529, "message": "m"}, 529),
        ({"code": "502"}, 502),
        ({"type": "overloaded_error"}, 529),
        ({"code": 14, "status": "UNAVAILABLE"}, 503),
        ({"code": None, "type": "server_error"}, 500),
        ({"code": "rate_limit_exceeded"}, 429),
        ({"code": "context_length_exceeded"}, 400),
        ({"message": "who knows"}, None),
        ({"code": True}, None),
        ({"code": 200}, None),
        ("Unexpected endpoint", None),
        (None, None),
    ],
)
def test_the_status_of_an_error_is_its_number_or_the_one_its_word_stands_for(error, status):
    assert stated_status(error) == status


def test_an_error_without_a_status_may_pass_and_nobody_knows_whose_fault_it_is():
    error = Failures("host", {}).stated(StatedError("Unexpected endpoint"))
    assert (error.status, error.retryable, error.fault, error.unbilled) == (None, True, "unknown", False)
    assert str(error) == "host could not answer: Unexpected endpoint. It may pass; ask again."


def test_an_error_of_the_question_is_not_blamed_on_the_target():
    error = Failures("host", {}).stated(StatedError({"code": "invalid_prompt", "message": "Too odd."}))
    assert (error.retryable, error.fault) == (False, "question")


@pytest.mark.parametrize("document", [{"choices": []}, {"error": None, "choices": [1]}, [], "error", 3, None])
def test_a_document_without_an_error_states_none(document):
    assert error_in(document) is None


async def test_a_named_event_is_an_error_whatever_it_holds(server):
    from tui_evals.targets.chat import parse_body

    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    for data in (event, event["error"], {"object": "error", "code": 529}):
        with pytest.raises(StatedError) as raised:
            parse_body(f"event: error\ndata: {json.dumps(data)}\n\n".encode(), True)
        assert stated_status(raised.value.error) == 529


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (400, "your prompt is too long", "question"),
        (400, '{"error": {"message": "Invalid model: gpt-9"}}', "unknown"),
        (400, '{"error": {"message": "The model `gpt-9` does not exist", "code": "model_not_found"}}', "unknown"),
        (401, "no", "unknown"),
        (403, "blocked by the firewall", "unknown"),
        (404, "no", "unknown"),
        (402, "no", "target"),
        (500, "no", "unknown"),
    ],
)
def test_who_is_to_blame_for_a_status(status, body, fault):
    assert Failures("host", {}).refused(status, None, body).fault == fault
