"""Reads the data of a comparison from the store and makes its rows: a summary and a list of lines."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tui_evals.compare.failure_map import Change, Changes, read_changes
from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import (
    BY_ATTENTION,
    KINDS,
    ComparedLine,
    Comparison,
    Region,
    RunSide,
    SharedRates,
    read_columns,
    read_comparison,
)
from tui_evals.compare.sides import Answer, Kind
from tui_evals.compare.verdicts import NAMES, caveats, difference_sentence, measured_sentence
from tui_evals.figures import percent
from tui_evals.light_records import dataclass
from tui_evals.present.answers import expected_text
from tui_evals.present.columns import (
    GAP,
    Column,
    Names,
    cell_width,
    cut,
    elide,
    fit_columns,
    names_of,
    table,
    told_apart,
)
from tui_evals.present.comparisons import (
    KIND_LOOKS,
    RateRow,
    difference_verdict,
    direction,
    items_text,
    rate_rows,
    side_name,
    stop_notes,
    usage_lines,
)
from tui_evals.present.failure_map import name_text
from tui_evals.present.figures import interval_text
from tui_evals.present.grid import named_columns
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord
from tui_evals.store.rows import Detail, expected_item, rejudged_now
from tui_evals.text.chats import question_text
from tui_evals.text.measures import counted, number
from tui_evals.text.names import did_you_mean
from tui_evals.text.safe import safe_line
from tui_evals.tui.answer_context import answer_as_text, messages_of, unit_of
from tui_evals.tui.rows import LazyRows, Piece, Row, Style, fit, look_piece, paragraph, row, tone_style, wrapped

_UNBROKEN = "\u00a0"
_SAYS = 3
_RATES = 6
"""Columns of runs whose pass rates are above the list."""
_STATUS = 10
_ITEM = 16
_COLUMN = 24
"""Cells of a target or a prompt in a list."""
_MEASURED = 2_000
"""The number of lines whose cells are all measured."""


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
    rates, shorts = rate_rows(comparison), short_columns(comparison)
    in_table = tall and len(comparison.rates) > 1
    rows = [
        _run_line(
            side,
            [rate for rate in rates if rate.letter == NAMES[place]],
            comparison.against[place - 1] if place and several else None,
            width,
            None if in_table else shorts,
        )
        for place, side in enumerate(comparison.sides)
    ]
    if in_table:
        rows += _rates_table(comparison, shorts, width)
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
    """The verdict on a later run; without `whole`, it leaves out how many items would be needed."""
    text = difference_sentence(difference, "A", name, brief=not whole)
    return [line.replace(_UNBROKEN, " ") for line in wrapped(text.replace(" %", f"{_UNBROKEN}%"), width)]


def verdict_style(test: MeasuredDifference) -> Style:
    """Highlights significant differences as better or worse."""
    tones: Mapping[str, Style] = {"better": "pass", "worse": "fail"}
    return tones.get(direction(test), "strong") if test.shown else ""


def _rates_table(comparison: Comparison, shorts: Mapping[str, str], width: int) -> Iterator[Row]:
    """The pass rates of every column in all runs, those first that differ most."""

    def differ(shared: SharedRates) -> float:
        values = [figure.value for figure in shared.figures if figure is not None]
        return max(values, default=0.0) - min(values, default=0.0)

    letters = NAMES[: len(comparison.sides)]
    cells = [("passes", *letters, "of")]
    ordered = sorted(comparison.rates, key=lambda shared: -differ(shared))
    for shared in ordered[:_RATES]:
        named = next(name for name in shared.names if name) if any(shared.names) else ""
        items = next((items_text(figure) for figure in shared.figures if figure is not None), "")
        rates = (percent(figure.value if figure else None) for figure in shared.figures)
        cells.append((shorts.get(named, named), *rates, items))
    heading, *lines = table(cells, right=range(1, len(letters) + 1), names=(0,), room=width)
    yield row((heading, "dim"))
    yield from (row(line) for line in lines)
    if len(ordered) > _RATES:
        yield row((f"and {counted(len(ordered) - _RATES, 'more column')}, whose rates differ less", "dim"))


def _run_line(
    side: RunSide,
    rates: Sequence[RateRow],
    against: RunDifference | None,
    width: int,
    shorts: Mapping[str, str] | None,
) -> Row:
    """A run with its pass rates, which a table has where no short names of its columns are given."""
    text, brief = ("", "") if shorts is None else (_rates_text(rates, shorts), _rates_text(rates, shorts, brief=True))
    own = f"{side_name(side)} {side.run.key}"
    short = _short_verdict(against) if against else ""
    if len(text) + len(own) + len(short) + 7 > width:
        text = brief
    name = max(min(width - len(text) - len(short) - 6, len(own)), 10)
    pieces = [Piece(f"{rates[0].letter} ", "accent"), fit(own, name, "strong"), Piece("  ")]
    if against is None:
        return row(*pieces, fit(text, width - name - 4))
    return row(*pieces, text, "  ", fit(short, width - name - 6 - len(text), verdict_style(against.passes)))


def _rates_text(rates: Sequence[RateRow], shorts: Mapping[str, str], *, brief: bool = False) -> str:
    """The pass rates of a run over the items that all runs judged: one for each column."""
    if len(rates) > 1:
        told = (f"{safe_line(shorts.get(rate.column, rate.column), 40)} {rate.rate} of {rate.items}" for rate in rates)
        return "passes " + " · ".join(told)
    (rate,) = rates
    if rate.figure is None:
        return "n/a"
    if brief:
        return f"{rate.rate} of {rate.figure.items:,} shared"
    ends = interval_text(rate.figure).replace(" to ", "–")
    return f"passes {rate.rate} of {rate.items.replace('item', 'shared item', 1)}, 95 % interval {ends} %"


def _short_verdict(difference: RunDifference) -> str:
    """A verdict in a few words, for a list of lines."""
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
    shorts: Mapping[str, str] = field(default_factory=dict)
    """Columns of the runs by what tells each from the others."""

    def short(self, column: str) -> str:
        """The short name of a column of the runs."""
        return self.shorts.get(column, column)

    @property
    def several(self) -> bool:
        """Whether each run has its own column; two runs are shown as one status changing to the other."""
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


def columns_of(comparison: Comparison, width: int, listed: Sequence[ListedChange] = ()) -> LineColumns:
    """The columns of the lines of a comparison: the statuses in words, unless what tells lines apart needs the room."""
    lines, runs = comparison.lines, len(comparison.sides)
    names, shorts = names_of(line.item for line in lines), short_columns(comparison)
    changes = [one.change for one in listed if one.change]
    reason = max((cell_width(safe_line(one.reason, 200)) for one in changes), default=0)
    for words in (True, False):
        wanted = list(_columns(lines, runs, names, shorts, reason, width, words=words))
        fitted = fit_columns(wanted, width)
        shown = {column.by: column.width for column in fitted}
        narrowed = any(
            shown.get(column.by, 0) < (min(_ITEM, names.wanted) if column.by == "item" else column.wanted)
            for column in wanted
            if column.by in ("item", "column", *NAMES[:runs])
        )
        if not narrowed:
            break
    return LineColumns(fitted, names, runs, shorts)


def short_columns(comparison: Comparison) -> dict[str, str]:
    """The columns of the runs, each by what tells it from the others."""
    run = comparison.sides[0].run
    known = {column.name: column for column in named_columns(run)}
    names = list(dict.fromkeys(line.column for line in comparison.lines if line.column))
    parts = [known[name].parts or (known[name].short,) if name in known else (name,) for name in names]
    if len({len(one) for one in parts}) != 1:
        return {}
    told = [dict(zip(once, told_apart(once, _COLUMN), strict=True)) for once in map(_once, zip(*parts, strict=True))]
    return {
        name: " · ".join(short[part] for short, part in zip(told, one, strict=True))
        for name, one in zip(names, parts, strict=True)
    }


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _columns(
    lines: Sequence[ComparedLine],
    runs: int,
    names: Names,
    shorts: Mapping[str, str],
    reason: int,
    width: int,
    *,
    words: bool,
) -> Iterator[Column]:
    places = max((cell_width(_beside_item(line)) for line in islice(lines, _MEASURED)), default=0)
    scored = islice(lines, _MEASURED) if runs == 2 else ()
    scores = max((cell_width(score_words(line.answers)) for line in scored), default=0)
    named = {shorts.get(line.column, line.column) for line in islice(lines, _MEASURED)}
    columns = max((cell_width(safe_line(name, 200)) for name in named), default=0)
    kind = max((len(line.kind) for line in lines), default=4) + 2
    yield Column("kind", "", kind, 100)
    least = min(_ITEM + places, max(width - kind - GAP - runs * (1 + GAP) - 2, 8))
    yield Column("item", "item", max(names.wanted + places, 4), 99, least)
    for place, name in enumerate(NAMES[:runs]):
        arrow = 2 * (runs == 2 and place == 1)
        yield Column(name, name, (_STATUS if words else 1) + arrow, 98)
    yield Column("column", "", columns, 97, max(width // 3, 8))
    yield Column("scores", "", scores, 96)
    yield Column("reason", "", reason, 95, _ITEM, rest=True)


class ListedChange(NamedTuple):
    """Lines that are listed one below the other, and what changed in all of them where that is known."""

    kind: Kind
    change: Change | None
    numbers: Sequence[int]


def listed_changes(
    lines: Sequence[ComparedLine], changes: Changes, kinds: Collection[Kind], answers: Collection[int] | None = None
) -> list[ListedChange]:
    """The lines of some kinds that hold one of the answers: changes first, those for one reason together."""
    by_kind: dict[Kind, list[int]] = {kind: [] for kind in BY_ATTENTION}
    for place in lines_of_kinds(lines, kinds, answers):
        by_kind[kind_shown(lines[place], kinds)].append(place)
    listed: list[ListedChange] = []
    for kind, numbers in by_kind.items():
        left = dict.fromkeys(numbers)
        for change in changes.get(kind, ()):
            own = [place for place in change.lines if place in left]
            listed += [ListedChange(kind, change, own)] if own else []
            for place in own:
                del left[place]
        listed += [ListedChange(kind, None, list(left))] if left else []
    return listed


class LineRows(LazyRows):
    """The lines of a comparison below what changed in them; the key of a row is the line's number."""

    def __init__(
        self, comparison: Comparison, listed: Sequence[ListedChange], kinds: Collection[Kind], width: int
    ) -> None:
        self._lines = comparison.lines
        self._kinds = kinds
        self._width = width
        self._listed = listed
        self._shape = columns_of(comparison, width, listed)
        self._places = array("q")
        """Line numbers; for the header of a change, -1 minus its index in the list."""
        for place, one in enumerate(listed):
            self._places.extend((*((-1 - place,) if one.change else ()), *one.numbers))
        self._rows = {line: place for place, line in enumerate(self._places) if line >= 0}
        self._reasons = {line: reason for one in listed if one.change for line, reason in one.change.lines.items()}

    def __len__(self) -> int:
        return len(self._places)

    def row_at(self, number: int) -> Row:
        place = self._places[number]
        if place < 0:
            return change_row(self._listed[-1 - place], self._shape, self._width)
        return line_row(self._lines[place], self._shape, self._kinds, place, self._reasons.get(place, ""))

    def find(self, key: Hashable) -> int | None:
        """The row of a line."""
        return self._rows.get(key) if isinstance(key, int) else None


def change_row(listed: ListedChange, shape: LineColumns, width: int) -> Row:
    """The header of a change: the number of lines, the evaluator with its reason, and where most of them are."""
    look, change = KIND_LOOKS[listed.kind], listed.change
    count = Piece(f"{look.glyph} {len(listed.numbers):,} {look.word}  ", tone_style(look.tone))
    where = " and ".join(shape.short(column) for column in change.columns) if change else ""
    where = f" · in {where}" if where else ""
    room = max(width - cell_width(count.text) - cell_width(where), 0)
    if room < _ITEM:
        room, where = max(width - cell_width(count.text), 0), ""
    return row(count, (cut(name_text(change), room) if change else "", "strong"), (where, "dim"), ground="title")


def line_row(line: ComparedLine, shape: LineColumns, kinds: Collection[Kind], key: Hashable, reason: str = "") -> Row:
    """One line: its change, its item and, if there is room, the statuses of the runs."""
    widths = {column.by: column.width for column in shape.columns}
    beside = _beside_item(line)
    room = max(widths.get("item", 0) - cell_width(beside), 0)
    item = elide(shape.names.short(line.item), room) if room else ""
    cells = {
        "kind": kind_piece(kind_shown(line, kinds)),
        "item": Piece(item + beside),
        "scores": Piece(score_words(line.answers), "dim"),
        "column": Piece(shape.short(line.column), "dim"),
        "reason": Piece(reason, "dim"),
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
        text = f"No answer matches “{words}”" + ("." if len(kinds) == len(KINDS) else f" and is {what}.")
    return [*paragraph(text, width, "dim"), row(("*", "key"), " shows all")]


@dataclass(frozen=True, slots=True)
class JudgedLine:
    """The scores of one evaluator for the answers of a line, in the order of the runs."""

    key: str
    records: tuple[ScoreRecord | None, ...]


@dataclass(frozen=True, slots=True)
class LineTexts:
    """One line in full; a text is None if the run has no such answer."""

    line: ComparedLine
    question: str
    expected: str | None
    texts: tuple[str | None, ...]
    judged: tuple[JudgedLine, ...]


def read_runs(
    database: Path, runs: Sequence[int], columns: tuple[Region, Region] | None = None
) -> tuple[Comparison, Changes]:
    """Compare runs, or two regions of one run, and group the changes; raises LookupError if a run was deleted."""
    with Reader(database) as reader:
        comparison = read_comparison(reader, runs) if columns is None else read_columns(reader, runs[0], columns)
        return comparison, read_changes(reader, comparison)


def read_names(database: Path, runs: Sequence[int]) -> list[RunRow]:
    """The runs to compare, read before the comparison; raises LookupError if one was deleted."""
    with Reader(database) as reader:
        return [reader.run(number) for number in runs]


def waiting_lines(runs: Sequence[RunRow], width: int) -> list[Row]:
    """Which runs are being compared, until they are."""
    letters = zip(NAMES, runs, strict=False)
    rows = [row((f"{letter} ", "accent"), (fit(f"{run.name} {run.key}", width - 2))) for letter, run in letters]
    return [*rows, row((f"Comparing {counted(sum(run.total for run in runs), 'answer')}…", "dim"))]


_KIND_TERM = re.compile(r'(?<!\S)(!?)kind:("[^"]*"|\S*)')


def kinds_of_filter(text: str) -> tuple[frozenset[Kind], str]:
    """The kinds selected by terms such as `kind:broken` (all if there are none), and the rest of the filter."""
    left = set(KINDS)
    for negated, value in _KIND_TERM.findall(text):
        name = value.strip('"').replace("-", " ")
        if name not in KINDS:
            raise FilterError(f"there is no kind {name!r}{did_you_mean(name, KINDS)}; the kinds are {', '.join(KINDS)}")
        left = left - {name} if negated else left & {name}
    return frozenset(kind for kind in KINDS if kind in left), _KIND_TERM.sub("", text).strip()


def answers_let_through(database: Path, comparison: Comparison, text: str) -> frozenset[int] | None:
    """The ids of the answers that match a filter, None for all; FilterError if it is invalid."""
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
        """The texts and scores of a line; raises LookupError if an answer was deleted."""
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
        if detail and isinstance(item, dict) and (now := rejudged_now(detail.earlier, run.scoring_pass)):
            item = expected_item(now, item, detail.row.turn)
        return (expected_text(unit_of(item, detail.row.turn)) or None) if detail and isinstance(item, Mapping) else None
