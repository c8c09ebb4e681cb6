"""A threshold that is applied to a score gives what judging with it gives, and a name chooses among evaluators."""

from dataclasses import fields
from typing import Any

import pytest

from tests.evaluators.helpers import Judge, score
from tui_evals.datasets.model import Dataset
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import built_in, only_asks
from tui_evals.runs.rescoring import with_named
from tui_evals.runs.scoring_passes import under_options
from tui_evals.store.records import ScoreRecord

pytestmark = pytest.mark.story

COMPARING = sorted({kind.name for kind in built_in().values() if kind.compares})
REPLIES = {
    "SummaryQuality": ("0", "1", "tie", "none of these"),
    "EmbeddingSimilarity": ("[0.9, 0.1]\n[0.8, 0.2]", "[0.9, 0.1]\n[0.1, 0.9]"),
    "ModelGraded": ("Y", "N", "something else"),
}
GRADED = {
    "prompt": "Good? {completion}",
    "choice_strings": ["Y", "M", "N"],
    "choice_scores": {"Y": 1, "M": 0.5, "N": 0},
}


def judged(kind: type[Evaluator], options: dict[str, Any], reply: str | tuple[str, ...]) -> ScoreRecord:
    evidence = {name: value for name, value in kind.example.items() if name not in ("options", "judge_reply")}
    found = score(kind, options, Judge(*([reply] if isinstance(reply, str) else reply)), **evidence)
    values = {one.name: getattr(found, one.name) for one in fields(found) if one.name != "parts"}
    return ScoreRecord(key=kind.name, evaluator=kind.name, **values)


def replies(kind: type[Evaluator]) -> tuple[str, ...]:
    given = str(kind.example.get("judge_reply", ""))
    if kind.name in REPLIES:
        return REPLIES[kind.name]
    if '"score"' in given:
        return tuple(f'{{"reason": "so", "score": {n}}}' for n in range(1, 6))
    return given, given.replace("true", "false"), given.replace("true", "false", 1)


@pytest.mark.cases(7)
@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("name", COMPARING)
def test_a_threshold_applied_later_gives_the_verdict_of_judging_with_it(name: str, negate: bool) -> None:
    kind = built_in()[name]
    own = dict(kind.example.get("options", {})) if name != "ModelGraded" else GRADED
    base = {**own, "negate": negate}
    base.pop("threshold", None)
    highest = 5 if "from 1 to 5" in str(kind.measure) else 1
    thresholds = [round(highest * share, 2) for share in (0.2, 0.35, 0.5, 0.7, 0.95, 1.0)]
    decided = 0
    for reply in replies(kind):
        for before in (None, *thresholds):
            record = judged(kind, base if before is None else {**base, "threshold": before}, reply)
            for now in thresholds:
                options = {**base, "threshold": now}
                found = under_options(kind(kind.Options.model_validate(options)), record)
                if found is None or record.result in ("error", "skipped"):
                    continue
                decided += 1
                judged_now = judged(kind, options, reply)
                assert (found.result, found.score) == (judged_now.result, judged_now.score), (reply, before, now)
                assert found.reason == judged_now.reason and found.details == judged_now.details
    assert decided >= len(thresholds)


CHOSEN = ({}, {"threshold": 0.5}, {"threshold": 0.75}, {"passing": ["Y", "M"]}, {"passing": ["N"]})
SCORED = ({"Y": 1, "M": 0.5, "N": 0}, {"Y": 3, "M": 2, "N": 0.6}, None)


@pytest.mark.nightly
@pytest.mark.cases(2)
@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("args", [None, {"about": {"tone": "a", "facts": "b"}}])
@pytest.mark.parametrize("invalid", ["exclude", "lowest"])
def test_recorded_choices_get_the_scores_and_verdicts_that_grading_again_gives(negate, args, invalid) -> None:
    kind = built_in()["ModelGraded"]
    shown = "Good? {completion}" + (" {about}" if args else "")
    base = {"prompt": shown, "choice_strings": ["Y", "M", "N"], "args": args, "negate": negate, "invalid": invalid}
    sides = [
        {key: value for key, value in {**base, **chosen, "choice_scores": scores}.items() if value is not None}
        for chosen in CHOSEN
        for scores in SCORED
        if scores or "threshold" not in chosen
    ]
    compared = 0
    for said in (("Y", "Y"), ("M", "Y"), ("N", "M"), ("nothing", "Y")):
        for before in sides:
            record = judged(kind, before, said)
            for now in sides:
                found, wanted = under_options(kind(kind.Options.model_validate(now)), record), judged(kind, now, said)
                if record.result not in ("error", "skipped"):
                    compared += 1
                    assert found == wanted, (said, before, now)
    assert compared > 300


def test_all_that_compares_can_be_tried_without_running_anything_else() -> None:
    assert [name for name in COMPARING if not only_asks(built_in()[name])] == ["PartialMatch"]  # which asks nobody
    assert not only_asks(built_in()["AtLeast"]) and not only_asks(built_in()["PythonUnitTests"])
    assert not built_in()["Refusal"].compares and not built_in()["GoalReached"].compares


def test_of_another_dataset_only_the_named_evaluators_hold() -> None:
    turn = {"prompt": "a", "evaluators": {"StartsWith": {"value": "a"}}, "evaluators_mode": "replace"}
    before = Dataset.model_validate(
        {
            "default_evaluators": {"A": {"type": "Regex", "pattern": "x"}, "Match": {}},
            "items": [{"turns": [turn, {"prompt": "b"}]}, {"prompt": "c"}],
        }
    )
    now = Dataset.model_validate(
        {
            "default_evaluators": {"A": {"type": "Regex", "pattern": "y"}, "Includes": {}},
            "items": [{"turns": [{"prompt": "a"}, {"prompt": "b"}]}, {"prompt": "c", "expected_response": "new"}],
        }
    )
    merged = with_named(before, now, ("Regex",))
    assert merged.default_evaluators == {"Match": {}, "A": {"type": "Regex", "pattern": "y"}}
    first, second = merged.items[0].units
    assert (first.evaluators, first.evaluators_mode) == (
        {"StartsWith": {"value": "a"}, "A": {"type": "Regex", "pattern": "y"}},
        "replace",
    )
    assert second.evaluators is None and merged.items[1].expected_response == "new"
