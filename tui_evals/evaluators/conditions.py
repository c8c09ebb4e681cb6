"""Conditions: an expression over the answer, a number of evaluators that must pass, and the place of one left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from pydantic import Field, ValidationError, field_validator, model_validator

from tui_evals.evaluators.base import (
    CannotJudge,
    Evaluator,
    Evidence,
    JudgedOptions,
    Misconfigured,
    NoValueToJudge,
    Options,
    Score,
    evaluate,
    measured_score,
    skipped_score,
    verdict_score,
)
from tui_evals.text import strictjson
from tui_evals.text.measures import Measure
from tui_evals.text.names import did_you_mean
from tui_evals.text.templates import TemplateError, evaluate_expression, expression_names


def _answer_value(evidence: Evidence) -> object:
    try:
        return strictjson.loads(evidence.response or "", duplicates=True)
    except strictjson.JsonError as problem:
        raise NoValueToJudge(f"the expression asks for the answer's json, and the answer is {problem}") from None


_NAMES: Mapping[str, Callable[[Evidence], object]] = {
    "response": lambda evidence: evidence.response or "",
    "json": _answer_value,
    "expected": lambda evidence: evidence.expected,
    "references": lambda evidence: list(evidence.references),
    "prompt": lambda evidence: evidence.prompt,
    "context": lambda evidence: evidence.context,
    "history": lambda evidence: [dict(message) for message in evidence.history],
    "variables": lambda evidence: dict(evidence.variables),
    "tool_calls": lambda evidence: [asdict(call) for call in evidence.tool_calls or ()],
    "diagnostics": lambda evidence: dict(evidence.diagnostics or {}),
    "finish_reason": lambda evidence: evidence.finish_reason,
    "latency_ms": lambda evidence: evidence.latency_ms,
    "cost": lambda evidence: evidence.cost,
    "tokens": lambda evidence: evidence.tokens,
}
_MEASURED = {
    "latency_ms": "no time was measured for this answer",
    "cost": "no price is known for this answer; give its target a price",
    "tokens": "the target said nothing of tokens",
}
_OF_THE_ANSWER = frozenset(("json", "tool_calls", "diagnostics"))
"""Names whose value the answer makes, so that what cannot be computed over it is the answer's fault."""


class ExpressionOptions(Options):
    """Options of Expression."""

    expression: str = Field(
        min_length=1, max_length=4_000, description="What must be true of the answer, in the language of templates."
    )

    @field_validator("expression")
    @classmethod
    def _usable(cls, expression: str) -> str:
        try:
            names = expression_names(expression)
        except TemplateError as problem:
            raise ValueError(f"the expression {problem.problem}") from None
        for name in names:
            if name not in _NAMES:
                hint = did_you_mean(name, _NAMES)
                raise ValueError(f"the expression uses {name}, which is not known{hint}; there are {', '.join(_NAMES)}")
        return expression


class Expression(Evaluator):
    """Passes when the expression is true, such as `json.total == expected | float and latency_ms < 2000`.

    It is an expression of the template language, sandboxed: comparisons, `and`, `or`, `not`, `in`, arithmetic, fields
    and positions (`json.items[0].price`), tests (`is defined`) and filters (`response | lower`, `json.items | length`,
    `response | split | length < 50` for words, `(json.total - 10) | abs < 0.01`). No function is called. It may use
    response, json (the answer, parsed), expected, references, prompt, context, history, variables, tool_calls (each
    with name and arguments), diagnostics, finish_reason, latency_ms, cost and tokens. Time and memory are bounded.

    An answer fails if the expression reads `json` and it is not JSON, or reads a field that its json, tool calls or
    diagnostics do not have; `negate` does not invert that. Skipped if a time, cost or count was not measured. A result
    that is neither true nor false is an error.
    """

    name = "Expression"
    family = "text"
    Options = ExpressionOptions
    example: ClassVar = {
        "options": {"expression": "json.total == expected | float and json.lines | length < 4"},
        "response": '{"total": 12.5, "lines": ["a", "b"]}',
        "expected": "12.5",
    }

    def score(self, evidence: Evidence) -> Score:
        """Compute it over the evidence it names."""
        expression: str = self.options.expression
        names = expression_names(expression)
        values = {name: _NAMES[name](evidence) for name in names}
        for name, reason in _MEASURED.items():
            if name in values and values[name] is None:
                return skipped_score(f"the expression asks for {name}: {reason}")
        if "expected" in values and values["expected"] is None:
            raise Misconfigured("the expression asks for expected, and the item has no expected_response or ideal")
        try:
            value = evaluate_expression(expression, values)
        except TemplateError as problem:
            reason = f"the expression {problem.problem}"
            if _OF_THE_ANSWER.isdisjoint(names):
                raise Misconfigured(reason) from None
            raise NoValueToJudge(reason) from None
        if not isinstance(value, bool):
            shown = strictjson.dumps(value)
            shown = shown if len(shown) <= 80 else f"{shown[:79]}…"
            raise Misconfigured(f"the expression gives {shown}, and must give true or false: compare it with something")
        return verdict_score(value, f"the expression is {'true' if value else 'false'}: {expression}")


_MOST = 50
_CLOSE = 1e-9  # a share that was computed is as large as the one that was written down


def _members(evaluators: Mapping[str, Any]) -> Iterator[tuple[str, type[Evaluator], dict[str, Any]]]:
    """Each evaluator of a group by its key, and its options; ValueError says which cannot be in one."""
    from .registry import built_in  # imported when needed: the registry imports this module

    for key, given in evaluators.items():
        name = given.get("type", key)
        kind = built_in().get(name) if isinstance(name, str) else None
        if kind is None:
            hint = did_you_mean(str(name), built_in())
            raise ValueError(f"{name!r} cannot be in a group{hint}; evaluators of a project cannot either")
        if kind is AtLeast or kind.embeds:
            what = "is another group" if kind is AtLeast else "compares embeddings"
            raise ValueError(f"{key!r} cannot be in a group: it {what}")
        if given.get("judge"):
            raise ValueError(f"{key!r} names a judge of its own; a group has one judge, its option judge")
        yield key, kind, {option: value for option, value in given.items() if option != "type"}


class AtLeastOptions(JudgedOptions):
    """Options of AtLeast."""

    evaluators: dict[str, dict[str, Any]] = Field(
        min_length=1, max_length=_MOST, description="The evaluators with their options, as a dataset has them."
    )
    threshold: float = Field(
        1.0, ge=0, le=1, description="The share of them, by weight, that must pass; all unless it is given."
    )

    @model_validator(mode="after")
    def _each_can_judge(self) -> AtLeastOptions:
        for key, kind, options in _members(self.evaluators):
            try:
                one = kind(kind.Options.model_validate(options))
            except ValidationError as problem:
                first = problem.errors(include_url=False)[0]
                where = ".".join((key, *map(str, first["loc"])))
                raise ValueError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None
            if one.scope == "group":
                raise ValueError(f"{key!r} cannot be in a group: it judges several answers together")
        return self


class AtLeast(Evaluator):
    """Passes when enough of its evaluators pass: a share of at least `threshold`, by their weights.

    The score is that share. Each evaluator is given by its name, or by a label with its `type`, with its usual options;
    their judge is this one's `judge`, otherwise the run's. Skipped evaluators do not count; if one cannot judge,
    neither can this one. A threshold of 0 always passes.
    """

    name = "AtLeast"
    family = "text"
    may_ask = True
    measure = Measure("at least")
    Options = AtLeastOptions
    example: ClassVar = {
        "options": {
            "threshold": 0.5,
            "evaluators": {
                "ContainsAny": {"values": ["sorry", "apologise"]},
                "Brief": {"type": "Length", "unit": "words", "at_most": 5},
            },
        },
        "response": "We are sorry that it took so long, and send you another one.",
    }

    @classmethod
    def is_judged(cls, settings: Mapping[str, Any]) -> bool:
        """Whether one of its evaluators asks a judge."""
        return any(kind.judged for _, kind, _ in _members(settings["evaluators"]))

    async def score(self, evidence: Evidence) -> Score:
        """The share of those that pass."""
        weights: dict[str, float] = {}
        verdicts: dict[str, Score] = {}
        for key, kind, given in _members(self.options.evaluators):
            if kind.judged and not self.has_judge:
                return skipped_score(f"{key} of the group asks a judge, and there is none")
            one = kind(kind.Options.model_validate(given), self._ask if kind.judged or kind.may_ask else None)
            found = await evaluate(one, evidence)
            if found.result == "error":
                raise CannotJudge(str(found.details.get("code", "evaluatorError")), f"{key}: {found.reason}")
            if found.result in ("pass", "fail"):
                verdicts[key], weights[key] = found, one.options.weight
        if not (whole := sum(weights.values())):
            return skipped_score("none of its evaluators gave a verdict that counts")
        passed = [key for key, found in verdicts.items() if found.result == "pass"]
        share = sum(weights[key] for key in passed) / whole
        failed = "; ".join(f"{key}: {found.reason}" for key, found in verdicts.items() if found.result == "fail")
        reason = f"{len(passed)} of {len(verdicts)} passed" + (f" ({failed})" if failed else "")
        threshold = self.options.threshold
        near = threshold if abs(share - threshold) < _CLOSE else share
        results = {key: found.result for key, found in verdicts.items()}
        return measured_score(near, threshold, reason, evaluators=results)


class LeftOutOptions(Options):
    """Options of LeftOut."""

    tool: str = Field("promptfoo", min_length=1, description="The tool whose assertion it is.")
    assertion: Mapping[str, Any] = Field(description="The assertion, as that tool writes it.")
    why: str = Field("", description="Why no evaluator here replaces it.")


class LeftOut(Evaluator):
    """Measures nothing: a placeholder for an assertion of another tool that has no equivalent here.

    It is always skipped, and every answer it would judge is incomplete: `--fail-on-incomplete` refuses such a run, the
    filter `incomplete` finds the answers, and `validate` counts the items. Remove it, or replace it by an evaluator.
    """

    name = "LeftOut"
    family = "conditions"
    needs = ()
    Options = LeftOutOptions
    options: LeftOutOptions
    example: ClassVar = {"response": "4", "options": {"assertion": {"type": "pi", "value": "Is it right?"}}}

    def score(self, evidence: Evidence) -> Score:
        """Skip with the reason why the assertion was left out."""
        kind, why = self.options.assertion.get("type", "an assertion"), self.options.why
        return skipped_score(f"{kind} of {self.options.tool} was left out{f': {why}' if why else ''}")


LEFT_OUT = LeftOut.name
