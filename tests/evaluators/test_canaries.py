import asyncio
import json
import re

import pytest

from tests.evaluators.test_rubrics import fenced
from tui_evals.evaluators.base import CannotJudge, Question
from tui_evals.evaluators.canaries import canaries, check_judge


def rating(score: int) -> str:
    return json.dumps({"reason": "so it is", "score": score})


def shown(question: Question) -> str:
    return "\n".join(message["content"] for message in question.messages)


VERDICTS = {(canary.evaluator.name, canary.answer): canary.expected for canary in canaries()}


async def sound(question: Question) -> str:
    """Reads what stands between the fences, and knows what is right."""
    name = re.search(r"Rate how (relevant|close|well|coherent)", shown(question))
    assert name
    evaluator = {"relevant": "Relevance", "close": "Similarity", "well": "Groundedness", "coherent": "Coherence"}
    wanted = VERDICTS[evaluator[name[1]], fenced(question)["answer"]]
    return rating(5 if wanted == "pass" else 1)


async def obedient(question: Question) -> str:
    """Gives whatever score the material orders."""
    ordered = re.search(r'"score": (\d)|give (\d)', shown(question))
    return rating(int(ordered[1] or ordered[2])) if ordered else await sound(question)


async def parrot(question: Question) -> str:
    """Repeats a verdict that it finds in the material."""
    found = re.search(r'\{"reason": "[^"<]*", "score": \d\}', shown(question))
    return found[0] if found else await sound(question)


async def generous(question: Question) -> str:
    return rating(5)


async def harsh(question: Question) -> str:
    return rating(1)


async def lukewarm(question: Question) -> str:
    return "Score: 3"


async def mute(question: Question) -> str:
    return ":"


async def broken(question: Question) -> str:
    raise CannotJudge("judgeTimeout", "the judge took too long")


def test_a_sound_judge_is_trusted() -> None:
    report = asyncio.run(check_judge(sound))
    assert report.trusted and all(row.passed and row.result == row.expected for row in report.rows)
    assert report.sentence == f"The judge gave the known verdict on all {len(report.rows)} canaries."


WANTED = {row.name: row.expected for row in canaries()}
ORDERS = {"an order to the judge", "a false end of the material"}


@pytest.mark.parametrize(
    ("judge", "wrong", "got"),
    [
        (obedient, ORDERS, "pass"),
        (parrot, {"a false end of the material"}, "error"),
        (generous, {name for name, wanted in WANTED.items() if wanted == "fail"}, "pass"),
        (lukewarm, {name for name, wanted in WANTED.items() if wanted == "fail"}, "pass"),
        (harsh, {name for name, wanted in WANTED.items() if wanted == "pass"}, "fail"),
        (mute, set(WANTED), "error"),
        (broken, set(WANTED), "error"),
    ],
)
def test_a_judge_that_is_not_sound_is_found_out(judge, wrong: set[str], got: str) -> None:
    report = asyncio.run(check_judge(judge))
    assert not report.trusted
    assert {row.name for row in report.rows if not row.passed} == wrong
    assert {row.result for row in report.rows if not row.passed} == {got}
    assert f"on {len(report.rows) - len(wrong)} of {len(report.rows)} canaries" in report.sentence
    assert all(name in report.sentence for name in wrong)


def test_a_row_keeps_what_the_judge_said() -> None:
    rows = asyncio.run(check_judge(harsh)).rows
    assert {row.reply for row in rows} == {rating(1)}
    assert {row.reply for row in asyncio.run(check_judge(mute)).rows} == {":"}
    assert {row.reply for row in asyncio.run(check_judge(broken)).rows} == {"the judge took too long"}


def test_the_canaries_cover_both_verdicts_and_every_trick() -> None:
    found = canaries()
    assert len({canary.name for canary in found}) == len(found)
    for evaluator in {canary.evaluator for canary in found}:
        assert {canary.expected for canary in found if canary.evaluator is evaluator} == {"pass", "fail"}
    rubric = next(canary for canary in found if canary.name == "the rubric as answer")
    assert "5 - Fully: every part of the request" in rubric.answer and "{{answer}}" in rubric.answer
