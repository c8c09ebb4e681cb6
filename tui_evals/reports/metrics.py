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
        plain = _UnitEvaluators(effective_evaluators(defaults, None, None, "item"))
        self._units = [_item_units(item, defaults, plain) for item in document["items"]]
        self._names = _metric_names({id(unit): unit for units in self._units for unit in units}.values())

    def of(self, item: int, turn: int, record: ScoreRecord) -> Metric:
        """The metric of a score of an item's turn; its key, with no judge, where the dataset has no such evaluator."""
        judge = record.details.get("judge")  # a recorded score of another tool says who judged
        judge_name = judge if isinstance(judge, str) else ""
        name = self._names.get(record.key)
        if name is None:
            return Metric(record.evaluator if judge_name else record.key, judge_name)
        return Metric(name, self._units[item][turn].judges.get(record.key) or judge_name or self._judge)


class _UnitEvaluators:
    """The judges and the other options of the evaluators of a turn, by their keys."""

    def __init__(self, evaluators: Iterable[EffectiveEvaluator]) -> None:
        self.judges: dict[str, str] = {}
        self.options: list[tuple[str, str, str]] = []
        for effective in evaluators:
            if isinstance(judge := effective.options.get("judge"), str):
                self.judges[effective.key] = judge
            rest = {name: value for name, value in effective.options.items() if name not in _SAME_METRIC}
            self.options.append((effective.key, effective.evaluator, json.dumps(rest, sort_keys=True)))


def _item_units(item: Mapping[str, Any], defaults: Any, plain: _UnitEvaluators) -> list[_UnitEvaluators]:
    units = []
    for unit in item.get("turns") or [item]:
        own, mode = unit.get("evaluators"), unit.get("evaluators_mode")
        units.append(plain if own is None else _UnitEvaluators(effective_evaluators(defaults, own, mode, "item")))
    return units


def _metric_names(units: Iterable[_UnitEvaluators]) -> dict[str, str]:
    """What the metric of a key is called: as its evaluator, or where that measures several things, as its first key."""
    options: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for unit in units:
        for key, evaluator, rest in unit.options:
            options[key].add((evaluator, rest))
    first: dict[frozenset[tuple[str, str]], str] = {}
    for key, option_set in options.items():
        first.setdefault(frozenset(option_set), key)
    several = Counter(evaluator for option_set in first for evaluator in {evaluator for evaluator, _ in option_set})
    names = {}
    for key, option_set in options.items():
        evaluators = {evaluator for evaluator, _ in option_set}
        alone = len(evaluators) == 1 and all(several[evaluator] == 1 for evaluator in evaluators)
        names[key] = evaluators.pop() if alone else first[frozenset(option_set)]
    return names


def scores_by_metric(records: Iterable[tuple[Metric, ScoreRecord]]) -> dict[Metric, list[ScoreRecord]]:
    """The scores of one answer by their metrics."""
    by_metric: dict[Metric, list[ScoreRecord]] = {}
    for metric, record in records:
        by_metric.setdefault(metric, []).append(record)
    return by_metric


def with_averages(answers: Iterable[Scores]) -> list[Metric]:
    """The metrics in the order they are met; one that several judges applied is followed by its average."""
    judged: dict[str, dict[Metric, None]] = {}
    scored: set[str] = set()
    for scores in answers:
        for metric, records in scores.items():
            judged.setdefault(metric.name, {})[metric] = None
            scored |= {metric.name for record in records if _judge_number(record) is not None}
    return [
        metric for name, by_judge in judged.items() for metric in _metrics_with_average(name, by_judge, name in scored)
    ]


def _metrics_with_average(name: str, judged: Collection[Metric], scored: bool) -> Iterator[Metric]:
    yield from judged
    if len(judged) > 1 and scored:
        yield Metric(name, None)


def measured(metric: Metric, answers: Iterable[Scores]) -> Measured:
    """What a metric comes to over some answers."""
    if metric.judge is None:
        means = [_mean(_judge_means(metric.name, scores)) for scores in answers]
        known = [mean for mean in means if mean is not None]
        return Measured(_mean(known), len(known))
    records = [record for scores in answers for record in scores.get(metric, ())]
    numbers = [number for record in records if (number := _judge_number(record)) is not None]
    results = [record.result for record in records]
    counts = (results.count(result) for result in ("pass", "fail", "error", "skipped"))
    return Measured(_mean(numbers), len(numbers), *counts)


def _judge_means(name: str, scores: Scores) -> list[float]:
    """What each judge of a metric gave one answer."""
    by_judge = (
        [number for record in records if (number := _judge_number(record)) is not None]
        for metric, records in scores.items()
        if metric.name == name
    )
    return [mean for numbers in by_judge if (mean := _mean(numbers)) is not None]


def _judge_number(record: ScoreRecord) -> float | None:
    """The number a judge gave; a bare OK or ERR is none, although it is kept as 1 or 0."""
    return None if record.threshold is None and record.label in ("ok", "err") else record.score


def _mean(numbers: Sequence[float]) -> float | None:
    return fsum(numbers) / len(numbers) if numbers else None
