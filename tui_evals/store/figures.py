"""A run in numbers: totals, what it cost, how each evaluator scored it."""

from __future__ import annotations

import json
import re
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple, cast

from tui_evals.text.endings import ENDINGS
from tui_evals.text.measures import common_measure, parse_measure

from .records import OVER_STATUSES, AnswerStatus, FailureCause, Totals
from .rows import EvaluatorMean, dumps

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


class Judged(NamedTuple):
    """One score as comparisons need it."""

    answer: int
    key: str
    score: float | None
    result: str | None
    threshold: float | None
    measure: str = ""


JudgedFields = tuple[int, str, float | None, str | None, float | None, str]
"""The fields of `Judged`: of hundreds of thousands, to name and unpack them takes longer than all else."""


class ComparedRow(NamedTuple):
    """An answer as comparisons need it."""

    id: int
    item: int
    turn: int
    prompt: int
    target: int
    repeat: int
    name: str
    category: str
    status: AnswerStatus
    score: float | None
    code: str | None
    preview: str


ComparedFields = tuple[int, int, int, int, int, int, str, str, AnswerStatus, float | None, str | None, str]
"""The fields of `ComparedRow`, for the same reason."""


_GROUPS = {"target": "target", "category": "category", "prompt": "prompt", "column": "prompt, target"}
_ANSWERED = "(code IS NULL OR code = 'agentResponseUnparseable')"
"""What nobody can read may have been paid for as well."""
_COST = "total(CASE WHEN from_cache = 0 THEN cost END)"
_UNPRICED = f"total(cost IS NULL AND body IS NOT NULL AND {_ANSWERED} AND from_cache = 0 AND scripted = 0)"
_STATUSES = ", ".join(
    f"total(status = '{status}')"
    for status in ("pending", "running", "answered", "pass", "fail", "partial", "error", "unjudged", "scored")
)
_TOKENS = "total(input_tokens), total(output_tokens), total(cached_tokens), total(reasoning_tokens)"
_TOTALS = f"count(*), {_STATUSES}, {_COST}, {_UNPRICED}, {_TOKENS}"
_WIDTH = 16  # columns of _TOTALS


_OF_CALLS = (
    "SELECT total(CASE WHEN kind = 'judge' THEN cost END), total(may_cost), "
    "total(CASE WHEN kind = 'target' AND answer IS NULL THEN cost END) FROM calls WHERE run = ?"
)
_OF_ANSWERS = f"SELECT {_TOTALS} FROM answers WHERE run = ?"


def _grouped(group: str) -> tuple[str, str]:
    """The queries for the calls and the answers of each group of a run."""
    qualified = ", ".join(f"answers.{column}" for column in group.split(", "))
    return (
        f"SELECT total(CASE WHEN kind = 'judge' THEN calls.cost END), total(may_cost), {qualified} "
        f"FROM calls JOIN answers ON answers.id = calls.answer WHERE calls.run = ? GROUP BY {qualified}",
        f"SELECT {_TOTALS}, {group} FROM answers WHERE run = ? GROUP BY {group}",
    )


_KEPT = (_OF_CALLS, _OF_ANSWERS, *_grouped("target"))
"""What is kept of a run that is over; by its query, so that what another version asks is counted anew."""


def keep_totals(connection: sqlite3.Connection) -> None:
    """Keep the totals of every run that is over; triggers of the store drop them with the next change of the run."""
    over = ", ".join(f"'{status}'" for status in OVER_STATUSES)
    uncounted = f"SELECT id FROM runs WHERE status IN ({over}) AND id NOT IN (SELECT run FROM counted)"
    for (run,) in connection.execute(uncounted).fetchall():
        counted = [(run, query, dumps(connection.execute(query, [run]).fetchall())) for query in _KEPT]
        connection.executemany("INSERT INTO counted VALUES (?,?,?)", counted)


def _counted(ask: Ask, run: int, query: str) -> list[tuple[Any, ...]]:
    """What a query says of a run, as it is kept or counted now."""
    for (rows,) in ask("SELECT rows FROM counted WHERE run = ? AND query = ?", [run, query]):
        return list(map(tuple, json.loads(rows)))
    return ask(query, [run])


def totals(ask: Ask, run: int) -> Totals:
    """The whole run, with the short questions that looked for a target, which belong to no answer."""
    ((judged, unsure, looking),) = _counted(ask, run, _OF_CALLS)
    (row,) = _counted(ask, run, _OF_ANSWERS)
    counted = _totals(row, judged, unsure)
    return replace(counted, cost=counted.cost + looking)


def totals_by(ask: Ask, run: int, by: str) -> dict[Any, Totals]:
    """Each group of the run; judge calls for groups of answers belong to none of them."""
    if by not in _GROUPS:
        raise ValueError(f"totals go by target, prompt, column or category, not by {by!r}")
    of_calls, of_answers = _grouped(_GROUPS[by])
    costs = {tuple(key): (cost, unsure) for cost, unsure, *key in _counted(ask, run, of_calls)}
    by_group: dict[Any, Totals] = {}
    for row in _counted(ask, run, of_answers):
        key = row[_WIDTH:]
        by_group[key if by == "column" else key[0]] = _totals(row, *costs.get(key, (0.0, 0.0)))
    return by_group


def statuses(ask: Ask, run: int) -> list[tuple[int, int, int, int, int, AnswerStatus]]:
    """What became of every answer: item, repeat, prompt, target, turn and status."""
    return cast(
        "list[tuple[int, int, int, int, int, AnswerStatus]]",
        ask("SELECT item, repeat, prompt, target, turn, status FROM answers WHERE run = ?", [run]),
    )


def planned(ask: Ask, run: int) -> Iterator[tuple[int, int, str, AnswerStatus]]:
    """What became of every answer, in pages in the order of the plan: position, item, its name and status."""
    query = "SELECT pos, item, name, status FROM answers WHERE run = ? AND pos >= ? AND pos < ? ORDER BY pos"
    for start in _pages(ask, run):
        yield from cast("list[tuple[int, int, str, AnswerStatus]]", ask(query, [run, start, start + _PAGE]))


def spent(ask: Ask, run: int) -> tuple[float, int]:
    """What all calls cost, and at how many of them, those of one answer's steps taken as one, the price is unknown."""
    unpriced = "cost IS NULL AND from_cache = 0"
    step = "code IS NULL AND kind = 'target' AND answer IS NOT NULL"
    query = (
        f"SELECT total(cost), total({unpriced} AND {_ANSWERED} AND NOT ({step})), "
        f"count(DISTINCT CASE WHEN {unpriced} AND {step} THEN answer END) FROM calls WHERE run = ?"
    )
    ((cost, others, answers),) = ask(query, [run])
    return cost, int(others) + answers


def may_cost(ask: Ask, run: int) -> float:
    """What calls may have cost of which that is not known."""
    ((cost,),) = ask("SELECT total(may_cost) FROM calls WHERE run = ?", [run])
    return float(cost)


_NUMBER = re.compile(r"(?<!\d)(?<!answered )\d+(?:\.\d+)?")
"""What tells two messages of one cause apart: ids, seconds, ports; the status that a server answered stays."""


def largest_answers(ask: Ask, run: int) -> dict[tuple[str, str], int]:
    """The tokens of the largest answer of each target and judge, by kind and name."""
    query = "SELECT kind, target, max(output_tokens) FROM calls WHERE run = ? GROUP BY kind, target"
    return {(kind, target): largest or 0 for kind, target, largest in ask(query, [run])}


def causes(ask: Ask, run: int, number: int) -> tuple[FailureCause, ...]:
    """Why answers are missing, cut or could not be judged in a pass, alike ones together, the most frequent first."""
    missing = ask(
        "SELECT count(*), '', code, ifnull(json_extract(b.answer, '$.message'), '') AS why, name, min(pos) "
        "FROM answers JOIN bodies b ON b.id = body WHERE run = ? AND code IS NOT NULL "
        "GROUP BY code, why ORDER BY min(pos)",
        [run],
    )
    unjudged = ask(
        "SELECT count(*), s.key, ifnull(json_extract(s.details, '$.code'), 'error') AS what, s.reason, name, min(pos) "
        "FROM answers JOIN scores s ON s.answer = answers.id WHERE run = ? AND s.pass = ? AND s.result = 'error' "
        "AND answers.code IS NULL GROUP BY s.key, what, s.reason ORDER BY min(pos)",
        [run, number],
    )
    cut = ask(
        "SELECT count(*), '', ending, '', name, min(pos) FROM answers "
        "WHERE run = ? AND ending IN (SELECT value FROM json_each(?)) AND code IS NULL GROUP BY ending",
        [run, json.dumps(list(ENDINGS))],
    )
    alike: dict[tuple[str, str, str], FailureCause] = {}
    for *row, _ in [*missing, *unjudged, *cut]:
        cause = FailureCause(*row)
        key = (cause.evaluator, cause.code, _NUMBER.sub("#", cause.message))
        known = alike.get(key)
        alike[key] = cause if known is None else replace(known, count=known.count + cause.count)
    return tuple(
        replace(cause, message=cause.message or ENDINGS.get(cause.code, ""))
        for cause in sorted(alike.values(), key=lambda cause: -cause.count)
    )


def evaluator_means(ask: Ask, run: int, number: int, columns: bool) -> list[EvaluatorMean]:
    """One row for each evaluator, or for each evaluator and column; groups of answers belong to no column."""
    column = "answers.prompt, answers.target" if columns else "NULL, NULL"
    results = ", ".join(f"sum(s.result IS '{result}')" for result in ("pass", "fail", "error", "skipped"))
    bare = "sum(s.result IS NULL AND s.label IS NOT NULL)"
    several = "min(nullif(s.measure, '')) IS NOT max(nullif(s.measure, ''))"
    aggregates = f"count(s.score), avg(s.score), {results}, max(s.measure), avg(s.score * s.score), {several}, {bare}"
    query = (
        f"SELECT s.key, min(s.evaluator), 'answer', {column}, {aggregates} FROM answers "
        "JOIN scores s ON s.answer = answers.id WHERE answers.run = ?1 AND s.pass = ?2 GROUP BY 1, 4, 5"
    )
    if not columns:
        query += (
            f" UNION ALL SELECT s.key, min(s.evaluator), 'group', NULL, NULL, {aggregates} FROM group_scores s "
            "WHERE s.run = ?1 AND s.pass = ?2 GROUP BY 1"
        )
    # Where a key judges both, whoever keeps one of each name keeps the one that counts.
    query += " ORDER BY 1, 4, 5, 3 DESC"
    names = [field.name for field in fields(EvaluatorMean) if field.name != "labels"]
    rows = ask(query, [run, number])
    labels = _labels(ask, run, number, column) if any(row[-1] for row in rows) else {}
    scales = _means_by_scale(ask, run, number, column) if any(row[-2] for row in rows) else {}
    means = [dict(zip(names, row[:-2], strict=True)) for row in rows]
    places = [tuple(mean[name] for name in ("key", "scope", "prompt", "target")) for mean in means]
    return [
        EvaluatorMean(**mean | _on_one_scale(scales.get(at, ())), labels=labels.get(at, {}))
        for mean, at in zip(means, places, strict=True)
    ]


def skipped(ask: Ask, run: int, number: int) -> dict[str, int]:
    """How often each evaluator was skipped in a pass; of a key that judges answers and groups too, for answers."""
    query = (
        "SELECT s.key, 'answer', count(*) FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ?1 AND s.pass = ?2 AND s.result = 'skipped' GROUP BY 1 "
        "UNION ALL SELECT key, 'group', count(*) FROM group_scores "
        "WHERE run = ?1 AND pass = ?2 AND result = 'skipped' GROUP BY 1 ORDER BY 1, 2 DESC"
    )
    return {key: count for key, _, count in ask(query, [run, number])}


ScaleMean = tuple[str, int, float, float]
"""A measure with how many scores are in it, their sum, and that of their squares."""


def _means_by_scale(ask: Ask, run: int, number: int, column: str) -> dict[tuple[Any, ...], list[ScaleMean]]:
    """The scores of each evaluator apart by what they are in, by key, scope, prompt and target."""
    sums = "s.measure, count(s.score), total(s.score), total(s.score * s.score)"
    query = (
        f"SELECT s.key, 'answer', {column}, {sums} FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ?1 AND s.pass = ?2 AND s.score IS NOT NULL GROUP BY 1, 3, 4, 5 "
        f"UNION ALL SELECT s.key, 'group', NULL, NULL, {sums} FROM group_scores s "
        "WHERE s.run = ?1 AND s.pass = ?2 AND s.score IS NOT NULL GROUP BY 1, 5"
    )
    found: dict[tuple[Any, ...], list[ScaleMean]] = {}
    for *place, measure, count, total, squares in ask(query, [run, number]):
        found.setdefault(tuple(place), []).append((measure, count, total, squares))
    return found


def _on_one_scale(parts: Sequence[ScaleMean]) -> dict[str, Any]:
    """The mean of scores of several scales, each brought to one from 0 to 1; nothing where they are of one scale."""
    measure = common_measure(part[0] for part in parts)
    if not parse_measure(measure).normalised:
        return {}
    sums = [0.0, 0.0]
    whole = 0
    for own, count, total, squares in parts:
        bounds = parse_measure(own).bounds
        if bounds is None:  # nobody can say where these stand among the others
            return {"measure": measure, "mean": None, "squares": None}
        low, width = bounds[0], bounds[1] - bounds[0]
        whole += count
        sums[0] += (total - count * low) / width
        sums[1] += (squares - 2 * low * total + count * low * low) / (width * width)
    return {"measure": measure, "mean": sums[0] / whole, "squares": sums[1] / whole}


def _labels(ask: Ask, run: int, number: int, column: str) -> dict[tuple[Any, ...], dict[str, int]]:
    """How often each evaluator gave each label without a verdict, by key, scope, prompt and target."""
    query = (
        f"SELECT s.key, 'answer', {column}, s.label, count(*) FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ?1 AND s.pass = ?2 AND s.result IS NULL AND s.label IS NOT NULL GROUP BY 1, 3, 4, 5 "
        "UNION ALL SELECT s.key, 'group', NULL, NULL, s.label, count(*) FROM group_scores s "
        "WHERE s.run = ?1 AND s.pass = ?2 AND s.result IS NULL AND s.label IS NOT NULL GROUP BY 1, 5 ORDER BY 5"
    )
    labels: dict[tuple[Any, ...], dict[str, int]] = {}
    for *key, label, count in ask(query, [run, number]):
        labels.setdefault(tuple(key), {})[label] = count
    return labels


def label_counts(ask: Ask, run: int, number: int) -> dict[str, dict[str, int]]:
    """How often each evaluator gave each label to an answer, neither passing nor failing it.

    Only of runs that hold an answer that nothing can fail, for comparisons look through large ones.
    """
    if not totals(ask, run).scored:
        return {}
    labels = _labels(ask, run, number, "NULL, NULL")
    return {key: counts for (key, scope, *_), counts in labels.items() if scope == "answer"}


def rubrics(ask: Ask, run: int, number: int) -> dict[str, frozenset[str]]:
    """The rubrics by which judges gave the verdicts of each evaluator in a pass, where they are recorded."""
    found: dict[str, set[str]] = {}
    query = (
        "SELECT DISTINCT s.key, s.details ->> '$.rubric' AS rubric FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ? AND s.pass = ? AND s.details <> '{}' AND rubric IS NOT NULL"
    )
    for key, rubric in ask(query, [run, number]):
        found.setdefault(key, set()).add(rubric)
    return {key: frozenset(rubrics) for key, rubrics in found.items()}


_PAGE = 2_000
"""How many answers are looked at in one query."""


def judged(ask: Ask, run: int, number: int) -> Iterator[JudgedFields]:
    """What a comparison needs of every score of a pass that says something, in pages in the order of the plan."""
    query = (
        "SELECT s.answer, s.key, s.score, s.result, s.threshold, s.measure "
        "FROM answers JOIN scores s ON s.answer = answers.id WHERE answers.run = ? AND pos >= ? AND pos < ? "
        "AND s.pass = ? AND (s.score IS NOT NULL OR s.result IN ('pass', 'fail'))"
    )
    for start in _pages(ask, run):
        yield from cast("list[JudgedFields]", ask(query, [run, start, start + _PAGE, number]))


def compared(ask: Ask, run: int, in_flight: bool) -> Iterator[ComparedFields]:
    """What a comparison needs of every answer, in pages in the order of the plan.

    What is running is pending unless it is in flight.
    """
    status = "status" if in_flight else "CASE status WHEN 'running' THEN 'pending' ELSE status END"
    query = (
        f"SELECT id, item, turn, prompt, target, repeat, name, category, {status}, score, code, preview FROM answers "
        "WHERE run = ? AND pos >= ? AND pos < ? ORDER BY pos"
    )
    for start in _pages(ask, run):
        yield from cast("list[ComparedFields]", ask(query, [run, start, start + _PAGE]))


def latencies(ask: Ask, run: int) -> dict[int, array[float]]:
    """The milliseconds to each answer of each target, by its number; those from the cache are left out."""
    query = (
        "SELECT target, latency_ms FROM answers WHERE run = ? AND pos >= ? AND pos < ? "
        "AND latency_ms IS NOT NULL AND from_cache = 0"
    )
    by_target: defaultdict[int, array[float]] = defaultdict(lambda: array("d"))
    for start in _pages(ask, run):
        for target, latency in ask(query, [run, start, start + _PAGE]):
            by_target[target].append(latency)
    return dict(by_target)


def _pages(ask: Ask, run: int) -> range:
    ((last,),) = ask("SELECT ifnull(max(pos), -1) FROM answers WHERE run = ?", [run])
    return range(0, last + 1, _PAGE)


def differing(ask: Ask, pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those pairs of answers that differ in what they say or in the tools they call."""
    query = (
        "SELECT l.id, r.id FROM json_each(?) j JOIN answers l ON l.id = j.value ->> 0 "
        "JOIN answers r ON r.id = j.value ->> 1 "
        "LEFT JOIN bodies a ON a.id = l.body LEFT JOIN bodies b ON b.id = r.body "
        "WHERE a.text IS NOT b.text "
        "OR a.answer IS NOT b.answer AND a.answer -> 'tool_calls' IS NOT b.answer -> 'tool_calls'"
    )
    return {(left, right) for left, right in ask(query, [json.dumps(pairs)])}


def _totals(row: Sequence[Any], judge_cost: float, may_cost: float) -> Totals:
    counts = [int(count) for count in row[:10]]
    total, pending, running, answered, passed, failed, partial, errored, unjudged, scored = counts
    cost, unpriced, *tokens = row[10:_WIDTH]
    input_tokens, output_tokens, cached_tokens, reasoning_tokens = map(int, tokens)
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
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        judge_cost=judge_cost,
        unjudged=unjudged,
        scored=scored,
        may_cost=may_cost,
        cached_tokens=cached_tokens,
        reasoning_tokens=reasoning_tokens,
    )
