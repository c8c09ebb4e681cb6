"""The grid of a run: a row for each turn of an item, a column for each prompt and target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple, cast

from tui_evals.store.filters import Filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus
from tui_evals.store.rows import known_status

_ROWS = 250
"""How many rows are read at once."""
Column = tuple[int, int]
"""A prompt and a target, by position."""
GridOrder = Literal["plan", "disagreement", "failures"]


class GridRow(NamedTuple):
    """A turn of an item with the ids of its answers, from which its cells are read without a scan of the run."""

    item: int
    turn: int
    answers: str
    """Their ids, with commas between them."""


class GridCell(NamedTuple):
    """The results of a column for a turn of an item, in all repeats."""

    answers: int
    passed: int
    failed: int
    score: float | None
    """The mean."""
    statuses: frozenset[AnswerStatus]
    answer: int
    """The answer to read: the first with something wrong, else the first."""


class GridLine(NamedTuple):
    """A row with its cells."""

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
    reader: Reader, run: int, where: Filter | None = None, order: GridOrder = "plan", *, differing: bool = False
) -> list[GridRow]:
    """The rows of a run's grid: each turn of an item with an answer that matches a filter.

    With `differing`, only rows whose columns have different verdicts.
    """
    among, values = "", [run]
    having = f"HAVING min({_SHARE}) < max({_SHARE}) OR (count({_SHARE}) < count(*) AND count({_SHARE}) > 0) "
    having = having if differing else ""
    if where is not None:
        condition, more = reader.condition(where, run)
        among = f"AND (item, turn) IN (SELECT item, turn FROM answers WHERE answers.run = ? AND {condition})"
        values = [run, run, *more]
    if order == "plan" and not differing:
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
            f"SELECT item, turn, group_concat(ids) FROM cells GROUP BY item, turn {having}"
            f"ORDER BY {_ORDERS[order]}item, turn"
        )
    return list(map(GridRow._make, reader.query(query, values)))


def grid_lines(reader: Reader, run: int, rows: Iterable[GridRow]) -> Iterator[GridLine]:
    """The cells of some rows of a run's grid, read in pages; deleted answers have none."""
    waiting, in_flight = iter(rows), reader.in_flight(run)
    while page := list(islice(waiting, _ROWS)):
        yield from _lines(reader, page, in_flight)


def _lines(reader: Reader, rows: Sequence[GridRow], in_flight: bool) -> list[GridLine]:
    status = "status" if in_flight else "replace(status, 'running', 'pending')"
    query = (
        "SELECT item, turn, min(name), min(category), prompt, target, count(*), sum(status = 'pass'), "
        f"sum(status = 'fail'), avg(score), group_concat(DISTINCT {status}), "
        f"ifnull(min(CASE WHEN {_BAD} THEN answers.id END), min(answers.id)) "
        "FROM json_each(?) j JOIN answers ON answers.id = j.value GROUP BY item, turn, prompt, target"
    )
    lines: dict[tuple[int, int], GridLine] = {}
    for item, turn, name, category, prompt, target, answers, passed, failed, score, statuses, answer in reader.query(
        query, [f"[{','.join(row.answers for row in rows)}]"]
    ):
        line = lines.setdefault((item, turn), GridLine(item, turn, name, category, {}))
        known = frozenset(map(known_status, statuses.split(",")))
        cast("dict[Column, GridCell]", line.cells)[prompt, target] = GridCell(
            answers, passed, failed, score, known, answer
        )
    return [lines.get((row.item, row.turn)) or GridLine(row.item, row.turn, "", "", {}) for row in rows]


def column_latencies(reader: Reader, run: int) -> dict[Column, float]:
    """The median time to an answer of each column, in milliseconds; cached answers are left out."""
    query = (
        "SELECT prompt, target, avg(latency_ms) FROM (SELECT prompt, target, latency_ms, "
        "row_number() OVER (PARTITION BY prompt, target ORDER BY latency_ms) AS place, "
        "count(*) OVER (PARTITION BY prompt, target) AS many FROM answers "
        "WHERE run = ? AND latency_ms IS NOT NULL AND from_cache = 0) "
        "WHERE place IN ((many + 1) / 2, (many + 2) / 2) GROUP BY prompt, target"
    )
    return {(prompt, target): median for prompt, target, median in reader.query(query, [run])}
