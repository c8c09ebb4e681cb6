"""Evaluators that judge the answers of an item together: what they see of the item and of the chat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tui_evals import evaluate

SPEC = {
    "prompt": "Asked: {input}\nBy: {rule}\nHouse: {house}\n{completion}\nAre they alike?",
    "choice_strings": ["Yes", "No"],
    "eval_type": "classify",
    "choice_scores": {"Yes": 1.0, "No": 0.0},
    "output_template": "{i}: {output}\n",
    "multicomp_n": 2,
}


class Judge:
    """Says yes, and keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, messages: list[dict[str, Any]]) -> str:
        self.shown.append("\n".join(message["content"] for message in messages))
        return "Yes"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def judged(item: dict[str, Any], **more: Any) -> tuple[Judge, Any]:
    judge = Judge()
    document = {"variables": {"house": "red"}, "default_evaluators": {"ModelGraded": SPEC}, "items": [item]}
    return judge, evaluate(document, lambda prompt: f"to {prompt}", judge=judge, repeats=2, **more)


def test_variables_and_the_chat_before_the_prompt_reach_the_judge_of_a_group() -> None:
    history = [{"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Hello."}]
    judge, _ = judged({"prompt": "Why?", "messages": history, "variables": {"rule": "be kind"}})
    (shown,) = judge.shown
    for part in ("Be brief.", "Hello.", "Why?", "be kind", "red"):
        assert part in shown
    assert shown.count("to Why?") == 2


def test_an_item_that_asks_by_messages_alone_has_its_question_shown() -> None:
    judge, _ = judged({"messages": [{"role": "user", "content": "Only here"}], "variables": {"rule": "x"}})
    assert "Only here" in judge.shown[0]


def test_in_a_conversation_the_turns_before_are_shown() -> None:
    turns = [{"prompt": "first"}, {"prompt": "second"}]
    judge, _ = judged({"turns": turns, "variables": {"rule": "x"}})
    first, second = judge.shown
    assert "to first" in second and "second" not in first
