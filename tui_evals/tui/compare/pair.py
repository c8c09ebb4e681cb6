"""One line of a comparison in full: the change, the evaluators that disagree, and the texts side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Literal, Self

from tui_evals.compare.diff import Diff, DiffSide, Kind
from tui_evals.compare.diff import DiffRow as Facing
from tui_evals.compare.runs import ComparedLine
from tui_evals.compare.verdicts import JUDGED_OTHERWISE, NAMES, WITHOUT_CALLS
from tui_evals.light_records import dataclass
from tui_evals.present.status import result_look
from tui_evals.store.database import StoreError
from tui_evals.store.records import ScoreRecord
from tui_evals.text.measures import score_figures
from tui_evals.tui.compare.rows import (
    ComparedItemFinder,
    JudgedLine,
    LineTexts,
    kind_piece,
    place_of,
    score_words,
    status_pieces,
)
from tui_evals.tui.diff_rows import NARROWEST, SIGNS, SideBySideRows, diff_texts, filled_up, side_parts, unified_rows
from tui_evals.tui.rows import (
    BlockRows,
    Ground,
    JoinedRows,
    LazyRows,
    Piece,
    Row,
    Rows,
    Style,
    StyledLines,
    fit,
    paragraph,
    row,
    tone_style,
    wrapped,
)
from tui_evals.tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class _FacingSeveral:
    """A line of the first text, and what faces it in the others."""

    first: DiffSide | None
    sides: tuple[DiffSide | None, ...]
    kinds: tuple[Kind, ...]


class TextColumns(BlockRows[_FacingSeveral]):
    """A text and those it is compared with, each in a column of its own and marked against the first."""

    def __init__(self, facing: Sequence[_FacingSeveral], column: int) -> None:
        self._column = column
        super().__init__(facing, lambda one: _SeveralFacing(one, column))

    @classmethod
    def of(cls, diffs: Sequence[Diff], width: int) -> Self | None:
        """Build columns from the diffs of one text with others; None if they split it differently."""
        facing = _merged(diffs) if len({diff.unit for diff in diffs}) == 1 else None
        signs_and_lines = 2 * len(diffs) + 1
        return None if facing is None else cls(facing, max((width - signs_and_lines) // (len(diffs) + 1), 1))

    def titles(self, *names: str) -> Row:
        """The row with the column titles."""
        pieces = [
            piece for name in names for piece in (Piece("│", "dim"), Piece(" "), fit(name, self._column, "accent"))
        ]
        return row(*pieces[1:])


class _SeveralFacing(LazyRows):
    """One aligned row of all columns, as high as its highest cell."""

    def __init__(self, facing: _FacingSeveral, column: int) -> None:
        self._column = column
        columns: list[tuple[DiffSide | None, Style, str]] = [(facing.first, "", " ")]
        columns += [(side, "changed", SIGNS[kind]) for side, kind in zip(facing.sides, facing.kinds, strict=True)]
        self._cuts = [
            (None if side is None else StyledLines(side_parts(side, style, True), column), sign)
            for side, style, sign in columns
        ]
        self._ground: Ground = "" if set(facing.kinds) == {"same"} else "changed"

    def __len__(self) -> int:
        return max(len(cut) for cut, _ in self._cuts if cut is not None)

    def row_at(self, number: int) -> Row:
        pieces: list[Piece] = []
        for cut, sign in self._cuts:
            line = cut[number] if cut is not None and number < len(cut) else ()
            signed = sign if line or (cut is None and not number) else " "
            pieces += [Piece("│", "dim"), Piece(signed, "strong"), *filled_up(line, self._column)]
        return Row(tuple(pieces[1:]), None, self._ground)


def _merged(diffs: Sequence[Diff]) -> list[_FacingSeveral] | None:
    """Diffs with the same first text, merged by its lines; None if they split it differently."""
    heads, rests = zip(*map(_by_left, diffs), strict=True)
    cuts = {tuple(head.left and head.left.text for _, head in own) for own in heads}
    if len(cuts) > 1:
        return None
    facing: list[_FacingSeveral] = []
    for line in zip(*heads, strict=True):
        facing += _extra([before for before, _ in line])
        sides = [head for _, head in line]
        facing.append(
            _FacingSeveral(sides[0].left, tuple(one.right for one in sides), tuple(one.kind for one in sides))
        )
    return facing + _extra(rests)


def _by_left(diff: Diff) -> tuple[list[tuple[list[Facing], Facing]], list[Facing]]:
    """The rows that have a left side, each with those before it that have none; then those after the last."""
    heads: list[tuple[list[Facing], Facing]] = []
    before: list[Facing] = []
    for facing in diff.rows:
        if facing.left is None:
            before.append(facing)
        else:
            heads.append((before, facing))
            before = []
    return heads, before


def _extra(others: Sequence[Sequence[Facing]]) -> list[_FacingSeveral]:
    """The lines that only the other texts have, side by side."""
    return [
        _FacingSeveral(
            None,
            tuple(one.right if one else None for one in line),
            tuple(one.kind if one else "same" for one in line),
        )
        for line in zip_longest(*others)
    ]


Beside = Literal["runs", "first", "later"]
BESIDE: tuple[Beside, ...] = ("runs", "first", "later")
_COLUMNS_FROM = {3: 120, 4: 156, 5: 196}
"""The least widths for several columns; in a terminal of 160 cells, borders leave a little less."""

_REASON, _REASON_LINES = 600, 3


@dataclass(frozen=True, slots=True)
class PairView:
    """How a line is shown: the later run, which texts are next to each other, and whether in one column."""

    later: int | None = None
    """The run that faces the first one; None is the one that calls for attention."""
    beside: Beside = "runs"
    unified: bool = False


def later_of(line: ComparedLine, view: PairView) -> int:
    """Which run faces the first one."""
    return line.kinds.index(line.kind) + 1 if view.later is None else view.later


def beside_words(view: PairView, later: int, several: bool) -> str:
    """Which texts are shown side by side, and the keys that change it."""
    name = NAMES[later]
    what = {"runs": f"A next to {name}", "first": "expected next to A", "later": f"expected next to {name}"}[
        view.beside
    ]
    more = " · v another run" if several else ""
    return f"{what}{', in one column' if view.unified else ''} · e next pair · d columns{more}"


def line_rows(line_texts: LineTexts, view: PairView, width: int) -> Rows:
    """The change of the line, the evaluators that disagree, and the differences of the answers."""
    line, later = line_texts.line, later_of(line_texts.line, view)
    kind = line.kinds[later - 1]
    where = place_of(line) + (f" · {line.column}" if line.column else "")
    title = [kind_piece(kind), Piece("  ")] if kind else []
    rows = [row(*title, (where, "strong"), ground="title"), *_status_rows(line, later, width)]
    for remark in _remarks(line):
        rows += paragraph(remark, width, "warn")
    if line_texts.question:
        rows.append(row(("asked ", "dim"), fit(line_texts.question, width - 6)))
    for judged in line_texts.judged:
        rows += _judged_lines(judged, later, width)
    rows.append(row())
    return JoinedRows([rows, *_texts(line_texts, view, later, width)])


def _status_rows(line: ComparedLine, later: int, width: int) -> list[Row]:
    """The statuses of the two runs; with more than two runs, their letters as well."""
    several = len(line.answers) > 2
    two = [line.answers[0], line.answers[later]]
    number = f"  score {score_words(two)}" if score_words(two) else ""
    letters = Piece(f"A → {NAMES[later]}  ", "accent") if several else Piece("")
    return [row(letters, *status_pieces(two), (number, "dim"))]


def _remarks(line: ComparedLine) -> list[str]:
    remarks = []
    if any(line.otherwise):
        remarks.append(f"Not comparable: {JUDGED_OTHERWISE}. Judge the earlier run again (s where it is open).")
    if any(line.without_calls):
        remarks.append(f"Compared {WITHOUT_CALLS}.")
    if line.how == "position":
        remarks.append("Matched by position only; check that it is the same item. A testId makes sure.")
    elif line.edited:
        remarks.append("The item itself was changed between the runs.")
    return remarks


def _judged_lines(judged: JudgedLine, later: int, width: int) -> list[Row]:
    """An evaluator that judged the two answers differently, with its reasons; nothing where it did not."""
    one, other = judged.records[0], judged.records[later]
    if (one is None and other is None) or (one and other and (one.score, one.result) == (other.score, other.result)):
        return []
    rows = [row(fit(judged.key, min(24, width // 3), "strong"), " ", _result(one), (" → ", "dim"), _result(other))]
    if one and other and one.reason and other.reason and width >= NARROWEST:
        return rows + _facing_reasons(one.reason, other.reason, NAMES[later], width)
    for name, record in (("A", one), (NAMES[later], other)):
        reason = wrapped(record.reason[:_REASON], max(width - 4, 1))[:_REASON_LINES] if record else []
        rows += [
            row((f"  {name if not number else ' '} ", "accent"), (part, "dim"))
            for number, part in enumerate(reason)
            if part
        ]
    return rows


def _facing_reasons(first: str, other: str, name: str, width: int) -> list[Row]:
    """The reasons of both runs, side by side."""
    half = (width - 3) // 2
    sides = [wrapped(reason[:_REASON], max(half - 4, 1))[:_REASON_LINES] for reason in (first, other)]
    rows = []
    for number, (left, right) in enumerate(zip_longest(*sides, fillvalue="")):
        letters = ("A", name) if not number else (" ", " ")
        rows.append(
            row(
                (f"  {letters[0]} ", "accent"),
                fit(left, half - 4, "dim"),
                (" │ ", "dim"),
                (f"{letters[1]} ", "accent"),
                (right, "dim"),
            )
        )
    return rows


def _result(record: ScoreRecord | None) -> Piece:
    if record is None:
        return Piece("–", "dim")
    look = result_look(record.result)
    number = score_figures(record.score, None, None, record.measure)
    return Piece(f"{look.text} {number}".rstrip(), tone_style(look.tone))


# -- the texts


def _texts(line_texts: LineTexts, view: PairView, later: int, width: int) -> Sequence[Rows]:
    first, other = line_texts.texts[0], line_texts.texts[later]
    name, expected = NAMES[later], line_texts.expected
    if view.beside != "runs":
        run, text = ("A", first) if view.beside == "first" else (name, other)
        return _two(expected, text, "expected", run, view.unified, width)
    if not view.unified and (columns := _columns(line_texts, later, width)) is not None:
        return columns
    return _two(first, other, "A", name, view.unified, width)


def _columns(line_texts: LineTexts, later: int, width: int) -> Sequence[Rows] | None:
    """The expected text next to the answers of all runs, or of two if those do not fit; None without room."""
    texts, expected = line_texts.texts, line_texts.expected
    reference = [] if expected is None else [("expected", expected)]
    for numbers in (range(len(texts)), (0, later)):
        answers = [(NAMES[number], text) for number in numbers if (text := texts[number]) is not None]
        shown = reference + answers
        if len(answers) == len(numbers) and len(shown) > 2 and width >= _COLUMNS_FROM[len(shown)]:
            (_, first), *others = shown
            if (columns := TextColumns.of([diff_texts(first, text) for _, text in others], width)) is not None:
                return [[columns.titles(*(name for name, _ in shown))], columns]
    return None


def _two(left: str | None, right: str | None, one: str, other: str, unified: bool, width: int) -> Sequence[Rows]:
    missing = [name for name, text in ((one, left), (other, right)) if text is None]
    if left is None or right is None:
        message = " and ".join(_none(name) for name in missing)
        text = left if left is not None else right
        alone = "" if text is None else f" This is {one if right is None else other}:"
        return [[*paragraph(f"{message}.{alone}", width, "dim")], paragraph(text or "", width)]
    diff = diff_texts(left, right)
    if diff.same:
        message = f"{one} and {other} are the same." if diff.rows else f"{one} and {other} are empty."
        return [[row((message, "dim"))], unified_rows(diff, width)]
    if unified or width < NARROWEST:
        return [[row((f"- {one}", "removed"), "  ", (f"+ {other}", "added"))], unified_rows(diff, width)]
    half = max((width - 3) // 2, 1)
    titles = row(" ", fit(one, half, "accent"), ("│ ", "dim"), fit(other, half, "accent"))
    return [[titles], SideBySideRows(diff, width)]


def _none(name: str) -> str:
    return "nothing is expected here" if name == "expected" else f"{name} has no answer here"


@dataclass(frozen=True, slots=True)
class _PairRequest:
    """The line and the view to show."""

    number: int
    line: ComparedLine
    view: PairView
    width: int


class PairViewer:
    """Shows lines in a viewer; how they are shown stays from one to the next."""

    def __init__(self, lines: Lines) -> None:
        self.view = PairView()
        self._lines = lines
        self._finder: ComparedItemFinder | None = None
        self._line: tuple[int, ComparedLine] | None = None
        self._texts: LineTexts | None = None
        self._rows: Rows = ()
        self._shown: _PairRequest | None = None
        self._busy = False

    def begin(self, finder: ComparedItemFinder) -> None:
        """The runs have been read."""
        self._finder = finder

    def look(self, number: int, line: ComparedLine) -> None:
        """Show another line; the one before stays until it is there."""
        self._line = number, line
        self._prepare_soon()

    def nothing(self) -> None:
        """Show no line."""
        self._line = self._shown = None
        self._rows = ()
        self._lines.show(self._rows_so_far)

    def to_another(self) -> str:
        """Show the next of the later runs next to the first; returns a message."""
        later = self._later() % len(self._line[1].kinds) + 1 if self._line else None
        return self._show_as(replace(self.view, later=later))

    def to_expected(self) -> str:
        """Cycle: expected next to the first run, expected next to the later run, the runs next to each other."""
        beside = BESIDE[(BESIDE.index(self.view.beside) + 1) % len(BESIDE)]
        return self._show_as(replace(self.view, beside=beside))

    def to_columns(self) -> str:
        """Switch between one column and several."""
        return self._show_as(replace(self.view, unified=not self.view.unified))

    def _show_as(self, view: PairView) -> str:
        self.view = view
        self._prepare_soon()
        several = self._line is not None and len(self._line[1].kinds) > 1
        return beside_words(view, self._later(), several)

    def _later(self) -> int:
        return later_of(self._line[1], self.view) if self._line else 1

    def _rows_so_far(self, width: int) -> Rows:
        """The rows that are ready; those for another width are being prepared."""
        if self._request(width) != self._shown:
            self._prepare_soon()
        return self._rows

    def _request(self, width: int = 0) -> _PairRequest | None:
        width = width or self._lines.scrollable_content_region.width
        return None if self._line is None or width <= 0 else _PairRequest(*self._line, self.view, width)

    def _prepare_soon(self) -> None:
        if not self._busy and self._finder is not None and self._lines.is_attached:
            self._busy = True
            self._lines.run_worker(
                self._prepare(self._finder), group="line", name="reading the answers", exit_on_error=False
            )

    async def _prepare(self, finder: ComparedItemFinder) -> None:
        """Read and lay out until the screen shows what is requested."""
        try:
            while (request := self._request()) is not None and request != self._shown:
                rows = await asyncio.to_thread(self._laid_out, finder, request)
                if request == self._request():
                    self._put(request, rows)
        finally:
            self._busy = False

    def _laid_out(self, finder: ComparedItemFinder, request: _PairRequest) -> Rows:
        if self._texts is None or self._texts.line is not request.line:
            try:
                self._texts = finder.find(request.line)
            except (LookupError, StoreError) as problem:
                return paragraph(str(problem), request.width, "error")
        return line_rows(self._texts, request.view, request.width)

    def _put(self, request: _PairRequest, rows: Rows) -> None:
        another = self._shown is None or self._shown.number != request.number
        self._rows, self._shown = rows, request
        self._lines.show(self._rows_so_far)
        if another:
            self._lines.scroll_home(animate=False)
