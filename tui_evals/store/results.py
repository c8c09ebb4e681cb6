"""The statements of the hot path: each takes all rows of its kind in a batch, inside the batch's transaction."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tui_evals.light_records import dataclass

from . import chains
from .ledger import Touched
from .records import CHANGES, AnswerStatus

_log = logging.getLogger(__name__)

Kind = Callable[[sqlite3.Connection, Sequence[Any]], Sequence[Any]]
"""Writes all rows of a kind in a batch, and returns their outcomes."""
_COST, _FROM_CACHE = 9, 12
"""The places of both in the row of a call."""
_CALL_WIDTH = 18
"""The columns of a call that are written, with its run."""
_BATTLE = "sides = ?1 AND judge = ?2 AND question = ?3 AND pairs IS ?4 AND seed IS ?5"
"""The condition that identifies a battle."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The cache entry of an answer: its key, its recipe, and the target that answered."""

    key: str
    recipe: str
    target: str
    run: str = ""
    """The key of the run that asked."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of one pass for an answer, ready to be written."""

    answer: int
    scoring_pass: int
    scores: tuple[tuple[Any, ...], ...]
    status: AnswerStatus
    score: float | None


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer ready to be written."""

    answer: int
    values: tuple[Any, ...]
    """status, input and output tokens, cost, latency, attempts, from_cache, scripted, code, preview, ending; then the
    cached and the reasoning tokens.
    """
    body: tuple[str, str | None, str]
    cache: CacheKey | None
    now: float
    scored: Scored | None = None
    """The scores, if they are ready with the answer: one change of the row then stores both."""


def take_seq(connection: sqlite3.Connection, count: int) -> int:
    """Reserve `count` sequence numbers and return the first. In a transaction, so in order of commits."""
    (last,) = connection.execute("UPDATE meta SET v = v + ? WHERE k = 'seq' RETURNING v", [count]).fetchone()
    return int(last) - count + 1


def running(connection: sqlite3.Connection, rows: Sequence[tuple[int, float]]) -> list[None]:
    """Mark answers as running since a time, unless they are already final."""
    seq = take_seq(connection, len(rows))
    connection.executemany(
        "UPDATE answers SET seq = ?, status = 'running', started = ? WHERE id = ? AND status IN ('pending', 'running')",
        [(seq + n, at, answer) for n, (answer, at) in enumerate(rows)],
    )
    return [None] * len(rows)


def waiting(connection: sqlite3.Connection, rows: Sequence[tuple[int, int | None, str]]) -> list[None]:
    """Store what runs wait for: the run, the answer that is not in flight meanwhile, and the wait if it is shown."""
    connection.executemany("UPDATE runs SET waiting = ? WHERE id = ?", [(wait, run) for run, _, wait in rows if wait])
    landed = [answer for _, answer, _ in rows if answer is not None]
    seq = take_seq(connection, len(landed))
    connection.executemany(
        "UPDATE answers SET seq = ?, status = 'pending', started = NULL WHERE id = ? AND status = 'running'",
        [(seq + n, answer) for n, answer in enumerate(landed)],
    )
    return [None] * len(rows)


def answered(connection: sqlite3.Connection, rows: Sequence[Answered]) -> list[bool]:
    """Write the answers of cells that have none yet; says of each whether it was the first."""
    unanswered = {
        answer
        for (answer,) in connection.execute(
            "SELECT id FROM answers WHERE id IN (SELECT value FROM json_each(?)) AND status IN ('pending', 'running')",
            [json.dumps([row.answer for row in rows])],
        ).fetchall()
    }
    outcomes: list[bool] = []
    first: list[Answered] = []
    for row in rows:
        outcomes.append(row.answer in unanswered)
        if row.answer in unanswered:
            unanswered.remove(row.answer)
            first.append(row)
        else:
            _log.info("answer %d was there already; the later one is dropped", row.answer)
    seq, body = take_seq(connection, len(first)), _add_bodies(connection, [row.body for row in first])
    connection.executemany(
        "UPDATE answers SET status = ?, input_tokens = ?, output_tokens = ?, cost = ?, latency_ms = ?, attempts = ?, "
        "from_cache = ?, scripted = ?, code = ?, preview = ?, ending = ?, cached_tokens = ?, reasoning_tokens = ?, "
        "score = ?, seq = ?, body = ? WHERE id = ?",
        [
            (*row.values, row.scored.score if row.scored else None, seq + n, body + n, row.answer)
            for n, row in enumerate(first)
        ],
    )
    _add_scores(connection, [row.scored for row in first if row.scored])
    _add_cached(connection, [(row.cache, body + n, row.now) for n, row in enumerate(first) if row.cache])
    return outcomes


def cached(
    connection: sqlite3.Connection, rows: Sequence[tuple[CacheKey, tuple[str, str | None, str], float]]
) -> list[None]:
    """Keep answers in the cache."""
    body = _add_bodies(connection, [row[1] for row in rows])
    _add_cached(connection, [(key, body + n, now) for n, (key, _, now) in enumerate(rows)])
    return [None] * len(rows)


def scored(connection: sqlite3.Connection, rows: Sequence[Scored]) -> list[None]:
    """Add the scores of a pass, and set the status of the answer; in a staged pass that is stored separately."""
    _add_scores(connection, rows)
    staged = dict(
        connection.execute(
            "SELECT a.id, r.id FROM json_each(?) j JOIN answers a ON a.id = j.value ->> 0 "
            "JOIN runs r ON r.id = a.run WHERE r.staged_pass = j.value ->> 1",
            [json.dumps([(row.answer, row.scoring_pass) for row in rows])],
        )
    )
    connection.executemany(
        "INSERT OR REPLACE INTO staged VALUES (?,?,?,?)",
        [(row.answer, staged[row.answer], row.status, row.score) for row in rows if row.answer in staged],
    )
    counting = [row for row in rows if row.answer not in staged]
    seq = take_seq(connection, len(counting))
    connection.executemany(
        "UPDATE answers SET seq = ?, status = ?, score = ? WHERE id = ? AND status NOT IN ('pending', 'running')",
        [(seq + n, row.status, row.score, row.answer) for n, row in enumerate(counting)],
    )
    return [None] * len(rows)


def touched(rows: Iterable[tuple[Kind, Any]]) -> Touched:
    """The changes of some rows that the ledger counts."""
    found = Touched()
    for kind, row in rows:
        if kind is answered or kind is scored:
            found.answers.append(row.answer)
        elif kind is running:
            found.answers.append(row[0])
        elif kind is waiting:
            found.answers += [] if row[1] is None else [row[1]]
        elif kind in (called, called_in_battle):
            found.calls = True
    return found


def group_scored(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[None]:
    """Add records for groups of answers: run, pass, item, turn, then the score."""
    connection.executemany("INSERT OR IGNORE INTO group_scores VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
    return [None] * len(rows)


def called(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[None]:
    """Log attempts: run, then the call."""
    connection.executemany(
        "INSERT INTO calls(run, answer, kind, target, attempt, started, latency_ms, input_tokens, output_tokens, "
        "cost, code, message, from_cache, may_cost, cached_tokens, reasoning_tokens, evaluator, phase) "
        "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        [(*row, *("",) * (_CALL_WIDTH - len(row))) for row in rows],  # files of an earlier version have shorter rows
    )
    return [None] * len(rows)


def called_in_battle(connection: sqlite3.Connection, rows: Sequence[tuple[Sequence[Any], Sequence[Any]]]) -> list[None]:
    """Log attempts with their run, and add their costs to their battle: the row of `called`, the battle's identity.

    Both in one transaction, so that a killed battle knows its cost.
    """
    called(connection, [tuple(call) for call, _ in rows])
    connection.executemany(
        f"UPDATE battles SET cost = cost + ?6 WHERE {_BATTLE}",
        [(*battle, call[_COST] or 0.0) for call, battle in rows if not call[_FROM_CACHE]],
    )
    return [None] * len(rows)


def changed(connection: sqlite3.Connection, rows: Sequence[tuple[int, str, Sequence[str]]]) -> list[None]:
    """Store how requests to targets of a run were changed, each change once: run, target, in words."""
    for run, target, changes in rows:
        found = connection.execute("SELECT config FROM runs WHERE id = ?", [run]).fetchone()
        if found is None:  # it was deleted meanwhile
            continue
        config = json.loads(found[0])
        known = config.setdefault(CHANGES, {})
        known[target] = list(dict.fromkeys((*known.get(target, ()), *changes)))
        with chains.following(connection, run, "state", ["plan"], {"fields": ["config"]}):
            connection.execute("UPDATE runs SET config = ? WHERE id = ?", [json.dumps(config, ensure_ascii=False), run])
    return [None] * len(rows)


def reserved(connection: sqlite3.Connection, rows: Sequence[tuple[int, float]]) -> list[None]:
    """Store the reservations of runs for calls in flight: run and amount; the last one of a run counts."""
    latest = dict(rows)
    connection.executemany("UPDATE runs SET reserved = ? WHERE id = ?", [(cost, run) for run, cost in latest.items()])
    return [None] * len(rows)


def replied(
    connection: sqlite3.Connection, rows: Sequence[tuple[int, int, str, tuple[str, str | None, str]]]
) -> list[None]:
    """Store replies of judges until the judging is done: the run, the pass, the key, the body."""
    connection.executemany(
        "INSERT OR REPLACE INTO replies VALUES (?,?,?,?,?)",
        [(run, number, key, text, rest) for run, number, key, (_, text, rest) in rows],
    )
    return [None] * len(rows)


def fought(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[None]:
    """Store bouts of battles whose answers still exist; a row has the columns in order.

    A stored bout with both verdicts is kept; one without them is replaced.
    """
    connection.executemany(
        "INSERT INTO bouts(left, right, judge, question, first, second, reason, time) "
        "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE (SELECT count(*) FROM answers WHERE id IN (?1, ?2)) = 2 "
        "ON CONFLICT DO UPDATE SET first = excluded.first, second = excluded.second, reason = excluded.reason, "
        "time = excluded.time WHERE bouts.first IS NULL OR bouts.second IS NULL",
        rows,
    )
    return [None] * len(rows)


def battled(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[None]:
    """Store the results of continued battles: their identity, the time, the cost, the summary."""
    connection.executemany(
        f"UPDATE battles SET time = ?6, cost = cost + ?7, summary = ?8 WHERE {_BATTLE}",
        rows,
    )
    return [None] * len(rows)


def beaten(connection: sqlite3.Connection, rows: Sequence[tuple[float, int]]) -> list[None]:
    """Set heartbeats: the time, then the run."""
    connection.executemany("UPDATE runs SET heartbeat = ? WHERE id = ?", rows)
    return [None] * len(rows)


def progressed(connection: sqlite3.Connection, rows: Sequence[Callable[[sqlite3.Connection], None]]) -> list[None]:
    """Store the progress of battles and generations, each by a function."""
    return [row(connection) for row in rows]


def heard(connection: sqlite3.Connection, rows: Sequence[tuple[int, Sequence[tuple[Any, ...]]]]) -> list[None]:
    """Store reports of a run's workers: the run, then a row for each of them; none for a deleted run."""
    connection.executemany(
        "INSERT INTO workers SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1) "
        "ON CONFLICT DO UPDATE SET state = excluded.state, cells = excluded.cells, calls = excluded.calls, "
        "rate = excluded.rate, errors = excluded.errors, seen = excluded.seen",
        [(run, *worker) for run, workers in rows for worker in workers],
    )
    workers_changed(connection)
    return [None] * len(rows)


def workers_changed(connection: sqlite3.Connection) -> None:
    """Notify watchers of changes to workers."""
    connection.execute("UPDATE meta SET v = v + 1 WHERE k = 'workers'")


def _add_scores(connection: sqlite3.Connection, rows: Sequence[Scored]) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO scores VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
        [(row.answer, row.scoring_pass, *score) for row in rows for score in row.scores],
    )


def _add_bodies(connection: sqlite3.Connection, bodies: Sequence[tuple[str, str | None, str]]) -> int:
    """Append bodies and return the id of the first; keyed by cell they would touch a page for nearly each."""
    (first,) = connection.execute("SELECT ifnull(max(id), 0) + 1 FROM bodies").fetchone()
    connection.executemany("INSERT INTO bodies VALUES (?,?,?,?)", [(first + n, *body) for n, body in enumerate(bodies)])
    return int(first)


def _add_cached(connection: sqlite3.Connection, rows: Sequence[tuple[CacheKey, int, float]]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO cache(key, recipe, target, body, created, run) VALUES (?,?,?,?,?,?)",
        [(key.key, key.recipe, key.target, body, now, key.run) for key, body, now in rows],
    )
