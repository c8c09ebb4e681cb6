"""What comparing runs reads from the store: the comparison, answers a filter lets through, one line in full."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.compare.columns import read_columns
from tui_evals.compare.match import Kind
from tui_evals.compare.measures import Column
from tui_evals.compare.runs import KINDS, ComparedLine, Comparison, read_comparison
from tui_evals.present.answers import expected_text
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord
from tui_evals.store.rows import Detail
from tui_evals.text.chats import question_text
from tui_evals.text.nearest import did_you_mean
from tui_evals.tui.answer_context import answer_as_text, messages_of, unit_of


@dataclass(frozen=True, slots=True)
class JudgedLine:
    """What one evaluator made of the answers of a line, in the order of the runs."""

    key: str
    records: tuple[ScoreRecord | None, ...]


@dataclass(frozen=True, slots=True)
class LineTexts:
    """One line in full; a text is None where the run has no such answer."""

    line: ComparedLine
    question: str
    expected: str | None
    texts: tuple[str | None, ...]
    judged: tuple[JudgedLine, ...]


def read_runs(database: Path, runs: Sequence[int], columns: tuple[Column, Column] | None = None) -> Comparison:
    """Compare runs, or two columns of a single one; LookupError if one is gone."""
    with Reader(database) as reader:
        return read_comparison(reader, runs) if columns is None else read_columns(reader, runs[0], columns)


_KIND_TERM = re.compile(r'(?<!\S)(!?)kind:("[^"]*"|\S*)')


def kinds_of_filter(text: str) -> tuple[frozenset[Kind], str]:
    """The kinds that terms such as `kind:broken` let through, all of them without one, and what else a filter says."""
    left = set(KINDS)
    for negated, value in _KIND_TERM.findall(text):
        name = value.strip('"').replace("-", " ")
        if name not in KINDS:
            raise FilterError(f"there is no kind {name!r}{did_you_mean(name, KINDS)}; the kinds are {', '.join(KINDS)}")
        left = left - {name} if negated else left & {name}
    return frozenset(kind for kind in KINDS if kind in left), _KIND_TERM.sub("", text).strip()


def answers_let_through(database: Path, comparison: Comparison, text: str) -> frozenset[int] | None:
    """The ids of the answers that a filter lets through, None for all; FilterError if it cannot be read."""
    if not text:
        return None
    where = parse_filter(text)
    with Reader(database) as reader:
        return frozenset(number for side in comparison.sides for number in reader.ids(side.run.id, where))


def lines_of_kinds(
    lines: Sequence[ComparedLine], kinds: Collection[Kind], answers: Collection[int] | None
) -> list[int]:
    """The numbers of the lines that are of some kinds in some run and, unless it is None, hold one of the answers."""
    return [
        number
        for number, line in enumerate(lines)
        if any(kind in kinds for kind in line.kinds)
        and (answers is None or any(answer is not None and answer.id in answers for answer in line.answers))
    ]


class ComparedItemFinder:
    """Finds lines in full; the datasets that were asked, which are large, it keeps."""

    def __init__(self, database: Path, comparison: Comparison) -> None:
        self._database = database
        self._sides = comparison.sides
        self._items: dict[int, Sequence[Any]] = {}

    def find(self, line: ComparedLine) -> LineTexts:
        """The texts and scores of a line; LookupError if an answer is gone."""
        with Reader(self._database) as reader:
            details = [reader.detail(answer.id) if answer else None for answer in line.answers]
            last = max(number for number, detail in enumerate(details) if detail)
            expected = self._expected(reader, self._sides[last].run, details[last])
        scores = [self._scores(number, detail) for number, detail in enumerate(details)]
        keys = dict.fromkeys(key for own in scores for key in own)
        question = next(
            (text for detail in reversed(details) if detail and (text := question_text(messages_of(detail)))), ""
        )
        texts = tuple(None if detail is None else answer_as_text(detail.answer) for detail in details)
        judged = tuple(JudgedLine(key, tuple(own.get(key) for own in scores)) for key in keys)
        return LineTexts(line, question, expected, texts, judged)

    def _scores(self, number: int, detail: Detail | None) -> Mapping[str, ScoreRecord]:
        records = detail.scores.get(self._sides[number].run.scoring_pass, ()) if detail else ()
        return {record.key: record for record in records}

    def _expected(self, reader: Reader, run: RunRow, detail: Detail | None) -> str | None:
        if run.id not in self._items:
            items = reader.judged_by(run).document.get("items")
            self._items[run.id] = items if isinstance(items, list) else ()
        items = self._items[run.id]
        item = items[detail.row.item] if detail and detail.row.item < len(items) else None
        return (expected_text(unit_of(item, detail.row.turn)) or None) if detail and isinstance(item, dict) else None
