"""In a run: whole conversations are judged once, chunks come from items, and records say by which rubric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import Shell
from tui_evals import evaluate
from tui_evals.store.details import scores_of
from tui_evals.store.reader import Reader

pytestmark = pytest.mark.usefixtures("here")

GOAL = {"GoalReached": {"goal": "The shop is closed."}}
RATED = '{"reason": "so it is", "score": 4}'


class Judge:
    """Gives one reply, and keeps what it was shown."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.shown: list[str] = []

    def __call__(self, messages: list[dict[str, Any]]) -> str:
        self.shown.append("\n".join(message["content"] for message in messages))
        return self.reply


def records(result: Any) -> dict[int, list[Any]]:
    """The scores of each turn of the only conversation."""
    with Reader(Path(".evals/evals.db")) as reader:
        run = next(iter(reader.runs()))
        rows = list(reader.all_rows(run.id))
        scores = scores_of(reader, tuple(row.id for row in rows), run.scoring_pass)
        return {row.turn: [(row.status, *scores.get(row.id, ()))] for row in rows}


def test_a_conversation_is_judged_once_at_its_last_turn() -> None:
    judge = Judge('{"goals": [{"goal": "closed", "reason": "said so", "reached": true}]}')
    document = {"default_evaluators": GOAL, "items": [{"turns": [{"prompt": "one"}, {"prompt": "two"}]}]}
    result = evaluate(document, lambda prompt: f"to {prompt}", judge=judge)
    (shown,) = judge.shown
    assert shown.index("to one") < shown.index("to two") and "message_4_assistant" in shown
    found = records(result)
    assert [len(found[turn][0]) for turn in (0, 1)] == [1, 2]
    assert (found[0][0][0], found[1][0][0]) == ("scored", "pass")
    assert found[1][0][1].details["rubric"] == "goalreached 1"


def test_one_that_only_an_earlier_turn_has_judges_the_conversation_up_to_it() -> None:
    judge = Judge('{"goals": [{"goal": "closed", "reason": "no", "reached": false}]}')
    turns = [{"prompt": "one", "evaluators": GOAL}, {"prompt": "two"}]
    evaluate({"default_evaluators": {}, "items": [{"turns": turns}]}, lambda prompt: f"to {prompt}", judge=judge)
    (shown,) = judge.shown
    assert "to one" in shown and "to two" not in shown


def test_the_chunks_of_an_item_stand_in_its_extensions() -> None:
    judge = Judge(
        '{"chunks": [{"chunk": 1, "reason": "", "relevant": true}, {"chunk": 2, "reason": "", "relevant": false}]}'
    )
    item = {"prompt": "q", "extensions": {"chunks": ["first", {"text": "second"}]}}
    document = {"default_evaluators": {"ContextRelevance": {}}, "items": [item]}
    found = records(evaluate(document, lambda prompt: "a", judge=judge))
    assert found[0][0][1].score == 0.5 and "chunk_2>\nsecond" in judge.shown[0]


PORTABLE: dict[str, Any] = {"schemaVersion": "1.11.0", "items": [{"prompt": "q"}, {"prompt": "r"}]}


@pytest.mark.parametrize(
    ("document", "rubrics"),
    [
        (PORTABLE, {"relevance_m365 1", "coherence_m365 1"}),
        ({**PORTABLE, "items": [{"prompt": "q", "testId": "A"}]}, {"relevance 2", "coherence 2"}),
        ({**PORTABLE, "default_evaluators": {"Relevance": {"rubric": "m365"}}}, {"relevance_m365 1"}),
        ({**PORTABLE, "default_evaluators": {"Rubric": {"criteria": "x"}}}, {"rubric 2"}),
    ],
)
def test_a_dataset_that_runevals_takes_is_judged_by_its_levels(document: dict[str, Any], rubrics: set[str]) -> None:
    found = records(evaluate(document, lambda prompt: "a", judge=Judge(RATED)))
    told = [record.details for _, *scores in found[0] for record in scores]
    assert {details["rubric"] for details in told} == rubrics
    assert all(details["judge_model"] for details in told)


@pytest.mark.story
def test_answers_that_were_judged_by_other_rubrics_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    keys = []
    shell = Shell(capsys)
    for name, document in (
        ("a", PORTABLE),
        ("b", {**PORTABLE, "items": [{"prompt": "q", "notes": "x"}, {"prompt": "r"}]}),
    ):
        Path(f"{name}.json").write_text(json.dumps(document))
        assert shell("run", f"{name}.json", "--target", "demo", "--judge", "demo", "--quiet").code == 0
        with Reader(Path(".evals/evals.db")) as reader:
            keys.append(max(reader.runs(), key=lambda run: run.id).key)
    (against,) = json.loads(shell("compare", *keys, "--json").out)["against"]
    assert against["lines"]["not comparable"] == 2 and against["items"] == 0
    out = " ".join(shell("compare", *keys).out.split())
    assert "Relevance was judged by the rubric relevance_m365 1 in A and by relevance 2 in B" in out
    assert "rescore" not in out
