"""The answers that were fetched: pages of rows, where each answer stands in them, and scores by answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tui_evals.store.records import AnswerRow, ScoreRecord

PAGE = 128
_PAGES = 40
_UNJUDGED = frozenset(("pending", "running", "answered"))
_NONE: Mapping[str, ScoreRecord] = {}

Fetch = Callable[[int, int], Iterable[tuple[int, AnswerRow]]]
"""The answers of a window, from a row on and so many, each with its row; deleted ones are left out."""
Judged = Callable[[list[int]], Mapping[int, Iterable[ScoreRecord]]]


class Windows:
    """Pages of rows, the latest forty that were asked for."""

    def __init__(self) -> None:
        self._pages: dict[int, list[AnswerRow | None]] = {}
        self._places: dict[int, int] = {}
        self._scores: dict[int, tuple[int, Mapping[str, ScoreRecord]]] = {}

    def clear(self) -> None:
        """Forget the rows, because they are others or in another order."""
        self._pages.clear()
        self._places.clear()

    def forget(self) -> None:
        """Forget everything."""
        self.clear()
        self._scores.clear()

    def row(self, number: int, fetch: Fetch) -> AnswerRow | None:
        """The answer in a row, fetched with its neighbours if it must be."""
        page = self._pages.get(number // PAGE)
        if page is None:
            page = self._fetched(number // PAGE, fetch)
        return page[number % PAGE]

    def _fetched(self, number: int, fetch: Fetch) -> list[AnswerRow | None]:
        page: list[AnswerRow | None] = [None] * PAGE
        for place, row in fetch(number * PAGE, PAGE):
            page[place % PAGE] = row
            self._places[row.id] = place
        if len(self._pages) >= _PAGES:
            for old in self._pages.pop(next(iter(self._pages))):
                if old is not None:
                    self._places.pop(old.id, None)
        self._pages[number] = page
        return page

    def put(self, row: AnswerRow) -> None:
        """An answer as it is now, if it is among those fetched."""
        place = self._places.get(row.id)
        if place is not None:
            self._pages[place // PAGE][place % PAGE] = row

    def place(self, answer: int) -> int | None:
        """The row of an answer that was fetched."""
        return self._places.get(answer)

    def scores(self, row: AnswerRow, judged: Judged) -> Mapping[str, ScoreRecord]:
        """The scores of an answer by evaluator, fetched with those of its neighbours that are not known."""
        if row.status in _UNJUDGED:
            return _NONE
        known = self._scores.get(row.id)
        if known is None or known[0] != row.seq:
            self._judge(row, judged)
            known = self._scores[row.id]
        return known[1]

    def _judge(self, row: AnswerRow, judged: Judged) -> None:
        place = self._places.get(row.id)
        page = self._pages[place // PAGE] if place is not None else []
        wanted = {one.id: one.seq for one in page if one is not None and self._is_new(one)}
        wanted[row.id] = row.seq
        found = judged(list(wanted))
        if len(self._scores) > PAGE * _PAGES:
            self._scores.clear()
        for answer, seq in wanted.items():
            self._scores[answer] = (seq, {record.key: record for record in found.get(answer, ())})

    def _is_new(self, row: AnswerRow) -> bool:
        known = self._scores.get(row.id)
        return row.status not in _UNJUDGED and (known is None or known[0] != row.seq)
