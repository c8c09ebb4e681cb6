"""Datasets, targets and evaluators as a program hands them over: names, files, objects, functions."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, cast

from tui_evals.datasets.document import Document, load
from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.paths import CURRENT_VERSION
from tui_evals.datasets.validate import document_of_data
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
from tui_evals.runs.approving import find_typed
from tui_evals.targets.base import ConfigurationError, Target, TargetConfig
from tui_evals.targets.config import Settings
from tui_evals.targets.function import given_function
from tui_evals.targets.sweep import base_name
from tui_evals.text import strictjson
from tui_evals.text.chats import SENT, judge_parameters

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
"""Arguments of a function that are not fields of the evidence."""
_EVIDENCE = tuple(dict.fromkeys((*(field.name for field in fields(Evidence)), *_DERIVED)))
_SYNONYMS: Mapping[str, str] = {"output": "response", "answer": "response", "reference": "expected", "input": "prompt"}
_METHODS = ("eval", "measure", "score")
_WHOLE, _INDICATOR = "test_case", "_show_indicator"
_MAX_TOKENS = 4_096


def evaluator_of(name: str, given: Callable[..., Any] | object) -> type[Evaluator]:
    """An evaluator made from a function, or from an object with a method `eval`, `measure` or `score`.

    Its parameters are named after evidence (response or output or answer, expected, prompt, context, variables, …);
    others keep their defaults. `ask` calls the judge. It returns True or False, or a number from 0 to 1 that passes
    from 0.5, optionally with a reason, as (False, "too long"); or a Score or similar object; or a mapping of names to
    any of these for several scores. A function that is not async runs in a thread.
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
    """The method by which an object judges; empty if it is callable itself."""
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
        """No score: the function judges empty answers itself."""

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
        # In a thread, so that a slow one delays neither answers nor other verdicts.
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
        """The argument `ask`: takes a text or chat messages, perhaps a schema or temperature; returns the reply."""
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
        """Several named scores: their mean, which has no verdict, because each of them has one."""
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
    """Further arguments of a function with **: the question, the context and the item's variables."""
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


Answers = Callable[..., Any]
"""A function that answers: it takes the prompt (or `messages`, or `request`) and returns text, now or when awaited."""
DatasetLike = str | Path | Dataset | Mapping[str, Any] | Sequence[Item | Mapping[str, Any]]
TargetLike = str | Target | Answers
EvaluatorsLike = str | Mapping[str, Any] | Sequence[Any]


def document_of(dataset: DatasetLike, root: Path, name: str | None = None) -> Document:
    """The dataset as a document; one without a file is known by a name in the folder of the project."""
    if isinstance(dataset, str | Path):
        return load(Path(dataset))
    data: dict[str, Any]
    if isinstance(dataset, Dataset):
        data = dataset.model_dump(exclude_unset=True)
    elif isinstance(dataset, Mapping):
        data = dict(dataset)
    else:
        data = {
            "items": [item.model_dump(exclude_unset=True) if isinstance(item, Item) else dict(item) for item in dataset]
        }
    data = {"schemaVersion": CURRENT_VERSION, **data}
    return document_of_data(data, root / (name or _name_of_list(data)).replace("/", "-"))


def _name_of_list(data: Mapping[str, Any]) -> str:
    """The name of a dataset made in code: from its metadata, else derived from its questions.

    For trends and baselines, lists with other questions are other datasets, but other expectations are not.
    """
    metadata = data.get("metadata")
    if isinstance(metadata, Mapping) and isinstance(name := metadata.get("name"), str) and name.strip():
        return name.strip()
    items = data.get("items")
    asked = [
        [item.get(field) for field in _ASKED] if isinstance(item, Mapping) else None
        for item in (items if isinstance(items, list) else ())
    ]
    return f"list-{hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:8]}"


_ASKED = ("testId", "name", "prompt", "messages", "variables", "turns")


def target_list(target: TargetLike | Sequence[TargetLike] | None) -> list[TargetLike]:
    """The targets that were given, one or several or none."""
    if target is None:
        return []
    return list(target) if isinstance(target, Sequence) and not isinstance(target, str) else [target]


def configurations(targets: Sequence[TargetLike], settings: Settings) -> list[tuple[TargetConfig, Target | None]]:
    """Each target's configuration, and the target itself if it is a Python object."""
    configured: list[tuple[TargetConfig, Target | None]] = []
    for target in targets:
        if isinstance(target, str):
            configured.append((find_typed(target, settings), None))
            continue
        name = str(getattr(target, "name", None) or getattr(target, "__name__", type(target).__name__))
        place = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', type(target).__qualname__)}"
        config = TargetConfig(name=name, model=f"python:{place}")
        configured.append((config, _target_of(target, config)))
    names = [config.name for config, _ in configured]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(f"two targets are called {twice}; give the functions names of their own")
    return configured


Configured = tuple[TargetConfig, Target | None]


def code_by_name(given: Iterable[Configured], asked: Iterable[TargetConfig]) -> dict[str, Target]:
    """Which code answers by each name, that of a target with other parameters too."""
    code = {config.name: target for config, target in given if target is not None}
    varied = {config.name: code[base] for config in asked if (base := base_name(config.name)) in code}
    return code | varied


def refuse_same_name(targets: Sequence[Configured], judges: Sequence[Configured], same: bool) -> None:
    """ConfigurationError where a function that answers and another that judges could not be told apart."""
    names = {config.name for config, ready in targets if ready is not None}
    if not same and (twice := next((config.name for config, _ in judges if config.name in names), None)):
        raise ConfigurationError(
            f"the target and the judge are both called {twice}; give the functions names of their own"
        )


def _target_of(target: Target | Answers, config: TargetConfig) -> Target:
    if not inspect.iscoroutinefunction(getattr(target, "ask", None)):
        return given_function(cast(Answers, target), config)
    if inspect.isclass(target):
        raise ConfigurationError(f"{config.name} is a class of targets; give an object of it, such as {config.name}()")
    if not inspect.iscoroutinefunction(getattr(target, "close", None)):
        raise ConfigurationError(f"the target {config.name} has no `async def close(self)`, which ends what it holds")
    return cast(Target, target)


def evaluators_and_code(evaluators: EvaluatorsLike) -> tuple[dict[str, Any], dict[str, type[Evaluator]]]:
    """The default evaluators of the dataset, and those of them that were given as code."""
    if isinstance(evaluators, str):
        evaluators = [word for part in evaluators.split(",") if (word := part.strip())]
    by_name = (
        evaluators if isinstance(evaluators, Mapping) else {_name_of(evaluator): evaluator for evaluator in evaluators}
    )
    chosen: dict[str, Any] = {}
    own: dict[str, type[Evaluator]] = {}
    for name, evaluator in by_name.items():
        if isinstance(evaluator, Mapping):
            chosen[name] = dict(evaluator)
        elif isinstance(evaluator, str):
            chosen[name] = {}
        elif inspect.isclass(evaluator) and issubclass(evaluator, Evaluator):
            own[name], chosen[name] = evaluator, {}
        else:
            own[name], chosen[name] = evaluator_of(name, evaluator), {}
    return chosen, own


def _name_of(evaluator: Any) -> str:
    if isinstance(evaluator, str):
        return evaluator
    if inspect.isroutine(evaluator) or inspect.isclass(evaluator):
        return str(getattr(evaluator, "name", None) or evaluator.__name__)
    name = getattr(evaluator, "name", None)
    return name if isinstance(name, str) and name.isidentifier() else type(evaluator).__name__
