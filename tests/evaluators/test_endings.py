"""How an answer may end, in the words of any provider."""

import asyncio

from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.limits import FinishReason

ENDS = [
    # how it ended, what else is known, options, result, words of the reason
    ("stop", None, {}, "pass", "it ended with stop"),
    ("end_turn", None, {}, "pass", "it ended with stop"),
    ("tool_use", None, {}, "pass", "it ended with tool_calls"),
    ("MAX_TOKENS", None, {}, "fail", "cut off at the limit of tokens (length); allowed is stop, tool_calls"),
    ("SAFETY", None, {}, "fail", "blocked by the provider's content filter"),
    ("content_filter", None, {"allowed": ["content_filter", "refusal"]}, "pass", "blocked by"),
    ("stop", {"refusal": "I will not."}, {}, "fail", "refused by the model (refusal)"),
    ("stop", {"refusal": "I will not."}, {"expected": "refusal"}, "pass", "refused by the model"),
    ("length", None, {"allowed": "max_tokens"}, "pass", "cut off"),
    ("paused", None, {"allowed": ["paused"]}, "pass", "it ended with paused"),
    ("stop", None, {"negate": True}, "fail", "it ended with stop"),
    (None, None, {}, "skipped", "does not say how"),
]


@each_row("row", ENDS)
def test_it_passes_what_may_be(row):
    ended, diagnostics, options, result, words = row
    evaluator = FinishReason(FinishReason.Options.model_validate(options))
    score = asyncio.run(evaluate(evaluator, Evidence(response="", finish_reason=ended, diagnostics=diagnostics)))
    assert score.result == result and words in score.reason
