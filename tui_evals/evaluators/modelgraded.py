"""ModelGraded: a judge classifies the answer by a grading spec, and its choice is read and scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import Ask, CannotJudge, Evaluator, Evidence, Result, Score, as_text
from .chat_text import chat_to_text, is_chat
from .choices import (
    INVALID,
    EvalType,
    answer_instruction,
    choice_score,
    choice_scores,
    expand_args,
    parse_choice,
    quoted_choices,
)
from .grading_prompt import grading_question
from .modelgraded_options import ModelGradedOptions, answers_at_once, effective_spec

_UNFIT = "evaluatorConfigurationError"
_WORST_FIRST: tuple[Result | None, ...] = ("fail", "error", None)
_REASON = 300  # characters


@dataclass(frozen=True, slots=True)
class _Metric:
    """What one grading call came to."""

    choice: str
    score: float | None
    result: Result | None
    reply: str
    agrees: bool | None

    @property
    def details(self) -> dict[str, object]:
        """The record as plain data."""
        found: dict[str, object] = {"choice": self.choice, "score": self.score, "reply": self.reply}
        return found if self.agrees is None else {**found, "metascore": float(self.agrees)}


class ModelGraded(Evaluator):
    """Passes when the choice a judge makes by a grading spec is one that passes.

    The choices that pass are those in `passing`, or those that score `threshold` or more; without either, those the
    spec names, else those with the highest of the scores it lists. A spec without scores, or with from_strings, only
    records the choice. With args there is one grading call for each combination: the score is the mean, and all must
    pass. The fields of the prompt are input (the conversation), completion, ideal, n, the item's variables (which win
    over these) and spec_args. Specs about several answers (battle, best, diversity, and all with multicomp_n) judge
    the answers of a group. A reply without a choice is labelled `__invalid__`.
    """

    name = "ModelGraded"
    aliases = ("ModelBasedClassify",)
    family = "model-graded"
    needs = ()  # the spec decides which evidence is needed
    judged = True
    groups = True
    Options = ModelGradedOptions
    example: ClassVar = {
        "options": {"spec": "closedqa", "spec_args": {"criteria": "It names a city."}},
        "prompt": "Where is the Louvre?",
        "response": "In Paris.",
        "judge_reply": "Paris is a city, and the answer names it.\nY\nY",
    }

    def __init__(self, options: Any = None, ask: Ask | None = None) -> None:
        super().__init__(options, ask)
        self.spec = effective_spec(self.options)
        self.outputs = self.spec.outputs
        self.count = answers_at_once(self.options, self.spec)
        if len(self.outputs) > 1 or self.count != 1:
            self.scope = "group"
        self.passing, self.threshold = self.options.passing, self.options.threshold
        if self.passing is None and self.threshold is None:
            self.passing = self.spec.passing
            if self.passing is None and isinstance(self.spec.choice_scores, Mapping):
                self.threshold = max(self.spec.choice_scores.values())

    async def score(self, evidence: Evidence) -> Score:
        """Ask the judge once for every combination of args."""
        answers = self._answers(evidence)
        given = {name: (_text(value),) for name, value in evidence.variables.items()}
        texts = {**self._inputs(evidence), **answers, **given}
        templates = {name: template for name in answers.keys() - given.keys() if (template := self._template(name))}
        n = len(answers.get(self.outputs[0], ())) if len(self.outputs) == 1 else 1
        n = n or (self.count if isinstance(self.count, int) else 1)
        try:
            choices = self.spec.choices(n)
        except ValueError as problem:
            raise CannotJudge(_UNFIT, str(problem)) from None
        instruction = "" if self.spec.eval_type else answer_instruction(choices, self._eval_type)
        metrics = {}
        for metric, values in self._calls(evidence).items():
            expected = self._expected(metric, evidence)
            trusted = {**values, "n": str(n)}
            asked = grading_question(self.spec, texts, trusted, templates, instruction, self.options.judge)
            metrics[metric] = self._metric(await self.ask(asked), choices, expected)
        return self._record(metrics, choices)

    @property
    def _eval_type(self) -> EvalType:
        return self.spec.eval_type or self.options.eval_type or self.spec.default_eval_type

    def _template(self, name: str) -> str | None:
        return self.spec.template_for(name if name in self.outputs else self.outputs[0])

    def _inputs(self, evidence: Evidence) -> dict[str, Sequence[str]]:
        """What was asked and what would be right, under the names of their fields."""
        asked = ({"role": "user", "content": evidence.prompt},) if evidence.prompt else ()
        found: dict[str, Sequence[str]] = {}
        if messages := (*evidence.history, *asked):
            found |= dict.fromkeys(("input", *self.spec.input_outputs), (chat_to_text(messages),))
        return found | ({"ideal": evidence.references} if evidence.references else {})

    def _answers(self, evidence: Evidence) -> dict[str, Sequence[str]]:
        """The answers to judge under the names of their fields; none where the item's variables hold them all."""
        if evidence.variables.keys() >= set(self.outputs):
            return {}
        if self.scope == "answer" and evidence.response is None:
            raise CannotJudge("agentRequestFailed", f"{self.name} has no answer to judge")
        answers = (evidence.response or "",) if self.scope == "answer" else evidence.completions
        several = len(self.outputs) > 1
        wanted = len(self.outputs) if several else self.count
        if len(answers) < 2 if wanted == "from_models" else len(answers) != wanted:
            number = "at least 2" if wanted == "from_models" else wanted
            reason = f"{self.spec.name} judges {number} answers of a group together, and there are {len(answers)}"
            raise CannotJudge(_UNFIT, reason)
        if not any(answer.strip() for answer in answers):
            raise CannotJudge("emptyAgentResponse", "the answer is empty, so there is nothing for a judge to read")
        if several:
            return {output: (answer,) for output, answer in zip(self.outputs, answers, strict=True)}
        return dict.fromkeys(("completion", *self.outputs), answers)

    def _calls(self, evidence: Evidence) -> dict[str, dict[str, str]]:
        """The trusted values of each grading call, under the name of its metric."""
        spec_args = {name: _text(value) for name, value in self.options.spec_args.items()}
        open_args = {
            name: values
            for name, values in self.spec.args.items()
            if name not in spec_args and name not in evidence.variables
        }
        calls = expand_args(open_args)
        return {
            metric if len(calls) > 1 else "choice": {name: _text(value) for name, (_, value) in picked.items()}
            | spec_args
            for metric, picked in calls.items()
        }

    def _expected(self, metric: str, evidence: Evidence) -> str | None:
        """The choice a person made, which metaeval compares with."""
        if not self.options.metaeval:
            return None
        if metric not in evidence.variables:
            raise CannotJudge(_UNFIT, f"metaeval compares with the item's variable {metric!r}, and there is none")
        return as_text(evidence.variables[metric])

    def _metric(self, reply: str, choices: Sequence[str], expected: str | None) -> _Metric:
        """The choice in a reply, its score and whether it passes."""
        options, said = self.options, reply
        if not options.compat:
            thoughts, end, rest = reply.lstrip().partition("</think>")
            said = rest if end and thoughts.startswith("<think>") else reply
            if self.spec.choice_strings == "from_n":  # so that 12 is not read as 1
                choices = sorted(choices, key=len, reverse=True)
        choice = parse_choice(said, choices, self._eval_type, self.spec.match_fn, compat=options.compat)
        score = choice_score(choice, choice_scores(choices, self.spec.choice_scores), options.invalid)
        agrees = None if expected is None else choice == expected
        return _Metric(choice, score, self._result(choice, score), reply, agrees)

    def _result(self, choice: str, score: float | None) -> Result | None:
        if choice == INVALID and self.options.invalid == "exclude":
            return "error"
        if self.passing is not None:
            return "pass" if choice in self.passing else "fail"
        if self.threshold is not None and score is not None:
            return "pass" if score >= self.threshold and choice != INVALID else "fail"
        return None

    def _record(self, metrics: Mapping[str, _Metric], choices: Sequence[str]) -> Score:
        """One record of all metrics: the mean of their scores, and a pass only if all pass."""
        found = tuple(metrics.values())
        results = [metric.result for metric in found]
        result: Result | None = next((worse for worse in _WORST_FIRST if worse in results), "pass")
        scores = [metric.score for metric in found if metric.score is not None]
        details: dict[str, object] = {"metrics": {name: metric.details for name, metric in metrics.items()}}
        if result == "error":
            details["code"] = "judgeOutputUnparseable"
        if self.options.metaeval:
            details["metascore"] = sum(metric.agrees is True for metric in found) / len(found)
        return Score(
            score=sum(scores) / len(scores) if scores and result != "error" else None,
            result=result,
            threshold=self.threshold,
            label="/".join(metric.choice for metric in found),
            reason=_reason(metrics, choices),
            details=details,
        )


def _reason(metrics: Mapping[str, _Metric], choices: Sequence[str]) -> str:
    """One sentence about what the judge chose."""
    if len(metrics) > 1:
        chosen = ", ".join(f"{metric.choice} for {name}" for name, metric in metrics.items())
        return f"the judge chose {chosen}"[:_REASON]
    (metric,) = metrics.values()
    if metric.choice == INVALID:
        return f"the judge's reply makes none of the choices {quoted_choices(choices)}"
    return f"the judge chose {metric.choice}" + ("" if metric.score is None else f", which scores {metric.score:g}")


def _text(value: object) -> str:
    """A value as a grading prompt shows it; a list of chat messages as the conversation it is."""
    return chat_to_text(value) if isinstance(value, list | tuple) and is_chat(value) else as_text(value)
