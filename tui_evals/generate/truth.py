"""The step that makes ground truth: a trusted model answers every test, and judges look over its answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.compliance import metric_evaluator, shipped_metric
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.text.box import TemplateError

from .asking import CannotGenerate
from .reviewing import ask_of
from .shapes import Test, Truth, rows_text
from .subject import Unbindable, bound
from .work import Generation, each

GOOD = 80
BAD = 50
RETRIES = 3
_FILE = "test_groundtruth.json"


@dataclass(frozen=True, slots=True)
class JudgedTruth:
    """What the judges say of one answer: the mean of their scores, where there are any."""

    score: float | None
    metrics: dict[str, Any] = field(default_factory=dict)


def untold(work: Generation) -> list[Test]:
    """The tests without ground truth, or with one for an earlier input."""
    known = work.truths
    return [test for test in work.tests if _of(known.get(test.testuid or ""), test) is None]


def _of(truth: Truth | None, test: Test) -> Truth | None:
    return truth if truth is not None and truth.testinput == test.testinput else None


async def groundtruth(work: Generation) -> str:
    """Answers to all tests, asked again up to three times while they are not good enough."""
    if not work.models.groundtruth_judges:
        work.tell("groundtruth: no judge is named, so nobody looks over it; name one with --groundtruth-judge TARGET")
    if any(judge is work.models.groundtruth for judge in work.models.groundtruth_judges):
        name = work.models.groundtruth.config.name
        work.tell(f"groundtruth: {name} judges its own answers; name another judge with --groundtruth-judge")
    made, cannot, ended = await each(work, "groundtruth", untold(work), lambda test: _truth(work, test))
    known = work.truths | {truth.testuid: truth for truth in made}
    found = [truth for test in work.tests if (truth := _of(known.get(test.testuid or ""), test)) is not None]
    text = rows_text(found)
    if cannot or ended is not None:
        work.folder.write(_FILE, text)
    if ended is not None:
        raise ended
    if cannot:
        work.tell(f"groundtruth: {len(cannot)} tests have none, and the same command tries again: {cannot[0]}")
    return text


async def _truth(work: Generation, test: Test) -> Truth:
    chat = chat_of(work, test)
    for attempt in range(RETRIES + 1):
        output = await work.say(work.models.groundtruth, chat, "groundtruth", attempt=attempt)
        judged = await _judged(work, test, output, attempt) if output.strip() else JudgedTruth(0.0)
        if judged.score is None or judged.score >= GOOD:
            break
    if not output.strip():
        raise CannotGenerate(
            f"{work.models.groundtruth.config.name} answered nothing to the test {test.testuid}. Name another model "
            "with --groundtruth-model, or do without with --no-groundtruth"
        )
    score = judged.score
    if score is not None and score < BAD:
        score = -1.0
    name = work.models.groundtruth.config.name
    facts = {"testuid": test.testuid or "", "testinput": test.testinput, "model": name}
    return Truth(**facts, output=output, groundtruthScore=score, metrics=judged.metrics)


def chat_of(work: Generation, test: Test) -> tuple[dict[str, Any], ...]:
    """What a model under test is sent for a test."""
    subject = work.subject
    scenario = subject.scenario(test.scenario)
    under_test = PromptUnderTest(subject.name, subject.prompty)
    try:
        if not subject.declared:
            return (*map(dict, under_test.rendered({})), {"role": "user", "content": test.testinput})
        return tuple(map(dict, under_test.rendered(bound(subject, scenario, test.testinput))))
    except Unbindable as problem:
        raise CannotGenerate(f"the test {test.testuid}: {problem}") from None
    except TemplateError as problem:
        raise CannotGenerate(f"{subject.file} cannot be filled in for the test {test.testuid}: {problem}") from None


async def _judged(work: Generation, test: Test, output: str, attempt: int) -> JudgedTruth:
    """The answer before each judge; only numbers count for the mean."""
    path = work.groundtruth_metric
    kind = shipped_metric("groundtruth-eval") if path is None else metric_evaluator(_name(path.name), path)
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
        score = await evaluate(kind(None, ask_of(work, judge, "groundtruth", attempt)), evidence)
        counted = score.score if score.label is None else None
        told = {"content": score.details.get("reply") or score.reason, "score": counted, "outcome": score.label}
        metrics[f"{kind.name} with {judge.config.name}"] = {
            key: value for key, value in told.items() if value is not None
        }
        if counted is not None:
            scores.append(counted)
    return JudgedTruth(sum(scores) / len(scores) if scores else None, metrics)


def _name(file: str) -> str:
    return file.removesuffix(".metric.prompty")
