"""How long to wait, in the words of providers; and that no body of an error breaks the reading of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers import gemini_quota
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.failures import Failures, pause_in, refusal_of
from tui_evals.targets.model_table import Fitting

SENTENCES = {
    "Rate limit reached. Please try again in 20s.": 20.0,
    "Please try again in 7m12.5s. Visit the console": 432.5,
    "Please try again in 6ms.": 0.006,
    "Please try again in 1h2m3s": 3723.0,
    "Please try again in 1h 2m 3s": 3723.0,
    "Please retry after 3 seconds.": 3.0,
    "Please retry after 30": 30.0,
    "Try again in 5 minutes": 300.0,
    "Please retry in 34.07s.": 34.07,
    "Please try again later.": None,
    "Try again in a while": None,
    "Try again in 20 days": None,
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_says_how_long_to_wait(sentence):
    wait = SENTENCES[sentence]
    for body in (sentence, json.dumps({"error": {"message": sentence}}), json.dumps({"message": sentence})):
        assert pause_in(body) == (None if wait is None else pytest.approx(wait))


def test_googles_field_counts_before_its_sentence_and_a_header_before_both():
    failures = Failures("host", {})
    for delay, wait in (("34.07s", 34.07), ("-3s", None), ("soon", None), ("nans", None)):
        assert pause_in(json.dumps(gemini_quota("PerMinute", delay))) == wait
    body = json.dumps(gemini_quota("PerMinute", "34s"))
    waits = [failures.refused(429, header, body).retry_after for header in (None, "2", "garbage")]
    assert waits == [34.0, 2.0, 34.0]
    daily = [failures.refused(429, header, "1,000 requests per day") for header in (None, "2")]
    assert [(error.fault, error.retryable, error.retry_after) for error in daily] == [
        ("target", False, None),
        ("unknown", True, 2.0),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("error", "details", "message", "code", "innererror", "retryDelay")), inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from((302, 400, 403, 429, 503)), JSON.map(json.dumps) | st.text(max_size=40))
def test_any_body_can_be_read(status, body):
    refusal_of(status, body), pause_in(body)
    error = Failures("host", {}).refused(status, None, body)
    assert str(error) and (error.retry_after is None or error.retryable)


def test_the_word_json_is_added_where_json_is_asked_for_without_it():
    for messages, sent in (
        ([{"role": "user", "content": "List them."}], "Reply with JSON."),
        ([{"role": "user", "content": "List them as json."}], None),
    ):
        body = {"messages": list(messages), "response_format": {"type": "json_object"}}
        changes = Fitting(TargetConfig(name="x", model="openai/gpt-4o-mini")).fit(body)
        assert body["response_format"] == {"type": "json_object"}
        assert (body["messages"][0]["content"] == sent) is bool(changes) is bool(sent)
