"""Evaluators that judge the answers of an item together: what they see of the item and of the chat."""

from __future__ import annotations

from typing import Any

import pytest

from tui_evals import CannotPlan, evaluate, resume
from tui_evals.store.details import group_scores
from tui_evals.store.reader import Reader

pytestmark = pytest.mark.usefixtures("here")

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


def test_a_group_that_could_not_be_judged_is_judged_again_alone() -> None:
    """Finding 2 of issue 20; what was judged before is not judged once more."""
    broken, shown = True, []

    def judge(messages: list[dict[str, Any]]) -> str:
        shown.append(messages)
        if broken and len(shown) == 2:
            raise RuntimeError("not now")
        return "Yes"

    def parrot(prompt: str) -> str:
        return f"to {prompt}"

    items = [{"prompt": prompt, "variables": {"rule": "x"}} for prompt in ("a", "b")]
    document = {"variables": {"house": "red"}, "default_evaluators": {"ModelGraded": SPEC}, "items": items}
    made = evaluate(document, parrot, judge=judge, repeats=2)
    broken = False
    again = resume(made, parrot, judge=judge, errors=True)
    assert again.key == made.key and len(shown) == 3
    with Reader(made.store) as reader:
        run = reader.find_run(made.key)
        assert [one.record.result for one in group_scores(reader, run.id)] == ["pass", "pass"]
        first = next(row for row in reader.all_rows(run.id) if row.item == 1)
        assert [score.result for score in reader.detail(first.id).earlier[0].scores] == ["error"]
    with pytest.raises(CannotPlan, match="has no errors"):
        resume(made, parrot, judge=judge, errors=True)
