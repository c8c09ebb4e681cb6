"""Functions and objects of the user's own as evaluators, metrics of evaluation libraries among them."""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import fields, replace
from typing import Any, ClassVar

from tui_evals.evaluators.base import (
    Evaluator,
    Evidence,
    Question,
    Score,
    error_score,
    measured_score,
    skipped_score,
    verdict_score,
)
from tui_evals.evaluators.judging import Noted, ask_once, noting
from tui_evals.evaluators.parameters import SENT, judge_parameters
from tui_evals.text import strictjson

THRESHOLD = 0.5
ASK = "ask"
_DERIVED: Mapping[str, Callable[[Evidence], Any]] = {
    "item": lambda evidence: evidence.item(),
    "category": lambda evidence: evidence.item().get("category"),
    "tags": lambda evidence: evidence.item().get("tags") or [],
    "extensions": lambda evidence: evidence.item().get("extensions") or {},
    "output_json": lambda evidence: _json_value(evidence.response),
    "expected_json": lambda evidence: _json_value(evidence.expected),
}
"""What a function can be given that is no field of the evidence."""
_EVIDENCE = tuple(dict.fromkeys((*(field.name for field in fields(Evidence)), *_DERIVED)))
_SYNONYMS: Mapping[str, str] = {"output": "response", "answer": "response", "reference": "expected", "input": "prompt"}
_METHODS = ("eval", "measure", "score")
_WHOLE, _INDICATOR = "test_case", "_show_indicator"
_MAX_TOKENS = 4_096


def evaluator_of(name: str, given: Callable[..., Any] | object) -> type[Evaluator]:
    """The evaluator a function is, or an object with a method `eval`, `measure` or `score`.

    Its parameters are words of evidence (response or output or answer, expected, prompt, context, variables, …); one
    that is none keeps its default. `ask` is a way to the judge. True and False are verdicts, a number is a score from 0
    to 1 that passes from 0.5, either may come with a reason, as (False, "too long"), a Score says all there is to say,
    and so does what looks like one. A mapping of names to any of these is several scores. What is not async runs in a
    thread.
    """
    method = _method_of(given)
    parameters = inspect.signature(getattr(given, method) if method else given).parameters  # type: ignore[arg-type]
    whole = method == "measure" and _WHOLE in parameters
    named = [] if whole else [each for each in parameters.values() if each.kind not in (each.VAR_POSITIONAL,)]
    rest = any(each.kind is each.VAR_KEYWORD for each in named)
    words = {each.name: _SYNONYMS.get(each.name, each.name) for each in named if each.kind is not each.VAR_KEYWORD}
    unknown = [word for word, field in words.items() if field not in _EVIDENCE and word != ASK]
    if lacking := [word for word in unknown if parameters[word].default is inspect.Parameter.empty]:
        evidence_names = ", ".join([*_EVIDENCE, *_SYNONYMS, ASK])
        raise TypeError(f"the evaluator {name} asks for {lacking[0]}, which is no evidence; there are {evidence_names}")
    asks = ASK in words
    members = {
        "name": name,
        "given": staticmethod(given) if inspect.isroutine(given) else given,
        "method": method,
        "parameter_fields": {word: field for word, field in words.items() if word not in unknown and word != ASK},
        "rest": rest,
        "whole": whole,
        "asks": asks,
        "judged": asks and parameters[ASK].default is inspect.Parameter.empty,
        "may_ask": asks,
        "__doc__": inspect.getdoc(given) or f"Passes when {name} says so.",
    }
    return type(name, (_Function,), members)


def _method_of(given: object) -> str:
    """The method by which an object judges; empty where it is called itself."""
    if inspect.isroutine(given) or inspect.isclass(given):
        return ""
    return next((each for each in _METHODS if callable(getattr(given, each, None))), "")


class _Function(Evaluator):
    family = "custom"
    given: ClassVar[Any]
    method: ClassVar[str]
    parameter_fields: ClassVar[Mapping[str, str]]
    rest: ClassVar[bool]
    whole: ClassVar[bool]
    asks: ClassVar[bool]

    def empty_score(self) -> None:
        """The function says what an empty answer is worth."""

    async def score(self, evidence: Evidence) -> Score:
        """The verdict as a score."""
        given = type(self).given
        if self.whole:  # it keeps its verdict in itself
            given = copy.copy(given)
        function = getattr(given, self.method) if self.method else given
        arguments = {
            word: _DERIVED[field](evidence) if field in _DERIVED else getattr(evidence, field)
            for word, field in self.parameter_fields.items()
        }
        if self.rest:
            arguments = {**_others(evidence, arguments), **arguments}
        heard: list[Noted[str]] = []
        if self.asks:
            arguments[ASK] = self._way_to_judge(heard, waiting=not _is_async(function)) if self.has_judge else None
        positional = (_test_case(evidence),) if self.whole else ()
        if self.whole and _INDICATOR in inspect.signature(function).parameters:
            arguments[_INDICATOR] = False
        # In a thread, so that one that takes its time holds up neither answers nor other verdicts.
        if _is_async(function):
            verdict = function(*positional, **arguments)
        else:
            verdict = await asyncio.to_thread(function, *positional, **arguments)
        if inspect.isawaitable(verdict):
            verdict = await verdict
        for noted in heard:
            noted.adopt()
        return self._record(given if self.whole else verdict)

    def _way_to_judge(self, heard: list[Noted[str]], *, waiting: bool) -> Callable[..., Any]:
        """What `ask` is: it takes a text or chat messages, perhaps a schema or a temperature, and gives the reply."""
        loop, scoring = asyncio.get_running_loop(), copy_context()

        async def ask(
            messages: str | Sequence[Mapping[str, str]],
            *,
            schema: Mapping[str, Any] | None = None,
            max_tokens: int = _MAX_TOKENS,
            **parameters: Any,
        ) -> str:
            chat = ({"role": "user", "content": messages},) if isinstance(messages, str) else tuple(messages)
            asked_with = judge_parameters(parameters)
            if asked_with.unsent:
                raise TypeError(f"ask takes no {asked_with.unsent[0]}; it takes schema, {', '.join(SENT)}")
            question = Question(
                messages=chat, schema=schema or asked_with.form, max_tokens=max_tokens, params=asked_with.params
            )
            # A thread that the function started itself does not know which scoring it asks for.
            heard.append(await loop.create_task(noting(_reply(self, question)), context=scoring.copy()))
            return heard[-1].value

        def ask_and_wait(*arguments: Any, **options: Any) -> str:
            return asyncio.run_coroutine_threadsafe(ask(*arguments, **options), loop).result()

        return ask_and_wait if waiting else ask

    def _record(self, verdict: Any) -> Score:
        if isinstance(verdict, Score):
            return verdict
        reason = ""
        if isinstance(verdict, tuple) and len(verdict) == 2:
            verdict, reason = verdict[0], str(verdict[1])
        if isinstance(verdict, bool):
            return verdict_score(verdict, reason or f"{self.name} says {'yes' if verdict else 'no'}")
        if isinstance(verdict, int | float):
            return measured_score(float(verdict), THRESHOLD, reason or f"{self.name} gives {verdict:g}")
        if (alike := score_alike(verdict, self.name)) is not None:
            return alike
        if isinstance(verdict, Mapping) and verdict and all(isinstance(name, str) for name in verdict):
            return self._several({name: self._record(part) for name, part in verdict.items()})
        raise TypeError(f"{self.name} returned {type(verdict).__name__}, not True, False, a number, a Score or scores")

    def _several(self, parts: Mapping[str, Score]) -> Score:
        """Several named scores: their mean, which neither passes nor fails, because each of them does."""
        if error := next((part for part in parts.values() if part.result == "error"), None):
            return error
        known = [part.score for part in parts.values() if part.score is not None]
        passed = sum(part.result == "pass" for part in parts.values())
        judged = passed + sum(part.result == "fail" for part in parts.values())
        reason = f"{passed} of {judged} scores pass" if judged else f"{len(parts)} scores"
        return Score(sum(known) / len(known) if known else None, None, reason=reason, parts=dict(parts))


def _json_value(text: str | None) -> Any:
    """The value of a JSON text; the text itself where it is none."""
    try:
        return None if text is None else strictjson.loads(text)
    except strictjson.JsonError:
        return text


async def _reply(evaluator: Evaluator, question: Question) -> str:
    return (await ask_once(evaluator.ask, question))[0]


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _others(evidence: Evidence, named: Mapping[str, Any]) -> dict[str, Any]:
    """What a function with ** is given besides: the question, the context and the item's variables."""
    known = {"input": evidence.prompt, "context": evidence.context, **evidence.variables}
    return {word: value for word, value in known.items() if value is not None and word not in named}


def _test_case(evidence: Evidence) -> Any:
    """The evidence as deepeval's metrics take it."""
    from deepeval.test_case import LLMTestCase, ToolCall

    context = None if evidence.context is None else [evidence.context]
    calls = evidence.tool_calls
    return LLMTestCase(
        input=evidence.prompt,
        actual_output=evidence.response,
        expected_output=evidence.expected,
        context=context,
        retrieval_context=context,
        tools_called=calls and [ToolCall(name=call.name, input_parameters=call.arguments) for call in calls],
    )


def score_alike(verdict: Any, name: str) -> Score | None:
    """The score that an object of another library is, or a mapping with `score`; None where it is none."""
    said = verdict if isinstance(verdict, Mapping) else _Attributes(verdict)
    if "score" not in said:
        return None
    score, metadata = said["score"], said.get("metadata") or said.get("details") or {}
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {"metadata": str(metadata)}
    reason = str(said.get("reason") or said.get("explanation") or metadata.pop("rationale", "") or "")
    if error := said.get("error"):
        return error_score("evaluatorError", f"Evaluator failed: {error}", **metadata)
    if score is None:
        return replace(skipped_score(reason or f"{name} gave no score"), details=metadata)
    threshold, passed = said.get("threshold"), said.get("success", said.get("passed"))
    number = float(score)
    if isinstance(passed, bool) and math.isfinite(number):
        return replace(verdict_score(passed, reason, **metadata), score=number, threshold=threshold)
    return measured_score(number, THRESHOLD if threshold is None else threshold, reason, label=None, **metadata)


class _Attributes(Mapping[str, Any]):
    """The attributes of an object by name."""

    def __init__(self, given: object) -> None:
        self._given = given

    def __getitem__(self, name: str) -> Any:
        value = getattr(self._given, name, _Attributes)
        if value is _Attributes or callable(value):
            raise KeyError(name)
        return value

    def __iter__(self) -> Any:
        return iter(vars(self._given))

    def __len__(self) -> int:
        return len(vars(self._given))
