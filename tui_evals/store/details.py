"""The texts and scores of answers, read in pages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from tui_evals.store import lookup
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.store.rows import AnswerDetail, EarlierAttempt, GroupScore, Mark, loads, score_record

_PAGE = 1_000
_BODIES = 250
"""How many answers are in memory at once with their texts, which may be long."""
_CHARACTERS = 2**22
"""The number of characters after which no further answer is read at once."""


def read_details(
    reader: Reader, run: RunRow, rows: Iterable[AnswerRow], *, requests: bool = False
) -> Iterator[AnswerDetail]:
    """Answers of a run with their texts and scores, read in pages; requests only if `requests`.

    An answer that is not there yet has only its row.
    """
    waiting, rejudged = iter(rows), reader.rejudged(run)
    while page := list(islice(waiting, _BODIES)):
        yield from _read_page(reader, run, page, requests, rejudged)


def _read_page(
    reader: Reader, run: RunRow, page: Sequence[AnswerRow], requests: bool, rejudged: Mapping[int, EarlierAttempt]
) -> Iterator[AnswerDetail]:
    answered = [row for row in page if row.status not in ("pending", "running")]
    ids = [row.id for row in answered]
    scores = scores_of(reader, ids, run.scoring_pass)
    together = lookup.together(reader.query, run.id, run.scoring_pass, {row.item for row in answered})
    while page:
        records = reader.records(ids, requests=requests, most=_CHARACTERS)
        read = 1 + max((at for at, row in enumerate(page) if row.id in records), default=len(page))
        for row in page[:read]:
            if row.status in ("pending", "running"):
                yield AnswerDetail(row, None, (), ())
            else:
                together_here = together.get((row.item, row.turn), ())
                known = scores.get(row.id, ())
                yield AnswerDetail(row, records.get(row.id), known, together_here, rejudged.get(row.id))
        page, ids = page[read:], [answer for answer in ids if answer not in records]
        records.clear()


def asked_again(reader: Reader, run: RunRow, row: AnswerRow) -> tuple[RunRow, AnswerDetail] | None:
    """The latest answer to the same question in a run that retries `run`, with that run, or None.

    Matches the prompt and the target, unless each of the two runs has only one of them.
    """
    # From runs to answers: the other order would scan the whole store.
    query = (
        "SELECT a.id FROM runs r CROSS JOIN answers a ON a.run = r.id WHERE r.parent = ? AND r.total IS NOT NULL "
        "AND a.name = ? AND a.turn = ? AND a.repeat = ? ORDER BY +a.id DESC"
    )
    ids = [answer for (answer,) in reader.query(query, [run.id, row.name, row.turn, row.repeat])]
    for later in reader.rows(ids):
        its = reader.run(later.run)
        named = (its.targets[later.target], its.prompts[later.prompt])
        alone = len(its.targets) * len(its.prompts) == len(run.targets) * len(run.prompts) == 1
        if alone or named == (run.targets[row.target], run.prompts[row.prompt]):
            return its, next(read_details(reader, its, [later], requests=True))
    return None


def error_messages(reader: Reader, run: int) -> dict[int, str]:
    """The error messages of missing answers, by answer id."""
    query = (
        "SELECT answers.id, ifnull(json_extract(b.answer, '$.message'), answers.code) FROM answers "
        "JOIN bodies b ON b.id = body WHERE run = ? AND code IS NOT NULL"
    )
    return dict(reader.query(query, [run]))


def replies(reader: Reader, run: RunRow) -> Iterator[tuple[int, str | None, str | None, tuple[Any, ...]]]:
    """The result of every answer of a run in the order of the plan, paged.

    Its item, its text, why that is missing, and of the first current score the evaluator, score, result, label and
    reason.
    """
    query = (
        "SELECT a.id, a.item, b.text, b.answer, s.evaluator, s.score, s.result, s.label, s.reason FROM answers a "
        "LEFT JOIN bodies b ON b.id = a.body LEFT JOIN scores s ON s.answer = a.id AND s.pass = ? "
        "WHERE a.run = ? AND a.pos >= ? AND a.pos < ? ORDER BY a.pos, s.key"
    )
    for start in range(0, run.total, _PAGE):
        last = None
        for answer, item, text, rest, *score in reader.query(query, [run.scoring_pass, run.id, start, start + _PAGE]):
            if answer == last:
                continue
            last, message = answer, None
            if rest and (text is None or '"text"' in rest):
                more = loads(rest)
                text, message = more.get("text", text), more.get("message")
            yield item, text, message, tuple(score)


def read_scores(reader: Reader, run: int, number: int | None = None) -> Iterator[tuple[int, ScoreRecord]]:
    """The scores of a pass (None: the one that counts) with the answer's id, in the order of the plan, paged."""
    query = (
        f"SELECT answers.id, {lookup.SCORE} FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ? AND pos >= ? AND pos < ? AND s.pass = ? ORDER BY pos, s.key"
    )
    row = reader.run(run)
    for start in range(0, row.total, _PAGE):
        page = reader.query(query, [run, start, start + _PAGE, number or row.scoring_pass])
        yield from ((answer, score_record(tuple(score))) for answer, *score in page)


def scores_of(reader: Reader, ids: Sequence[int], number: int) -> dict[int, tuple[ScoreRecord, ...]]:
    """The scores of a pass for these answers."""
    by_answer: defaultdict[int, list[ScoreRecord]] = defaultdict(list)
    query = (
        f"SELECT s.answer, {lookup.SCORE} FROM json_each(?) j JOIN scores s ON s.answer = j.value AND s.pass = ? "
        "ORDER BY j.key, s.key"
    )
    for row in reader.query(query, [json.dumps(list(ids)), number]):
        by_answer[row[0]].append(score_record(row[1:]))
    return {answer: tuple(records) for answer, records in by_answer.items()}


def score_counts(reader: Reader, run: RunRow) -> dict[str, list[tuple[float, int]]]:
    """How many answers have each score in the pass that counts, by the key of the evaluator."""
    query = (
        "SELECT s.key, s.score, COUNT(*) FROM answers a JOIN scores s ON s.answer = a.id AND s.pass = ? "
        "WHERE a.run = ? AND s.score IS NOT NULL GROUP BY s.key, s.score ORDER BY s.key, s.score"
    )
    counts: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for key, score, count in reader.query(query, [run.scoring_pass, run.id]):
        counts[key].append((score, count))
    return dict(counts)


def group_scores(reader: Reader, run: int, number: int | None = None) -> list[GroupScore]:
    """The records for groups of answers in a pass (None: the one that counts)."""
    query = (
        f"SELECT s.item, s.turn, {lookup.SCORE} FROM group_scores s WHERE s.run = ? AND s.pass = ? "
        "ORDER BY s.item, s.turn, s.key"
    )
    number = number or reader.run(run).scoring_pass
    rows = reader.query(query, [run, number])
    return [GroupScore(number, item, turn, score_record(tuple(score))) for item, turn, *score in rows]


def read_marks(reader: Reader, run: RunRow, rows: Iterable[AnswerRow]) -> Iterator[tuple[AnswerRow, Sequence[Mark]]]:
    """Answers of a run with the fields of their current scores that figures need, read in pages."""
    query = (
        "SELECT s.answer, s.key, s.score, s.result, s.threshold, s.label, s.weight FROM json_each(?) j "
        "JOIN scores s ON s.answer = j.value AND s.pass = ? ORDER BY j.key, s.key"
    )
    waiting = iter(rows)
    while page := list(islice(waiting, _PAGE)):
        marks: dict[int, list[Mark]] = {row.id: [] for row in page}
        for mark in reader.query(query, [json.dumps(list(marks)), run.scoring_pass]):
            marks[mark[0]].append(Mark._make(mark[1:]))
        yield from ((row, marks[row.id]) for row in page)


def failing_scores(
    reader: Reader, run: RunRow, rows: Iterable[AnswerRow]
) -> Iterator[tuple[AnswerRow, Sequence[ScoreRecord]]]:
    """Answers of a run, each with its current scores that are a fail or an error, read in pages."""
    query = (
        f"SELECT s.answer, {lookup.SCORE} FROM json_each(?) j JOIN scores s ON s.answer = j.value AND s.pass = ? "
        "WHERE s.result IN ('fail', 'error') ORDER BY j.key, s.key"
    )
    waiting = iter(rows)
    while page := list(islice(waiting, _PAGE)):
        scores: dict[int, list[ScoreRecord]] = {row.id: [] for row in page}
        for score in reader.query(query, [json.dumps(list(scores)), run.scoring_pass]):
            scores[score[0]].append(score_record(score[1:]))
        yield from ((row, scores[row.id]) for row in page)
