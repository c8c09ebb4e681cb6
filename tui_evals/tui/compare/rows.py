"""A comparison as rows: a head in numbers, and a list of lines with what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from tui_evals.compare.caveats import caveats
from tui_evals.compare.match import Kind
from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import KINDS, ComparedLine, Comparison, RunSide
from tui_evals.compare.sides import Answer
from tui_evals.compare.statistics import percent
from tui_evals.compare.verdicts import NAMES, difference_sentence, measured_sentence
from tui_evals.present.columns import GAP, Column, Names, cell_width, elide, fit_columns, names_of
from tui_evals.present.comparisons import KIND_LOOKS, difference_verdict, direction, stop_notes, usage_lines
from tui_evals.present.figures import number
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.text.safe import safe_line
from tui_evals.tui.rows import LazyRows, Piece, Row, Style, fit, look_piece, row, tone_style, wrapped

_UNBROKEN = "\u00a0"
_SAYS = 3
_STATUS = 10
_ITEM = 16
_MEASURED = 2_000
"""Lines of which every cell is measured."""


def kind_piece(kind: Kind, width: int = 0) -> Piece:
    """A kind as glyph and word."""
    return look_piece(KIND_LOOKS[kind], width)


def kind_shown(line: ComparedLine, kinds: Collection[Kind]) -> Kind:
    """The kind of a line that calls for attention first, of those that are asked for."""
    return line.kind if line.kind in kinds else next(kind for kind in line.kinds if kind is not None and kind in kinds)


# -- the head


def head_lines(comparison: Comparison, width: int, tall: bool) -> list[Row]:
    """The runs, their pass rates, whether the difference can be chance, and the kinds; more where there is room."""
    several = len(comparison.sides) > 2
    rows = [
        _run_line(place, side, comparison.against[place - 1] if place and several else None, width)
        for place, side in enumerate(comparison.sides)
    ]
    if tall or not several:
        for name, against in zip(NAMES[1:], comparison.against, strict=False):
            rows += [row((line, verdict_style(against.passes))) for line in verdict(against, name, width, tall)]
    rows.append(_counts(comparison, width))
    rows += [row(fit(used, width, "dim")) for used in islice(usage_lines(comparison.sides), None if tall else 1)]
    rows += [row(fit(note, width, "error")) for note in stop_notes(side.run for side in comparison.sides)]
    shown = [(name, test) for name, one in zip(NAMES[1:], comparison.against, strict=False) for test in one.tests]
    shown = [(name, test) for name, test in shown if test.shown]
    if tall:
        rows += [
            row(fit(measured_sentence(test, "A", name), width, verdict_style(test))) for name, test in shown[:_SAYS]
        ]
        rows += [row(fit(message, width, "warn")) for message in islice(caveats(comparison), _SAYS)]
    return rows


def verdict(difference: RunDifference, name: str, width: int, whole: bool = True) -> list[str]:
    """The verdict on a later run; how many items it would take is left out where there is no room for it."""
    text = difference_sentence(difference, "A", name, brief=not whole)
    return [line.replace(_UNBROKEN, " ") for line in wrapped(text.replace(" %", f"{_UNBROKEN}%"), width)]


def verdict_style(test: MeasuredDifference) -> Style:
    """Differences that are not chance stand out, as better or worse."""
    tones: Mapping[str, Style] = {"better": "pass", "worse": "fail"}
    return tones.get(direction(test), "strong") if test.shown else ""


def _run_line(place: int, side: RunSide, against: RunDifference | None, width: int) -> Row:
    rate, interval = side.rate, side.rate.interval
    counts = f"{percent(rate.share)} ({rate.passed}/{rate.judged})" if rate.judged else "n/a"
    ends = f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %" if interval else ""
    text = f"passes {counts}" + (f", with 95 % confidence {ends}" if ends else "")
    own = f"{side.run.name} {side.run.key}"
    short = _short_verdict(against) if against else ""
    if len(text) + len(own) + len(short) + 7 > width:
        text = f"{counts} {ends}".rstrip()
    name = max(min(width - len(text) - len(short) - 6, len(own)), 10)
    pieces = [Piece(f"{NAMES[place]} ", "accent"), fit(own, name, "strong"), Piece("  ")]
    if against is None:
        return row(*pieces, fit(text, width - name - 4))
    return row(*pieces, text, "  ", fit(short, width - name - 6 - len(text), verdict_style(against.passes)))


def _short_verdict(difference: RunDifference) -> str:
    """A verdict in a few words, for a line among others."""
    counts = [
        f"{KIND_LOOKS[kind].glyph}{difference.counts[kind]}"
        for kind in ("broken", "fixed")
        if difference.counts.get(kind)
    ]
    if not counts:
        return "=" if difference.passes.items else ""
    return " ".join([*counts, difference_verdict(difference.passes)])


def count_kinds(lines: Sequence[ComparedLine]) -> Counter[Kind]:
    """How many lines are of each kind in some run, as many as a filter for it lists."""
    return Counter(kind for line in lines for kind in set(line.kinds) if kind is not None)


def _counts(comparison: Comparison, width: int) -> Row:
    """How many lines are of each kind."""
    counts = count_kinds(comparison.lines)
    pieces: list[Piece] = []
    left = width
    for kind in KINDS:
        look = KIND_LOOKS[kind]
        text = f"{look.glyph} {counts[kind]:,} {look.word}"
        if kind in counts and len(text) <= left:
            pieces.append(Piece(text + "   "[: max(left - len(text), 0)], tone_style(look.tone)))
            left -= len(text) + 3
    return Row(tuple(pieces))


# -- the list


@dataclass(frozen=True, slots=True)
class LineColumns:
    """The columns of a list of lines, and how items are named in it."""

    columns: Sequence[Column]
    names: Names
    runs: int

    @property
    def several(self) -> bool:
        """Whether each run has a column of its own; of two, one status leads to the other."""
        return self.runs > 2

    def title(self) -> Row:
        """The words above the columns, the letters of the runs above theirs."""
        cells = {"item": Piece("item", "dim")} | {name: Piece(name, "dim") for name in NAMES[: self.runs]}
        return Row(tuple(self.in_columns(cells)))

    def in_columns(self, cells: Mapping[str, Piece]) -> Iterator[Piece]:
        """These cells at the widths of the columns."""
        for place, column in enumerate(self.columns):
            yield Piece(" " * GAP if place else "")
            text, style = cells.get(column.by, Piece(""))
            yield fit(text, column.width, style)


def columns_of(comparison: Comparison, width: int) -> LineColumns:
    """The columns of the lines of a comparison: the statuses in words, unless the items would have no room then."""
    lines, runs = comparison.lines, len(comparison.sides)
    names = names_of(line.item for line in lines)
    worded = fit_columns(_columns(lines, runs, names, width, words=True), width)
    item = next((column.width for column in worded if column.by == "item"), 0)
    statuses = [name for name in NAMES[:runs] if all(column.by != name for column in worded)]
    if item < min(_ITEM, names.wanted) or statuses:
        worded = fit_columns(_columns(lines, runs, names, width, words=False), width)
    return LineColumns(worded, names, runs)


def _columns(lines: Sequence[ComparedLine], runs: int, names: Names, width: int, *, words: bool) -> Iterator[Column]:
    places = max((cell_width(_beside_item(line)) for line in islice(lines, _MEASURED)), default=0)
    scored = islice(lines, _MEASURED) if runs == 2 else ()
    scores = max((cell_width(score_words(line.answers)) for line in scored), default=0)
    columns = max((cell_width(safe_line(line.column, 200)) for line in islice(lines, _MEASURED)), default=0)
    kind = max((len(line.kind) for line in lines), default=4) + 2
    yield Column("kind", "", kind, 100)
    least = min(_ITEM + places, max(width - kind - GAP - runs * (1 + GAP) - 2, 8))
    yield Column("item", "item", max(names.wanted + places, 4), 99, least)
    for place, name in enumerate(NAMES[:runs]):
        arrow = 2 * (runs == 2 and place == 1)
        yield Column(name, name, (_STATUS if words else 1) + arrow, 98)
    yield Column("scores", "", scores, 97)
    yield Column("column", "", columns, 96, 8)


class LineRows(LazyRows):
    """Some of the lines of a comparison; each row is made when it comes into view, its key is the line's number."""

    def __init__(self, comparison: Comparison, numbers: Sequence[int], kinds: Collection[Kind], width: int) -> None:
        self._lines = comparison.lines
        self._numbers = numbers
        self._kinds = kinds
        self._rows = {number: place for place, number in enumerate(numbers)}
        self._shape = columns_of(comparison, width)

    def __len__(self) -> int:
        return len(self._numbers)

    def row_at(self, number: int) -> Row:
        """The row of a line."""
        place = self._numbers[number]
        return line_row(self._lines[place], self._shape, self._kinds, place)

    def find(self, key: Hashable) -> int | None:
        """The row of a line."""
        return self._rows.get(key) if isinstance(key, int) else None


def line_row(line: ComparedLine, shape: LineColumns, kinds: Collection[Kind], key: Hashable) -> Row:
    """One line: what became of it, which item, and how the runs did where there is room."""
    widths = {column.by: column.width for column in shape.columns}
    beside = _beside_item(line)
    room = max(widths.get("item", 0) - cell_width(beside), 0)
    item = elide(shape.names.short(line.item), room) if room else ""
    cells = {
        "kind": kind_piece(kind_shown(line, kinds)),
        "item": Piece(item + beside),
        "scores": Piece(score_words(line.answers), "dim"),
        "column": Piece(line.column, "dim"),
    }
    for place, (name, answer) in enumerate(zip(NAMES, line.answers, strict=False)):
        arrow = "→ " if place and not shape.several else ""
        status = _status(answer, widths.get(name, 0) - len(arrow))
        cells[name] = Piece(arrow + status.text, status.style)
    return Row(tuple(shape.in_columns(cells)), key)


def place_of(line: ComparedLine) -> str:
    """The item, and which of its turns and repeats where there are several."""
    return line.item + _beside_item(line)


def _beside_item(line: ComparedLine) -> str:
    """Which turn and repeat of an item; a first turn needs no word."""
    turn = f" · turn {line.turn + 1}" if line.turn else ""
    return turn + ("" if line.repeat is None else f" · repeat {line.repeat + 1}")


def status_pieces(answers: Sequence[Answer | None], width: int = _STATUS) -> list[Piece]:
    """How the answers were judged, one after the other."""
    pieces: list[Piece] = []
    for answer in answers:
        pieces += [Piece("→ ", "dim")] if pieces else []
        pieces.append(_status(answer, width))
    return pieces


def _status(answer: Answer | None, width: int) -> Piece:
    if answer is None:
        return fit("–", width, "dim")
    look = ANSWER_LOOKS[answer.status]
    return look_piece(look, width) if width >= _STATUS else fit(look.glyph, width, tone_style(look.tone))


def score_words(answers: Sequence[Answer | None]) -> str:
    """The scores, one after the other; nothing where none was given."""
    values = [answer.score if answer else None for answer in answers]
    return " → ".join(map(score_text, values)) if any(score is not None for score in values) else ""


def score_text(score: float | None) -> str:
    """A score in a few figures."""
    return "–" if score is None else number(score).removesuffix(".00")


def empty_lines(kinds: Collection[Kind], words: str, width: int) -> list[Row]:
    """Why the list is empty."""
    what = " or ".join(f"“{kind}”" for kind in KINDS if kind in kinds)
    text = "The runs have no answers." if len(kinds) == len(KINDS) else f"No answer is {what}."
    if words:
        text = f"No answer fits “{words}”" + ("." if len(kinds) == len(KINDS) else f" and is {what}.")
    return [*(row((line, "dim")) for line in wrapped(text, width)), row(("*", "key"), " shows all")]
