"""What the calls behind answers measured, and which answers came from the cache instead of a call of their run."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import NamedTuple

from tui_evals.light_records import dataclass

from . import ledger
from .ledger import Ask, pages
from .records import Totals


class OtherVerdicts(NamedTuple):
    """How all evaluators but some judged an answer that those judged too."""

    answer: int
    item: int
    passed: int
    failed: int
    wrong_form: int
    """1 where it lacks the form that was asked for, which fails it whatever the others say; else 0."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What some answers of one target took."""

    totals: Totals
    latencies: tuple[float, ...]
    """The milliseconds to each answer; those from the cache are left out."""


def cached_answers(ask: Ask, run: int) -> frozenset[int]:
    """The answers of a run that came from the cache, by their ids."""
    return frozenset(
        answer
        for start, end in pages(ask, run)
        for (answer,) in ask(
            "SELECT id FROM answers WHERE run = ? AND pos >= ? AND pos < ? AND from_cache = 1",
            [run, start, end],
        )
    )


def keys_of(ask: Ask, run: int, number: int, evaluators: Collection[str]) -> frozenset[str]:
    """The keys under which some evaluators judged answers of a run."""
    query = (
        "SELECT DISTINCT s.key FROM answers JOIN scores s ON s.answer = answers.id WHERE answers.run = ? "
        "AND s.pass = ? AND s.evaluator IN (SELECT value FROM json_each(?))"
    )
    return frozenset(key for (key,) in ask(query, [run, number, json.dumps(list(evaluators))]))


def other_verdicts(ask: Ask, run: int, number: int, keys: Collection[str], form_key: str) -> Iterator[OtherVerdicts]:
    """Of each answer that evaluators of some keys passed or failed: how the others judged it, paged."""
    ours = "s.key IN (SELECT value FROM json_each(?4))"
    verdict = "s.result IN ('pass', 'fail')"
    query = (
        f"SELECT a.id, a.item, sum(NOT {ours} AND s.result = 'pass'), sum(NOT {ours} AND s.result = 'fail'), "
        "max(s.key = ?5 AND s.result = 'fail') FROM answers a JOIN scores s ON s.answer = a.id AND s.pass = ?6 "
        f"WHERE a.run = ?1 AND a.pos >= ?2 AND a.pos < ?3 AND {verdict} GROUP BY a.id HAVING sum({ours}) > 0"
    )
    for start, end in pages(ask, run):
        rows = ask(query, [run, start, end, json.dumps(list(keys)), form_key, number])
        yield from map(OtherVerdicts._make, rows)


def spent(ask: Ask, run: int, ids: Collection[int] | None) -> dict[int, Spent]:
    """What the answers of each target of a run took, by its number; only of these ids unless that is None."""
    chosen, values = ("1", []) if ids is None else ("id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])
    parts: dict[int, list[tuple[ledger.Group, Totals]]] = {}
    groups = ledger.groups(ask, run) if ids is None else ledger.count(ask, run, chosen, values)
    for group, totals in groups.items():
        if group.target >= 0:
            parts.setdefault(group.target, []).append((group, totals))
    times: dict[int, list[float]] = {}
    query = (
        f"SELECT target, latency_ms FROM answers WHERE run = ? AND {chosen} AND latency_ms IS NOT NULL "
        "AND from_cache = 0"
    )
    for target, latency in ask(query, [run, *values]):
        times.setdefault(target, []).append(latency)
    return {target: Spent(ledger.together(own), tuple(times.get(target, ()))) for target, own in sorted(parts.items())}


def item_count(ask: Ask, snapshot: str) -> int:
    """How many items a dataset had when a run began."""
    for (count,) in ask("SELECT json_array_length(document, '$.items') FROM snapshots WHERE hash = ?", [snapshot]):
        return int(count or 0)
    return 0
