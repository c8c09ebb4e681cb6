"""How a suite scores: by which evaluator, with which options, and what that needs of the cases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from tui_evals.datasets.validate import problem_of
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import Registry, UnknownEvaluator, built_in
from tui_evals.store.records import ScoreRecord

from .problems import UserValueError

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "Equals": ("non match", "match"),
    "SummaryQuality": ("reference", "candidate", "equal", "invalid"),
    "QACorrectness": ("incorrect", "correct", "invalid"),
    "Hallucination": ("hallucination", "no hallucination"),
    "PythonUnitTests": ("fail", "pass"),
}
PASSING = frozenset(("match", "correct", "candidate", "equal", "no hallucination", "pass"))
"""The categories of the built-in ways of scoring that are good."""
_BY_RESULT: Mapping[str, Mapping[str, str]] = {
    "Equals": {"fail": "non match", "pass": "match"},
    "PythonUnitTests": {"fail": "fail", "pass": "pass"},
}
_NO_KEY = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way of scoring; `config` is what a scorer of the user's own says of itself."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    requires_reference: bool = True
    requires_context: bool = False
    categories: tuple[Mapping[str, Any], ...] | None = None
    custom: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def evaluators(self) -> dict[str, Any]:
        """The evaluators of the suite as a dataset writes them: this one."""
        key = key_for(self.name)
        return {key: ({} if key == self.name else {"type": self.name}) | dict(self.options)}

    @property
    def record(self) -> dict[str, Any]:
        """What a suite keeps of it."""
        return {
            "name": self.name,
            "type": "custom" if self.custom else "built_in",
            "config": dict(self.config or self.options),
            "output_type": "categorical" if self.categories else "continuous",
            "categories": [dict(one) for one in self.categories] if self.categories else None,
        }


def key_for(name: str) -> str:
    """The name of an evaluator as a key of a dataset, which holds letters, digits and underscores only."""
    key = _NO_KEY.sub("_", name)
    return key if key[:1].isalpha() else f"scorer_{key}"


def method_named(name: str, options: Mapping[str, Any], registry: Registry) -> Method:
    """The way of scoring that an evaluator, by name or alias, and its options are."""
    try:
        kind = registry.find(name)
    except UnknownEvaluator as problem:
        raise UserValueError(str(problem)) from None
    try:
        kind.Options.model_validate(dict(options))
    except ValidationError as errors:
        said = "; ".join(str(problem_of(error, kind.Options)) for error in errors.errors(include_url=False))
        raise UserValueError(f"scoring by {name}: {said}") from None
    names = CATEGORIES.get(kind.name)
    return Method(
        name=name,
        options=dict(options),
        requires_reference=_compares(kind, options),
        requires_context="context" in kind.needs,
        categories=tuple({"name": one, "description": None} for one in names) if names else None,
    )


def _compares(kind: type[Evaluator], options: Mapping[str, Any]) -> bool:
    if kind.name == "Equals":
        return not {"value", "targetValue", "target_value"} & options.keys()
    return "expected" in kind.needs


def category_of(record: ScoreRecord) -> str | None:
    """The category of a score: its label, or what its verdict is called where there are only two."""
    if record.label is not None:
        return record.label
    kind = built_in().get(record.evaluator)
    return _BY_RESULT.get(kind.name, {}).get(record.result or "") if kind is not None else None
