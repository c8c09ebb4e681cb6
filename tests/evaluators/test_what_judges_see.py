"""Of `[system AAA, user BBB, system CCC]` the judge saw `AAA, BBB, BBB`; system messages alone were not
judged at all ("needs input"). History and question are the chat, whatever its shape, and the judge sees it once."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluators.helpers import Judge, score
from tui_evals import evaluate
from tui_evals.evaluators.modelgraded import ModelGraded
from tui_evals.evaluators.rubrics import Relevance
from tui_evals.text.chats import chat_to_text, content_text, split_at_question

GRADED = {
    "ModelGraded": {"prompt": "[Q]{input}[/Q]{completion}", "choice_strings": "YN", "choice_scores": {"Y": 1, "N": 0}}
}


def message(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": texts[0] if len(texts) == 1 else [{"type": "text", "text": one} for one in texts]}


AAA, BBB, CCC = message("system", "AAA"), message("user", "BBB"), message("system", "CCC")
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "DDD"}}]}
FOUND = {"role": "tool", "tool_call_id": "1", "content": "EEE"}


@pytest.mark.parametrize(
    ("chat", "texts"),
    [
        ([AAA, BBB, CCC], ["AAA", "BBB", "CCC"]),
        ([AAA], ["AAA"]),
        ([AAA, CCC], ["AAA", "CCC"]),
        ([AAA, BBB, message("assistant", "FFF")], ["AAA", "BBB", "FFF"]),
        ([AAA, BBB, CALL, FOUND], ["AAA", "BBB", "DDD", "EEE"]),
        ([AAA, message("user", "GGG", "HHH")], ["AAA", "GGG", "HHH"]),
    ],
    ids=["system last", "system only", "two systems", "assistant last", "tools", "parts"],
)
def test_a_judge_is_shown_every_message_once(tmp_path, chat, texts):
    shown: list[str] = []

    def judge(messages: list[dict[str, str]]) -> str:
        shown.append("\n".join(one["content"] for one in messages))
        return "Y"

    items = [{"messages": chat, "evaluators": GRADED}]
    run = evaluate(items, lambda prompt: "fine", judge=judge, evaluators={}, project=tmp_path)
    assert [answer.status for answer in run.answers] == ["pass"]
    assert re.findall("[A-H]{3}", shown[0].replace("YYY", "")) == texts


@pytest.mark.parametrize("chat", [[AAA, BBB, CCC], [AAA], [CALL]], ids=["system last", "system only", "answer only"])
def test_a_rated_chat_lacks_nothing(tmp_path, chat):
    """Evaluators that tell the request from what came before it are shown both, and can judge every chat."""
    shown: list[str] = []

    def judge(messages: list[dict[str, str]]) -> str:
        shown.append("\n".join(one["content"] for one in messages))
        return '{"reason": "to the point", "score": 5}'

    items = [{"messages": chat}]
    run = evaluate(items, lambda prompt: "fine", judge=judge, evaluators={"Relevance": {}}, project=tmp_path)
    assert [answer.status for answer in run.answers] == ["pass"]
    for text in re.findall("AAA|BBB|CCC|DDD", json.dumps(chat)):
        assert shown[0].count(text) == 1


def _chats() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Chats of every shape, each message with a mark of its own."""
    shapes = st.tuples(
        st.sampled_from(["system", "user", "assistant", "tool"]), st.sampled_from(["text", "parts", "no"])
    )

    def chat(drawn: list[tuple[str, str]]) -> list[dict[str, Any]]:
        made = []
        for number, (role, kind) in enumerate(drawn):
            mark = f"«{number}»"
            if kind == "no":
                made.append({"role": role, "content": None, "tool_calls": [{"function": {"name": mark}}]})
            else:
                made.append(message(role, *([mark] if kind == "text" else [mark, "and a picture"])))
        return made

    return st.lists(shapes, max_size=8).map(chat)


@given(_chats())
def test_history_and_question_are_the_chat(chat):
    history, request = split_at_question(chat)
    assert [*history, *request] == chat
    assert bool(request) == bool(chat)
    roles = [one["role"] for one in request]
    assert "user" not in roles[1:], "what is asked begins at the last message of the user"
    if not chat:
        return
    graded, rated = Judge("Y"), Judge('{"reason": "", "score": 5}')
    evidence = {"history": history, "request": request, "prompt": chat_to_text(request), "response": "fine"}
    score(ModelGraded, GRADED["ModelGraded"], graded, **evidence)
    score(Relevance, {}, rated, **evidence)
    for judge in (graded, rated):
        marks = re.findall("«\\d+»", judge.prompt)
        assert marks == [f"«{number}»" for number in range(len(chat))]
    assert f"\n{chat_to_text(chat)}\n</data" in graded.prompt


def test_pictures_are_shown_by_their_address():
    url, data = "https://example.org/cat.png", "data:image/png;base64," + "A" * 1000
    parts = [
        {"type": "text", "text": "What is it?"},
        *({"type": "image_url", "image_url": {"url": u}} for u in (url, data)),
    ]
    text = content_text(parts)
    assert text.startswith(f"What is it?\n[image_url: {url}]\n[image_url: data:image/png;base64,AAA")
    assert text.endswith("… and 822 more characters]")
