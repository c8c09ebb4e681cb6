"""Scorers of the user's own for suites: a subclass that scores batches, and what the engine makes of it."""

from __future__ import annotations

import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tui_evals.evaluators.base import Evaluator, Evidence, Score, measured_score
from tui_evals.evaluators.registry import Registry
from tui_evals.runs.suites.cases import UserTypeError, UserValueError
from tui_evals.runs.suites.suite import Method

Case = tuple[str, str | None, str, str | None]
"""A candidate with its reference, its input and its context."""


@dataclass(frozen=True, slots=True)
class Category:
    """One of the categories that a categorical scorer gives."""

    name: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """The result of one candidate: a score, a category, or both."""

    score: float | None = None
    category: Category | str | None = None


class Scorer(ABC):
    """A way of scoring of the user's own: `name` and `run_batch` are to be written, the rest as it is needed."""

    @staticmethod
    @abstractmethod
    def name() -> str:
        """The scorer's name; no evaluator may have it."""

    @abstractmethod
    def run_batch(
        self,
        candidate_batch: list[str],
        reference_batch: list[str] | None = None,
        input_text_batch: list[str] | None = None,
        context_batch: list[str] | None = None,
    ) -> Sequence[float | ScoreResult]:
        """Score some candidates, one result for each; one that raises is asked again case by case."""

    async def arun_batch(
        self,
        candidate_batch: list[str],
        reference_batch: list[str] | None = None,
        input_text_batch: list[str] | None = None,
        context_batch: list[str] | None = None,
    ) -> Sequence[float | ScoreResult]:
        """Score some candidates, awaited; `arun` takes `run_batch` where this is not written."""
        raise NotImplementedError

    @staticmethod
    def requires_reference() -> bool:
        """Whether every case needs a reference output."""
        return True

    @staticmethod
    def is_categorical() -> bool:
        """Whether every result has a category; then `categories` lists them."""
        return False

    @staticmethod
    def categories() -> list[Category] | None:
        """All categories there can be."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The attributes that JSON can hold, for the suite to keep."""
        return {name: value for name, value in vars(self).items() if _is_json(value)}

    @classmethod
    def from_dict(cls, config: dict[str, Any]) -> Scorer:
        """The scorer of what `to_dict` gave; what its constructor does not take is passed over."""
        parameters = inspect.signature(cls).parameters
        return cls(**{name: value for name, value in config.items() if name in parameters})


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def method_of(scorer: Scorer, registry: Registry) -> Method:
    """The scoring method of a scorer; raises where the scorer is invalid."""
    name: object = scorer.name()
    if not isinstance(name, str) or not name.strip():
        raise UserTypeError(f"name() of {type(scorer).__name__} must return a text, not {name!r}")
    if name in registry.by_name:
        raise UserValueError(f"the scorer {name!r} has the name of an evaluator that is there already; rename it")
    categories = scorer.categories()
    if scorer.is_categorical() != bool(categories):
        wrong = (
            "is categorical and names no categories" if not categories else "names categories and is not categorical"
        )
        raise UserValueError(f"the scorer {name!r} {wrong}; is_categorical() and categories() belong together")
    records = tuple(
        {"name": _category_name(category), "description": getattr(category, "description", None)}
        for category in categories or ()
    )
    return Method(
        name=name,
        requires_reference=scorer.requires_reference(),
        categories=records or None,
        custom=True,
        config=scorer.to_dict(),
    )


def _category_name(category: Any) -> str:
    return category if isinstance(category, str) else str(category.name)


def evaluator_of_scorer(scorer: Scorer, cases: Sequence[Case], size: int, awaited: bool) -> type[Evaluator]:
    """The evaluator that a scorer is in a run over these cases, scored `size` at a time."""
    about = inspect.getdoc(type(scorer)) or f"What {scorer.name()} gives."
    batches = _Batches(scorer, cases, size, awaited)
    return type(type(scorer).__name__, (_Scored,), {"name": scorer.name(), "batches": batches, "__doc__": about})


class _Batches:
    """The cases of a run in batches, each scored once and when it is first needed."""

    def __init__(self, scorer: Scorer, cases: Sequence[Case], size: int, awaited: bool) -> None:
        self._scorer = scorer
        self._cases = list(dict.fromkeys(cases))  # the same case twice has the same score
        self._places = {case: place for place, case in enumerate(self._cases)}
        self._size = size
        self._awaited = awaited and type(scorer).arun_batch is not Scorer.arun_batch
        self._done: dict[int, asyncio.Task[list[Score | Exception]]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def score(self, case: Case) -> Score:
        """The score of a case, with those of its batch."""
        place = self._places[case]
        number, within = divmod(place, self._size)
        if number not in self._done:
            start = number * self._size
            self._done[number] = asyncio.create_task(self._batch(self._cases[start : start + self._size]))
        result = (await asyncio.shield(self._done[number]))[within]
        if isinstance(result, Exception):
            raise result
        return result

    async def _batch(self, cases: list[Case]) -> list[Score | Exception]:
        """The scores of a batch; where it fails, each case alone says whether it is to blame."""
        try:
            return [*await self._run_scorer(cases)]
        except Exception as problem:  # what a scorer raises is the record of its case
            if len(cases) == 1:
                return [problem]
            return [(await self._batch([case]))[0] for case in cases]

    async def _run_scorer(self, cases: list[Case]) -> list[Score]:
        candidates, references, inputs, contexts = map(list, zip(*cases, strict=True))
        arguments = (
            candidates,
            None if None in references else references,
            inputs,
            None if all(text is None for text in contexts) else [text or "" for text in contexts],
        )
        answer: Any
        if self._awaited:
            answer = await self._scorer.arun_batch(*arguments)
        else:
            async with self._one_at_a_time:
                answer = await asyncio.to_thread(self._scorer.run_batch, *arguments)
        results = list(answer)
        if len(results) != len(cases):
            raise ValueError(f"{self._scorer.name()} gave {len(results)} results for {len(cases)} candidates")
        return [self._score(result) for result in results]

    def _score(self, result: Any) -> Score:
        """One result as a record; whatever has a score and a category is taken for a result."""
        if isinstance(result, Score):
            return result
        score, category = result, None
        if hasattr(result, "score"):
            score, category = result.score, getattr(result, "category", None)
        label = None if category is None else _category_name(category)
        if self._scorer.is_categorical() and label not in [
            _category_name(known_category) for known_category in self._scorer.categories() or ()
        ]:
            raise ValueError(f"{self._scorer.name()} gave the category {label!r}, which is none of its categories")
        if score is None and label is None:
            raise ValueError(f"{self._scorer.name()} gave neither a score nor a category")
        if score is None:
            return Score(label=label)
        return measured_score(float(score), None, label=label)


class _Scored(Evaluator):
    family = "custom"
    batches: ClassVar[_Batches]

    async def score(self, evidence: Evidence) -> Score:
        """The scorer's score of the case."""
        response = evidence.response or ""
        return await self.batches.score((response, evidence.expected, evidence.prompt, evidence.context))
