"""One declaration of a scale for every kind of evaluator, and what is refused on it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import Evidence, Question, Score, evaluate
from tui_evals.evaluators.judging import UnreadableReply
from tui_evals.evaluators.libraries.metric import library_metric
from tui_evals.evaluators.registry import load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.evaluators.verdicts import Scale, WrongScale, parse_scale, read_on_scale
from tui_evals.text.measures import common_measure, on_common_scale, parse_measure, score_figures

LABELS = {"good": 1, "fair": 0.5, "bad": 0, "n/a": None}


@each_row(
    ("declared", "text", "threshold"),
    [
        ([0, 1], "from 0 to 1", 0.5),
        ([1, 10], "from 1 to 10", 5.5),
        ([-1, 1], "from -1 to 1", 0),
        ("yes/no", "yes (1) or no (0)", 1),
        (LABELS, "good (1), fair (0.5), bad (0) or n/a (skipped)", 1),
    ],
)
def test_what_a_scale_is(declared: Any, text: str, threshold: float) -> None:
    scale = parse_scale(declared)
    assert (str(scale), scale.threshold) == (text, threshold)


@each_row(
    "declared",
    [
        *([1], [1, 0], [0, 0], [0, "1"], [0, float("nan")], [False, True], "good/bad", 5, None),
        *({}, {"a": 1}, {"a": 1, "b": 1}, {"a": 1, "A": 0}, {"a": "1", "b": 0}, {"": 1, "b": 0}),
    ],
)
def test_what_no_scale_is(declared: Any) -> None:
    with pytest.raises(WrongScale, match="a scale is"):
        parse_scale(declared)


UNIT, WORDS = Scale(0, 1), parse_scale(LABELS)


@each_row(
    ("reply", "scale", "found"),
    [
        ('{"score": 0.7, "reason": "so"}', UNIT, (0.7, None)),
        ('```json\n{"score": "0.7"}\n```', UNIT, (0.7, None)),
        ("0.7", UNIT, (0.7, None)),
        ("It is kind.\nScore: **0.7**", UNIT, (0.7, None)),
        ('{"score": "GOOD."}', WORDS, (1, "good")),
        ("**fair**", WORDS, (0.5, "fair")),
        ('{"score": "n/a"}', WORDS, (None, "n/a")),
        ('{"score": true}', parse_scale("yes/no"), (1, "yes")),
        ('{"score": -1}', Scale(-1, 1), (-1, None)),
    ],
)
def test_a_reply_is_read_on_a_scale(reply: str, scale: Scale, found: tuple[Any, Any]) -> None:
    assert scale.read(read_on_scale(reply, scale)[0]) == found


@each_row(
    ("reply", "scale", "said"),
    [
        ('{"score": 7}', UNIT, "7 is not on its scale, from 0 to 1"),
        ('{"score": true}', UNIT, "True is not on its scale"),
        ('{"score": "great"}', WORDS, "'great' is not on its scale, good (1)"),
        ("It is kind.", UNIT, "no score"),
        ("0.1\nand then\n0.9", UNIT, "more than one score"),
        ('{"score": 1} or {"score": 0}', UNIT, "differ"),
        ("x\nScore: 1", UNIT, "copied from the judged text"),
    ],
)
def test_a_reply_beyond_the_scale_is_refused(reply: str, scale: Scale, said: str) -> None:
    with pytest.raises(UnreadableReply, match="score") as problem:
        read_on_scale(reply, scale, judged=("The answer says: Score: 1",))
    assert said in str(problem.value)


def test_scores_of_several_scales_are_brought_to_one() -> None:
    ten, unit = "at least from 1 to 10", "at least from 0 to 1"
    assert common_measure([ten, ten, ""]) == ten and on_common_scale(5.5, ten, ten) == 5.5
    both = common_measure([ten, unit])
    assert parse_measure(both).range_text == "0–1, normalised"
    assert (on_common_scale(5.5, ten, both), on_common_scale(0.5, unit, both)) == (0.5, 0.5)
    assert on_common_scale(3, "at least", both) is None
    assert score_figures(7, 5.5, "pass", ten) == "7 of 1–10 (at least 5.5)"


def own(tmp_path: Path, source: str, options: dict[str, Any], prompty: str | None = None) -> Score:
    folder = tmp_path / "custom-evaluators" / "mine"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(source)
    if prompty is not None:
        (folder / "mine.prompty").write_text(prompty)
    trust = Trust(tmp_path / "trust.json")
    trust.trust(folder / "mine.py")

    async def ask(question: Question) -> str:
        return "0.9"

    evaluator = load_registry(tmp_path, trust).build("mine", options, ask)
    return asyncio.run(evaluate(evaluator, Evidence(response="four words are here")))


FRONT = "---\nname: Mine\nscale: %s\n---\nuser:\n{{answer}}\n"
ASKS = "def score(response, model_config):\n    return float(model_config.ask_prompty(answer=response))\n"


@pytest.mark.parametrize(
    ("source", "options", "prompty", "found"),
    [
        ("SCALE = [0, 10]\ndef score(response): return len(response.split())", {}, None, (4, "fail", 5, None)),
        ("SCALE = [0, 10]\ndef score(response): return 4", {"threshold": 4}, None, (4, "pass", 4, None)),
        ("def score(response): return 4", {"scale": [0, 5]}, None, (4, "pass", 2.5, None)),
        ("SCALE = {'good': 1, 'bad': 0}\ndef score(response): return 'bad', 'why'", {}, None, (0, "fail", 1, "bad")),
        ("SCALE = 'yes/no'\ndef score(response): return {'score': 'yes'}", {}, None, (1, "pass", 1, "yes")),
        (ASKS, {}, FRONT % "[0, 1]", (0.9, "pass", 0.5, None)),
        (ASKS, {}, FRONT.replace("scale: %s\n", ""), None),
        ("SCALE = [0, 1]\ndef score(response): return 4", {}, None, None),
    ],
)
def test_an_evaluator_of_the_project_declares_its_scale(
    tmp_path: Path, source: str, options: dict[str, Any], prompty: str | None, found: tuple[Any, ...] | None
) -> None:
    record = own(tmp_path, source, options, prompty)
    if found is None:
        assert record.result == "error" and ("from 0 to 1" in record.reason or "from 1 to 5" in record.reason)
        return
    assert (record.score, record.result, record.threshold, record.label) == found, record


def test_a_threshold_beyond_the_scale_is_found_before_anything_is_asked(tmp_path: Path) -> None:
    own(tmp_path, "SCALE = [0, 1]\ndef score(response): return 1", {})
    registry = load_registry(tmp_path, Trust(tmp_path / "trust.json"))
    assert registry.build("mine", {"threshold": 3}).obstacle() == "the threshold 3 is not on the scale, from 0 to 1"
    assert registry.build("mine", {"threshold": 1}).obstacle() is None


def test_a_scale_that_has_to_be_run_is_said_to_be_none(tmp_path: Path) -> None:
    record = own(tmp_path, "SCALE = list(range(2))\ndef score(response): return 1", {})
    assert record.details["code"] == "evaluatorConfigurationError"
    assert "custom-evaluators/mine/mine.py declares no scale: SCALE has to be plain data" in record.reason


@each_row(
    ("options", "result", "found"),
    [
        ({"scale": [1, 5]}, {"score": 4.0}, (4, "pass", 3, None)),
        ({"scale": [1, 5]}, {"score": 4.0, "passed": False, "threshold": 4.5}, (4, "fail", 4.5, None)),
        ({"scale": {"A": 1, "B": 0.6, "C": 0}}, {"score": 0.6, "label": "b"}, (0.6, "fail", 1, "B")),
        ({"scale": {"A": 1, "B": 0.6, "C": 0}, "threshold": 0.6}, {"score": 0.6}, (0.6, "pass", 0.6, "B")),
        ({"scale": [0, 1]}, {"score": 0.6, "label": "B"}, (0.6, "pass", 0.5, "B")),
        ({}, {"skipped": "no claim"}, (None, "skipped", None, None)),
    ],
)
def test_a_metric_of_a_library_is_read_on_its_scale(
    tmp_path: Path, options: dict[str, Any], result: dict[str, Any], found: tuple[Any, ...]
) -> None:
    kind = library_metric("deepeval:Some", tmp_path)
    record = kind(kind.Options.model_validate(options))._record({"result": result}, {})
    assert (record.score, record.result, record.threshold, record.label) == found


def test_the_choices_of_a_grading_prompt_are_the_labels_of_a_scale() -> None:
    async def ask(question: Question) -> str:
        assert '"good" or "fair" or "bad"' in str(question.messages)
        return "It is well said.\nfair\nfair"

    options = {"prompt": "Is this kind? {completion}", "scale": {"good": 2, "fair": 1, "bad": 0}, "threshold": 1}
    evaluator = load_registry().build("ModelGraded", options, ask)
    record = asyncio.run(evaluate(evaluator, Evidence(prompt="q", response="Hello")))
    assert (record.score, record.result, record.label) == (1, "pass", "fair")
    assert record.measure == "at least from 0 to 2"
    for wrong, said in (({"scale": [0, 1]}, "labels with their values"), ({"choice_strings": "YN"}, "not both")):
        with pytest.raises(ValueError, match=said):
            load_registry().build("ModelGraded", {**options, **wrong}, ask)
