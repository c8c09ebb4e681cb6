"""Looks up one thing in a store: a run, one answer with all its details, a stored dataset."""

from __future__ import annotations

import json
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from tui_evals.light_records import LazySequence, dataclass
from tui_evals.store.answer_facts import INCOMPLETE
from tui_evals.store.records import MESSAGES_BEFORE, OVER_STATUSES, AnswerRow, RunRow, ScoreRecord, WorkerRow
from tui_evals.store.rows import (
    ANSWER_COLUMNS,
    CALL_COLUMNS,
    RUN_COLUMNS,
    RUN_SELECTED,
    SCORE_COLUMNS,
    WORKER_COLUMNS,
    Detail,
    EarlierAttempt,
    answer_record,
    answer_row,
    call_record,
    label_row,
    loads,
    rejudged_of,
    score_record,
    with_expectation,
)
from tui_evals.text.names import did_you_mean

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

ANSWER = ", ".join((*(f"answers.{name}" for name in ANSWER_COLUMNS), INCOMPLETE))
RUN = f"SELECT {RUN_SELECTED} FROM runs WHERE total IS NOT NULL"  # without a total it is still planned
SCORE = ", ".join(f"s.{name}" for name in SCORE_COLUMNS)
CALL = ", ".join(CALL_COLUMNS)
_WORKER = ", ".join(WORKER_COLUMNS)
LABEL = "run, answer, evaluator, verdict, author, time, note, blind"


def find_run(ask: Ask, word: str, path: Path) -> tuple[Any, ...]:
    """The row of a run by `last` (that asked anything), id, name (the latest of it), or the beginning of one id."""
    if word == "last":
        for row in ask(f"{RUN} AND total > 0 ORDER BY id DESC LIMIT 1", []):
            return row
        for _ in ask("SELECT 1 FROM runs LIMIT 1", []):
            raise LookupError(f"no run in {path} has answers; `tui-evals runs` lists them")
        raise LookupError(f"there are no runs in {path} yet; start one with `tui-evals run`")
    for where in ("key = lower(?)", "name = ?"):
        for row in ask(f"{RUN} AND {where} ORDER BY id DESC LIMIT 1", [word]):
            return row
    begins = "? != '' AND substr(key, 1, length(?)) = lower(?)"
    candidates = ask(f"{RUN} AND {begins} ORDER BY id DESC LIMIT 10", [word] * 3)
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        keys = ", ".join(row[RUN_COLUMNS.index("key")] for row in candidates)
        raise LookupError(f"{word!r} is the beginning of several runs ({keys}); write more of the one you mean")
    known = [name for (name,) in ask("SELECT DISTINCT name FROM runs ORDER BY id DESC LIMIT 1000", [])]
    raise LookupError(f"there is no run {word!r}{did_you_mean(word, known)}; `tui-evals runs` lists them")


def workers(ask: Ask, run: RunRow) -> list[WorkerRow]:
    """The workers of a run by name. Those of a run that is over keep their counts and are `gone`."""
    rows = ask(f"SELECT {_WORKER} FROM workers WHERE run = ? ORDER BY name", [run.id])
    records = [WorkerRow(*row) for row in rows]
    if run.status in OVER_STATUSES:
        return [replace(row, state="gone", cells=0, rate=0.0) for row in records]
    return records


def detail(ask: Ask, answer: int, whole: bool = True) -> Detail:
    """An answer with its text, request (`whole`, or what its turn added), scores, calls and labels."""
    for columns in ask(f"SELECT {ANSWER} FROM answers WHERE id = ?", [answer]):
        row = answer_row(columns)
        break
    else:
        raise LookupError(f"answer number {answer} is no longer in the store")
    bodies = ask(
        "SELECT b.request, b.text, b.answer FROM answers JOIN bodies b ON b.id = body WHERE answers.id = ?", [answer]
    )
    record = answer_record(*bodies[0]) if bodies else None
    if whole and record is not None and MESSAGES_BEFORE in record.request:
        record = replace(record, request=whole_requests(ask, [row])[answer])
    scores = ask(
        f"SELECT s.pass, {SCORE} FROM scores s WHERE answer = ?1 "
        "AND s.pass <= (SELECT scoring_pass FROM runs WHERE id = ?2) ORDER BY s.pass, s.key",
        [answer, row.run],
    )
    # The passes are named so that the database finds the item in its index and does not walk over the whole run.
    together = ask(
        f"SELECT s.pass, {SCORE} FROM group_scores s WHERE run = ?1 AND item = ?2 AND turn = ?3 "
        "AND s.pass IN (SELECT p.pass FROM passes p JOIN runs r ON r.id = p.run WHERE r.id = ?1 "
        "AND p.pass <= r.scoring_pass) ORDER BY s.pass, s.key",
        [row.run, row.item, row.turn],
    )
    calls = ask(f"SELECT {CALL} FROM calls WHERE run = ? AND answer = ? ORDER BY id", [row.run, answer])
    labels = ask(f"SELECT {LABEL} FROM labels WHERE run = ? AND answer = ? ORDER BY id", [row.run, answer])
    return Detail(
        row,
        record,
        _by_pass(scores),
        _by_pass(together),
        tuple(call_record(call) for call in calls),
        tuple(map(label_row, labels)),
        _earlier(ask, answer),
    )


def _earlier(ask: Ask, answer: int) -> tuple[EarlierAttempt, ...]:
    query = (
        "SELECT e.time, b.text, b.answer, e.scores, e.judging FROM earlier e "
        "JOIN runs r ON r.id = e.run LEFT JOIN bodies b ON b.id = e.body "
        "WHERE e.answer = ? AND ifnull(e.judging ->> '$.pass', 0) <= r.scoring_pass ORDER BY e.id"
    )
    # A score that a later pass keeps is in each of these passes.
    attempts = {
        time: EarlierAttempt(
            time,
            None if rest is None else answer_record("", text, rest),
            tuple(score_record(tuple(score)) for score in loads(scores)),
            rejudged_of(judging),
        )
        for time, text, rest, scores, judging in ask(query, [answer])
    }
    return tuple(attempts.values())


def rejudged(ask: Ask, run: RunRow) -> dict[int, EarlierAttempt]:
    """Earlier states of answers that are judged by edited expectations, by their ids."""
    query = (
        "SELECT answer, time, judging, max(id) FROM earlier WHERE run = ?1 AND judging IS NOT NULL "
        "AND judging ->> '$.pass' = ?2 GROUP BY answer"
    )
    last = {
        answer: EarlierAttempt(time, None, rejudged=rejudged_of(judging))
        for answer, time, judging, _ in ask(query, [run.id, run.scoring_pass])
    }
    return {answer: one for answer, one in last.items() if one.rejudged and one.rejudged.expected is not None}


def whole_requests(ask: Ask, rows: Iterable[AnswerRow]) -> dict[int, Mapping[str, Any]]:
    """The whole requests of these answers; the chat of a turn is joined from the additions of each turn before."""
    whole: dict[int, Mapping[str, Any]] = {}
    query = (
        "SELECT answers.id, b.request FROM answers JOIN bodies b ON b.id = body "
        "WHERE run = ? AND pos BETWEEN ? AND ? ORDER BY pos"
    )
    wanted = sorted(rows, key=lambda row: (row.run, row.pos))
    for (run, first), of_cell in groupby(wanted, key=lambda row: (row.run, row.pos - row.turn)):
        *_, last = answers = list(of_cell)
        ids, messages = {row.id for row in answers}, list[Mapping[str, Any]]()
        for answer, text in ask(query, [run, first, last.pos]):
            request = loads(text) if text else {}
            messages = [*messages[: request.pop(MESSAGES_BEFORE, 0)], *request.get("messages", ())]
            if answer in ids:
                whole[answer] = {**request, "messages": messages} if request else {}
    return whole


def together(ask: Ask, run: int, number: int, items: Iterable[int]) -> dict[tuple[int, int], tuple[ScoreRecord, ...]]:
    """The scores of groups of answers in a pass, by item and turn, of these items."""
    query = (
        f"SELECT s.item, s.turn, {SCORE} FROM json_each(?) j "
        "JOIN group_scores s ON s.run = ? AND s.pass = ? AND s.item = j.value ORDER BY s.item, s.turn, s.key"
    )
    groups: defaultdict[tuple[int, int], list[ScoreRecord]] = defaultdict(list)
    for item, turn, *score in ask(query, [json.dumps(list(items)), run, number]):
        groups[item, turn].append(score_record(tuple(score)))
    return {place: tuple(records) for place, records in groups.items()}


def score_keys(ask: Ask, run: RunRow, condition: str = "TRUE", values: Sequence[Any] = ()) -> list[tuple[str, bool]]:
    """The keys of the current scores, by the first answer with one; those of groups come after answers."""
    query = (
        "WITH there AS MATERIALIZED (SELECT id, item, turn, pos FROM answers "
        f"WHERE run = ? AND status NOT IN ('pending', 'running') AND {condition}) "
        "SELECT s.key, 0, min(pos) FROM there JOIN scores s ON s.answer = there.id AND s.pass = ? GROUP BY s.key "
        "UNION ALL SELECT s.key, 1, min(pos) FROM group_scores s JOIN there USING (item, turn) "
        "WHERE s.run = ? AND s.pass = ? GROUP BY s.key ORDER BY 3, 2, 1"
    )
    rows = ask(query, [run.id, *values, run.scoring_pass, run.id, run.scoring_pass])
    return [(key, grouped == 1) for key, grouped, _ in rows]


def _by_pass(rows: Iterable[tuple[Any, ...]]) -> dict[int, tuple[ScoreRecord, ...]]:
    """Scores by the number of their pass, which comes before each."""
    by_number: defaultdict[int, list[ScoreRecord]] = defaultdict(list)
    for number, *score in rows:
        by_number[number].append(score_record(tuple(score)))
    return {number: tuple(records) for number, records in by_number.items()}


Item = Mapping[str, Any]
_parse = json.JSONDecoder().raw_decode
_BETWEEN = re.compile(r"[\s,:]*")


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """The dataset of a run as it was asked, with the expectations of the current scoring pass."""

    head: Mapping[str, Any]
    """The document without its items."""
    items: Sequence[Item]


class Items(LazySequence[Item]):
    """The items of a stored document, with the expectations of the items in `judging` if given."""

    def __init__(self, text: str, starts: Sequence[int], judging: Sequence[Item] | None = None) -> None:
        self._text = text
        self._starts = starts
        self._judging = judging

    def __len__(self) -> int:
        return len(self._starts) - 1

    def row_at(self, place: int) -> Item:
        start, end = self._starts[place], self._starts[place + 1]
        item: Item = _parse(_utf8(self._text[start:end]))[0]
        return item if self._judging is None else with_expectation(item, self._judging[place])


def stored_dataset(document: bytes, judging: bytes | None = None) -> StoredDataset:
    """A stored document with the expectations of `judging`, which has the same items."""
    head, text, starts = _outline(document)
    judged = None if judging is None else stored_dataset(judging)
    return StoredDataset(head, Items(text, starts, judged.items if judged else None))


_PATHS = 90
"""Paths of JSON that are read at once: a function of SQLite takes 100 arguments."""


def asked_items(ask: Ask, run: RunRow, numbers: Iterable[int]) -> dict[int, Item]:
    """A few items of a run by their numbers, as `stored_dataset` has them, without walking over all of them."""
    wanted = sorted(set(numbers))
    found: dict[int, Item] = {}
    for start in range(0, len(wanted), _PATHS):
        part = wanted[start : start + _PATHS]
        paths = ", ".join(f"'$.items[{number}]'" for number in part)
        query = (
            f"SELECT json_extract(asked.document, '$.none', {paths}), "
            f"json_extract(judging.document, '$.none', {paths}) "
            "FROM snapshots asked LEFT JOIN passes p ON p.run = ? AND p.pass = ? "
            "LEFT JOIN snapshots judging ON judging.hash = p.config ->> '$.dataset' WHERE asked.hash = ?"
        )
        for asked, judging in ask(query, [run.id, run.scoring_pass, run.snapshot]):
            items, judged = (json.loads(text)[1:] if text else () for text in (asked, judging))
            for place, (number, item) in enumerate(zip(part, items, strict=True)):
                if item is not None:
                    found[number] = with_expectation(item, judged[place] or {}) if judged else item
    return found


def _outline(document: bytes) -> tuple[dict[str, Any], str, Sequence[int]]:
    """The document but for its items, its text, and where each item begins and the last one ends in it."""
    # One character per byte: a single emoji would make Python store four bytes for every character.
    text = document.decode("latin-1")
    head: dict[str, Any] = {}
    starts = array("Q")
    at = _after(text, text.index("{") + 1)
    while text[at] != "}":
        name, end = _parse(text, at)
        at = _after(text, end)
        if name == "items" and text[at] == "[":
            head["items"] = []
            at = _after(text, at + 1)
            while text[at] != "]":
                starts.append(at)
                at = _after(text, _parse(text, at)[1])
            starts.append(at)
            at = _after(text, at + 1)
        else:
            end = _parse(text, at)[1]
            head[_utf8(name)] = _parse(_utf8(text[at:end]))[0]
            at = _after(text, end)
    return head, text, starts or array("Q", [at])


def _after(text: str, at: int) -> int:
    """The position of the next value or bracket."""
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode("latin-1").decode()
