"""Expression: a condition in the template language, over everything that is known of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import ClassVar

from pydantic import Field, field_validator

from tui_evals.text import strictjson
from tui_evals.text.box import TemplateError
from tui_evals.text.nearest import did_you_mean
from tui_evals.text.templates import evaluate_expression, expression_names

from .base import Evaluator, Evidence, Misconfigured, NoValueToJudge, Options, Score, skipped_score, verdict_score


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
    `(json.total - 10) | abs < 0.01`). No function is called. It may use response, json (the answer, parsed), expected,
    references, prompt, context, history, variables, tool_calls (each with name and arguments), diagnostics,
    finish_reason, latency_ms, cost and tokens. Time and memory are bounded.

    An answer that is not JSON fails where `json` is asked for, and so does one whose json, tool calls or diagnostics
    lack what is asked for; `negate` does not turn that. Where a time, cost or count was not measured it is skipped.
    Whatever is neither true nor false is an error.
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
