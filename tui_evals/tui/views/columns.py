"""Which columns of the table of results fit a width, and the words above them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line
from tui_evals.tui.lines import Piece, Row, fit

_PREVIEW = 12
_WIDE = 70
_LEAST = 6


@dataclass(frozen=True, slots=True)
class Several:
    """Of what a run has several, which is what needs a column."""

    turns: bool = False
    repeats: bool = False
    keys: tuple[str, ...] = ()
    """The evaluators."""
    longest: int = 8
    """Cells of the longest name of an item, as far as one has looked."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: what it is sorted by, the word above it, and its cells without the space after it."""

    by: str
    word: str
    width: int
    right: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a width: those that always stay, those one can shift through, and what is left for the answer."""

    width: int
    fixed: tuple[Column, ...]
    shifting: tuple[Column, ...]
    first: int
    """How many shifting columns are further left."""
    more: bool
    """Whether there are more further right."""
    preview: int
    targets: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()


def layout(width: int, run: RunRow, several: Several, offset: int = 0) -> Layout:
    """What fits a width, with so many shifting columns left out on the left."""
    targets = _short(run.targets)
    fixed = tuple(_fixed(width, targets, run.prompts, several))
    shifting = tuple(_shifting(several.keys))
    room = width - sum(column.width + 1 for column in fixed)
    spare = _PREVIEW if width >= _WIDE else 0
    offset = max(0, min(offset, len(shifting) - 1))
    while offset and _taken(shifting[offset - 1 :]) <= room - spare:
        offset -= 1
    shown: list[Column] = []
    for column in shifting[offset:]:
        if _taken((*shown, column)) > room - spare:
            break
        shown.append(column)
    if not shown and room > _LEAST:
        shown = [replace(shifting[offset], width=room - 1)]
    more = offset + len(shown) < len(shifting)
    return Layout(width, fixed, tuple(shown), offset, more, max(room - _taken(shown), 0), targets, tuple(run.prompts))


def _taken(columns: Iterable[Column]) -> int:
    return sum(column.width + 1 for column in columns)


def _fixed(width: int, targets: Sequence[str], prompts: Sequence[str], several: Several) -> Iterable[Column]:
    wide = 8 if width < 60 else 12 if width < 120 else 18
    yield Column("", "", 2)
    yield Column("name", "item", max(4, min(several.longest, wide + 2)))
    if several.turns:
        yield Column("turn", "turn", 4, True)
    if len(targets) > 1:
        yield Column("target", "target", max(6, min(max(map(cell_len, targets)), wide)))
    if several.repeats:
        yield Column("repeat", "rep", 3, True)
    if len(prompts) > 1:
        yield Column("prompt", "prompt", max(6, min(max(map(cell_len, prompts)), wide)))
    yield Column("status", "status", 10)
    yield Column("score", "score", 5, True)


def _shifting(keys: Iterable[str]) -> Iterable[Column]:
    for key in keys:
        yield Column(f"evaluator:{key}", key, max(6, min(cell_len(safe_line(key, 20)), 10)))
    yield Column("latency_ms", "latency", 7, True)
    yield Column("output_tokens", "tokens", 9, True)
    yield Column("cost", "cost", 8, True)


def _short(names: Sequence[str]) -> tuple[str, ...]:
    """Names without the provider they share."""
    if len(names) < 2 or len({name.rpartition("/")[0] for name in names}) > 1:
        return tuple(names)
    return tuple(name.rpartition("/")[2] for name in names)


def heading(shown: Layout, sort: str | None = None, descending: bool = False) -> Row:
    """The words above the columns, with the way of sorting, and hints where there are more columns."""
    pieces: list[Piece] = []
    for column in (*shown.fixed, *shown.shifting):
        word = fit(column.word, column.width, "strong", right=column.right)
        if column.by and column.by == sort:
            name = safe_line(column.word, 20)
            name = name if cell_len(name) < column.width else set_cell_size(name, column.width - 1)
            word = fit(name + ("▼" if descending else "▲"), column.width, "accent", right=column.right)
        pieces += [word, Piece(" ")]
    if shown.first:
        pieces[2 * len(shown.fixed) - 1] = Piece("‹", "key")
    if shown.more:
        pieces[-1] = Piece("›", "key")
    pieces.append(fit("answer" if shown.preview > _LEAST else "", shown.preview, "strong"))
    return Row(tuple(pieces), ground="title")
