"""Answers of chat endpoints as replies."""

import pytest

from tui_evals.targets.base import Usage
from tui_evals.targets.chat import parse_completion


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        *[((2, 3), Usage(2, 3)), ((0, 0), None), ((1, 2**64), None), ((-(2**64), 1), None), (("2", 3), None)],
        *[((-5, 3), None), ((5, -3), None), ((1, 200_000_000), None), ((True, 3), None)],
    ],
)
def test_tokens_that_cannot_have_been_counted_are_not_counted(counted, usage):
    asked, answered = counted
    answer = {
        "choices": [{"message": {"role": "assistant", "content": "so"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": asked, "completion_tokens": answered},
    }
    assert parse_completion(answer).usage == usage
