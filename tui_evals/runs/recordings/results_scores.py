"""Scores as a results document holds them, back as the records of evaluators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.model import Dataset, Item, Turn
from tui_evals.datasets.portable import PUBLIC
from tui_evals.datasets.resolve import Effective, resolve
from tui_evals.runs.scoring import FORMAT_KEY
from tui_evals.store.records import ScoreRecord

from .results_entries import Refuse

_RESULTS = ("pass", "fail", "error", "skipped", None)
_LOWER = {name[0].lower() + name[1:]: name for name in PUBLIC}
_NUMBERS = {"ExactMatch": "match", "Citations": "count"}
"""Where the number of an evaluator stands that does not call it its score."""


def scores_in(
    dataset: Dataset, item: Item, unit: Item | Turn, scores: Mapping[str, Any], place: Place, refuse: Refuse
) -> tuple[ScoreRecord, ...]:
    """The records of a unit; the error of `refuse` names the first that is not as it should be."""
    evaluators = {entry.key: entry for entry in resolve(dataset, unit)}
    found = []
    for name, score in scores.items():
        key = _LOWER[name] if name in _LOWER and name not in evaluators else name
        if not isinstance(score, Mapping):
            raise refuse("must be an object", (*place, name))
        evaluator, weight = _evaluator(key, evaluators.get(key), item, dataset)
        found.append(_record(key, evaluator, weight, score, (*place, name), refuse))
    return tuple(found)


def _evaluator(key: str, known: Effective | None, item: Item, dataset: Dataset) -> tuple[str, float]:
    """Which evaluator a key means in the dataset, and how much it counts."""
    if known is not None:
        weight = known.settings.get("weight", 1.0)
        return known.evaluator, float(weight) if isinstance(weight, (int, float)) else 1.0
    if key == FORMAT_KEY:
        wanted = item.response_format or dataset.response_format
        return "JsonSchema" if isinstance(wanted, dict) else "JsonValid", 0.0
    return key, 1.0


def _record(
    key: str, evaluator: str, weight: float, score: Mapping[str, Any], place: Place, refuse: Refuse
) -> ScoreRecord:
    result = score.get("result")
    if result not in _RESULTS:
        raise refuse("must be pass, fail, error, skipped or null", (*place, "result"))
    if result == "error":
        details = {"code": score["code"]} if "code" in score else {}
        return ScoreRecord(
            key=key,
            evaluator=evaluator,
            score=None,
            result=result,
            reason=score["error"],
            details=details,
            weight=weight,
        )
    return ScoreRecord(
        key=key,
        evaluator=evaluator,
        score=_number(score, evaluator, place, refuse),
        result=result,
        threshold=_real(score.get("threshold"), (*place, "threshold"), refuse),
        label=_text(score.get("label"), (*place, "label"), refuse),
        reason=_text(score.get("reason"), (*place, "reason"), refuse) or "",
        weight=weight,
    )


def _number(score: Mapping[str, Any], evaluator: str, place: Place, refuse: Refuse) -> float | None:
    named = _NUMBERS.get(evaluator, "score")
    if named == "match" and isinstance(matched := score.get(named), bool):
        return float(matched)
    name = named if named in score else "score"
    return _real(score.get(name), (*place, name), refuse)


def _real(value: object, place: Place, refuse: Refuse) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
        raise refuse("must be a number or null", place)
    return float(value)


def _text(value: object, place: Place, refuse: Refuse) -> str | None:
    if value is not None and not isinstance(value, str):
        raise refuse("must be text", place)
    return value
