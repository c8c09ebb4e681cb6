"""JavaScript judges answers, or makes of an answer what another evaluator judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import Field, ValidationError, model_validator

from tui_evals.evaluators import sandbox
from tui_evals.text.names import did_you_mean

from .base import Evaluator, Evidence, JudgedOptions, NoValueToJudge, Score, evaluate
from .javascript_engine import (
    NOT_ISOLATED,
    SECONDS,
    CodeFailed,
    Script,
    ScriptOptions,
    context_of,
    engine_obstacle,
    judge,
    listed,
    short_code,
    text_of,
)


class JavaScriptOptions(ScriptOptions):
    """Options of JavaScript."""

    code: str = Field(
        min_length=1, max_length=100_000, description="An expression, or several lines that return their verdict."
    )


class JavaScript(Evaluator):
    r"""Passes when JavaScript returns true, such as `output.length < 80 && /\d/.test(output)`.

    One line is an expression; several lines are a function body that returns. `output` is the answer, `context` has
    vars, prompt, expected, references, history, toolCalls, latencyMs, cost, tokens and config. The code returns true or
    false, a number (which passes above 0, or from `threshold`) or `{pass, score, reason}`; it may await promises.

    An error that it throws is a fail, which `negate` does not turn. It runs in an engine without files, network,
    `require`, `fetch` and timers, with 256 MB and `timeout` seconds; what needs more is an error. Each answer is judged
    afresh: nothing that code leaves behind reaches the next. Files are custom evaluators: `custom-evaluators/x/x.js`
    with `module.exports` or `export default`.
    """

    name = "JavaScript"
    family = "text"
    Options = JavaScriptOptions
    example: ClassVar = {
        "options": {"code": "output.trim().split(/\\s+/).length <= 8 && output.indexOf(context.vars.city) >= 0"},
        "response": "The office is in Paris, near the river.",
        "variables": {"city": "Paris"},
    }

    @classmethod
    def caution(cls) -> str | None:
        """Nothing isolates the engine here."""
        return NOT_ISOLATED if sandbox.isolation_kind() is None else None

    def obstacle(self) -> str | None:
        """The engine is not installed."""
        return engine_obstacle()

    async def score(self, evidence: Evidence) -> Score:
        """Run the code once."""
        options = self.options
        script = Script(
            transforms=listed(options.transform), code=options.code, parse=options.parse, seconds=options.timeout
        )
        return await judge(script, evidence, options, f"the code ({short_code(options.code)})")


class TransformedOptions(JudgedOptions):
    """Options of Transformed."""

    transform: str | list[str] = Field(
        description="JavaScript that transforms the answer before it is judged; several run in order."
    )
    evaluator: dict[str, dict[str, Any]] = Field(
        min_length=1, max_length=1, description="What judges it: one evaluator with its options."
    )
    parse: bool = Field(
        False, description="Hand an answer that is JSON to the code as the value it holds, not as its text."
    )
    timeout: float = Field(SECONDS, gt=0, le=600, description="Seconds of computing that the code may take.")

    @model_validator(mode="after")
    def _can_judge(self) -> TransformedOptions:
        kind, options = _inner(self.evaluator)
        try:
            one = kind(kind.Options.model_validate(options))
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            where = ".".join((kind.name, *map(str, first["loc"])))
            raise ValueError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None
        if one.scope == "group":
            raise ValueError(f"{kind.name} cannot judge transformed answers: it judges several answers together")
        return self


def _inner(evaluator: Mapping[str, Mapping[str, Any]]) -> tuple[type[Evaluator], dict[str, Any]]:
    """The evaluator that judges, and its options; ValueError says why it cannot."""
    from .registry import built_in  # imported when needed: the registry imports this module

    ((key, given),) = evaluator.items()
    name = given.get("type", key)
    kind = built_in().get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"{name!r} is no evaluator that can judge here{did_you_mean(str(name), built_in())}")
    if kind is Transformed or kind.embeds:
        what = "transforms by itself" if kind is Transformed else "compares embeddings"
        raise ValueError(f"{name!r} cannot judge transformed answers: it {what}")
    if given.get("judge"):
        raise ValueError(f"{name!r} names a judge of its own; here the judge is the option judge of Transformed")
    return kind, {option: value for option, value in given.items() if option != "type"}


class Transformed(Evaluator):
    """Passes when another evaluator passes the result of JavaScript on the answer, such as `JSON.parse(output).city`.

    `transform` is written like the code of `JavaScript` and returns a text, or data that is judged as JSON. Several are
    run in order. The record is that of the other evaluator, whose judge is this one's `judge`, otherwise the run's. If
    the code throws an error or returns nothing, the answer fails.
    """

    name = "Transformed"
    family = "text"
    may_ask = True
    Options = TransformedOptions
    example: ClassVar = {
        "options": {"transform": "JSON.parse(output).city", "evaluator": {"Equals": {"value": "Rome"}}},
        "response": '{"city": "Rome", "country": "Italy"}',
    }

    @classmethod
    def is_judged(cls, settings: Mapping[str, Any]) -> bool:
        """Whether the evaluator in it asks a judge."""
        return _inner(settings["evaluator"])[0].judged

    @classmethod
    def caution(cls) -> str | None:
        """Nothing isolates the engine here."""
        return NOT_ISOLATED if sandbox.isolation_kind() is None else None

    def obstacle(self) -> str | None:
        """The engine is not installed."""
        return engine_obstacle()

    async def score(self, evidence: Evidence) -> Score:
        """The record of the evaluator for what the code returns."""
        options = self.options
        kind, given = _inner(options.evaluator)
        script = Script(transforms=listed(options.transform), parse=options.parse, seconds=options.timeout)
        try:
            text, _ = await text_of(script, evidence.response or "", context_of(evidence))
        except CodeFailed as failed:
            raise NoValueToJudge(f"the transform threw {failed}") from None
        one = kind(kind.Options.model_validate(given), self._ask if kind.judged or kind.may_ask else None)
        return await evaluate(one, replace(evidence, response=text))
