"""The scorers of Inspect under their own names: the same verdict as the package gives, row by row."""

import pytest

from tests.evaluators.helpers import Judge, golden, score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.registry import load_registry

REGISTRY = load_registry()


@pytest.mark.story
@each_row("name", ["match", "includes", "exact", "f1", "pattern", "choice"])
def test_every_row_is_judged_as_the_package_judges_it(name):
    kind = REGISTRY.find(name)
    different = []
    for row in golden("inspect_scorers.json", name):
        first, *others = row["references"]
        found = score(kind, row["options"], response=row["response"], expected=first, alternatives=tuple(others))
        if found.score != row["score"]:
            different.append((row, found))
    assert different == []


QUESTION = {"prompt": "Where is the Louvre?", "response": "In Paris.", "expected": "Paris", "alternatives": ("paris",)}


@each_row(
    ("options", "reply", "found"),
    [
        ({}, "It is there.\nGRADE: C", (1.0, "pass", "C")),
        ({}, "GRADE: C, one could think, but\n**GRADE:** Incorrect", (0.0, "fail", "I")),
        ({"partial_credit": True}, "GRADE: P", (0.5, None, "P")),
        ({}, "GRADE: P", (None, "error", None)),
        ({}, "downgrade: C", (None, "error", None)),
        ({"instructions": "End with VERDICT", "grade_pattern": r"VERDICT (\w)"}, "VERDICT I", (0.0, "fail", "I")),
    ],
)
def test_the_last_grade_that_was_offered_is_the_verdict(options, reply, found):
    judge = Judge(reply)
    record = score(REGISTRY.find("model_graded_qa"), options, judge, **QUESTION)
    assert (record.score, record.result, record.label) == found
    assert "Where is the Louvre?" in judge.prompt and "Paris or paris" in judge.prompt
    assert ("GRADE: P" in judge.prompt) == bool(options.get("partial_credit"))


def test_a_fact_is_asked_for_by_its_own_words_and_the_judge_may_be_called_a_model():
    judge = Judge("GRADE: C")
    record = score(REGISTRY.find("model_graded_fact"), {"model": "referee"}, judge, **QUESTION)
    assert record.result == "pass" and "contain the fact" in judge.prompt
    assert judge.questions[-1].judge == "referee"


def test_what_cannot_be_judged_is_said():
    assert score(REGISTRY.find("choice"), {"choices": ["a", "b"]}, response="ANSWER: A", expected="C").result == "error"
    found = score(REGISTRY.find("pattern"), {"pattern": "x(y)"}, response="no", expected="y")
    assert found.reason == "the pattern 'x(y)' finds nothing in the answer"
    with pytest.raises(ValueError, match="pattern is not valid"):
        REGISTRY.build("pattern", {"pattern": "("})
