"""What the matrix reads from the store: which rows there are, pages of what is in them, and the answers of one row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tui_evals.present.answers import answer_reason, error_text, missing_text, shortened
from tui_evals.present.columns import Names, names_of
from tui_evals.present.grid import GridColumn, grid_columns
from tui_evals.present.status import ANSWER_LOOKS, Look
from tui_evals.store.filters import parse_filter
from tui_evals.store.grid import GridLine, GridOrder, GridRow
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.tui.answer_context import answer_as_text

_PAGE = 64
_PAGES = 40
_LONGEST = 8_000
"""Characters of an answer that are shown below the grid; pane 5 has all of it."""


@dataclass(frozen=True, slots=True)
class GridView:
    """Which rows are shown, and in which order."""

    order: GridOrder = "plan"
    text: str = ""

    @property
    def words(self) -> str:
        """The order and the filter, for the title."""
        named = {"plan": "", "disagreement": "disagreement first", "failures": "failures first"}
        return " · ".join(part for part in (named[self.order], self.text) if part)


def read_rows(database: Path, run: int, view: GridView) -> list[GridRow]:
    """The rows of a run; FilterError says what is wrong with the filter."""
    with Reader(database) as reader:
        return reader.grid_rows(run, parse_filter(view.text) if view.text else None, view.order)


def read_names(database: Path, run: int) -> Names:
    """How the items of a run are called together."""
    with Reader(database) as reader:
        return names_of(reader.names(run))


def read_columns(database: Path, run: RunRow) -> tuple[GridColumn, ...]:
    """The columns of a run with their numbers."""
    with Reader(database) as reader:
        return grid_columns(reader, run)


class CellPages:
    """What is in the rows, fetched when they come into view; the latest forty pages are kept."""

    def __init__(self, reader: Reader, run: int, rows: Sequence[GridRow]) -> None:
        self._reader = reader
        self._run = run
        self.rows = rows
        self._pages: dict[int, list[GridLine]] = {}

    def line(self, number: int) -> GridLine:
        """A row with what is in it."""
        page = self._pages.get(number // _PAGE)
        if page is None:
            start = number // _PAGE * _PAGE
            page = list(self._reader.grid_lines(self._run, self.rows[start : start + _PAGE]))
            if len(self._pages) >= _PAGES:
                self._pages.pop(next(iter(self._pages)))
            self._pages[number // _PAGE] = page
        return page[number % _PAGE]

    def forget(self) -> None:
        """Fetch again what is shown."""
        self._pages.clear()


@dataclass(frozen=True, slots=True)
class AnswerText:
    """One of several answers beside each other."""

    look: Look
    repeat: int
    reason: str
    """Why it did not pass; empty where it did."""
    text: str


def read_texts(reader: Reader, run: RunRow, answers: Iterable[int]) -> dict[int, AnswerText]:
    """What was said in these answers, and why they did not pass."""
    rows = reader.rows(answers)
    ids = [row.id for row in rows]
    records, scores = reader.records(ids), reader.scores_of(ids, run.scoring_pass)
    texts = {}
    for row in rows:
        record = records.get(row.id)
        given = "" if row.status == "pass" else answer_reason(error_text(record), scores.get(row.id, ()))
        text = (answer_as_text(record) if record and not record.code else "") or missing_text(row, record)
        texts[row.id] = AnswerText(ANSWER_LOOKS[row.status], row.repeat, given, shortened(text, _LONGEST))
    return texts
