"""What failed in a run: a row for each verdict that is a fail or an error, read in pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .ledger import Ask, pages


class Failure(NamedTuple):
    """A reason why an answer does not pass; a run may have hundreds of thousands, so it is a plain tuple."""

    answer: int
    prompt: int
    target: int
    category: str
    cost: float | None
    """What asking the target cost; what its judges cost is read apart."""
    evaluator: str
    """The key of the evaluator; empty where there is no answer."""
    code: str
    """The cause of an error; empty for a verdict."""
    reason: str


def failures(ask: Ask, run: int, number: int) -> Iterator[Failure]:
    """The errors of targets and the failing scores of a pass, in the order of the plan."""
    place = "a.id, a.prompt, a.target, a.category, a.cost"
    query = (
        f"SELECT * FROM (SELECT {place}, '' AS key, a.code, ifnull(json_extract(b.answer, '$.message'), ''), a.pos "
        "FROM answers a JOIN bodies b ON b.id = a.body WHERE a.run = ?1 AND a.pos >= ?2 AND a.pos < ?3 "
        f"AND a.code IS NOT NULL UNION ALL SELECT {place}, s.key, "
        "CASE s.result WHEN 'error' THEN ifnull(json_extract(s.details, '$.code'), 'error') ELSE '' END, "
        "s.reason, a.pos FROM answers a JOIN scores s ON s.answer = a.id AND s.pass = ?4 "
        "WHERE a.run = ?1 AND a.pos >= ?2 AND a.pos < ?3 AND a.code IS NULL AND s.result IN ('fail', 'error')) "
        "ORDER BY pos, key"
    )
    for first, end in pages(ask, run):
        yield from (Failure._make(row[:8]) for row in ask(query, [run, first, end, number]))


def judged_counts(ask: Ask, run: int, number: int) -> dict[str, int]:
    """How many answers each evaluator passed, failed or could not judge in a pass; under '' how many were asked."""
    query = (
        "SELECT s.key, count(*) FROM answers a JOIN scores s ON s.answer = a.id AND s.pass = ?2 WHERE a.run = ?1 "
        "AND a.code IS NULL AND s.result IN ('pass', 'fail', 'error') GROUP BY s.key "
        "UNION ALL SELECT '', count(*) FROM answers WHERE run = ?1 AND status NOT IN ('pending', 'running')"
    )
    return dict(ask(query, [run, number]))


def judge_costs(ask: Ask, run: int) -> dict[int, float]:
    """What the judges of each answer cost that was judged for money."""
    query = (
        "SELECT answer, sum(cost) FROM calls WHERE run = ? AND answer IS NOT NULL AND kind = 'judge' AND cost > 0 "
        "GROUP BY answer"
    )
    return dict(ask(query, [run]))


def number_before(ask: Ask, run: int) -> int | None:
    """The number of the latest finished run of the same dataset before a run; None where there is none."""
    query = (
        "SELECT e.id FROM runs r JOIN runs e ON e.source = r.source AND e.id < r.id AND e.status = 'finished' "
        "AND e.total > 0 WHERE r.id = ? ORDER BY e.id DESC LIMIT 1"
    )
    return next((number for (number,) in ask(query, [run])), None)
