"""Any metric of an installed library as an evaluator: `"type": "autoevals:Factuality"`.

The library is loaded in a warm process of the Python that `python` names, by default ours. Its models are our judge.
Its parameters get the matching evidence, such as `actual_output` the response; `map` overrides that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from tui_evals.evaluators.base import (
    CannotJudge,
    Evaluator,
    Evidence,
    JudgedOptions,
    Question,
    Score,
    consulted,
    error_score,
    measured_score,
    skipped_score,
    verdict_score,
)
from tui_evals.evaluators.judging import ask_once
from tui_evals.evaluators.libraries import VECTOR_METRICS, asks_model, installed_version, python_of
from tui_evals.evaluators.libraries.worker import MetricStopped, Setup, measure
from tui_evals.evaluators.trust import TrustError, code_digest, code_files
from tui_evals.evaluators.verdicts import SKIPPED, OffScale, Scale, ScaledOptions, parse_scale, threshold_on
from tui_evals.text.model_output import choices_data, unpack_vector

MAX_ASKS = 200
MAX_REASON = 2_000
MAX_TOKENS = 4_096
DEFAULT_THRESHOLD = 0.5


class LibraryOptions(ScaledOptions, JudgedOptions):
    """Options of a metric of a library."""

    python: str | None = Field(
        None, min_length=1, description="The Python in which the library is installed, from the project's folder on."
    )
    map: Mapping[str, str] = Field(
        default_factory=dict,
        description="What fills a parameter of the metric: a word of evidence, or a variable of the item.",
    )
    threshold: float | None = Field(
        None,
        description="The score from which it passes; else the library's verdict, and where it gives none the middle of "
        "the scale, or 0.5.",
    )
    options: Mapping[str, Any] = Field(
        default_factory=dict, description="Handed to the metric when it is made; `result` names one of its figures."
    )
    embedder: str | None = Field(
        None, description="The target of kind embedding that a metric asks which compares vectors alone."
    )
    seconds: float = Field(120.0, gt=0, description="How long it may take, without what it waits for its judge.")


class LibraryMetric(Evaluator):
    """Passes when the score of the library's metric reaches the threshold."""

    family = "library"
    may_ask = True
    Options = LibraryOptions
    library: ClassVar[str]
    metric: ClassVar[str]
    root: ClassVar[Path]

    def empty_score(self) -> None:
        """No score: the library judges empty answers itself."""

    def obstacle(self) -> str | None:
        """Why it cannot judge: its Python or its library is missing."""
        python = python_of(self.options.python, self.root)
        if not os.access(python, os.X_OK):
            return self._no_python(python)
        if installed_version(python, self.library) is None:
            return (
                f"{self.name} needs {self.library}, which is not installed for {python}: "
                f"`{python} -m pip install {self.library}`, or name another Python with the option python"
            )
        return None

    def _no_python(self, python: str) -> str:
        return f"{self.name} needs the Python {python}, which is not there; name it with the option python"

    @classmethod
    def approval(cls, settings: Mapping[str, Any]) -> tuple[str, str]:
        """The action that the user approves, and its code."""
        options = cls.Options.model_validate(dict(settings))
        python = python_of(options.python, cls.root)
        version = installed_version(python, cls.library)
        where = f" of {options.python}" if options.python is not None else ""
        code = ""
        try:
            code = code_digest(code_files(cls.root / cls.metric)) if cls._is_local() else ""
        except (OSError, TrustError):  # it cannot be loaded then either
            code = "unreadable"
        return f"runs {cls.name} of {cls.library} {version}{where}", json.dumps([cls.name, version, python, code])

    @classmethod
    def _is_local(cls) -> bool:
        """Whether the metric is a script of the project, as evaluate has them."""
        return cls.library == "evaluate" and (cls.root / cls.metric).exists()

    def provenance(self) -> Mapping[str, str]:
        """The version of its library; nothing for a script of the project, whose code has none."""
        version = installed_version(python_of(self.options.python, self.root), self.library)
        return {} if self._is_local() or version is None else {"version": version}

    async def score(self, evidence: Evidence) -> Score:
        """Measure the answer in the process of the metric."""
        options = self.options
        python = python_of(options.python, self.root)
        if not os.access(python, os.X_OK):
            raise CannotJudge("evaluatorLoadError", self._no_python(python))
        setup = Setup(
            python=python,
            library=self.library,
            metric=str(self.root / self.metric) if self._is_local() else self.metric,
            options=json.dumps(options.options, sort_keys=True, default=dict),
        )
        given = {
            "values": _values(evidence),
            "variables": {name: value for name, value in evidence.variables.items() if name.isidentifier()},
            "map": dict(options.map),
        }
        try:
            measured = await measure(setup, given, self._answering(), options.seconds)
        except MetricStopped as stopped:
            return error_score("evaluatorError", f"Evaluator failed: {stopped}")
        details = {"library": self.library, "version": measured.version, "python": measured.python}
        details["rubric"] = f"{self.name} {measured.version}"  # what comparisons tell apart
        return self._record(measured.outcome, details)

    def _answering(self) -> _Answering:
        return _Answering(self)

    def _record(self, outcome: Mapping[str, Any], details: Mapping[str, object]) -> Score:
        if "raised" in outcome:
            reason = f"Evaluator failed: {outcome['raised']}"[:MAX_REASON]
            return error_score("evaluatorError", reason, **details, traceback=outcome.get("traceback", ""))
        result = outcome["result"]
        if "skipped" in result:
            return replace(skipped_score(str(result["skipped"])[:MAX_REASON]), details=details)
        if result.get("metadata"):
            details = {**details, "metadata": result["metadata"]}
        score, reason = result["score"], str(result.get("reason") or "")[:MAX_REASON]
        label, passed = result.get("label"), result.get("passed")
        declared, threshold = self.options.scale, self.options.threshold
        if declared is not None:
            return self._on_scale(parse_scale(declared), result, reason, details)
        if score is None:
            return error_score("invalidEvaluatorResult", f"{self.name} gave no number for a score", **details)
        if threshold is None and passed is not None:
            verdict = verdict_score(passed, reason, label=label, **details)
            return replace(verdict, score=score, threshold=result.get("threshold"))
        return measured_score(
            score, DEFAULT_THRESHOLD if threshold is None else threshold, reason, label=label, **details
        )

    def _on_scale(self, scale: Scale, result: Mapping[str, Any], reason: str, details: Mapping[str, object]) -> Score:
        """The record of a score, or of a label, on the scale that is declared."""
        score, label, passed = result["score"], result.get("label"), result.get("passed")
        named = isinstance(label, str) and bool(scale.labels)
        try:
            record = scale.score(label if named else score, threshold_on(scale, self.options), reason, **details)
        except OffScale as problem:
            return error_score("invalidEvaluatorResult", f"{self.name}: {problem}", **details)
        record = record if named or label is None else replace(record, label=label)
        if self.options.threshold is None and passed is not None and record.result != SKIPPED:
            return replace(record, result="pass" if passed else "fail", threshold=result.get("threshold"))
        return record


class _Answering:
    """Answers a metric's questions to a model with the judge of its evaluator."""

    def __init__(self, evaluator: LibraryMetric) -> None:
        self._evaluator = evaluator
        self._left = MAX_ASKS

    async def __call__(self, request: Mapping[str, Any]) -> object:
        self._left -= 1
        if self._left < 0:
            raise CannotJudge("evaluatorError", f"Evaluator failed: it asked its judge more than {MAX_ASKS} times")
        evaluator = self._evaluator
        if "texts" in request:
            lines = await evaluator.ask(Question(texts=tuple(request["texts"]), judge=evaluator.options.judge))
            return list(map(unpack_vector, lines.split("\n")))
        tokens, sampling = request.get("max_tokens"), request.get("sampling") or {}
        likely = {"logprobs": True, "top_logprobs": request["likelihoods"]} if request.get("likelihoods") else {}
        question = Question(
            messages=tuple(request["messages"]),
            schema=request.get("schema"),
            judge=evaluator.options.judge,
            max_tokens=tokens if isinstance(tokens, int) and tokens > 0 else MAX_TOKENS,
            params={name: value for name, value in (sampling | likely).items() if isinstance(value, int | float)},
            likelihoods=bool(likely),
        )
        said = (await ask_once(evaluator.ask, question))[0]
        told = consulted.get()
        return {"text": said, "choices": choices_data(told.choices if told else ())} if likely else said


def _values(evidence: Evidence) -> dict[str, Any]:
    """The inputs that a metric can get, by the words of evidence; missing ones are None."""
    return {
        "prompt": evidence.prompt,
        "response": evidence.response or "",
        "expected": evidence.expected,
        "references": list(evidence.references) or None,
        "alternatives": list(evidence.alternatives) or None,
        "context": evidence.context,
        "chunks": list(evidence.chunks) or None,
        "history": [dict(message) for message in evidence.history] or None,
        "chat": [dict(message) for message in evidence.chat] or None,
        "tool_calls": None if evidence.tool_calls is None else [asdict(call) for call in evidence.tool_calls],
        "tools": [dict(tool) for tool in evidence.tools] or None,
        "diagnostics": evidence.diagnostics,
        "rules": evidence.rules,
        "intent": evidence.intent,
        "groundtruth": evidence.groundtruth,
    }


@cache
def library_metric(name: str, root: Path) -> type[LibraryMetric]:
    """The evaluator class of a metric; nothing of its library is run before it scores."""
    library, _, metric = name.partition(":")
    judged = asks_model(library, metric)
    members = {
        "name": name,
        "library": library,
        "metric": metric,
        "root": root,
        "judged": judged,
        "embeds": name in VECTOR_METRICS,
        "may_embed": judged,
        "example": {
            "options": {"python": ".venv/bin/python"},
            "prompt": "When does the shop close?",
            "response": "At 6 pm.",
            "expected": "The shop closes at six.",
        },
        "__doc__": f"Passes when the score that {metric} of {library} gives reaches the threshold.",
    }
    return type(name, (LibraryMetric,), members)
