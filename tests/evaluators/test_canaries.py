import asyncio
import functools
import json
import re

import pytest

from tests.evaluators.scripted_judge import question_of, shown, verdict
from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import CannotJudge, Question
from tui_evals.evaluators.canaries import canaries, check_judge
from tui_evals.evaluators.registry import built_in

RATINGS = ("Relevance", "Similarity", "Groundedness", "Coherence")


def rating(score: int) -> str:
    return json.dumps({"reason": "so it is", "score": score})


@functools.cache
def known() -> dict[str, bool]:
    """Whether the question that a judge is asked about a canary deserves a pass."""
    return {shown(question_of(canary)): canary.expected == "pass" for canary in canaries()}


@pytest.fixture(scope="module", autouse=True)
def known_before() -> None:
    """What a judge is asked is found in an event loop of its own, which cannot run within a test's."""
    known()


async def sound(question: Question) -> str:
    """Knows what is right."""
    return verdict(question, known()[shown(question)])


async def kind(question: Question) -> str:
    return verdict(question, True)


async def strict(question: Question) -> str:
    return verdict(question, False)


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


@pytest.mark.story
def test_a_sound_judge_is_trusted() -> None:
    report = asyncio.run(check_judge(sound))
    assert report.trusted and all(row.passed and row.result == row.expected for row in report.rows)
    assert report.sentence == f"The judge gave the known verdict on all {len(report.rows)} canaries."


WANTED = {row.name: row.expected for row in canaries(RATINGS)}
ORDERS = {"an order to the judge", "a false end of the material"}


@each_row(
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
    report = asyncio.run(check_judge(judge, RATINGS))
    assert not report.trusted
    assert {row.name for row in report.rows if not row.passed} == wrong
    assert {row.result for row in report.rows if not row.passed} == {got}
    assert f"on {len(report.rows) - len(wrong)} of {len(report.rows)} canaries" in report.sentence
    assert all(name in report.sentence for name in wrong)


def test_a_row_keeps_what_the_judge_said() -> None:
    rows = asyncio.run(check_judge(harsh, RATINGS)).rows
    assert {row.reply for row in rows} == {rating(1)}
    assert {row.reply for row in asyncio.run(check_judge(mute, RATINGS)).rows} == {":"}
    assert {row.reply for row in asyncio.run(check_judge(broken, RATINGS)).rows} == {"the judge took too long"}


def test_every_judged_evaluator_has_canaries_of_both_verdicts() -> None:
    found = canaries()
    assert len({canary.name for canary in found}) == len(found)
    judged = {kind.name for kind in built_in().values() if kind.judged and not kind.embeds}
    for name in judged:
        assert {canary.expected for canary in found if canary.evaluator.name == name} == {"pass", "fail"}, name
    rubric = next(canary for canary in found if canary.name == "the rubric as answer")
    assert "5 - Fully: every part of the request" in rubric.answer and "{{answer}}" in rubric.answer


@pytest.mark.story
@each_row(("judge", "fault"), [(sound, None), (kind, "too_kind"), (strict, "too_harsh")])
def test_a_judge_of_each_quality_is_told_apart_for_each_evaluator(judge, fault: str | None) -> None:
    for one in asyncio.run(check_judge(judge)).by_evaluator:
        faults = {"too_kind": one.too_kind, "too_harsh": one.too_harsh, "unread": one.unread}
        assert faults.pop(fault, 1) > 0 and not any(faults.values()), one
        assert (one.known == one.total) == (fault is None)


def test_no_evaluator_reads_a_reply_of_another_form() -> None:
    async def chatty(question: Question) -> str:
        return "Well, it depends."

    assert all(one.unread == one.total for one in asyncio.run(check_judge(chatty)).by_evaluator)
