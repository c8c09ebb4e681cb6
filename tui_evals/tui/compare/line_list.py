"""The list of a comparison's lines: which of them are shown, and where the cursor is."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from tui_evals.compare.match import Kind
from tui_evals.compare.runs import KINDS, ComparedLine, Comparison
from tui_evals.tui.rows import Rows, row, wrapped
from tui_evals.tui.widgets.lines import Lines

from .rows import LineRows, columns_of, empty_lines
from .state import lines_of_kinds

_EVERY: frozenset[Kind] = frozenset(KINDS)


class CompareList(Vertical):
    """Which lines are listed, and where one is among them."""

    DEFAULT_CSS = "CompareList { height: 1fr; }"

    class Listed(Message):
        """Other lines are listed than before."""

    def __init__(self) -> None:
        super().__init__(id="list")
        self._comparison: Comparison | None = None
        self.kinds: tuple[Kind, ...] = KINDS
        self.words = ""
        self.filter_words = ""
        """How many lines the words leave, and the key that shows all; empty without words."""
        self._fitting = _EVERY
        self._answers: frozenset[int] | None = None

    def compose(self) -> ComposeResult:
        """The letters of the runs, and the lines."""
        self._columns = Lines(choosing=False, id="columns")
        self._columns.can_focus = self._columns.display = False
        self._columns.styles.height = 1
        self.lines = Lines(searching=False, id="lines")
        yield self._columns
        yield self.lines

    def say(self, text: str, wrong: bool = False) -> None:
        """A sentence in place of the lines."""
        self.lines.show(lambda width: [row((line, "error" if wrong else "dim")) for line in wrapped(text, width)])

    def take(self, comparison: Comparison) -> None:
        """List the lines of a comparison, the cursor on what broke first."""
        self._comparison = comparison
        runs = len(comparison.sides)
        self._columns.display = runs > 2
        self._columns.show(lambda width: [columns_of(comparison, width).title()])
        self._list(at=next((number for number, line in enumerate(comparison.lines) if "broken" in line.kinds), None))

    def only(self, *kinds: Kind) -> None:
        """Only lines of these kinds; all without one."""
        self.kinds = kinds or KINDS
        self._list()

    def only_with(
        self, words: str = "", kinds: frozenset[Kind] = _EVERY, answers: frozenset[int] | None = None
    ) -> None:
        """Only lines of these kinds and with one of these answers, for which the words stand."""
        self.words, self._fitting, self._answers = words, kinds, answers
        self._list()

    def _list(self, at: int | None = None) -> None:
        comparison, words = self._comparison, self.words
        kinds = tuple(kind for kind in self.kinds if kind in self._fitting)
        if comparison is None:
            return
        numbers = lines_of_kinds(comparison.lines, kinds, self._answers)

        def rows(width: int) -> Rows:
            return LineRows(comparison, numbers, kinds, width) if numbers else empty_lines(self.kinds, words, width)

        self.lines.show(rows, at=at)
        left = f"{len(numbers):,} of {len(comparison.lines):,} lines"
        self.filter_words = f"{left} · {words} · * shows all" if words else ""
        self.post_message(self.Listed())

    @property
    def line(self) -> tuple[int, ComparedLine] | None:
        """The line under the cursor, with its number."""
        key = self.lines.key
        return (key, self._comparison.lines[key]) if self._comparison and isinstance(key, int) else None

    def to_kind(self, kind: Kind, way: int) -> None:
        """The next line of a kind, round the end; a filter that hides them all is given up."""
        if self._comparison is None:
            return
        numbers = lines_of_kinds(self._comparison.lines, {kind} & self._fitting, self._answers)
        if kind not in self.kinds or not numbers:
            if not numbers:
                self.words, self._fitting, self._answers = "", _EVERY, None
            numbers = numbers or lines_of_kinds(self._comparison.lines, (kind,), None)
            self.only()
        here = self.lines.key if isinstance(self.lines.key, int) else -1
        further: Callable[[int], bool] = (lambda number: number > here) if way > 0 else (lambda number: number < here)
        later = [number for number in numbers if further(number)]
        if numbers:
            self.lines.to_key((later or numbers)[0 if way > 0 else -1])
