"""What judges measured by the metrics of a run: which metric and judge a score belongs to, and what they come to."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple

from tui_evals.datasets.resolve import EffectiveEvaluator, effective_evaluators
from tui_evals.store.records import ScoreRecord

COMPLIANCE = "Compliance"
_SAME_METRIC = frozenset({"type", "judge", "threshold", "weight"})
"""Options that do not change what is measured."""

Scores = Mapping["Metric", Sequence[ScoreRecord]]


class Metric(NamedTuple):
    """A metric as one judge applies it, with no name where the judge is not known; None is the average of several."""

    name: str
    judge: str | None

    @property
    def heading(self) -> str:
        """How its column is called."""
        judge = "average" if self.judge is None else self.judge
        return f"{self.name} with {judge}" if judge else self.name


@dataclass(frozen=True, slots=True)
class Measured:
    """What a metric comes to over some answers; errors and skipped records count into neither mean nor verdicts."""

    mean: float | None
    scored: int
    """How many scores the mean is of; for an average, of how many answers."""
    passed: int = 0
    failed: int = 0
    errored: int = 0
    skipped: int = 0

    @property
    def counted(self) -> int:
        """How many scores, or verdicts where there are no scores, stand behind the figure."""
        return self.scored or self.passed + self.failed


class Names:
    """The metric and the judge behind every score of a run, as its dataset and its configuration name them."""

    def __init__(self, document: Mapping[str, Any], judge: str) -> None:
        self._judge = judge
        defaults = document.get("default_evaluators")
        plain = _Unit(effective_evaluators(defaults, None, None, "item"))
        self._units = [_units(item, defaults, plain) for item in document["items"]]
        self._names = _names({id(unit): unit for units in self._units for unit in units}.values())

    def of(self, item: int, turn: int, record: ScoreRecord) -> Metric:
        """The metric of a score of an item's turn; its key, with no judge, where the dataset has no such evaluator."""
        said = record.details.get("judge")  # a recorded score of another tool says who judged
        told = said if isinstance(said, str) else ""
        name = self._names.get(record.key)
        if name is None:
            return Metric(record.evaluator if told else record.key, told)
        return Metric(name, self._units[item][turn].judges.get(record.key) or told or self._judge)


class _Unit:
    """The judges and the other options of the evaluators of a turn, by their keys."""

    def __init__(self, evaluators: Iterable[EffectiveEvaluator]) -> None:
        self.judges: dict[str, str] = {}
        self.options: list[tuple[str, str, str]] = []
        for one in evaluators:
            if isinstance(judge := one.options.get("judge"), str):
                self.judges[one.key] = judge
            rest = {name: value for name, value in one.options.items() if name not in _SAME_METRIC}
            self.options.append((one.key, one.evaluator, json.dumps(rest, sort_keys=True)))


def _units(item: Mapping[str, Any], defaults: Any, plain: _Unit) -> list[_Unit]:
    found = []
    for unit in item.get("turns") or [item]:
        own, mode = unit.get("evaluators"), unit.get("evaluators_mode")
        found.append(plain if own is None else _Unit(effective_evaluators(defaults, own, mode, "item")))
    return found


def _names(units: Iterable[_Unit]) -> dict[str, str]:
    """What the metric of a key is called: as its evaluator, or where that measures several things, as its first key."""
    options: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for unit in units:
        for key, evaluator, rest in unit.options:
            options[key].add((evaluator, rest))
    first: dict[frozenset[tuple[str, str]], str] = {}
    for key, found in options.items():
        first.setdefault(frozenset(found), key)
    several = Counter(evaluator for found in first for evaluator in {evaluator for evaluator, _ in found})
    names = {}
    for key, found in options.items():
        evaluators = {evaluator for evaluator, _ in found}
        alone = len(evaluators) == 1 and all(several[evaluator] == 1 for evaluator in evaluators)
        names[key] = evaluators.pop() if alone else first[frozenset(found)]
    return names


def sorted_out(records: Iterable[tuple[Metric, ScoreRecord]]) -> dict[Metric, list[ScoreRecord]]:
    """The scores of one answer by their metrics."""
    found: dict[Metric, list[ScoreRecord]] = {}
    for metric, record in records:
        found.setdefault(metric, []).append(record)
    return found


def with_averages(answers: Iterable[Scores]) -> list[Metric]:
    """The metrics in the order they are met; one that several judges applied is followed by its average."""
    judged: dict[str, dict[Metric, None]] = {}
    scored: set[str] = set()
    for scores in answers:
        for metric, records in scores.items():
            judged.setdefault(metric.name, {})[metric] = None
            scored |= {metric.name for record in records if _score(record) is not None}
    return [metric for name, by_judge in judged.items() for metric in _averaged(name, by_judge, name in scored)]


def _averaged(name: str, judged: Collection[Metric], scored: bool) -> Iterator[Metric]:
    yield from judged
    if len(judged) > 1 and scored:
        yield Metric(name, None)


def measured(metric: Metric, answers: Iterable[Scores]) -> Measured:
    """What a metric comes to over some answers."""
    if metric.judge is None:
        means = [_mean(_averages(metric.name, scores)) for scores in answers]
        known = [mean for mean in means if mean is not None]
        return Measured(_mean(known), len(known))
    records = [record for scores in answers for record in scores.get(metric, ())]
    numbers = [number for record in records if (number := _score(record)) is not None]
    results = [record.result for record in records]
    counts = (results.count(result) for result in ("pass", "fail", "error", "skipped"))
    return Measured(_mean(numbers), len(numbers), *counts)


def _averages(name: str, scores: Scores) -> list[float]:
    """What each judge of a metric gave one answer."""
    by_judge = (
        [number for record in records if (number := _score(record)) is not None]
        for metric, records in scores.items()
        if metric.name == name
    )
    return [mean for numbers in by_judge if (mean := _mean(numbers)) is not None]


def _score(record: ScoreRecord) -> float | None:
    """The number a judge gave; a bare OK or ERR is none, although it is kept as 1 or 0."""
    return None if record.threshold is None and record.label in ("ok", "err") else record.score


def _mean(numbers: Sequence[float]) -> float | None:
    return fsum(numbers) / len(numbers) if numbers else None
