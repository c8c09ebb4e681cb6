"""The step that makes ground truth: a trusted model answers every test, and judges score its answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.compliance import metric_evaluator, shipped_metric
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.text.box import TemplateError

from .asking import CannotGenerate
from .reviewing import judge_ask
from .shapes import Test, Truth, rows_text
from .subject import Unbindable, bind_inputs
from .work import Generation, make_each

GOOD_SCORE = 80
BAD_SCORE = 50
MAX_RETRIES = 3
_FILE = "test_groundtruth.json"


@dataclass(frozen=True, slots=True)
class JudgedTruth:
    """The mean score of the judges for one answer, where there is one, and what each said."""

    score: float | None
    metrics: dict[str, Any] = field(default_factory=dict)


def tests_without_truth(work: Generation) -> list[Test]:
    """The tests without ground truth, or with one for an earlier input."""
    truths = work.truths
    return [test for test in work.tests if _current_truth(truths.get(test.testuid or ""), test) is None]


def _current_truth(truth: Truth | None, test: Test) -> Truth | None:
    return truth if truth is not None and truth.testinput == test.testinput else None


async def write_groundtruth(work: Generation) -> str:
    """Answers to all tests, asked again up to three times while they are not good enough."""
    if not work.models.groundtruth_judges:
        work.tell("groundtruth: no judge is named, so nobody looks over it; name one with --groundtruth-judge TARGET")
    if any(judge is work.models.groundtruth for judge in work.models.groundtruth_judges):
        name = work.models.groundtruth.config.name
        work.tell(f"groundtruth: {name} judges its own answers; name another judge with --groundtruth-judge")
    results, failures, stop = await make_each(
        work, "groundtruth", tests_without_truth(work), lambda test: _answer_test(work, test)
    )
    truths = work.truths | {truth.testuid: truth for truth in results}
    rows = [truth for test in work.tests if (truth := _current_truth(truths.get(test.testuid or ""), test)) is not None]
    text = rows_text(rows)
    if failures or stop is not None:
        work.folder.write(_FILE, text)
    if stop is not None:
        raise stop
    if failures:
        work.tell(f"groundtruth: {len(failures)} tests have none, and the same command tries again: {failures[0]}")
    return text


async def _answer_test(work: Generation, test: Test) -> Truth:
    chat = test_chat(work, test)
    for attempt in range(MAX_RETRIES + 1):
        output = await work.ask(work.models.groundtruth, chat, "groundtruth", attempt=attempt)
        judged = await _judge_output(work, test, output, attempt) if output.strip() else JudgedTruth(0.0)
        if judged.score is None or judged.score >= GOOD_SCORE:
            break
    if not output.strip():
        raise CannotGenerate(
            f"{work.models.groundtruth.config.name} answered nothing to the test {test.testuid}. Name another model "
            "with --groundtruth-model, or do without with --no-groundtruth"
        )
    score = judged.score
    if score is not None and score < BAD_SCORE:
        score = -1.0
    name = work.models.groundtruth.config.name
    facts = {"testuid": test.testuid or "", "testinput": test.testinput, "model": name}
    return Truth(**facts, output=output, groundtruthScore=score, metrics=judged.metrics)


def test_chat(work: Generation, test: Test) -> tuple[dict[str, Any], ...]:
    """The messages a model under test is sent for a test."""
    subject = work.subject
    scenario = subject.scenario(test.scenario)
    under_test = PromptUnderTest(subject.name, subject.prompty)
    try:
        if not subject.declared:
            return (*map(dict, under_test.rendered({})), {"role": "user", "content": test.testinput})
        return tuple(map(dict, under_test.rendered(bind_inputs(subject, scenario, test.testinput))))
    except Unbindable as problem:
        raise CannotGenerate(f"the test {test.testuid}: {problem}") from None
    except TemplateError as problem:
        raise CannotGenerate(f"{subject.file} cannot be filled in for the test {test.testuid}: {problem}") from None


async def _judge_output(work: Generation, test: Test, output: str, attempt: int) -> JudgedTruth:
    """Have each judge score an answer; only numbers count for the mean."""
    path = work.groundtruth_metric
    kind = shipped_metric("groundtruth-eval") if path is None else metric_evaluator(_metric_name(path.name), path)
    evidence = Evidence(
        prompt=test.testinput,
        response=output,
        rules=work.text("rules.txt"),
        intent=work.text("intent.txt"),
        input_spec=work.text("input_spec.txt"),
        prompt_template=PromptUnderTest(work.subject.name, work.subject.prompty).template,
    )
    metrics: dict[str, Any] = {}
    scores = []
    for judge in work.models.groundtruth_judges:
        score = await evaluate(kind(None, judge_ask(work, judge, "groundtruth", attempt)), evidence)
        counted = score.score if score.label is None else None
        metric = {"content": score.details.get("reply") or score.reason, "score": counted, "outcome": score.label}
        metrics[f"{kind.name} with {judge.config.name}"] = {
            key: value for key, value in metric.items() if value is not None
        }
        if counted is not None:
            scores.append(counted)
    return JudgedTruth(sum(scores) / len(scores) if scores else None, metrics)


def _metric_name(file: str) -> str:
    return file.removesuffix(".metric.prompty")
