"""Every query of the store. Each one is short, so that no reader ever holds up a checkpoint."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tui_evals.store import failures, identity, ledger, lookup, schema
from tui_evals.store.connection import MissingSnapshot, alive, run_lock, store_wait
from tui_evals.store.lookup import StoredDataset, stored_dataset

from .database import StoreError, connect, explained, schema_version
from .filters import Condition, Filter, compiled, like, ordered
from .records import (
    LIVE_STATUSES,
    MESSAGES_BEFORE,
    OVER_STATUSES,
    AnswerRecord,
    AnswerRow,
    AnswerStatus,
    CallRecord,
    Control,
    RunRow,
    Totals,
    WorkerRow,
)
from .rows import (
    Cached,
    CacheInfo,
    Detail,
    Draft,
    EarlierAttempt,
    JudgedBy,
    Label,
    ScoringPass,
    answer_record,
    answer_row,
    call_record,
    judged_document,
    label_row,
    loads,
    run_row,
)
from .spill import spilled_files

_PAGE = 1_000
_FAILING = "status NOT IN ('pass', 'pending', 'running', 'answered')"
_BODIES = 250
"""How many answers are in memory at once with their texts, which may be long."""
_CHARACTERS = 2**22
"""The number of characters after which no further answer is read at once."""
_SPILLED = "nothing could be stored any more; {} has what was left, and to resume the run stores it"
_KILLED = "its process ended without a word: it was killed, or the machine went down"


class Reader:
    """A view of the store that can change nothing in it."""

    def __init__(self, path: Path) -> None:
        self._path = Path(path).absolute()
        self._connection = connect(self._path)
        self._host = socket.gethostname()
        if schema_version(self._connection, self._path) != schema.VERSION:
            self._connection.close()
            raise StoreError(f"{self._path} is from an earlier tui-evals; `tui-evals runs` brings it up to date.")

    @property
    def path(self) -> Path:
        """The database it reads."""
        return self._path

    @cached_property
    def store_number(self) -> int | None:
        """The random number that tells this store from all others."""
        return identity.store_number(self._connection)

    @cached_property
    def is_foreign(self) -> bool:
        """Whether the store is not the user's own: then nothing that was there before may decide anything."""
        return not identity.is_own(self._path, self.store_number)

    # -- what changed

    def data_version(self) -> int:
        """A number that changes with each commit of another connection."""
        return self._number("PRAGMA data_version")

    def seq(self) -> int:
        """The sequence number of the latest change of an answer."""
        return self._number("SELECT v FROM meta WHERE k = 'seq'")

    def generation(self) -> int:
        """A number that grows when something is deleted: reload what you hold."""
        return self._number("SELECT v FROM meta WHERE k = 'generation'")

    def workers_version(self) -> int:
        """A number that grows when something is heard of the workers of any run."""
        return self._number("SELECT v FROM meta WHERE k = 'workers'")

    def changed(self, since: int, run: RunRow | None = None) -> list[AnswerRow]:
        """The answers changed after the sequence number `since`, in their current state; of `run` only if given."""
        # The plus sign keeps the database on the index of sequence numbers.
        only, values = ("", [since]) if run is None else (" AND +run = ?", [since, run.id])
        query = f"SELECT {lookup.ANSWER} FROM answers WHERE seq > ?{only} ORDER BY seq"
        if run is not None and run.status in LIVE_STATUSES:  # nothing of it is left behind, and need not be looked for
            return [answer_row(row) for row in self.query(query, values)]
        return self._answers(query, values)

    def changed_elsewhere(self, since: int, run: RunRow | None) -> bool:
        """Whether answers of other runs than this one changed after a sequence number."""
        query = "SELECT EXISTS (SELECT 1 FROM answers WHERE seq > ? AND +run IS NOT ?)"
        return bool(self._number(query, [since, run and run.id]))

    # -- runs

    def runs_version(self) -> tuple[object, ...]:
        """Something else whenever a run was planned, ended or continues again."""
        over = ", ".join(f"'{status}'" for status in OVER_STATUSES)
        return self.query(f"SELECT max(id), total(status IN ({over})) FROM runs WHERE total IS NOT NULL")[0]

    def runs(self, limit: int = 50, offset: int = 0, text: str = "") -> list[RunRow]:
        """Runs, the latest first; every word of the text is in a name, suite, source, tag or note of theirs."""
        words = [f"%{like(word)}%" for word in text.split()]
        where = (
            " AND key || ' ' || name || ' ' || suite || ' ' || source || ' ' || tags || ' ' || note LIKE ? ESCAPE '~'"
        )
        query = f"{lookup.RUN}{where * len(words)} ORDER BY id DESC LIMIT ? OFFSET ?"
        return [self._run(row) for row in self.query(query, [*words, limit, offset])]

    def run(self, number: int) -> RunRow:
        """The run with this number; raises LookupError if it was deleted."""
        for row in self.query(f"{lookup.RUN} AND id = ?", [number]):
            return self._run(row)
        raise LookupError(f"run number {number} is no longer in the store")

    def find_run(self, word: str) -> RunRow:
        """The run that a word names: `last`, an id, a name (its latest run), or the beginning of one id."""
        return self._run(lookup.find_run(self.query, word, self._path))

    def knows(self, run: RunRow) -> bool:
        """Whether a run that was read before is in this store."""
        return bool(
            self.query("SELECT 1 FROM runs WHERE id = ? AND key = ? AND created = ?", [run.id, run.key, run.created])
        )

    def snapshot(self, digest: str) -> dict[str, Any]:
        """A dataset document as it was when its run began."""
        for (text,) in self.query("SELECT document FROM snapshots WHERE hash = ?", [digest]):
            document: dict[str, Any] = loads(text)
            return document
        raise MissingSnapshot(digest, self._path)

    def judged_by(self, run: RunRow, asked: Mapping[str, Any] | None = None) -> JudgedBy:
        """The dataset that currently judges the answers of a run, and since when; `asked` is its own if known."""
        query = (
            "SELECT p.created, s.hash, s.document FROM passes p JOIN snapshots s ON s.hash = p.config ->> '$.dataset' "
            "WHERE p.run = ? AND p.pass = ?"
        )
        if asked is None:
            asked = self.snapshot(run.snapshot) if run.snapshot else {}
        for created, digest, text in self.query(query, [run.id, run.scoring_pass]):
            return JudgedBy(judged_document(asked, loads(text)), created, digest)
        return JudgedBy(asked, run.created, run.snapshot)

    def rejudged(self, run: RunRow) -> dict[int, EarlierAttempt]:
        """Earlier states of answers that are judged by edited expectations, by their ids."""
        return lookup.rejudged(self.query, run) if run.rejudged else {}

    def dataset(self, run: RunRow) -> StoredDataset:
        """The dataset of a run as its scoring pass judged it, with items parsed on demand."""
        query = (
            "SELECT CAST(asked.document AS BLOB), CAST(judging.document AS BLOB) FROM snapshots asked "
            "LEFT JOIN passes p ON p.run = ? AND p.pass = ? "
            "LEFT JOIN snapshots judging ON judging.hash = p.config ->> '$.dataset' WHERE asked.hash = ?"
        )
        for asked, judging in self.query(query, [run.id, run.scoring_pass, run.snapshot]):
            return stored_dataset(asked, judging)
        raise MissingSnapshot(run.snapshot, self._path)

    def control(self, run: int) -> Control:
        """The control word of a run: pause, stop, or empty."""
        for (word,) in self.query("SELECT control FROM runs WHERE id = ?", [run]):
            control: Control = word
            return control
        raise LookupError(f"run number {run} is no longer in the store")

    def totals(self, run: int) -> Totals:
        """A run in numbers."""
        return self._with_lost_calls(run, self._settled(run, ledger.together(self._groups(run).items())))

    def live_totals(self, run: RunRow) -> tuple[Totals, dict[tuple[int, int], Totals]]:
        """A run that is live and each of its columns in numbers, as `totals` and `totals_by` tell them, read once."""
        groups = self._groups(run.id)
        columns: dict[tuple[int, int], list[tuple[ledger.Group, Totals]]] = {}
        for group, totals in groups.items():
            if group.prompt >= 0:
                columns.setdefault((group.prompt, group.target), []).append((group, totals))
        together = {column: ledger.together(own) for column, own in sorted(columns.items())}
        return ledger.together(groups.items()), together

    def totals_by(self, run: int, by: str) -> dict[Any, Totals]:
        """The groups of a run in numbers: by target or prompt (numbers), category, column (prompt and target), or cell.

        A cell is a category in a column: prompt, target and category.
        """
        key = _GROUPED_BY.get(by)
        if key is None:
            raise ValueError(f"totals go by target, prompt, column, category or cell, not by {by!r}")
        parts: dict[Any, list[tuple[ledger.Group, Totals]]] = {}
        for group, totals in self._groups(run).items():
            if group.prompt >= 0:
                parts.setdefault(key(group), []).append((group, totals))
        found = {group: self._settled(run, ledger.together(own)) for group, own in sorted(parts.items())}
        # It is unknown to which group a lost call belongs.
        return found if len(found) > 1 else {group: self._with_lost_calls(run, found[group]) for group in found}

    def totals_in(self, run: int, columns: Collection[tuple[int, int]]) -> Totals:
        """Some columns of a run in numbers, each by its prompt and target; LookupError where they have no answers."""
        own = [one for one in self._groups(run).items() if (one[0].prompt, one[0].target) in columns]
        if not own:
            raise LookupError(f"no answers in these columns of run {run}")
        return self._settled(run, ledger.together(own))

    def _groups(self, run: int) -> dict[ledger.Group, Totals]:
        return ledger.groups(self.query, run)

    def runs_sharing(self, limit: str, since: int) -> tuple[list[int], int]:
        """The runs after that number that share a limit of that name, and the number of the last run there is."""
        query = "SELECT id, json_extract(config, '$.terms.shared_limit') = ? FROM runs WHERE id > ? ORDER BY id"
        rows = self.query(query, [limit, since])
        return [number for number, shares in rows if shares], rows[-1][0] if rows else since

    def reserved(self, run: int) -> float:
        """The money reserved for calls in flight, or for those that were when the process of the run vanished."""
        return float(next((cost for (cost,) in self.query("SELECT reserved FROM runs WHERE id = ?", [run])), 0.0))

    def reply(self, run: int, number: int, key: str) -> AnswerRecord | None:
        """A judge's reply in an unfinished scoring pass."""
        query = "SELECT text, reply FROM replies WHERE run = ? AND pass = ? AND key = ?"
        return next((answer_record("", *body) for body in self.query(query, [run, number, key])), None)

    def kept_failures(self, run: RunRow) -> dict[str, Any] | None:
        """The kept failure groups of a run; None if something changed since, or the store is foreign."""
        return None if self.is_foreign else failures.kept_groups(self.query, run.id)

    def run_before(self, run: RunRow) -> RunRow | None:
        """The latest finished run of the same dataset before `run`, or None."""
        number = failures.number_before(self.query, run.id)
        return None if number is None else self.run(number)

    def runs_of(self, source: str, snapshot: str | None, limit: int) -> Iterator[RunRow]:
        """The latest runs of a dataset, by the name its runs have for it; with a `snapshot` only of that version."""
        query = (
            "SELECT id FROM runs WHERE source = ?1 AND ifnull(?2, snapshot) = snapshot AND total IS NOT NULL "
            "ORDER BY id DESC LIMIT ?3"
        )
        for (run,) in self.query(query, [source, snapshot, limit]):
            yield self.run(run)

    def only(self, where: Filter) -> Reader:
        """A view that shows of every run only the answers that match a filter."""
        return _FilteredReader(self._path, where)

    def passes(self, run: int) -> list[ScoringPass]:
        """The scoring passes of a run that are whole, in order."""
        query = (
            "SELECT pass, created, config FROM passes WHERE run = ?1 "
            "AND pass <= (SELECT scoring_pass FROM runs WHERE id = ?1) ORDER BY pass"
        )
        rows = self.query(query, [run])
        return [ScoringPass(number, created, loads(config)) for number, created, config in rows]

    def judged_alone(self, run: int) -> frozenset[tuple[int, int]]:
        """The scoring passes and answers in which a single answer was judged again by itself."""
        query = "SELECT judging ->> '$.pass', answer FROM earlier WHERE run = ? AND judging IS NOT NULL"
        return frozenset(self.query(query, [run]))

    def staged_pass(self, run: RunRow) -> tuple[Mapping[str, Any], frozenset[int]]:
        """The config of the staged scoring pass, and the answers it has judged."""
        for (config,) in self.query("SELECT config FROM passes WHERE run = ? AND pass = ?", [run.id, run.staged_pass]):
            judged = self.query("SELECT answer FROM staged WHERE run = ?", [run.id])
            return loads(config), frozenset(answer for (answer,) in judged)
        raise LookupError(f"run {run.key} is not being judged again")

    def workers(self, run: int) -> list[WorkerRow]:
        """The workers of a run by name; empty if one process executes it."""
        return lookup.workers(self.query, self.run(run))

    # -- answers

    def window(self, run: int, offset: int, limit: int) -> list[AnswerRow]:
        """The answers of a run from a position on, in the order of the plan."""
        query = f"SELECT {lookup.ANSWER} FROM answers WHERE run = ? AND pos >= ? AND pos < ? ORDER BY pos"
        return self._answers(query, [run, offset, offset + limit])

    def ids(
        self, run: int, where: Filter | None = None, sort: str | None = None, descending: bool = False
    ) -> array[int]:
        """The ids of a run's answers that match a filter, sorted by a column or `evaluator:KEY`; nulls come last."""
        condition, values = self.condition(where, run) if where else ("TRUE", [])
        join, order, joined = ordered(sort, descending)
        query = f"SELECT answers.id FROM answers{join} WHERE answers.run = ? AND {condition} ORDER BY {order}"
        return array("q", [answer for (answer,) in self.query(query, [*joined, run, *values])])

    def rows(self, ids: Iterable[int]) -> list[AnswerRow]:
        """The answers of these ids, in their order; deleted ones are left out."""
        query = f"SELECT {lookup.ANSWER} FROM json_each(?) j JOIN answers ON answers.id = j.value ORDER BY j.key"
        return self._answers(query, [json.dumps(list(ids))])

    def failing_from(self, run: int, pos: int, way: int) -> int | None:
        """The next answer behind a position of the plan (`way` 1), or before it (-1), that did not pass."""
        behind, order = (">", "ASC") if way > 0 else ("<", "DESC")
        query = f"SELECT id FROM answers WHERE run = ? AND pos {behind} ? AND {_FAILING} ORDER BY pos {order} LIMIT 1"
        return next((answer for (answer,) in self.query(query, [run, pos])), None)

    def first_failing(self, ids: Iterable[int]) -> int | None:
        """The first of these answers that did not pass."""
        query = f"SELECT answers.id FROM json_each(?) j JOIN answers ON answers.id = j.value WHERE {_FAILING} "
        query += "ORDER BY j.key LIMIT 1"
        return next((answer for (answer,) in self.query(query, [json.dumps(list(ids))])), None)

    def pending(self, run: int) -> Iterator[AnswerRow]:
        """The answers that are not final, in the order of the plan; each page is read when it is needed."""
        query = (
            f"SELECT {lookup.ANSWER} FROM answers WHERE run = ? AND pos > ? "
            f"AND status IN ('pending', 'running', 'answered') ORDER BY pos LIMIT {_PAGE}"
        )
        page = self._answers(query, [run, -1])
        while page:
            yield from page
            page = self._answers(query, [run, page[-1].pos])

    def all_rows(self, run: int) -> Iterator[AnswerRow]:
        """Every answer of a run in the order of the plan, paged."""
        start = 0
        while page := self.window(run, start, _PAGE):
            yield from page
            start = page[-1].pos + 1

    def items(self, run: int, statuses: Sequence[AnswerStatus]) -> array[int]:
        """The items of a run that have an answer of one of these statuses."""
        among = "status IN (SELECT value FROM json_each(?))"
        query = f"SELECT DISTINCT item FROM answers WHERE run = ? AND {among} ORDER BY item"
        return array("q", [item for (item,) in self.query(query, [run, json.dumps(statuses)])])

    def names(self, run: int) -> list[str]:
        """How the items of a run are called."""
        return [name for (name,) in self.query("SELECT DISTINCT name FROM answers WHERE run = ?", [run])]

    def answers_to(self, run: int, items: Iterable[int]) -> list[AnswerRow]:
        """The answers to some items of a run, in the order of the plan."""
        among = "item IN (SELECT value FROM json_each(?))"
        query = f"SELECT {lookup.ANSWER} FROM answers WHERE run = ? AND {among} ORDER BY pos"
        return self._answers(query, [run, json.dumps(list(items))])

    def search(self, where: Filter, limit: int = 100) -> list[AnswerRow]:
        """Answers of all runs that match a filter, the latest first."""
        condition, values = compiled(where, None)
        query = f"SELECT {lookup.ANSWER} FROM answers WHERE {condition} ORDER BY answers.id DESC LIMIT ?"
        return self._answers(query, [*values, limit])

    def records(
        self, ids: Iterable[int], *, requests: bool = False, most: int | None = None
    ) -> dict[int, AnswerRecord]:
        """The stored bodies of answers, by id; requests only if `requests`.

        Stops once the bodies together have `most` characters.
        """
        query = (
            f"SELECT answers.id, {'b.request' if requests else repr('')}, b.text, b.answer FROM json_each(?) j "
            "JOIN answers ON answers.id = j.value JOIN bodies b ON b.id = answers.body"
        )
        records = {body[0]: answer_record(*body[1:]) for body in self.query(query, [json.dumps(list(ids))], most)}
        if in_part := [answer for answer, record in records.items() if MESSAGES_BEFORE in record.request]:
            for answer, request in lookup.whole_requests(self.query, self.rows(in_part)).items():
                records[answer] = replace(records[answer], request=request)
        return records

    def detail(self, answer: int, *, whole: bool = True) -> Detail:
        """All data of one answer; unless `whole`, a long conversation's request has only the additions of the turn."""
        detail = lookup.detail(self.query, answer, whole)
        return replace(detail, row=self._settle([detail.row])[0])

    # -- scores

    def score_keys(self, run: RunRow) -> list[tuple[str, bool]]:
        """The keys of the scores that count, in the order they are met; whether of all answers to an item together."""
        return lookup.score_keys(self.query, run)

    # -- calls, people, cache

    def calls(self, run: int) -> Iterator[CallRecord]:
        """Every attempt of a run in the order they ended, paged."""
        last = 0
        query = f"SELECT id, {lookup.CALL} FROM calls WHERE run = ? AND id > ? ORDER BY id LIMIT {_PAGE}"
        while page := self.query(query, [run, last]):
            last = page[-1][0]
            yield from (call_record(row[1:]) for row in page)

    def labels(self, run: int) -> list[Label]:
        """The labels of a run's answers, the latest last."""
        return [
            label_row(row) for row in self.query(f"SELECT {lookup.LABEL} FROM labels WHERE run = ? ORDER BY id", [run])
        ]

    def cache_get(self, key: str) -> Cached | None:
        """The cached answer of a key, without its request; None without a usable one."""
        if self.is_foreign:
            return None
        query = (
            "SELECT c.key, c.recipe, c.target, c.created, c.run, '', b.text, b.answer FROM cache c "
            "JOIN bodies b ON b.id = c.body WHERE c.key = ?"
        )
        for cache_key, recipe, target, created, run, *body in self.query(query, [key]):
            return Cached(cache_key, recipe, target, created, answer_record(*body), run)
        return None

    def cached_keys(self, keys: Sequence[str]) -> set[str]:
        """The keys among `keys` that have a cached answer; none in a store of someone else."""
        if self.is_foreign:
            return set()
        query = "SELECT c.key FROM json_each(?) k CROSS JOIN cache c ON c.key = k.value"
        return {key for (key,) in self.query(query, [json.dumps(keys)])}

    def cache_holds(self, target: str) -> bool:
        """Whether anything that a target said is cached and may be used."""
        return not self.is_foreign and bool(self.query("SELECT 1 FROM cache WHERE target = ? LIMIT 1", [target]))

    def cache_info(self) -> CacheInfo:
        """How much the cache holds."""
        query = (
            "SELECT count(*), ifnull(sum(length(b.request) + ifnull(length(b.text), 0) + length(b.answer)), 0), "
            "min(c.created) FROM cache c JOIN bodies b ON b.id = c.body"
        )
        return CacheInfo(*self.query(query, [])[0])

    def draft_names(self) -> list[str]:
        """The names of all drafts, without reading them."""
        return [name for (name,) in self.query("SELECT file FROM drafts ORDER BY file", [])]

    def draft_changed(self, name: str, since: float) -> Draft | None:
        """A draft that was written after a time; None where it was not."""
        query = "SELECT file, digest, data, time FROM drafts WHERE file = ? AND time > ?"
        return next((Draft(*row) for row in self.query(query, [name, since])), None)

    def drafts(self) -> list[Draft]:
        """Unsaved edits, the latest first."""
        return [Draft(*row) for row in self.query("SELECT file, digest, data, time FROM drafts ORDER BY time DESC", [])]

    def session(self, key: str) -> Any:
        """The value that the workbench stored under a key, or None."""
        return next((loads(v) for (v,) in self.query("SELECT v FROM session WHERE k = ?", [key])), None)

    def close(self) -> None:
        """Give back the connection."""
        self._connection.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, statement: str, values: Sequence[Any] = (), most: int | None = None) -> list[tuple[Any, ...]]:
        """Rows, for the modules of the store; no other package writes SQL. With `most`, as in `records`."""
        try:
            cursor = self._connection.execute(statement, values)
            if most is None:
                return cursor.fetchall()
            rows: list[tuple[Any, ...]] = []
            while most > 0 and (row := cursor.fetchone()) is not None:
                rows.append(row)
                most -= sum(len(value) for value in row if isinstance(value, str))
            cursor.close()
            return rows
        except sqlite3.Error as problem:
            raise explained(problem, self._path) from problem

    def _number(self, query: str, values: Sequence[Any] = ()) -> int:
        return int(self.query(query, values)[0][0])

    def _answers(self, query: str, values: Sequence[Any]) -> list[AnswerRow]:
        return self._settle([answer_row(row) for row in self.query(query, values)])

    def _run(self, row: tuple[Any, ...]) -> RunRow:
        """The run, as interrupted if its process has ended. For a run on another host that is unknown."""
        run = run_row(row)
        lock = run_lock(self._path, run.key)
        if run.status in LIVE_STATUSES and run.host in (None, self._host):
            if alive(lock):
                if (wait := store_wait(lock)) is not None:
                    run = replace(run, waiting=wait)
            elif files := spilled_files(self._path, run.key):
                run = replace(run, status="interrupted", message=_SPILLED.format(files[0]), code="store")
            else:
                run = replace(run, status="interrupted", message=_KILLED, code="killed")
        if run.waiting is not None and (run.status not in LIVE_STATUSES or run.waiting.until <= time.time()):
            return replace(run, waiting=None)
        return run

    def condition(self, where: Filter, run: int) -> Condition:
        """A filter as a condition on the answers of a run."""

        def answers_of(key: str) -> Sequence[int]:
            row = self.run(run)
            return failures.answers_of_group(self.query, row, key, self.kept_failures(row))

        return compiled(where, run, in_flight=self.in_flight(run), clusters=answers_of)

    def in_flight(self, run: int) -> bool:
        """Whether a running answer of this run can still arrive; False for a deleted run."""
        rows = self.query(f"{lookup.RUN} AND id = ?", [run])
        return any(self._run(row).status in LIVE_STATUSES for row in rows)

    def _settle(self, rows: list[AnswerRow]) -> list[AnswerRow]:
        """The rows, with questions that a dead process left behind pending again."""
        runs = {row.run for row in rows if row.status == "running"}
        left = {run for run in runs if not self.in_flight(run)}
        if not left:
            return rows
        return [replace(row, status="pending") if row.status == "running" and row.run in left else row for row in rows]

    def _settled(self, run: int, totals: Totals) -> Totals:
        """Totals without running answers if no process executes the run."""
        if not totals.running or self.in_flight(run):
            return totals
        return replace(totals, pending=totals.pending + totals.running, running=0)

    def _with_lost_calls(self, run: int, totals: Totals) -> Totals:
        """The totals with the possible cost of calls that were in flight when the process of the run vanished."""
        lost = self.reserved(run)
        return replace(totals, may_cost=totals.may_cost + lost) if lost and not self.in_flight(run) else totals


_GROUPED_BY: Mapping[str, Callable[[ledger.Group], Any]] = {
    "target": lambda group: group.target,
    "prompt": lambda group: group.prompt,
    "category": lambda group: group.category,
    "column": lambda group: (group.prompt, group.target),
    "cell": tuple,
}


class _FilteredReader(Reader):
    def __init__(self, path: Path, where: Filter) -> None:
        super().__init__(path)
        self._where = where

    def all_rows(self, run: int) -> Iterator[AnswerRow]:
        """The answers of a run that match the filter, in the order of the plan, paged."""
        ids = self.ids(run, self._where)
        for start in range(0, len(ids), _PAGE):
            yield from self.rows(ids[start : start + _PAGE])

    def score_keys(self, run: RunRow) -> list[tuple[str, bool]]:
        """The keys of the scores of those answers."""
        return lookup.score_keys(self.query, run, *self.condition(self._where, run.id))
