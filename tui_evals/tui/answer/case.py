"""A diff as rows: two columns that stay in step because they are one list, or one column; signs beside the colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.cells import cell_len

from tui_evals.compare.diff import Diff, DiffGap, DiffSide, Kind, diff_json, side_by_side, unified_diff
from tui_evals.compare.diff import DiffRow as Facing
from tui_evals.datasets.layout import Path as Place
from tui_evals.runs.prompting import asked_text
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.rows import Detail, expected_of
from tui_evals.text.safe import safe, safe_line, spell_out
from tui_evals.tui.lines import Ground, Piece, Row, Rows, Style, fit, row
from tui_evals.tui.parts import TAB, Blocks, Cut, Lazy

Layout = Literal["sides", "unified", "answer"]
NARROWEST = 50
"""Cells below which two columns cannot be read."""

SIGNS: dict[Kind, str] = {"same": " ", "changed": "~", "removed": "-", "added": "+"}
_GROUNDS: dict[Kind, Ground] = {"same": "", "changed": "changed", "removed": "removed", "added": "added"}
_UNIT = {"line": "line", "sentence": "sentence", "json": "line of JSON"}
_UNITS = {"line": "lines", "sentence": "sentences", "json": "lines of JSON"}
_PLACES = 4
_Parts = list[tuple[str, Style]]


def compared(reference: str, answer: str, raw: bool = False) -> Diff:
    """What differs; raw texts are spelt out and never read as JSON."""
    if raw:
        return side_by_side(spell_out(reference), spell_out(answer))
    both = all(text.lstrip()[:1] in ("{", "[") for text in (reference, answer))
    return (diff_json if both else side_by_side)(reference, answer)


def summary(diff: Diff) -> str:
    """A diff in a line: how many rows are of which kind, in what, and where JSON differs."""
    if diff.same:
        return "the same JSON as expected" if diff.unit == "json" else "the answer is what was expected"
    counts = Counter(facing.kind for facing in diff.rows)
    kinds: tuple[Kind, ...] = ("changed", "removed", "added")
    one, several = _UNIT[diff.unit], _UNITS[diff.unit]
    parts = [f"{SIGNS[kind]} {n} {one if n == 1 else several} {kind}" for kind in kinds if (n := counts[kind])]
    if diff.changes:
        paths = [change.path for change in diff.changes[:_PLACES]]
        more = len(diff.changes) - len(paths)
        parts.append(f"at {', '.join(paths)}" + (f" and {more} more places" if more else ""))
    if diff.coarse:
        parts.append("too long to be told apart everywhere")
    return " · ".join(parts)


class Sides(Blocks[Facing]):
    """Reference left, answer right, each wrapped to half the width."""

    def __init__(self, diff: Diff, width: int) -> None:
        half = max((width - 3) // 2, 1)
        super().__init__(diff.rows, lambda facing: _Pair(facing, half))


class _Pair(Lazy):
    """What faces what, as high as the higher of the two."""

    def __init__(self, facing: Facing, half: int) -> None:
        ends = _ends_alike(facing)
        self._kind: Kind = facing.kind
        self._half = half
        self._left = Cut(side_parts(facing.left, "removed", ends), half) if facing.left else None
        same = facing.kind == "same"
        self._right = (
            self._left if same else Cut(side_parts(facing.right, "added", ends), half) if facing.right else None
        )

    def __len__(self) -> int:
        return max(len(cut) for cut in (self._left, self._right) if cut is not None)

    def made(self, number: int) -> Row:
        """A line of both, each with its sign where it has one."""
        left, right = self._left, self._right
        one = left[number] if left is not None and number < len(left) else None
        other = right[number] if right is not None and number < len(right) else None
        before = Piece(" " if one is None else SIGNS[self._kind], "strong")
        after = Piece(" " if other is None else SIGNS[self._kind], "strong")
        pieces = (before, *filled(one or (), self._half), Piece("│", "dim"), after, *(other or ()))
        return Row(pieces, None, _GROUNDS[self._kind])


def titles(width: int) -> Row:
    """What stands above the two columns."""
    half = max((width - 3) // 2, 1)
    return row(" ", fit("expected", half, "dim"), ("│ ", "dim"), fit("answer", half, "dim"))


def unified_rows(diff: Diff, width: int) -> Rows:
    """One column; what is far from every change is left out."""
    return Blocks(_entries(diff), lambda entry: _unified_part(entry, diff, width))


class _Column(Lazy):
    """The lines of one side, each with its sign."""

    def __init__(self, side: DiffSide, kind: Kind, width: int) -> None:
        self._kind: Kind = kind
        self._cut = Cut(side_parts(side, "added" if kind == "added" else "removed", True), width - 1)

    def __len__(self) -> int:
        return len(self._cut)

    def made(self, number: int) -> Row:
        """A line of it."""
        return Row((Piece(SIGNS[self._kind], "strong"), *self._cut[number]), None, _GROUNDS[self._kind])


def _unified_part(entry: Facing | DiffGap, diff: Diff, width: int) -> Rows:
    if isinstance(entry, DiffGap):
        return [row((f"⋯ {entry.count} {_UNITS[diff.unit]} alike", "dim"))]
    side = entry.right or entry.left
    return _Column(side, entry.kind, width) if side else ()


def unified_text(diff: Diff) -> str:
    """The unified diff as plain text, each line of it with its sign."""
    lines: list[str] = []
    for entry in _entries(diff):
        if isinstance(entry, DiffGap):
            lines.append(f"@@ {entry.count} {_UNITS[diff.unit]} alike @@")
            continue
        side = entry.right or entry.left
        if side is not None:
            lines += [SIGNS[entry.kind] + line for line in side.text.removesuffix("\n").split("\n")]
    return "\n".join(lines) + "\n"


def _entries(diff: Diff) -> Sequence[Facing | DiffGap]:
    """The rows of a unified diff; texts that are the same are shown whole."""
    return diff.rows if diff.same else unified_diff(diff)


def _ends_alike(facing: Facing) -> bool:
    sides = [side.text.endswith("\n") for side in (facing.left, facing.right) if side]
    return len(sides) < 2 or sides[0] == sides[1]


def side_parts(side: DiffSide, style: Style, ends_alike: bool) -> _Parts:
    """The spans of a side made safe, marked where only some of them changed; a line end that only it has is shown."""
    whole = all(span.changed for span in side.spans)
    parts: _Parts = [
        (safe(span.text).replace("\t", TAB), style if span.changed and not whole else "") for span in side.spans
    ]
    text, last = parts[-1] if parts else ("", style)
    if text.endswith("\n"):
        parts[-1] = (text[:-1], last)
        if not ends_alike:
            parts.append(("⏎", style))
    return parts


def filled(pieces: tuple[Piece, ...], width: int) -> tuple[Piece, ...]:
    """Pieces with spaces up to a width, as wide as they will be drawn."""
    used = sum(len(piece.text) if piece.text.isascii() else cell_len(safe_line(piece.text)) for piece in pieces)
    return (*pieces, Piece(" " * max(width - used, 0)))


Unit = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One answer and what belongs to it."""

    run: RunRow
    detail: Detail
    item: Unit
    """The item as it was when it was asked; empty where the snapshot has none."""
    turns: tuple[Detail, ...]
    """The answers of the same conversation in order, this one among them."""

    @property
    def row(self) -> AnswerRow:
        """The answer as lists show it."""
        return self.detail.row

    @property
    def text(self) -> str | None:
        """What was answered; None where there is no answer."""
        return text_of(self.detail)

    @property
    def reference(self) -> str | None:
        """What was expected."""
        return expected_of(unit_of(self.item, self.row.turn))

    @property
    def prompt(self) -> str:
        """What was asked."""
        return prompt_of(self.item, self.detail)

    @property
    def messages(self) -> list[Unit]:
        """The chat that was sent."""
        return messages_of(self.detail)


@dataclass
class Look:
    """A case with the diffs that were made of it."""

    case: Case
    _diffs: dict[tuple[int, bool], Diff] = field(default_factory=dict)

    def diff(self, turn: Detail, raw: bool) -> Diff | None:
        """How a turn differs from what was expected; None where one of the two is missing."""
        reference, text = expected_of(unit_of(self.case.item, turn.row.turn)), text_of(turn)
        if reference is None or text is None:
            return None
        key = (turn.row.turn, raw)
        if key not in self._diffs:
            self._diffs[key] = compared(reference, text, raw)
        return self._diffs[key]

    def size(self) -> int:
        """How many characters are compared first; none where that has been done or there is nothing to compare."""
        reference, text = self.case.reference, self.case.text
        return 0 if reference is None or text is None or self._diffs else len(reference) + len(text)


class Finder:
    """Finds cases; of the datasets that were asked, which are large, it keeps the last one."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._digest = ""
        self._items: Sequence[Any] = ()

    def find(self, answer: int) -> Case:
        """An answer with what belongs to it, read away from the screen's thread; LookupError if it is gone."""
        with Reader(self._database) as reader:
            detail = reader.detail(answer)
            row, run = detail.row, reader.run(detail.row.run)
            if run.snapshot != self._digest:
                self._items = _items(reader, run.snapshot)
                self._digest = run.snapshot
            item: Any = self._items[row.item] if row.item < len(self._items) else {}
            item = item if isinstance(item, dict) else {}
            start, count = row.pos - row.turn, len(units(item))
            cell = [one for one in reader.window(run.id, start, count) if one.cell == row.cell]
            turns = tuple(detail if one.id == answer else reader.detail(one.id) for one in cell)
            return Case(run, detail, item, turns)


def _items(reader: Reader, digest: str) -> Sequence[Any]:
    """The items of a dataset that was asked; a run without a snapshot has none."""
    items = reader.snapshot(digest).get("items") if digest else ()
    return items if isinstance(items, list) else ()


def units(item: Unit) -> Sequence[Unit]:
    """The turns of an item, or the item itself."""
    turns = item.get("turns")
    return [turn if isinstance(turn, dict) else {} for turn in turns] if isinstance(turns, list) and turns else [item]


def unit_of(item: Unit, turn: int) -> Unit:
    """One turn of an item."""
    found = units(item)
    return found[turn] if turn < len(found) else {}


def text_of(detail: Detail) -> str | None:
    """What was answered."""
    return detail.answer.text if detail.answer else None


def messages_of(detail: Detail) -> list[Unit]:
    """The chat that was sent."""
    sent = detail.answer.request.get("messages") if detail.answer else None
    return [message for message in sent if isinstance(message, dict)] if isinstance(sent, list) else []


def prompt_of(item: Unit, detail: Detail) -> str:
    """What a turn asks: its prompt, else the last thing the user said."""
    prompt = unit_of(item, detail.row.turn).get("prompt")
    return prompt if isinstance(prompt, str) else asked_text(tuple(messages_of(detail)))


def source_file(root: Path, run: RunRow, known: Sequence[Path] = ()) -> Path | None:
    """The dataset file a run asked; None where it asked something else, or the file is gone and not open either."""
    file = (root / run.source).resolve()
    return file if file in known or file.is_file() else None


def place_of(items: Sequence[Any], item: Unit, position: int) -> int | None:
    """Where an item that was asked is now: by its testId, else where it was, else where the same is asked."""
    name = item.get("testId")
    if isinstance(name, str) and name:
        named = [number for number, one in enumerate(items) if isinstance(one, dict) and one.get("testId") == name]
        if len(named) == 1:
            return named[0]
    asked = _asked(item)
    if position < len(items) and _asked(items[position]) == asked:
        return position
    alike = [number for number, one in enumerate(items) if _asked(one) == asked]
    return alike[0] if len(alike) == 1 else None


def unit_place(items: Sequence[Any], case: Case) -> Place | None:
    """The path of the unit that was asked in items as they are now."""
    number = place_of(items, case.item, case.row.item)
    if number is None:
        return None
    turns = items[number].get("turns")
    if not isinstance(turns, list):
        return ("items", number) if case.row.turn == 0 else None
    return ("items", number, "turns", case.row.turn) if case.row.turn < len(turns) else None


def _asked(item: Any) -> Any:
    """What of an item is put to a target."""
    if not isinstance(item, dict):
        return None
    own = [item.get("prompt"), item.get("messages"), item.get("variables")]
    return own + [[turn.get("prompt"), turn.get("messages")] for turn in units(item)]
