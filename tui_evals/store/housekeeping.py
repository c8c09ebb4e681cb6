"""Rare writes: planning, states and names of runs, labels, drafts, the cache. Each runs in a transaction."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from . import chains, ledger
from .failures import kept_name
from .records import OVER_STATUSES, AnswerRow, AnswerStatus, NewRun, PlannedAnswer, RunRow
from .results import take_seq, workers_changed
from .rows import RUN_SELECTED, SCORE_COLUMNS, dumps, run_row

PLANNED_TOGETHER = 5_000
"""Planned answers in a transaction, whose ids follow each other; the lock is held some 16 ms for them."""
_PAGE = 5_000
_ABANDONED = 3_600.0  # seconds after which a plan that was never completed is swept away
_LETTERS, _SIGNS = "abcdefghjkmnpqrstvwxyz", "0123456789abcdefghjkmnpqrstvwxyz"
_RUN = f"SELECT {RUN_SELECTED} FROM runs"
_MUTABLE = {
    "status",
    "control",
    "name",
    "tags",
    "note",
    "started",
    "finished",
    "pid",
    "host",
    "message",
    "code",
    "verdict",
    "gates",
    "config",
}
_STATED = {
    "plan": frozenset(("config",)),
    "about": frozenset(("name", "tags", "note")),
    "outcome": frozenset(("status", "started", "finished", "verdict", "gates", "message", "code")),
}
"""The parts of a run's chain, with the columns that may change."""


def begin(connection: sqlite3.Connection, new: NewRun, config: str) -> int:
    """The id of a run that is invisible before `complete`, because its total is not known yet."""
    now = time.time()
    key = ""
    while not key or connection.execute("SELECT 1 FROM runs WHERE key = ?", [key]).fetchone():
        key = secrets.choice(_LETTERS) + "".join(secrets.choice(_SIGNS) for _ in range(5))
    values = (
        key,
        new.name,
        new.suite,
        new.source,
        new.snapshot,
        dumps(new.targets),
        dumps(new.prompts),
        dumps(new.tags),
        new.parent,
        now,
        config,
    )
    (run,) = connection.execute(
        "INSERT INTO runs(key, name, suite, source, snapshot, targets, prompts, tags, parent, created, config, "
        "status, control, note, scoring_pass) VALUES (?,?,?,?,?,?,?,?,?,?,?,'planned','','',1) "
        "RETURNING id",
        values,
    ).fetchone()
    connection.execute("INSERT INTO passes VALUES (?, 1, ?, ?)", [run, now, config])
    return int(run)


def add_planned(connection: sqlite3.Connection, run: int, start: int, answers: Sequence[PlannedAnswer]) -> None:
    """The next answers of a plan, from this position on."""
    seq = take_seq(connection, len(answers))
    connection.executemany(
        "INSERT INTO answers(run, seq, pos, cell, item, turn, prompt, target, repeat, name, category) "
        "VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        [
            (run, seq + n, start + n, a.cell, a.item, a.turn, a.prompt, a.target, a.repeat, a.name, a.category)
            for n, a in enumerate(answers)
        ],
    )


def complete(connection: sqlite3.Connection, run: int, total: int) -> RunRow:
    """Complete a run whose answers are all planned, and return it; its creation time is now."""
    connection.execute("UPDATE runs SET total = ?, created = ? WHERE id = ?", [total, time.time(), run])
    ledger.recount(connection, run)
    return run_row(connection.execute(f"{_RUN} WHERE id = ?", [run]).fetchone())


def abandoned(connection: sqlite3.Connection) -> list[int]:
    """Runs whose planning ended before they were complete."""
    rows = connection.execute(
        "SELECT id FROM runs WHERE total IS NULL AND created < ?", [time.time() - _ABANDONED]
    ).fetchall()
    return [run for (run,) in rows]


def update_run(connection: sqlite3.Connection, run: int, values: Mapping[str, Any]) -> None:
    """Change what may change of a run."""
    if unknown := values.keys() - _MUTABLE:
        raise ValueError(f"a run has no {', '.join(sorted(unknown))} that could be changed")
    again = connection.execute("SELECT 1 FROM runs WHERE id = ? AND pid IS NOT NULL", [run]).fetchone()
    if "status" in values:
        values = {"message": "", "code": "", **values}
    parts = [part for part, names in _STATED.items() if names & values.keys()]
    changed = {"fields": sorted(set().union(*_STATED.values()) & values.keys())}
    with chains.following(connection, run, "edit" if parts == ["about"] else "state", parts, changed):
        sets = ", ".join(f"{name} = ?" for name in values)
        if not connection.execute(f"UPDATE runs SET {sets} WHERE id = ?", [*values.values(), run]).rowcount:
            raise LookupError(f"run number {run} is no longer in the store")
        if "finished" in values:
            connection.execute("UPDATE runs SET finished = max(finished, started) WHERE id = ? AND started", [run])
    if "pid" in values and again:
        _begun_again(connection, run)
    if values.get("status") in OVER_STATUSES:
        _nothing_in_flight(connection, run)
    if "finished" in values:
        connection.execute("UPDATE workers SET state = 'gone', cells = 0, rate = 0 WHERE run = ?", [run])
        workers_changed(connection)


def _begun_again(connection: sqlite3.Connection, run: int) -> None:
    """Clear workers and open calls: the process that continues a run has none yet."""
    connection.execute("DELETE FROM workers WHERE run = ?", [run])
    workers_changed(connection)
    _nothing_in_flight(connection, run)


def _nothing_in_flight(connection: sqlite3.Connection, run: int) -> None:
    """Make calls without a waiting process pending again."""
    query = "SELECT id FROM answers WHERE run = ? AND status = 'running'"
    ids = [answer for (answer,) in connection.execute(query, [run]).fetchall()]
    seq = take_seq(connection, len(ids))
    with ledger.following(connection, ledger.Touched(ids)):
        connection.executemany(
            "UPDATE answers SET status = 'pending', seq = ? WHERE id = ?",
            [(seq + number, answer) for number, answer in enumerate(ids)],
        )


def delete_some(connection: sqlite3.Connection, run: int, why: Literal["deletion", "prune"] = "deletion") -> bool:
    """Delete a page of a run's answers with all that hangs on them; the run itself last. Says whether more is left."""
    chains.deleted(connection, run, why)
    connection.execute("UPDATE meta SET v = v + 1 WHERE k = 'generation'")
    ledger.forget(connection, run)
    page = connection.execute("SELECT id FROM answers WHERE run = ? LIMIT ?", [run, _PAGE]).fetchall()
    ids = [dumps([answer for (answer,) in page])]
    chosen = "IN (SELECT value FROM json_each(?))"
    connection.execute(
        f"DELETE FROM bodies WHERE id IN (SELECT body FROM answers WHERE id {chosen} "
        f"UNION SELECT body FROM earlier WHERE answer {chosen}) AND id NOT IN (SELECT body FROM cache)",
        ids * 2,
    )
    connection.execute(f"DELETE FROM earlier WHERE answer {chosen}", ids)
    connection.execute(f"DELETE FROM scores WHERE answer {chosen}", ids)
    connection.execute(f"DELETE FROM bouts WHERE left {chosen} OR right {chosen}", ids * 2)
    connection.execute(f"DELETE FROM answers WHERE id {chosen}", ids)
    if len(page) == _PAGE:
        return True
    for table in ("passes", "staged", "group_scores", "calls", "labels", "baselines", "workers", "replies"):
        connection.execute(f"DELETE FROM {table} WHERE run = ?", [run])
    connection.execute("DELETE FROM battles WHERE EXISTS (SELECT 1 FROM json_each(sides) WHERE value ->> 0 = ?)", [run])
    connection.execute("DELETE FROM session WHERE k = ?", [kept_name(run)])
    connection.execute("DELETE FROM runs WHERE id = ?", [run])
    connection.execute(
        "DELETE FROM snapshots WHERE hash NOT IN (SELECT snapshot FROM runs) AND hash NOT IN "
        "(SELECT ifnull(config ->> '$.dataset', '') FROM passes) AND created < ?",
        [time.time() - _ABANDONED],
    )
    return False


def measures(connection: sqlite3.Connection, run: int) -> str | None:
    """The dataset that the run is the baseline of, if it is one."""
    baseline = connection.execute("SELECT source FROM baselines WHERE run = ?", [run]).fetchone()
    return None if baseline is None else str(baseline[0])


def begin_pass(connection: sqlite3.Connection, run: int, config: str, answers: Collection[int] | None = None) -> int:
    """The number of one more scoring pass, in the place of one that was begun and never became whole.

    Where only some `answers` are to be judged in it, the others have the scores of the pass that counts in it already.
    """
    drop_pass(connection, run)
    (number,) = connection.execute("SELECT ifnull(max(pass), 0) + 1 FROM passes WHERE run = ?", [run]).fetchone()
    judgeable = "SELECT count(*) FROM answers WHERE run = runs.id AND status NOT IN ('pending', 'running', 'error')"
    begun = f"UPDATE runs SET staged_pass = ?, staged_total = ({judgeable}) WHERE id = ?"
    if not connection.execute(begun, [number, run]).rowcount:
        raise LookupError(f"run number {run} is no longer in the store")
    connection.execute("INSERT INTO passes VALUES (?,?,?,?)", [run, number, time.time(), config])
    if answers is not None:
        _take_over_scores(connection, run, int(number), answers)
    return int(number)


def _take_over_scores(connection: sqlite3.Connection, run: int, number: int, but: Collection[int]) -> None:
    """Copy the verdicts of the current scoring pass into another pass, except those of the answers in `but`."""
    connection.execute(
        "INSERT INTO staged SELECT id, run, status, score FROM answers WHERE run = ? "
        "AND status NOT IN ('pending', 'running', 'error') AND id NOT IN (SELECT value FROM json_each(?))",
        [run, json.dumps(sorted(but))],
    )
    kept = ", ".join(f"s.{column}" for column in SCORE_COLUMNS if column != "origin")
    origin = "iif(s.origin, s.origin, s.pass)"
    connection.execute(
        f"INSERT INTO scores (answer, pass, {', '.join(SCORE_COLUMNS)}) "
        f"SELECT s.answer, ?, {kept}, {origin} FROM staged t "
        "JOIN runs r ON r.id = t.run JOIN scores s ON s.answer = t.answer AND s.pass = r.scoring_pass WHERE t.run = ?",
        [number, run],
    )
    # An answer's own expectation also applies in the new pass.
    connection.execute(
        "INSERT INTO earlier(run, answer, time, scores, judging) "
        "SELECT e.run, e.answer, e.time, e.scores, json_set(e.judging, '$.pass', ?) FROM earlier e "
        "JOIN runs r ON r.id = e.run JOIN staged t ON t.answer = e.answer "
        "WHERE e.run = ? AND e.judging ->> '$.pass' = r.scoring_pass ORDER BY e.id",
        [number, run],
    )


def count_pass(connection: sqlite3.Connection, run: int) -> None:
    """Make the complete staged pass the current one, for all answers at once."""
    found = connection.execute("SELECT staged_pass, total FROM runs WHERE id = ? AND staged_pass", [run]).fetchone()
    number, total = found or (0, 0)
    parts = [*chains.PARTS_OF_VERDICTS, *(f"{kind}/{number}" for kind in chains.PARTS_OF_PASS)] if number else []
    with chains.following(connection, run, "pass", parts, {"pass": number}, range(total)):
        query = "SELECT status, score, answer FROM staged WHERE run = ? ORDER BY answer"
        rows = connection.execute(query, [run]).fetchall()
        seq = take_seq(connection, len(rows))
        connection.executemany(
            "UPDATE answers SET seq = ?, status = ?, score = ? WHERE id = ?",
            [(seq + n, *row) for n, row in enumerate(rows)],
        )
        connection.execute("DELETE FROM staged WHERE run = ?", [run])
        connection.execute(
            "UPDATE runs SET scoring_pass = staged_pass, staged_pass = 0 WHERE id = ? AND staged_pass", [run]
        )
    ledger.recount(connection, run)


def drop_pass(connection: sqlite3.Connection, run: int) -> None:
    """Forget the pass that has begun and is not whole, with its scores."""
    for (number,) in connection.execute("SELECT staged_pass FROM runs WHERE id = ? AND staged_pass", [run]).fetchall():
        connection.execute(
            "DELETE FROM scores WHERE pass = ? AND answer IN (SELECT answer FROM staged WHERE run = ?)", [number, run]
        )
        connection.execute("DELETE FROM group_scores WHERE run = ? AND pass = ?", [run, number])
        connection.execute("DELETE FROM earlier WHERE run = ? AND judging ->> '$.pass' = ?", [run, number])
        connection.execute("DELETE FROM passes WHERE run = ? AND pass = ?", [run, number])
        connection.execute("DELETE FROM replies WHERE run = ? AND pass = ?", [run, number])
        connection.execute("DELETE FROM staged WHERE run = ?", [run])
        connection.execute("UPDATE runs SET staged_pass = 0 WHERE id = ?", [run])


def reopen_errors(connection: sqlite3.Connection, run: int) -> int:
    """Make errors of a run pending again, keeping their records; returns how many.

    If an evaluator could not judge an answer, its other scores stay. Scores of answers judged together are dropped if
    they are errors, or if one of the answers is asked again.
    """
    now = time.time()
    unjudged = (
        "FROM scores WHERE result = 'error' AND pass = (SELECT scoring_pass FROM runs WHERE id = ?1) "
        "AND answer IN (SELECT id FROM answers WHERE run = ?1 AND status NOT IN ('pending', 'running', 'error'))"
    )
    together = (
        "FROM group_scores WHERE run = ?1 AND pass = (SELECT scoring_pass FROM runs WHERE id = ?1) "
        "AND (result = 'error' OR (item, turn) IN (SELECT item, turn FROM answers WHERE run = ?1 AND status = 'error'))"
    )
    columns = ", ".join(SCORE_COLUMNS)
    failed = _numbers(connection, "SELECT id FROM answers WHERE run = ? AND status = 'error'", run)
    to_judge = _numbers(connection, f"SELECT DISTINCT answer {unjudged}", run)
    first = "(SELECT min(id) FROM answers WHERE run = ?1 AND item = group_scores.item AND turn = group_scores.turn)"
    (number,) = connection.execute("SELECT scoring_pass FROM runs WHERE id = ?", [run]).fetchone()
    places = _places(connection, [*failed, *to_judge])
    parts = ["answers", *chains.PARTS_OF_VERDICTS, f"scores/{number}", f"together/{number}"]
    with chains.following(connection, run, "reopened", parts, {"answers": len(places)}, places):
        connection.execute(
            "INSERT INTO earlier(run, answer, time, body, scores) "
            "SELECT run, id, ?2, body, '[]' FROM answers WHERE run = ?1 AND status = 'error'",
            [run, now],
        )
        for answer, where in (("answer", unjudged), (first, together)):
            connection.execute(
                "INSERT INTO earlier(run, answer, time, scores) "
                f"SELECT ?1, {answer} AS of, ?2, json_group_array(json_array({columns})) {where} GROUP BY of",
                [run, now],
            )
            connection.execute(f"DELETE {where}", [run])
        seq = take_seq(connection, len(failed) + len(to_judge))
        connection.executemany(
            "UPDATE answers SET seq = ?, status = 'pending', score = NULL, input_tokens = NULL, output_tokens = NULL, "
            "cached_tokens = 0, reasoning_tokens = 0, cost = NULL, latency_ms = NULL, attempts = 0, "
            "from_cache = 0, scripted = 0, started = NULL, code = NULL, "
            "preview = '', ending = '', body = NULL WHERE id = ?",
            [(seq + number, answer) for number, answer in enumerate(failed)],
        )
        connection.executemany(
            "UPDATE answers SET seq = ?, status = 'answered', score = NULL WHERE id = ?",
            [(seq + len(failed) + number, answer) for number, answer in enumerate(to_judge)],
        )
        connection.execute(
            "UPDATE runs SET status = 'running', finished = NULL, message = '', code = '', verdict = '', gates = '' "
            "WHERE id = ?",
            [run],
        )
    ledger.recount(connection, run)
    return len(failed) + len(to_judge)


def rejudge(
    connection: sqlite3.Connection,
    before: AnswerRow,
    number: int,
    scores: Sequence[tuple[Any, ...]],
    status: AnswerStatus,
    score: float | None,
    expected: str,
) -> bool:
    """Replace the scores of one answer and keep the old ones; False if the answer or its run changed meanwhile.

    `expected` is the JSON of the expectations it was judged by, or `null` if those of its run apply.
    """
    as_before = (
        "SELECT 1 FROM answers a JOIN runs r ON r.id = a.run WHERE a.id = ? AND a.seq = ? "
        "AND r.scoring_pass = ? AND r.staged_pass = 0"
    )
    if not connection.execute(as_before, [before.id, before.seq, number]).fetchone():
        return False
    parts = [*chains.PARTS_OF_VERDICTS, f"scores/{number}", "calls"]
    said = {"item": before.name, "position": before.pos}
    with chains.following(connection, before.run, "rejudged", parts, said, [before.pos]):
        here = "FROM scores WHERE answer = ?1 AND pass = ?2"
        connection.execute(
            "INSERT INTO earlier(run, answer, time, scores, judging) "
            f"SELECT ?3, ?1, ?4, json_group_array(json_array({', '.join(SCORE_COLUMNS)})), "
            f"json_object('pass', ?2, 'status', ?5, 'score', ?6, 'expected', json(?7)) {here}",
            [before.id, number, before.run, time.time(), before.status, before.score, expected],
        )
        connection.execute(f"DELETE {here}", [before.id, number])
        connection.executemany(
            "INSERT INTO scores VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", [(before.id, number, *values) for values in scores]
        )
        with ledger.following(connection, ledger.Touched([before.id])):
            connection.execute(
                "UPDATE answers SET seq = ?, status = ?, score = ? WHERE id = ?",
                [take_seq(connection, 1), status, score, before.id],
            )
        # Whether the gates are met was found before, of other numbers.
        connection.execute("UPDATE runs SET verdict = '', gates = '' WHERE id = ?", [before.run])
    return True


def _places(connection: sqlite3.Connection, answers: Collection[int]) -> frozenset[int]:
    """The positions of answers in their run."""
    query = "SELECT pos FROM answers WHERE id IN (SELECT value FROM json_each(?))"
    return frozenset(pos for (pos,) in connection.execute(query, [json.dumps(list(answers))]).fetchall())


def _numbers(connection: sqlite3.Connection, query: str, run: int) -> list[int]:
    return [number for (number,) in connection.execute(query, [run]).fetchall()]


def label(
    connection: sqlite3.Connection,
    answer: int,
    evaluator: str | None,
    verdict: str | None,
    author: str,
    note: str,
    blind: bool,
) -> None:
    """An author's verdict on an answer in place of the author's earlier one; None takes it back."""
    label_many(connection, [answer], evaluator, verdict, author, note, blind)


def label_many(
    connection: sqlite3.Connection,
    answers: Sequence[int],
    evaluator: str | None,
    verdict: str | None,
    author: str,
    note: str,
    blind: bool,
) -> None:
    """Label each of some answers."""
    of_runs: dict[int, list[int]] = {}
    for answer in answers:
        found = connection.execute("SELECT run FROM answers WHERE id = ?", [answer]).fetchone()
        if found is None:
            raise LookupError(f"answer number {answer} is no longer in the store")
        of_runs.setdefault(found[0], []).append(answer)
    for run, own in of_runs.items():
        said = {"author": author, "verdict": verdict, "evaluator": evaluator, "answers": len(own)}
        with chains.following(connection, run, "verdict", ["labels"], said, _places(connection, own)):
            seq = take_seq(connection, len(own))
            for number, answer in enumerate(own):
                connection.execute("UPDATE answers SET seq = ? WHERE id = ?", [seq + number, answer])
                connection.execute(
                    "DELETE FROM labels WHERE run = ? AND answer = ? AND evaluator IS ? AND author = ?",
                    [run, answer, evaluator, author],
                )
                if verdict is not None:
                    connection.execute(
                        "INSERT INTO labels(run, answer, evaluator, verdict, author, time, note, blind) "
                        "VALUES (?,?,?,?,?,?,?,?)",
                        [run, answer, evaluator, verdict, author, time.time(), note, blind],
                    )


def label_each(
    connection: sqlite3.Connection, answers: Sequence[int], verdict: str | None, author: str, note: str
) -> None:
    """An author's verdict on each of some answers as a whole, all of them or none."""
    label_many(connection, answers, None, verdict, author, note, blind=False)


def clear_cache(connection: sqlite3.Connection) -> int:
    """Forget every cached answer; answers of runs stay. Returns how many there were."""
    connection.execute(
        "DELETE FROM bodies WHERE id IN (SELECT body FROM cache) "
        "AND id NOT IN (SELECT body FROM answers WHERE body IS NOT NULL)"
    )
    return connection.execute("DELETE FROM cache").rowcount
