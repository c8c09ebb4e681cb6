"""A comparison as charts drawn in characters: tests, categories, how scores spread, and A against the others."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from tui_evals.compare.measures import MeasuredDifference
from tui_evals.compare.runs import SHARED_KINDS, ComparedLine, Comparison
from tui_evals.compare.verdicts import NAMES, caveats
from tui_evals.figures import Figure, histograms, percent
from tui_evals.present.columns import GAP, cell_width
from tui_evals.present.comparisons import (
    category_name,
    category_rates,
    difference_text,
    population_sentence,
    side_name,
    usage_lines,
)
from tui_evals.text.manual import pages
from tui_evals.text.measures import Measure, common_measure, counted, parse_measure
from tui_evals.text.safe import safe_line
from tui_evals.tui.compare.rows import score_text, short_columns, verdict, verdict_style
from tui_evals.tui.rows import Piece, Row, Rows, Style, fit, heading, paragraph, row, wrapped
from tui_evals.tui.widgets.dialogs import Reading
from tui_evals.tui.widgets.lines import Lines

_PAGE = "words"
_SECTION = re.compile(r"^## +(?P<word>.+?) *\n(?P<text>.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, str]:
    """The text below each heading of a page as one line, by the heading in lower case."""
    return {found["word"].casefold(): " ".join(found["text"].split()) for found in _SECTION.finditer(page)}


def meanings(words: Iterable[str]) -> dict[str, str]:
    """The manual's text about each word; words without one are omitted."""
    known = sections(pages()[_PAGE])
    texts: dict[str, str] = {}
    for word in words:
        title = word.casefold()
        heading = next((name for name in known if title in name.split()), None)
        heading = heading or next((name for name in known if title in name), None)
        if heading is not None and known[heading]:
            texts[word] = known[heading]
    return texts


def word_rows(words: Iterable[str], width: int) -> list[Row]:
    """The words with their meanings."""
    rows: list[Row] = []
    for word, text in meanings(words).items():
        rows += [row(), row((word, "title")), *paragraph(text, width)]
    return rows


WORDS = ("McNemar", "interval", "Holm")
"""The words of the manual that a comparison uses."""


_BLOCKS = " ▁▂▃▄▅▆▇█"
_PARTS = "▏▎▍▌▋▊▉"
_SHADES = "·░▒▓█"
_HEIGHT = 3
_LABEL = 20
_LEAST_LABEL = 8
_NUMBER = 22
_GRID_HEIGHT = 12
_GRID_WIDTH = 42


def chart_rows(comparison: Comparison, width: int) -> list[Row]:
    """Everything there is to see of a comparison as a whole."""
    room, shorts = width, short_columns(comparison)
    rows = _runs(comparison, room)
    rows += [row((line, "warn")) for message in caveats(comparison) for line in wrapped(message, room)]
    for name, against in zip(NAMES[1:], comparison.against, strict=False):
        rows += heading(f"A against {name}")
        rows += [row((line, verdict_style(against.passes))) for line in verdict(against, name, room)]
        rows += table_rows((against.passes, *against.tests), name, room, shorts)
    if len(comparison.rates) > 1:
        rows += heading("Pass rate in each column, over shared items")
        for shared in comparison.rates:
            rows += category_rows(shorts.get(shared.names[0], shared.names[0]), shared.figures, room)
    if comparison.categories:
        rows += heading("Pass rate in each category, over shared items")
        for own in category_rates(comparison):
            first = replace(own[0], column=shorts.get(own[0].column, own[0].column))
            rows += category_rows(category_name(comparison, first), [rate.figure for rate in own], room)
    for number in range(1, len(comparison.sides)):
        points = paired_scores(comparison.lines, number)
        if points:
            rows += heading(f"Score of each answer, A against {NAMES[number]}")
            rows += scatter_rows(points, NAMES[number], room)
    for key in sorted({key for side in comparison.sides for key in side.scores}):
        measure = common_measure(side.measures.get(key, "") for side in comparison.sides)
        known = parse_measure(measure)
        rows += heading(f"Scores of {key}" + (f", of {known.range_text}" if known.bounds else ""))
        rows += histogram_rows([side.scores.get(key, ()) for side in comparison.sides], room, measure)
    return rows


def _runs(comparison: Comparison, width: int) -> list[Row]:
    names = [
        row((f"{name} ", "accent"), fit(f"{side_name(side)} {side.run.key}", width - 2, "strong"))
        for name, side in zip(NAMES, comparison.sides, strict=False)
    ]
    told = (population_sentence(comparison), *usage_lines(comparison.sides))
    return names + [row(line) for text in told for line in wrapped(text, width)]


# -- tests


def table_rows(
    tests: Sequence[MeasuredDifference], name: str, width: int, shorts: Mapping[str, str] = MappingProxyType({})
) -> list[Row]:
    """Every test of a later run as a table: both means, the difference with its interval, the chance, and a word."""
    lines = [_test_cells(test, shorts) for test in tests]
    heads = ("A", name, "difference", "p", "")
    columns = [
        max(map(cell_width, cells)) + GAP + 1 for cells in zip(heads, *(cells for _, *cells in lines), strict=True)
    ]
    label = min(max(width - sum(columns), _LEAST_LABEL), max((cell_width(one) for one, *_ in lines), default=0) + 1)
    rows = [row(), row(fit("", label), *_right(heads, columns, "dim"))]
    for test, (what, *cells, word) in zip(tests, lines, strict=True):
        ending = fit(f"{' ' * (GAP + 1)}{word}", columns[-1], verdict_style(test))
        rows.append(row(fit(what, label, "strong"), *_right(cells, columns, ""), ending))
    if len(tests) > 1:
        message = "p of each row but the first is adjusted after Holm; in brackets: how many items both runs judged."
        rows += paragraph(message, width, "dim")
    return rows


def _right(cells: Sequence[str], columns: Sequence[int], style: Style) -> Iterator[Piece]:
    return (fit(cell, size, style, right=True) for cell, size in zip(cells, columns, strict=False))


def _test_cells(test: MeasuredDifference, shorts: Mapping[str, str]) -> tuple[str, ...]:
    """The cells of a test: its name, both means, the difference with its interval, the p-value, a word."""
    text = difference_text(test)
    sign = "+" if test.difference > 0 else ""
    ends = _ends(test) if test.difference else ""
    number, before, after = (
        test.measure.texts(test.difference, test.before, test.after)
        if test.what
        else (percent(test.difference), text.before, text.after)
    )
    column = shorts.get(test.column, test.column)
    what = test.name or column or ("pass rate" if test.columns == 1 else text.name)
    difference = f"{sign}{number} {ends}".rstrip()
    return safe_line(f"{what} ({test.items:,})", 200), before, after, difference, text.chance, text.verdict


def _ends(test: MeasuredDifference) -> str:
    interval = test.interval
    if interval is None:
        return ""
    factor, *_ = (100.0,) if not test.what else test.measure.scale((test.difference, test.before, test.after))
    decimals = 2 if test.what else 0
    low, high = (f"{factor * end:+.{decimals}f}" for end in (interval.low, interval.high))
    return f"[{low}, {high}]"


# -- how scores spread


def histogram_rows(runs: Sequence[Sequence[float]], width: int, measure: str = "") -> list[Row]:
    """The scores of one evaluator in every run, in the same bins and at the same scale, as shares of the answers."""
    every_score = {score for own in runs for score in own}
    known = parse_measure(measure)
    if len(every_score) < 2:
        every = "".join(known.texts(*every_score))
        return [
            row((f"{name} ", "accent"), _scores(own) + (f", all {every}" if own else ""))
            for name, own in zip(NAMES, runs, strict=False)
        ]
    bins_of = histograms(runs)
    bins = len(bins_of.edges) - 1
    cell = max((width - _LABEL - 1) // bins, 1)
    shares = [[count / max(len(own), 1) for count in counts] for own, counts in zip(runs, bins_of.counts, strict=True)]
    top = max((share for own in shares for share in own), default=0.0) or 1.0
    rows: list[Row] = []
    for name, own, values in zip(NAMES, shares, runs, strict=False):
        facts = _facts(name, values, known)
        for line in range(_HEIGHT):
            level = _HEIGHT - 1 - line
            bars = "".join(_bar(share / top, level) * cell for share in own)
            rows.append(row(fit(facts[line], _LABEL, "dim" if line else "strong"), "│", (bars, "accent")))
    low, high = known.texts(bins_of.edges[0], bins_of.edges[-1])
    axis = low + " " * max(bins * cell - len(low) - len(high), 1) + high
    full = fit(f"full height {percent(top, 0)}", _LABEL, "dim")
    return [*rows, row(full, ("└" + "─" * bins * cell, "dim")), row(" " * (_LABEL + 1), (axis, "dim"))]


def _facts(name: str, values: Sequence[float], measure: Measure) -> tuple[str, ...]:
    if not values:
        return (name, f"  {_scores(values)}", "")
    mean = sum(values) / len(values)
    return (name, f"  mean {measure.texts(mean)[0]}", f"  {_scores(values)}")


def _scores(values: Sequence[float]) -> str:
    return "1 score" if len(values) == 1 else f"{len(values):,} scores" if values else "no scores"


def _bar(share: float, level: int) -> str:
    """The part of a bar in a line, counted from below; a share above zero always has one."""
    eighths = max(round(share * _HEIGHT * 8), 1 if share else 0) - level * 8
    return _BLOCKS[min(max(eighths, 0), 8)]


# -- categories


def category_rows(name: str, rates: Sequence[Figure | None], width: int) -> list[Row]:
    """The pass rate of every run in one category, as bars with their numbers."""
    label = min(max(_LABEL, cell_width(safe_line(name, 200)) + 1), width // 3)
    room = max(width - label - 2 - _NUMBER, 5)
    rows: list[Row] = []
    for number, (letter, rate) in enumerate(zip(NAMES, rates, strict=False)):
        text = f"{percent(rate.value, 0)} of {counted(rate.items, 'item')}" if rate else "n/a"
        bar = _long(rate.value if rate else 0.0, room)
        title = fit("" if number else name, label, "strong")
        rows.append(row(title, f"{letter} ", (bar, "accent"), " " * (room - len(bar)), fit(text, _NUMBER, right=True)))
    return rows


def _long(share: float, room: int) -> str:
    """A bar as long as a share of the room, to an eighth of a cell."""
    whole, part = divmod(max(round(share * room * 8), 1 if share else 0), 8)
    return "█" * whole + (_PARTS[part - 1] if part else "")


# -- one run against another


def paired_scores(lines: Iterable[ComparedLine], later: int) -> list[tuple[float, float]]:
    """The scores of the answers that both runs have a score for and that can be compared."""
    return [
        (first.score, other.score)
        for line in lines
        if (first := line.answers[0]) and (other := line.answers[later]) and line.kinds[later - 1] in SHARED_KINDS
        if first.score is not None and other.score is not None
    ]


def scatter_rows(points: Sequence[tuple[float, float]], name: str, width: int) -> list[Row]:
    """Scores of one run against those of another: the denser a place, the darker; above the diagonal the later wins."""
    values = [value for point in points for value in point]
    low, high = min([0.0, *values]), max([1.0, *values])
    across, down = max(min(_GRID_WIDTH, width - 9), 8), _GRID_HEIGHT
    counts = Counter((_place(before, low, high, across), _place(after, low, high, down)) for before, after in points)
    most = max(counts.values())
    rows = []
    for line in range(down - 1, -1, -1):
        label = {down - 1: score_text(high), down // 2: name, 0: score_text(low)}.get(line, "")
        cells = [_cell(counts[column, line], most, line == column * down // across) for column in range(across)]
        rows.append(row(fit(label, 6, "dim", right=True), (" │", "dim"), *cells))
    bottom = score_text(low) + "A".center(across - len(score_text(low)) - len(score_text(high))) + score_text(high)
    rows += [row(" " * 7, ("└" + "─" * across, "dim")), row(" " * 8, (bottom, "dim"))]
    return [*rows, *paragraph(_legend(points, name, most), width, "dim")]


def _legend(points: Sequence[tuple[float, float]], name: str, most: int) -> str:
    higher = sum(after > before for before, after in points)
    lower = sum(after < before for before, after in points)
    equal = len(points) - higher - lower
    scale = f"{_SHADES[0]} one answer, {_SHADES[-1]} {most:,}" if most > 1 else f"{_SHADES[0]} one answer"
    answers = "1 answer" if higher == 1 else f"{higher:,} answers"
    return f"{name} scores {answers} higher, {lower:,} lower, {equal:,} the same (on the line ╱). {scale}."


def _cell(count: int, most: int, diagonal: bool) -> Piece:
    if not count:
        return Piece("╱" if diagonal else " ", "dim")
    steps = len(_SHADES) - 1
    return Piece(_SHADES[0 if count == 1 else max(1, -(-count * steps // most))], "accent")


def _place(value: float, low: float, high: float, cells: int) -> int:
    """The index of the cell that a value falls into, of `cells` between `low` and `high`."""
    return min(int((value - low) / (high - low) * cells), cells - 1)


class ChartsScreen(ModalScreen[None]):
    """Rows to look at; escape goes back to the comparison."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,h", "leave", "back", show=False),
        Binding("question_mark,f1", "explain", "help", show=False),
    ]
    DEFAULT_CSS = """
    ChartsScreen { layout: vertical; background: $background; }
    ChartsScreen Static { height: 1; padding: 0 1; color: $text-muted; }
    """

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self._comparison = comparison
        self._rows: Rows = [row(("Drawing…", "dim"))]
        self._width = 0

    def compose(self) -> ComposeResult:
        self.lines = Lines(choosing=False, id="charts")
        self.lines.show(self._rows_so_far)
        yield self.lines
        yield Static("j k scroll · g G top and bottom · ? what the words mean · esc back", markup=False)

    def _rows_so_far(self, width: int) -> Rows:
        """The rows drawn so far; another width draws them again in a worker thread."""
        if width != self._width:
            self._width = width
            self.run_worker(self._draw(width), group="charts", name="drawing", exclusive=True, exit_on_error=False)
        return self._rows

    async def _draw(self, width: int) -> None:
        self._rows = await asyncio.to_thread(chart_rows, self._comparison, width)
        self.lines.show(self._rows_so_far)

    def action_leave(self) -> None:
        """Back to the comparison."""
        self.dismiss(None)

    def action_explain(self) -> None:
        """Explain the words used on this screen."""
        self.app.push_screen(Reading("what the words mean", lambda width: word_rows(WORDS, width)))
