"""The score of each column of a run: turns pool their evaluators, repeats average into their item, items by weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tui_evals.store.records import AnswerRow, ScoreRecord

from .scoring import FORMAT_KEY
from .status import weighted_mean

Column = tuple[int, int]
"""A prompt and a target, by position."""


def column_scores(
    rows: Iterable[AnswerRow], scores: Mapping[int, Sequence[ScoreRecord]], items: Sequence[Mapping[str, Any]]
) -> dict[Column, float | None]:
    """The score of each prompt × target, 0 to 100; None where nothing was judged."""
    pooled: dict[tuple[Column, int, int], list[tuple[float, float]]] = {}
    for row in rows:
        found = pooled.setdefault(((row.prompt, row.target), row.item, row.repeat), [])
        found += _weighed(scores.get(row.id, ()))
    by_item: dict[tuple[Column, int], list[float | None]] = {}
    for (column, item, _), parts in pooled.items():
        by_item.setdefault((column, item), []).append(weighted_mean(parts))
    columns: dict[Column, list[tuple[float | None, float]]] = {}
    for (column, item), repeats in by_item.items():
        known = [(score, 1.0) for score in repeats]
        weight = items[item].get("weight", 1.0)
        columns.setdefault(column, []).append((weighted_mean(known), float(weight)))
    return {column: weighted_mean(found) for column, found in sorted(columns.items())}


def _weighed(records: Sequence[ScoreRecord]) -> list[tuple[float, float]]:
    """What each judged evaluator earned and how much it counts; an answer of the wrong form earns nothing."""
    wrong = any(record.key == FORMAT_KEY and record.result == "fail" for record in records)
    judged = [record for record in records if record.result in ("pass", "fail")]
    if wrong and all(record.key == FORMAT_KEY for record in judged):
        return [(0.0, 1.0)]
    return [(100.0 if record.result == "pass" and not wrong else 0.0, record.weight) for record in judged]
