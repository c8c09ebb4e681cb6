"""The counts behind every figure of a run: one query counts rows, and a table caches the counts of each column.

Only `count` turns answers and calls into numbers. Each transaction that changes answers or calls adds its difference to
the ledger, so a reader never sees one without the other.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from operator import add
from typing import Any, NamedTuple

from tui_evals.figures import Sample
from tui_evals.light_records import dataclass
from tui_evals.store.records import Totals

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
_PAGE = 2_000
"""How many answers are looked at in one query."""


def pages(ask: Ask, run: int) -> Iterator[tuple[int, int]]:
    """The first position of each page of a run's answers, and the one after its last."""
    ((last,),) = ask("SELECT ifnull(max(pos), -1) FROM answers WHERE run = ?", [run])
    return ((start, start + _PAGE) for start in range(0, last + 1, _PAGE))


class Group(NamedTuple):
    """Answers that are counted together: those of one category in one column."""

    prompt: int
    target: int
    category: str


_NO_COLUMN = Group(-1, -1, "")
"""Calls that belong to no answer, such as judgments of several answers and short questions that look for a target."""

_PAID_STEPS = (
    "EXISTS (SELECT 1 FROM calls c WHERE c.run = answers.run AND c.answer = answers.id AND c.kind = 'target' "
    "AND c.code IS NULL AND c.cost IS NULL AND c.from_cache = 0)"
)
"""An answer that ended as an error after steps that may have been paid for."""
_OF_ANSWERS: Mapping[str, str] = {
    "total": "count(*)",
    **{
        name: f"sum(status = '{status}')"
        for name, status in (
            ("pending", "pending"),
            ("running", "running"),
            ("answered", "answered"),
            ("passed", "pass"),
            ("failed", "fail"),
            ("partial", "partial"),
            ("errored", "error"),
            ("unjudged", "unjudged"),
            ("scored", "scored"),
        )
    },
    "cost": "total(CASE WHEN from_cache = 0 THEN cost END)",
    "unpriced": "sum(body IS NOT NULL AND from_cache = 0 AND scripted = 0 AND "
    f"CASE WHEN code IS NULL THEN cost IS NULL ELSE {_PAID_STEPS} END)",
    "cached": "sum(from_cache)",
    "input_tokens": "ifnull(sum(input_tokens), 0)",
    "output_tokens": "ifnull(sum(output_tokens), 0)",
    "cached_tokens": "sum(cached_tokens)",
    "reasoning_tokens": "sum(reasoning_tokens)",
}
_LOOKING = "calls.kind = 'target' AND calls.answer IS NULL"
_OF_CALLS: Mapping[str, str] = {
    "cost": f"total(CASE WHEN {_LOOKING} THEN calls.cost END)",
    # An answer that cannot be read may have been paid for as well.
    "unpriced": "sum(calls.cost IS NULL AND calls.from_cache = 0 AND (calls.code IS 'agentResponseUnparseable' "
    f"OR calls.code IS NULL AND (calls.kind != 'target' OR {_LOOKING})))",
    "judge_cost": "total(CASE WHEN calls.kind != 'target' THEN calls.cost END)",
    "may_cost": "total(calls.may_cost)",
}
_COUNTS = tuple(dict.fromkeys((*_OF_ANSWERS, *_OF_CALLS)))
_SUMS = ("items", "squares", "crossed", "sizes")
"""The sums over items in `Sample`, besides the counts of answers and passes."""
COLUMNS = (*_COUNTS, *_SUMS)
"""The columns of each group, in the order of the table."""
_REAL = ("cost", "judge_cost", "may_cost")
_GROUP = "run, prompt, target, category"
_SAMPLES = f"SELECT {_GROUP}, count(*), sum(passed * passed), sum(passed * judged), sum(judged * judged) FROM"
_OF_ITEMS = f"GROUP BY {_GROUP}, item) WHERE judged > 0 GROUP BY {_GROUP}"
_PASSED, _FAILED = 4 + _COUNTS.index("passed"), 4 + _COUNTS.index("failed")
_PER_ITEM = f"SELECT {_GROUP}, item, sum(status IN ('pass', 'fail')) AS judged, sum(status = 'pass') AS passed"


def _listed(sums: Mapping[str, str]) -> str:
    return ", ".join(sums.get(name, "0") for name in _COUNTS)


_ANSWERS = f"SELECT {_GROUP}, {_listed(_OF_ANSWERS)} FROM answers WHERE"
_CALLS = (
    "SELECT calls.run, ifnull(answers.prompt, -1), ifnull(answers.target, -1), ifnull(answers.category, ''), "
    f"{_listed(_OF_CALLS)} FROM calls LEFT JOIN answers ON answers.id = calls.answer WHERE"
)
_NEW_CALLS = f"{_CALLS.replace('FROM calls', 'FROM calls NOT INDEXED')} calls.id > ? GROUP BY 1, 2, 3, 4"
"""The calls after one; by the index that the grouping suggests, SQLite would read those of all runs for it."""
TABLES = (
    "CREATE TABLE ledger(run INTEGER NOT NULL, prompt INTEGER NOT NULL, target INTEGER NOT NULL, "
    "category TEXT NOT NULL, "
    + ", ".join(f"{name} {'REAL' if name in _REAL else 'INTEGER'} NOT NULL" for name in COLUMNS)
    + f", PRIMARY KEY({_GROUP})) WITHOUT ROWID",
    "CREATE TABLE item_counts(run INTEGER NOT NULL, prompt INTEGER NOT NULL, target INTEGER NOT NULL, "
    "category TEXT NOT NULL, item INTEGER NOT NULL, judged INTEGER NOT NULL, passed INTEGER NOT NULL, "
    f"PRIMARY KEY({_GROUP}, item)) WITHOUT ROWID",
)
"""The ledger, and the items with several answers in a column, from which their sums are kept up."""
NAMES = ("ledger", "item_counts")
SINCE = 17
"""The schema version from which on stores have these tables."""


# -- reading


def groups(ask: Ask, run: int) -> dict[Group, Totals]:
    """Each group of a run in numbers, from the ledger or, where it holds nothing of the run, from its rows."""
    kept = ask(f"SELECT prompt, target, category, {', '.join(COLUMNS)} FROM ledger WHERE run = ?", [run])
    return _by_group(kept) if kept else count(ask, run)


def count(ask: Ask, run: int, where: str = "1", values: Sequence[Any] = ()) -> dict[Group, Totals]:
    """Each group of a run in numbers, counted from the rows of its answers and calls.

    `where` leaves out answers, and then also the calls that belong to none of those that are left.
    """
    chosen = f"run = ? AND ({where})"
    answers = ask(f"{_ANSWERS} {chosen} GROUP BY {_GROUP}", [run, *values])
    judged = any(row[_PASSED] or row[_FAILED] for row in answers)
    samples = ask(f"{_SAMPLES} ({_PER_ITEM} FROM answers WHERE {chosen} {_OF_ITEMS}", [run, *values]) if judged else []
    if where == "1":
        calls = ask(f"{_CALLS} calls.run = ? GROUP BY 1, 2, 3, 4", [run])
    else:
        of_answers = f"calls.answer IN (SELECT id FROM answers WHERE {chosen})"
        calls = ask(f"{_CALLS} calls.run = ? AND {of_answers} GROUP BY 1, 2, 3, 4", [run, run, *values])
    sums: dict[tuple[Any, ...], list[Any]] = {}
    for row in (*answers, *calls):
        key = tuple(row[:4])
        sums[key] = list(map(add, sums[key], row[4:])) if key in sums else list(row[4:])
    sampled = {tuple(row[:4]): row[4:] for row in samples}
    nothing = (0,) * len(_SUMS)
    return _by_group((*key[1:], *counts, *sampled.get(key, nothing)) for key, counts in sums.items())


def repeats_items(ask: Ask, run: int) -> bool:
    """Whether some item has several answers in a column."""
    if ask("SELECT 1 FROM item_counts WHERE run = ? LIMIT 1", [run]):
        return True
    return not ask("SELECT 1 FROM ledger WHERE run = ? LIMIT 1", [run]) and bool(
        ask("SELECT 1 FROM answers WHERE run = ? AND (repeat > 0 OR turn > 0) LIMIT 1", [run])
    )


def _by_group(rows: Iterable[Sequence[Any]]) -> dict[Group, Totals]:
    found = {}
    for prompt, target, category, *values in rows:
        counts = dict(zip(_COUNTS, values, strict=False))
        items, squares, crossed, sizes = values[len(_COUNTS) :]
        judged = counts["passed"] + counts["failed"]
        sample = Sample(items, judged, counts["passed"], squares, crossed, sizes)
        found[Group(prompt, target, category)] = Totals(**counts, rated=sample)
    return dict(sorted(found.items()))


_NOTHING = dict.fromkeys(_COUNTS, 0)


def together(parts: Iterable[tuple[Group, Totals]]) -> Totals:
    """The totals of several groups. They have a rate if all are of one column: columns share items, so pooling is
    wrong.
    """
    sums: dict[str, Any] = dict(_NOTHING)
    sample, columns = Sample(), set()
    for group, totals in parts:
        for name in _COUNTS:
            sums[name] += getattr(totals, name)
        if group.prompt >= 0:
            columns.add(group[:2])
            sample += totals.rated or Sample()
    return Totals(**sums, rated=sample if len(columns) <= 1 else None)


# -- writing


@dataclass(slots=True)
class Touched:
    """The changes of a transaction: the ids of answers, and whether it records calls."""

    answers: list[int] = field(default_factory=list)
    calls: bool = False


@contextmanager
def following(connection: sqlite3.Connection, touched: Touched) -> Iterator[None]:
    """Add the changes of a block to answers and calls to the ledger."""
    if not touched.answers and not touched.calls:
        yield
        return
    ids = json.dumps(touched.answers)
    last = connection.execute("SELECT ifnull(max(id), 0) FROM calls").fetchone()[0] if touched.calls else 0
    before = _look(connection, ids)
    yield
    after = _look(connection, ids)
    changes: dict[tuple[Any, ...], list[Any]] = {}
    for sign, counts in ((-1, before.counts), (1, after.counts)):
        _sum_up(changes, ((row[:4], (*row[4:], *_single_answers(row))) for row in counts), sign)
    if touched.calls:
        noted = connection.execute(_NEW_CALLS, [last]).fetchall()
        _sum_up(changes, ((row[:4], (*row[4:], *_NO_SUMS)) for row in noted), 1)
    if before.items:
        _change_items(connection, changes, before.items, after.items)
    connection.executemany(_ADD, [(*key, *sums) for key, sums in changes.items() if any(sums)])


_ADD = f"INSERT INTO ledger VALUES ({', '.join('?' * (4 + len(COLUMNS)))}) ON CONFLICT DO UPDATE SET " + ", ".join(
    f"{name} = {name} + excluded.{name}" for name in COLUMNS
)
_ITEM_KEY = "run = ? AND prompt = ? AND target = ? AND category = ? AND item = ?"
_NO_SUMS = (0,) * len(_SUMS)
_CHOSEN = "id IN (SELECT value FROM json_each(?))"
_LOOK = f"{_ANSWERS} {_CHOSEN} GROUP BY {_GROUP}"
_LOOK_BY_ITEM = f"{_PER_ITEM} FROM answers WHERE {_CHOSEN} GROUP BY {_GROUP}, item"


class _Look(NamedTuple):
    """The counts of some answers by group, and by item if items have several answers in a column."""

    counts: list[tuple[Any, ...]]
    items: dict[tuple[Any, ...], tuple[int, int]]


def _look(connection: sqlite3.Connection, ids: str) -> _Look:
    counts = connection.execute(_LOOK, [ids]).fetchall()
    known = "SELECT 1 FROM item_counts WHERE run = ? LIMIT 1"
    if not any(connection.execute(known, [run]).fetchone() for run in {row[0] for row in counts}):
        return _Look(counts, {})
    items = connection.execute(_LOOK_BY_ITEM, [ids]).fetchall()
    return _Look(counts, {row[:5]: (row[5], row[6]) for row in items})


def _single_answers(row: Sequence[Any]) -> tuple[int, ...]:
    """The sums of answers that are the only ones to their items."""
    passed, failed = row[_PASSED], row[_FAILED]
    return passed + failed, passed, passed, passed + failed


def _item_sums(judged: int, passed: int) -> tuple[int, ...]:
    """The sums of one item."""
    if not judged:
        return _NO_SUMS
    return 1, passed * passed, passed * judged, judged * judged


def _change_items(
    connection: sqlite3.Connection,
    changes: dict[tuple[Any, ...], list[Any]],
    before: Mapping[tuple[Any, ...], tuple[int, int]],
    after: Mapping[tuple[Any, ...], tuple[int, int]],
) -> None:
    """Correct the sums by what became of items with several answers, and keep how these are doing."""
    for key, (judged, passed) in before.items():
        more = tuple(now - was for now, was in zip(after[key], (judged, passed), strict=True))
        kept = connection.execute(f"SELECT judged, passed FROM item_counts WHERE {_ITEM_KEY}", key).fetchone()
        if kept is None or not any(more):
            continue
        connection.execute(
            f"UPDATE item_counts SET judged = judged + ?, passed = passed + ? WHERE {_ITEM_KEY}", [*more, *key]
        )
        own = _item_sums(kept[0] + more[0], kept[1] + more[1])
        counted = (more[0], more[1], more[1], more[0])  # as if each were a single answer
        sums = [new - old - single for new, old, single in zip(own, _item_sums(*kept), counted, strict=True)]
        changes[key[:4]][len(_COUNTS) :] = map(add, changes[key[:4]][len(_COUNTS) :], sums)


def _sum_up(
    changes: dict[tuple[Any, ...], list[Any]], rows: Iterable[tuple[tuple[Any, ...], Sequence[Any]]], sign: int
) -> None:
    for key, counts in rows:
        values = [sign * value for value in counts]
        changes[key] = list(map(add, changes[key], values)) if key in changes else values


def recount(connection: sqlite3.Connection, run: int) -> None:
    """Recount a run into the ledger."""
    forget(connection, run)

    def ask(query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return connection.execute(query, values).fetchall()

    connection.executemany(
        _ADD,
        [
            (run, *group, *(getattr(totals, name) for name in _COUNTS), *_sums_of(totals.rated))
            for group, totals in count(ask, run).items()
        ],
    )
    if ask("SELECT 1 FROM answers WHERE run = ? AND (repeat > 0 OR turn > 0) LIMIT 1", [run]):
        several = f"{_PER_ITEM} FROM answers WHERE run = ? GROUP BY {_GROUP}, item HAVING count(*) > 1"
        connection.execute(f"INSERT INTO item_counts {several}", [run])


def _sums_of(sample: Sample | None) -> tuple[float, ...]:
    sample = sample or Sample()
    return sample.items, sample.squares, sample.cross, sample.sizes


def forget(connection: sqlite3.Connection, run: int) -> None:
    """Drop all that is kept of a run, which is then counted from its rows."""
    for table in NAMES:
        connection.execute(f"DELETE FROM {table} WHERE run = ?", [run])


def recount_all(connection: sqlite3.Connection) -> None:
    """Recount every run."""
    for (run,) in connection.execute("SELECT id FROM runs WHERE total IS NOT NULL").fetchall():
        recount(connection, run)


def differences(ask: Ask, run: int) -> list[str]:
    """Differences between the ledger of a run and its rows; empty in a sound store."""
    kept, counted = groups(ask, run), count(ask, run)
    found = []
    for group in kept.keys() | counted.keys():
        one, other = kept.get(group), counted.get(group)
        for name in (*_COUNTS, "rated"):
            own: Any = getattr(one, name, Sample() if name == "rated" else 0)
            rows: Any = getattr(other, name, Sample() if name == "rated" else 0)
            same = abs(own - rows) < 1e-9 * max(1.0, abs(rows)) if name in _REAL else own == rows
            if not same:
                place = f"prompt {group.prompt}, target {group.target}, category {group.category!r}"
                found.append(f"{name} of {place} is {own}, and its rows say {rows}")
    return sorted(found)


class OtherVerdicts(NamedTuple):
    """How all evaluators but some judged an answer that those judged too."""

    answer: int
    item: int
    passed: int
    failed: int
    wrong_form: int
    """1 if it does not have the requested form, which fails it whatever others say; else 0."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The time and cost of some answers of one target."""

    totals: Totals
    latencies: tuple[float, ...]
    """The milliseconds of each answer, without cached ones."""


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
    """How other evaluators judged each answer that those with `keys` passed or failed, paged."""
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
    """The times and costs of each target's answers in a run, by its number; only of `ids` unless None."""
    chosen, values = ("1", []) if ids is None else ("id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])
    parts: dict[int, list[tuple[Group, Totals]]] = {}
    counted = groups(ask, run) if ids is None else count(ask, run, chosen, values)
    for group, totals in counted.items():
        if group.target >= 0:
            parts.setdefault(group.target, []).append((group, totals))
    times: dict[int, list[float]] = {}
    query = (
        f"SELECT target, latency_ms FROM answers WHERE run = ? AND {chosen} AND latency_ms IS NOT NULL "
        "AND from_cache = 0"
    )
    for target, latency in ask(query, [run, *values]):
        times.setdefault(target, []).append(latency)
    return {target: Spent(together(own), tuple(times.get(target, ()))) for target, own in sorted(parts.items())}


def item_count(ask: Ask, snapshot: str) -> int:
    """How many items a dataset had when a run began."""
    for (count,) in ask("SELECT json_array_length(document, '$.items') FROM snapshots WHERE hash = ?", [snapshot]):
        return int(count or 0)
    return 0
