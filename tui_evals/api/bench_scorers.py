"""Custom scorers for suites: a subclass that scores batches, and its adapter for the engine."""

from __future__ import annotations

import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tui_evals.evaluators.base import Evaluator, Evidence, Score, measured_score
from tui_evals.evaluators.registry import Registry
from tui_evals.runs.suites import Method, UserTypeError, UserValueError

Case = tuple[str, str | None, str, str | None]
"""A candidate with its reference, its input and its context."""


@dataclass(frozen=True, slots=True)
class Category:
    """One of the categories of a categorical scorer."""

    name: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """The result of one candidate: a score, a category, or both."""

    score: float | None = None
    category: Category | str | None = None


Result = float | ScoreResult


class Scorer(ABC):
    """A custom scoring method: implement `name` and `run_batch`, and the others as needed.

    If the subclass has `run`, or `arun` where it is awaited, a suite calls it once with all candidates. Otherwise it
    calls `run_batch` or `arun_batch` with one batch after another.
    """

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
        """Score some candidates, one result for each; if it raises, it is called again case by case."""

    def run(
        self,
        candidate_outputs: list[str],
        reference_outputs: list[str] | None = None,
        inputs: list[str] | None = None,
        contexts: list[str] | None = None,
        batch_size: int = 1,
    ) -> list[float | ScoreResult]:
        """Score all candidates of a run, a batch after the other."""
        results: list[Result] = []
        for batch in _batches((candidate_outputs, reference_outputs, inputs, contexts), batch_size):
            results += self._checked(self.run_batch(*batch))
        return results

    async def arun_batch(
        self,
        candidate_batch: list[str],
        reference_batch: list[str] | None = None,
        input_text_batch: list[str] | None = None,
        context_batch: list[str] | None = None,
    ) -> Sequence[float | ScoreResult]:
        """Score some candidates, awaited; a suite takes `run_batch` where this is not written."""
        raise NotImplementedError

    async def arun(
        self,
        candidate_outputs: list[str],
        reference_outputs: list[str] | None = None,
        inputs: list[str] | None = None,
        contexts: list[str] | None = None,
        batch_size: int = 5,
    ) -> list[float | ScoreResult]:
        """Score all candidates of a run, all batches at once."""
        batches = _batches((candidate_outputs, reference_outputs, inputs, contexts), batch_size)
        gathered = await asyncio.gather(*(self.arun_batch(*batch) for batch in batches))
        return [result for results in gathered for result in self._checked(results)]

    def _checked(self, results: Sequence[Result]) -> Sequence[Result]:
        """The results of a batch; a categorical scorer must give each one a category."""
        for result in results if self.is_categorical() else ():
            if getattr(result, "category", None) is None:
                raise ValueError("categorical scorer must return categorical results")
        return results

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

    def to_dict(self, warn: bool = False) -> dict[str, Any]:
        """The attributes that JSON can hold, for the suite to store; `warn` exists for compatibility."""
        return {name: value for name, value in vars(self).items() if _is_json(value)}

    @classmethod
    def from_dict(cls, config: dict[str, Any]) -> Scorer:
        """The scorer from a result of `to_dict`; values that its constructor does not take are ignored."""
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


def has_own(scorer: Scorer, name: str) -> bool:
    """Whether a scorer brings a method of this name, on its class or itself."""
    return getattr(getattr(scorer, name), "__func__", None) is not getattr(Scorer, name)


def _batches(columns: tuple[Sequence[str] | None, ...], size: int) -> Iterator[list[Any]]:
    """The columns of a run in batches; missing columns are None."""
    for start in range(0, len(columns[0] or ()), size):
        yield [None if column is None else list(column[start : start + size]) for column in columns]


@dataclass(frozen=True, slots=True)
class Columns:
    """The cases of a run as a scorer is given them: those that have a candidate."""

    candidates: list[str]
    references: list[str] | None
    inputs: list[str]
    contexts: list[str] | None

    def batch(self, start: int, stop: int) -> list[Any]:
        """Some of them, as the arguments of `run_batch`."""
        columns = (self.candidates, self.references, self.inputs, self.contexts)
        return [None if column is None else column[start:stop] for column in columns]


def columns_of(cases: Sequence[Case]) -> Columns:
    """The columns of some cases: references where all have one, contexts where any has."""
    candidates, references, inputs, contexts = map(list, zip(*cases, strict=True)) if cases else ([], [], [], [])
    return Columns(
        candidates,
        None if None in references else references,
        inputs,
        None if all(text is None for text in contexts) else [text or "" for text in contexts],
    )


def own_results(scorer: Scorer, cases: Sequence[Case], size: int) -> list[Any] | None:
    """The results of the scorer's own `run` for all cases; None if it has none, and batches are used."""
    if not has_own(scorer, "run"):
        return None
    given = columns_of(cases)
    results = scorer.run(given.candidates, given.references, given.inputs, given.contexts, batch_size=size)
    return _one_for_each(scorer, results, cases)


async def own_awaited_results(scorer: Scorer, cases: Sequence[Case], size: int) -> list[Any] | None:
    """Async `own_results`: awaits `arun`, else calls `run` in a thread."""
    if not has_own(scorer, "arun"):
        return None if has_own(scorer, "arun_batch") else await asyncio.to_thread(own_results, scorer, cases, size)
    given = columns_of(cases)
    results = await scorer.arun(
        candidate_outputs=given.candidates,
        reference_outputs=given.references,
        inputs=given.inputs,
        contexts=given.contexts,
        batch_size=size,
    )
    return _one_for_each(scorer, results, cases)


def _one_for_each(scorer: Scorer, results: Iterable[Any], cases: Sequence[Case]) -> list[Any]:
    found = list(results)
    if len(found) != len(cases):
        raise ValueError(f"{scorer.name()} gave {len(found)} results for {len(cases)} candidates")
    return found


def evaluator_of_scorer(
    scorer: Scorer, cases: Sequence[Case], size: int, awaited: bool, results: Sequence[Any] | None
) -> type[Evaluator]:
    """The evaluator that a scorer is in a run over these cases, whose `results` are there or come `size` at a time."""
    about = inspect.getdoc(type(scorer)) or f"What {scorer.name()} gives."
    places = _Places(cases)
    own: dict[str, Any] = {"name": scorer.name(), "places": places, "__doc__": about}
    if results is None:
        base: type[Evaluator] = _ScoredInBatches
        own["batches"] = _Batches(scorer, cases, size, awaited)
    else:
        base, own["scorer"], own["results"] = _ScoredAlready, scorer, results
    return type(type(scorer).__name__, (base,), own)


class _Places:
    """The position of a case in the run; of equal cases the next one, because they are judged in order."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._left: dict[Case, deque[int]] = {}
        for place, case in enumerate(cases):
            self._left.setdefault(case, deque()).append(place)

    def of(self, evidence: Evidence) -> int:
        """The position of the evidence."""
        case = (evidence.response or "", evidence.expected, evidence.prompt, evidence.context)
        left = self._left[case]
        return left.popleft() if len(left) > 1 else left[0]


def _score_of(scorer: Scorer, result: Any) -> Score:
    """One result as a record; anything with a score and a category counts as a result."""
    if isinstance(result, Score):
        return result
    score, category = result, None
    if hasattr(result, "score"):
        score, category = result.score, getattr(result, "category", None)
    label = None if category is None else _category_name(category)
    if scorer.is_categorical() and label not in [_category_name(known) for known in scorer.categories() or ()]:
        raise ValueError(f"{scorer.name()} gave the category {label!r}, which is none of its categories")
    if score is None and label is None:
        raise ValueError(f"{scorer.name()} gave neither a score nor a category")
    if score is None:
        return Score(label=label)
    return measured_score(float(score), None, label=label)


class _Batches:
    """The cases of a run in batches, each scored once and when it is first needed."""

    def __init__(self, scorer: Scorer, cases: Sequence[Case], size: int, awaited: bool) -> None:
        self._scorer = scorer
        self._columns = columns_of(cases)
        self._size = size
        self._awaited = awaited and has_own(scorer, "arun_batch")
        self._done: dict[int, asyncio.Task[list[Score | Exception]]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def score(self, place: int) -> Score:
        """The score of a case, with those of its batch."""
        number, within = divmod(place, self._size)
        if number not in self._done:
            start = number * self._size
            stop = min(start + self._size, len(self._columns.candidates))
            self._done[number] = asyncio.create_task(self._batch(start, stop))
        result = (await asyncio.shield(self._done[number]))[within]
        if isinstance(result, Exception):
            raise result
        return result

    async def _batch(self, start: int, stop: int) -> list[Score | Exception]:
        """The scores of a batch; where it fails, each case alone says whether it is to blame."""
        try:
            return [*await self._run_scorer(start, stop)]
        except Exception as problem:  # an exception of a scorer is the record of its case
            if stop - start == 1:
                return [problem]
            return [(await self._batch(place, place + 1))[0] for place in range(start, stop)]

    async def _run_scorer(self, start: int, stop: int) -> list[Score]:
        arguments = self._columns.batch(start, stop)
        answer: Any
        if self._awaited:
            answer = await self._scorer.arun_batch(*arguments)
        else:
            async with self._one_at_a_time:
                answer = await asyncio.to_thread(self._scorer.run_batch, *arguments)
        results = list(answer)
        if len(results) != stop - start:
            raise ValueError(f"{self._scorer.name()} gave {len(results)} results for {stop - start} candidates")
        return [_score_of(self._scorer, result) for result in results]


class _ScoredInBatches(Evaluator):
    family = "custom"
    batched = True
    places: ClassVar[_Places]
    batches: ClassVar[_Batches]

    async def score(self, evidence: Evidence) -> Score:
        """The scorer's score of the case."""
        return await self.batches.score(self.places.of(evidence))


class _ScoredAlready(Evaluator):
    family = "custom"
    places: ClassVar[_Places]
    scorer: ClassVar[Scorer]
    results: ClassVar[Sequence[Any]]

    def score(self, evidence: Evidence) -> Score:
        """The scorer's score of the case."""
        return _score_of(self.scorer, self.results[self.places.of(evidence)])
