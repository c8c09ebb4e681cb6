"""A run as a grid: a row for each turn of an item, a column for each prompt and target, the repeats folded together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from .records import AnswerStatus

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Column = tuple[int, int]
"""A prompt and a target, by position."""
GridOrder = Literal["plan", "disagreement", "failures"]


class GridRow(NamedTuple):
    """A turn of an item, and its answers, by which what is in its cells is found without looking through the run."""

    item: int
    turn: int
    answers: str
    """Their ids, with commas between them."""


class GridCell(NamedTuple):
    """What a column made of a turn of an item, in all repeats."""

    answers: int
    passed: int
    failed: int
    score: float | None
    """The mean."""
    statuses: frozenset[AnswerStatus]
    answer: int
    """The answer to read: the first with something wrong, else the first."""


class GridLine(NamedTuple):
    """A row with what is in it."""

    item: int
    turn: int
    name: str
    category: str
    cells: Mapping[Column, GridCell]


_BAD = "status IN ('error', 'partial', 'fail')"
_SHARE = "passed / nullif(judged, 0)"
_ORDERS: Mapping[GridOrder, str] = {
    "plan": "",
    # How far the columns differ in the share of repeats that pass; where all pass or fail, in their scores.
    "disagreement": f"round(avg({_SHARE} * {_SHARE}) - avg({_SHARE}) * avg({_SHARE}), 9) DESC NULLS LAST, "
    "max(score) - min(score) DESC NULLS LAST, ",
    "failures": "total(bad) DESC, ",
}
GRID_ORDERS: tuple[GridOrder, ...] = tuple(_ORDERS)


def grid_rows(
    ask: Ask, run: int, order: GridOrder = "plan", condition: str = "TRUE", values: Sequence[Any] = ()
) -> list[GridRow]:
    """The rows of a run that have an answer of which a condition holds."""
    among = ""
    if condition != "TRUE":
        among = f"AND (item, turn) IN (SELECT item, turn FROM answers WHERE answers.run = ? AND {condition})"
        values = [run, *values]
    if order == "plan":
        query = (
            f"SELECT item, turn, group_concat(id) FROM answers WHERE run = ? {among} "
            "GROUP BY item, turn ORDER BY item, turn"
        )
    else:
        query = (
            "WITH cells AS (SELECT item, turn, group_concat(id) AS ids, total(status = 'pass') AS passed, "
            "total(status IN ('pass', 'fail')) AS judged, avg(score) AS score, "
            f"total({_BAD}) AS bad FROM answers WHERE run = ? {among} "
            "GROUP BY item, turn, prompt, target) "
            f"SELECT item, turn, group_concat(ids) FROM cells GROUP BY item, turn ORDER BY {_ORDERS[order]}item, turn"
        )
    return list(map(GridRow._make, ask(query, [run, *values])))


def grid_lines(ask: Ask, rows: Sequence[GridRow], in_flight: bool = True) -> list[GridLine]:
    """What is in some rows; of deleted answers nothing. Without `in_flight` what was asked of a target is pending."""
    status = "status" if in_flight else "replace(status, 'running', 'pending')"
    query = (
        "SELECT item, turn, min(name), min(category), prompt, target, count(*), sum(status = 'pass'), "
        f"sum(status = 'fail'), avg(score), group_concat(DISTINCT {status}), "
        f"ifnull(min(CASE WHEN {_BAD} THEN answers.id END), min(answers.id)) "
        "FROM json_each(?) j JOIN answers ON answers.id = j.value GROUP BY item, turn, prompt, target"
    )
    lines: dict[tuple[int, int], GridLine] = {}
    for item, turn, name, category, prompt, target, answers, passed, failed, score, statuses, answer in ask(
        query, [f"[{','.join(row.answers for row in rows)}]"]
    ):
        line = lines.setdefault((item, turn), GridLine(item, turn, name, category, {}))
        known = cast("frozenset[AnswerStatus]", frozenset(statuses.split(",")))
        cast("dict[Column, GridCell]", line.cells)[prompt, target] = GridCell(
            answers, passed, failed, score, known, answer
        )
    return [lines.get((row.item, row.turn)) or GridLine(row.item, row.turn, "", "", {}) for row in rows]


def column_latencies(ask: Ask, run: int) -> dict[Column, float]:
    """The median time to an answer of each column, in milliseconds; cached answers are left out."""
    query = (
        "SELECT prompt, target, avg(latency_ms) FROM (SELECT prompt, target, latency_ms, "
        "row_number() OVER (PARTITION BY prompt, target ORDER BY latency_ms) AS place, "
        "count(*) OVER (PARTITION BY prompt, target) AS many FROM answers "
        "WHERE run = ? AND latency_ms IS NOT NULL AND from_cache = 0) "
        "WHERE place IN ((many + 1) / 2, (many + 2) / 2) GROUP BY prompt, target"
    )
    return {(prompt, target): median for prompt, target, median in ask(query, [run])}
