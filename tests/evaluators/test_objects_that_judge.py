"""Objects of evaluation libraries judge as they are, and a function may ask the judge."""

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tui_evals import ConfigurationError, evaluate
from tui_evals.runs.errors import CannotPlan

ITEMS = [{"prompt": "hello", "expected_response": "HELLO", "context": "greetings"}]


@dataclass
class Result:
    name: str
    score: float | None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None


class Likeness:
    """In the form of a scorer of autoevals."""

    def __call__(self, output, expected=None, **more):
        return self.eval(output, expected, **more)

    def eval(self, output, expected=None, **more):
        like = float(output.casefold() == expected.casefold())
        return Result("Likeness", like, {"rationale": f"{more['input']} and {more['context']}", "choice": "A"})


class Silent:
    def eval(self, output):
        return Result("Silent", None)


class Measured:
    """In the form of a metric of deepeval, which keeps its verdict in itself."""

    threshold = 0.4

    def __init__(self):
        self.score = self.reason = self.success = None

    def measure(self, test_case, _show_indicator=True):
        assert not _show_indicator
        self.score, self.reason, self.success = 0.45, f"{test_case.actual_output} {test_case.retrieval_context}", True
        return self.score


class Scored:
    def score(self, response, reference):
        return {"score": 0.25, "reason": "far", "threshold": 0.2}


def scores_of(project, evaluators, **more):
    run = evaluate(ITEMS, lambda prompt: prompt, evaluators=evaluators, project=project, **more)
    return run.answers[0].scores


def test_objects_of_libraries_judge(tmp_path, monkeypatch):
    made = {"deepeval": ModuleType("deepeval"), "deepeval.test_case": ModuleType("deepeval.test_case")}
    made["deepeval.test_case"].__dict__.update(LLMTestCase=SimpleNamespace, ToolCall=SimpleNamespace)
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    measured = Measured()
    scores = scores_of(tmp_path, [Likeness(), Silent(), measured, Scored()])
    likeness = scores["Likeness"]
    assert (likeness.score, likeness.result, likeness.reason) == (1, "pass", "hello and greetings")
    assert likeness.details["choice"] == "A"
    assert scores["Silent"].result == "skipped"
    kept = scores["Measured"]
    assert (kept.score, kept.result, kept.threshold) == (0.45, "pass", 0.4)
    assert kept.reason == "hello ['greetings']" and measured.score is None
    assert (scores["Scored"].result, scores["Scored"].reason) == ("pass", "far")


def test_a_function_asks_the_judge(tmp_path):
    def polite(output, ask):
        return ask(f"Is this polite? {output}") == "yes", "so says the judge"

    async def kind(output, ask=None):
        return await ask([{"role": "user", "content": "Is it kind?"}]) == "no"

    def alone(output, ask=None):
        return ask is None

    def judge(prompt):
        return "yes" if "polite? hello" in prompt else "no"

    scores = scores_of(tmp_path, [polite, kind], judge=judge)
    assert (scores["polite"].result, scores["polite"].reason) == ("pass", "so says the judge")
    assert scores["kind"].result == "pass"
    assert scores_of(tmp_path, [alone])["alone"].result == "pass"
    with pytest.raises(CannotPlan, match="polite is judged by a model and no judge is named"):
        scores_of(tmp_path, [polite])


def test_a_target_and_a_judge_of_one_name_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="the target and the judge are both called <lambda>"):
        scores_of(tmp_path, "Relevance", judge=lambda prompt: "5")
