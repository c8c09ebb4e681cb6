"""A run in numbers: totals, what it cost, how each evaluator scored it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .records import Totals
from .rows import EvaluatorMean

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

_GROUPS = {"target": "target", "category": "category", "prompt": "prompt", "column": "prompt, target"}
_COST = "total(CASE WHEN from_cache = 0 THEN cost END)"
_UNPRICED = "total(cost IS NULL AND body IS NOT NULL AND code IS NULL AND from_cache = 0 AND scripted = 0)"
_STATUSES = ", ".join(
    f"total(status = '{status}')" for status in ("pending", "running", "answered", "pass", "fail", "partial", "error")
)
_TOTALS = f"count(*), {_STATUSES}, {_COST}, {_UNPRICED}, total(input_tokens), total(output_tokens)"
_WIDTH = 12  # columns of _TOTALS


def totals(ask: Ask, run: int) -> Totals:
    """The whole run."""
    ((judged,),) = ask("SELECT total(cost) FROM calls WHERE run = ? AND kind = 'judge'", [run])
    (row,) = ask(f"SELECT {_TOTALS} FROM answers WHERE run = ?", [run])
    return _totals(row, judged)


def totals_by(ask: Ask, run: int, by: str) -> dict[Any, Totals]:
    """Each group of the run; judge calls for groups of answers belong to none of them."""
    if by not in _GROUPS:
        raise ValueError(f"totals go by target, prompt, column or category, not by {by!r}")
    group = _GROUPS[by]
    qualified = ", ".join(f"answers.{column}" for column in group.split(", "))
    judged = ask(
        f"SELECT total(calls.cost), {qualified} FROM calls JOIN answers ON answers.id = calls.answer "
        f"WHERE calls.run = ? AND kind = 'judge' GROUP BY {qualified}",
        [run],
    )
    judges = {tuple(key): cost for cost, *key in judged}
    found: dict[Any, Totals] = {}
    for row in ask(f"SELECT {_TOTALS}, {group} FROM answers WHERE run = ? GROUP BY {group}", [run]):
        key = row[_WIDTH:]
        found[key if by == "column" else key[0]] = _totals(row, judges.get(key, 0.0))
    return found


def spent(ask: Ask, run: int) -> tuple[float, int]:
    """What all calls cost, and how many succeeded at an unknown price."""
    query = "SELECT total(cost), total(cost IS NULL AND code IS NULL AND from_cache = 0) FROM calls WHERE run = ?"
    ((cost, unpriced),) = ask(query, [run])
    return cost, int(unpriced)


def evaluator_means(ask: Ask, run: int, number: int, columns: bool) -> list[EvaluatorMean]:
    """One row for each evaluator, or for each evaluator and column."""
    column = "answers.prompt, answers.target" if columns else "NULL, NULL"
    results = ", ".join(f"sum(s.result IS '{result}')" for result in ("pass", "fail", "error", "skipped"))
    query = (
        f"SELECT s.key, min(s.evaluator), {column}, count(s.score), avg(s.score), {results} FROM answers "
        "JOIN scores s ON s.answer = answers.id WHERE answers.run = ? AND s.pass = ? GROUP BY 1, 3, 4 ORDER BY 1, 3, 4"
    )
    names = ("key", "evaluator", "prompt", "target", "scored", "mean", "passed", "failed", "errored", "skipped")
    return [EvaluatorMean(**dict(zip(names, row, strict=True))) for row in ask(query, [run, number])]


def _totals(row: Sequence[Any], judge_cost: float) -> Totals:
    counts = [int(count) for count in row[:8]]
    total, pending, running, answered, passed, failed, partial, errored = counts
    cost, unpriced, input_tokens, output_tokens = row[8:_WIDTH]
    return Totals(
        total=total,
        pending=pending,
        running=running,
        answered=answered,
        passed=passed,
        failed=failed,
        partial=partial,
        errored=errored,
        cost=cost,
        unpriced=int(unpriced),
        input_tokens=int(input_tokens),
        output_tokens=int(output_tokens),
        judge_cost=judge_cost,
    )
