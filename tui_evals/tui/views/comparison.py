"""Two runs beside each other: a head in numbers, the pairs as a list, and one pair in full."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import overload

from tui_evals.compare.match import Kind
from tui_evals.compare.runs import KINDS, Comparison, Pair, Side
from tui_evals.compare.sides import Answer
from tui_evals.compare.statistics import percent
from tui_evals.store.records import RunRow, ScoreRecord
from tui_evals.tui.lines import GLYPHS, Piece, Row, Rows, Style, fit, row, status_piece, wrapped
from tui_evals.tui.state.comparing import Compared, Faced, Judged

from .diffs import NARROWEST, Sides, unified_rows
from .parts import Joined, paragraph

WORDS: Mapping[Kind, tuple[str, str, Style]] = {
    "broken": ("✗", "broken", "fail"),
    "fixed": ("✓", "fixed", "pass"),
    "changed": ("~", "changed", "warn"),
    "same": ("=", "same", "dim"),
    "gone": ("‹", "only left", "accent"),
    "new": ("›", "only right", "accent"),
    "not comparable": ("?", "no verdict", "dim"),
}
"""Each kind as glyph, word and style."""

_KIND = 13
_STATUS = 10
_STATUSES = 2 * _STATUS + 3
_SCORES = 14
_RESULTS: Mapping[str, tuple[str, Style]] = {"pass": GLYPHS["pass"], "fail": GLYPHS["fail"], "error": GLYPHS["error"]}


def kind_piece(kind: Kind, width: int = 0) -> Piece:
    """A kind as glyph and word."""
    glyph, word, style = WORDS[kind]
    return Piece(f"{glyph} {word}".ljust(width), style)


def head_lines(runs: Compared, width: int) -> list[Row]:
    """The two runs, their pass rates, and whether the difference is real."""
    found = runs.found
    rows = [_run_line("‹", runs.left, found.left, width), _run_line("›", runs.right, found.right, width)]
    style: Style = "strong" if found.real else ""
    rows += [row((line, style)) for line in wrapped(difference(found), width)]
    counts: list[Piece] = []
    for kind in KINDS:
        if found.counts[kind]:
            glyph, word, style = WORDS[kind]
            counts.append(Piece(f"{glyph} {found.counts[kind]:,} {word}   ", style))
    if not runs.settled:
        counts.append(Piece("reading the answers…", "dim"))
    rows.append(Row(tuple(counts)))
    if found.means:
        means = (f"{one.key} {_number(one.left)} → {_number(one.right)}" for one in found.means)
        rows.append(row(fit("means: " + " · ".join(means), width, "dim")))
    return rows


def _run_line(sign: str, run: RunRow, side: Side, width: int) -> Row:
    rate, interval = percent(side.passed / side.judged if side.judged else None), side.interval
    counts = f"{rate} ({side.passed}/{side.judged})"
    ends = f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %" if interval else ""
    text = f"passes {counts}" + (f", with 95 % confidence {ends}" if ends else "")
    text += f" · mean {side.mean:.3g}" if side.mean is not None else ""
    if len(text) + len(run.name) + len(run.key) + 5 > width:
        text = f"{counts} {ends}".rstrip()
    name = max(min(width - len(text) - 4, len(run.name) + len(run.key) + 1), 10)
    return row((f"{sign} ", "accent"), fit(f"{run.name} {run.key}", name, "strong"), "  ", fit(text, width - name - 4))


def difference(found: Comparison) -> str:
    """Whether the runs differ in what passes, in a sentence."""
    if not found.broken + found.fixed:
        return "No item passes in one run and fails in the other."
    counts = f"{_items(found.broken)} broken, {found.fixed} fixed"
    chance = "p < 0.001" if found.p < 0.001 else f"p = {found.p:.3f}" if found.p < 0.1 else f"p = {found.p:.2f}"
    if found.real:
        return f"{counts}: the difference is real ({chance}, exact McNemar test)."
    return f"{counts}: this can be chance ({chance}, exact McNemar test)."


def _items(count: int) -> str:
    return f"{count:,} item" if count == 1 else f"{count:,} items"


class PairRows(Sequence[Row]):
    """The pairs of some kinds; each row is made when it comes into view, its key is the number of the pair."""

    def __init__(self, pairs: Sequence[Pair], kinds: Collection[Kind], width: int) -> None:
        self._pairs = pairs
        self._numbers = [number for number, pair in enumerate(pairs) if pair.kind in kinds]
        self._rows = {number: place for place, number in enumerate(self._numbers)}
        self._width = width

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, number: int) -> Row: ...
    @overload
    def __getitem__(self, number: slice) -> list[Row]: ...
    def __getitem__(self, number: int | slice) -> Row | list[Row]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        place = self._numbers[number]
        return pair_line(self._pairs[place], self._width, place)

    def find(self, key: Hashable) -> int | None:
        """The row of a pair."""
        return self._rows.get(key) if isinstance(key, int) else None


def pair_line(pair: Pair, width: int, key: Hashable) -> Row:
    """One pair: what became of it, which item, and how both runs did where there is room."""
    pieces = [kind_piece(pair.kind, _KIND)]
    left = width - _KIND
    tail: list[Piece] = []
    if left >= 16 + _STATUSES:
        tail += [*_statuses(pair), Piece(" ")]
        left -= _STATUSES
    if left >= 16 + _SCORES:
        tail.append(fit(_scores(pair), _SCORES, "dim"))
        left -= _SCORES
    column = min(left // 3, 24) if pair.column and left >= 36 else 0
    return Row((*pieces, fit(place_of(pair), left - column), *tail, fit(pair.column, column, "dim")), key)


def place_of(pair: Pair) -> str:
    """The item, and which of its turns and repeats where there are several."""
    turn = "" if pair.turn is None else f" · turn {pair.turn + 1}"
    return pair.item + turn + ("" if pair.repeat is None else f" · repeat {pair.repeat + 1}")


def _statuses(pair: Pair) -> tuple[Piece, ...]:
    return (_status(pair.left), Piece("→ ", "dim"), _status(pair.right))


def _status(answer: Answer | None) -> Piece:
    return fit("–", _STATUS, "dim") if answer is None else status_piece(answer.status, _STATUS)


def _scores(pair: Pair) -> str:
    one, other = (answer.score if answer else None for answer in (pair.left, pair.right))
    return "" if one is None and other is None else f"{_number(one)} → {_number(other)}"


def _number(score: float | None) -> str:
    return "–" if score is None else f"{score:.3g}"


def empty_pairs(kinds: Collection[Kind], width: int) -> list[Row]:
    """Why the list is empty."""
    what = " or ".join(f"“{WORDS[kind][1]}”" for kind in KINDS if kind in kinds)
    text = "The runs have no answers." if len(kinds) == len(KINDS) else f"No answer is {what}."
    return [*(row((line, "dim")) for line in wrapped(text, width)), row(("*", "key"), " shows all")]


def pair_rows(faced: Faced, width: int) -> Rows:
    """One pair in full: what became of it, who judged otherwise, and what differs in the answers."""
    pair = faced.pair
    where = place_of(pair) + (f" · {pair.column}" if pair.column else "")
    rows = [row(kind_piece(pair.kind), "  ", (where, "strong"), ground="title"), _outcome(pair)]
    for said in _remarks(pair):
        rows += [row((line, "warn")) for line in wrapped(said, width)]
    if faced.asked:
        rows.append(row(("asked ", "dim"), fit(faced.asked, width - 6)))
    for judged in faced.judged:
        rows += _judged_lines(judged, width)
    rows.append(row())
    return Joined([rows, *_texts(faced, width)])


def _outcome(pair: Pair) -> Row:
    return row(*_statuses(pair), (f"  score {_scores(pair)}" if _scores(pair) else "", "dim"))


def _remarks(pair: Pair) -> list[str]:
    found = []
    if pair.how == "position":
        found.append("Matched by position only; check that it is the same item. A testId makes sure.")
    elif pair.edited:
        found.append("The item itself was changed between the runs.")
    return found


def _judged_lines(judged: Judged, width: int) -> list[Row]:
    """An evaluator that judged the two answers differently, with its reason; nothing where it did not."""
    one, other = judged.left, judged.right
    if one and other and (one.score, one.result) == (other.score, other.result):
        return []
    rows = [row(fit(judged.key, min(24, width // 3), "strong"), " ", _result(one), (" → ", "dim"), _result(other))]
    reason = (other.reason if other else "") or (one.reason if one else "")
    return rows + [row((f"  {line}", "dim")) for line in wrapped(reason[:600], max(width - 2, 1))[:3] if reason]


def _result(record: ScoreRecord | None) -> Piece:
    if record is None:
        return Piece("–", "dim")
    glyph, style = _RESULTS.get(record.result or "", ("·", "dim"))
    number = "" if record.score is None else f" {record.score:.3g}"
    return Piece(f"{glyph} {record.result or 'no result'}{number}", style)


def _texts(faced: Faced, width: int) -> list[Rows]:
    if faced.diff is None:
        return [paragraph(faced.text, width)]
    if faced.diff.same:
        says = "The answers are the same." if faced.diff.rows else "Neither run has an answer here."
        return [[row((says, "dim"))], unified_rows(faced.diff, width)]
    if width < NARROWEST:
        return [[row(("- left", "removed"), "  ", ("+ right", "added"))], unified_rows(faced.diff, width)]
    half = max((width - 3) // 2, 1)
    titles = row(" ", fit("‹ left", half, "dim"), ("│ ", "dim"), fit("› right", half, "dim"))
    return [[titles], Sides(faced.diff, width)]
