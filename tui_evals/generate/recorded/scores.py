"""What judges said of recorded answers, as records of evaluators under keys that a dataset may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tui_evals.generate.shapes import label
from tui_evals.store.records import ScoreRecord

from .rows import Measure, RecordedResult

COMPLIANCE = "Compliance"
AVERAGE = "average"
_WITH = " with "
_SAID = {"ok": "keeps to the rules", "err": "breaks a rule"}

Judged = tuple[str, str]
"""A metric, and the model that applied it; no name where it is not known."""


def metric_of(key: str) -> Judged:
    """The metric and the judge of a key such as `accuracy with azure:o4-mini`."""
    metric, found, judge = key.rpartition(_WITH)
    return (metric.strip(), judge.strip()) if found else (key.strip(), "")


def judged_by(rows: Iterable[RecordedResult]) -> list[Judged]:
    """Every metric with every judge that applied it, in the order they are met; averages are computed, not judged."""
    found = (metric_of(key) for row in rows for key in row.metrics)
    return list(dict.fromkeys(one for one in found if one[1] != AVERAGE))


def keys_for(judged: Sequence[Judged]) -> dict[Judged, str]:
    """The key of each metric and judge: the metric alone where one judge applied it."""
    metrics = [metric for metric, _ in judged]
    taken = {COMPLIANCE}
    keys: dict[Judged, str] = {}
    for metric, judge in judged:
        wanted = label(metric) if metrics.count(metric) == 1 else f"{label(metric)}_{label(judge)}"
        key, number = wanted, 2
        while key in taken:
            key, number = f"{wanted}_{number}", number + 1
        taken.add(key)
        keys[metric, judge] = key
    return keys


def evaluators_for(keys: Mapping[Judged, str], known: Iterable[str], compliance: bool) -> dict[str, dict[str, Any]]:
    """The evaluators of the dataset: those that judged, as far as they are known here."""
    names = set(known)
    metrics = [metric for metric, _ in keys]
    found: dict[str, dict[str, Any]] = {COMPLIANCE: {}} if compliance else {}
    for (metric, judge), key in keys.items():
        if metric in names:
            typed = {} if key == metric else {"type": metric}
            found[key] = typed if metrics.count(metric) == 1 or not judge else {**typed, "judge": judge}
    return found


def records_of(row: RecordedResult, keys: Mapping[Judged, str], judges: Sequence[str]) -> tuple[ScoreRecord, ...]:
    """The records of one answer; `judges` are those that the run names, the first of which judged compliance."""
    return (*_compliance(row, judges), *_metrics(row, keys))


def _compliance(row: RecordedResult, judges: Sequence[str]) -> Iterator[ScoreRecord]:
    if row.compliance is None:
        return
    said = row.complianceText or f"the judge found that the answer {_SAID.get(row.compliance, 'cannot be judged')}"
    yield _verdict(COMPLIANCE, COMPLIANCE, row.compliance, said, judges[0] if judges else "")


def _metrics(row: RecordedResult, keys: Mapping[Judged, str]) -> Iterator[ScoreRecord]:
    seen: set[str] = set()
    for name, measure in row.metrics.items():
        metric, judge = metric_of(name)
        if (metric, judge) in keys and (key := keys[metric, judge]) not in seen:
            seen.add(key)
            yield _measured(key, metric, measure, judge)


def _measured(key: str, metric: str, measure: Measure, judge: str) -> ScoreRecord:
    if measure.score is None:
        said = measure.content or "neither a score nor a verdict was recorded"
        return _verdict(key, metric, measure.outcome or "unknown", said, judge)
    details = {"judge": judge} if judge else {}
    return ScoreRecord(
        key=key, evaluator=metric, score=measure.score, result=None, reason=measure.content or "", details=details
    )


def _verdict(key: str, evaluator: str, outcome: str, said: str, judge: str) -> ScoreRecord:
    """OK passes, ERR fails, and what is neither could not be judged."""
    details: dict[str, Any] = {"judge": judge} if judge else {}
    if outcome == "unknown":
        details = {"code": "invalidEvaluatorResult", **details}
        return ScoreRecord(key=key, evaluator=evaluator, score=None, result="error", reason=said, details=details)
    good = outcome == "ok"
    return ScoreRecord(
        key=key,
        evaluator=evaluator,
        score=float(good),
        result="pass" if good else "fail",
        label=outcome,
        reason=said,
        details=details,
    )
