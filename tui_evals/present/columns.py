"""Text that fits: cut or padded to a width, wrapped, laid out in columns, by the cells of its characters.

All lists lay out columns by the same rule. A column is as wide as its content, and an empty column is left out. If
there is not enough room, less important columns are left out, and those that can be cut shrink. The common beginning of
nearly all names is left out, and a long name keeps its end, which distinguishes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import takewhile
from unicodedata import east_asian_width

from tui_evals.light_records import dataclass
from tui_evals.text.names import numbered
from tui_evals.text.safe import safe, safe_line

Table = Sequence[Sequence[str]]
Break = tuple[int, int]
"""The first character of a part of a line, and the one after its last."""

TAB = "    "
_GAP = "  "
_WINDOW = 8
"""Characters that are looked at for each cell: a sign may be made of several."""
_PLAIN = re.compile(r"[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u203a\u2500-\u25fc\u2713\u2717]*")
"""Characters that are a sign of one cell each, which need no lookup: most of western text and all borders."""
_LEAST = 8
"""Cells that a column keeps, however narrow the room is."""


def cell_width(text: str) -> int:
    """How many cells a text takes on a line."""
    if text.isascii() or _PLAIN.fullmatch(text):
        return len(text)
    # Imported when a text needs it, as below: its tables would delay the first frame.
    from wcwidth import wcswidth, wcwidth

    width = wcswidth(f" {text}") - 1  # a mark that takes a cell does so behind something else only
    return width if width >= 0 else sum(max(wcwidth(sign), 0) for sign in text)  # a control character is not drawn


def fit(text: str, width: int, *, right: bool = False) -> str:
    """A safe text on one line, exactly `width` cells wide: cut with an ellipsis, or padded with spaces."""
    if width <= 0:
        return ""
    line = safe_line(text, width * 2 + 2)
    length = cell_width(line)
    if length > width:
        head = beginning(line, width - 1)
        return f"{head}{' ' * (width - 1 - cell_width(head))}…"
    space = " " * (width - length)
    return space + line if right else line + space


def beginning(line: str, width: int) -> str:
    """As many characters from the beginning of a line as fit."""
    head = line[: _characters(line, 0, width)] if width > 0 else ""
    return head if cell_width(head) <= width else ""


def ending(line: str, width: int) -> str:
    """As many characters from the end of a line as fit."""
    if _PLAIN.fullmatch(line[-width - 1 :]):
        return line[-width:] if width > 0 else ""
    from wcwidth import iter_graphemes

    kept: list[str] = []
    for sign in reversed(list(iter_graphemes(line[-_WINDOW * (width + 1) :]))):
        if cell_width("".join((sign, *kept))) > width:
            break
        kept.insert(0, sign)
    return "".join(kept)


def elide(text: str, width: int) -> str:
    """A safe text on one line, at most `width` cells wide, with its middle left out."""
    line = safe_line(text)
    if cell_width(line) <= width:
        return line
    head = beginning(line, (width - 1) // 3)
    return head + "…" + ending(line, width - 1 - cell_width(head)) if width > 0 else ""


def cut(text: str, room: int | None) -> str:
    """A text made safe, on one line, cut where the room ends."""
    return safe_line(text) if room is None else fit(text, room).rstrip()


def wrap(text: str, room: int | None) -> list[str]:
    """The lines of a text made safe, none wider than the room, broken between words where that is possible."""
    lines = safe(text).replace("\t", TAB).split("\n")
    if room is None:
        return lines
    return [line[start:stop] for line in lines for start, stop in breaks(line, max(room, 1))]


def breaks(line: str, width: int) -> Sequence[Break]:
    """The ranges of a line after wrapping; a space between two parts is in neither."""
    if len(line) <= width and cell_width(line) <= width:
        return ((0, len(line)),)
    parts: list[Break] = []
    start = 0
    while start < len(line):
        stop = start + _characters(line, start, width)
        if stop < len(line):
            space = line.rfind(" ", start + 1, stop + 1)
            if space > start:
                parts.append((start, space))
                start = space + 1
                continue
        parts.append((start, stop))
        start = stop
    return parts


def _characters(line: str, start: int, width: int) -> int:
    """How many characters from `start` fit into `width` cells without cutting a sign in two; at least one."""
    part = line[start : start + width + 1]
    if _PLAIN.fullmatch(part):  # the next character too, so that it belongs to no sign before it
        return min(len(part), width)
    from wcwidth import iter_graphemes

    part = line[start : start + _WINDOW * (width + 1)]
    used = count = 0
    for sign in iter_graphemes(part):
        used += cell_width(sign)
        if used > width:
            break
        count += len(sign)
    while count > 1 and cell_width(part[:count]) > width:  # some signs are wider together than one by one
        count -= 1
    return max(count, 1)


def table(
    rows: Table,
    *,
    right: Collection[int] = (),
    elastic: Collection[int] = (0,),
    names: Collection[int] = (),
    headed: bool = False,
    room: int | None,
) -> list[str]:
    """The rows as lines of equal columns; where the room is too small the elastic columns are cut, widest first.

    Cells of columns of `names` are cut in the middle. Below a heading (`headed`) an empty column is left out.
    """
    cells = [[safe_line(text) for text in row] for row in rows]
    filled = [not headed or any(column[1:]) for column in zip(*cells, strict=True)]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    if room is not None:
        _shrink(widths, [number for number in elastic if filled[number]], room, filled)
    lines = (
        _GAP.join(
            fit(elide(text, width) if number in names else text, width, right=number in right)
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
            if filled[number]
        )
        for row in cells
    )
    return [(line if room is None else fit(line, room)).rstrip() for line in lines]


def _shrink(widths: list[int], elastic: Collection[int], room: int, filled: Sequence[bool]) -> None:
    room -= len(_GAP) * (sum(filled) - 1)
    while elastic and sum(width for width, shown in zip(widths, filled, strict=True) if shown) > room:
        widest = max(elastic, key=lambda number: widths[number])
        if widths[widest] <= _LEAST:
            return
        widths[widest] -= 1


# -- which columns, and how wide

GAP = 1
"""Cells between two columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list: its content, its heading, and its width."""

    by: str
    word: str
    wanted: int
    """The cells that its content needs; 0 if it is empty."""
    importance: int = 0
    """If not all columns fit, more important ones stay."""
    least: int | None = None
    """Cells with which it still says something; None where it is not to be cut."""
    right: bool = False
    rest: bool = False
    """Whether it takes the remaining width."""
    width: int = 0
    """Cells it was given."""


def fit_columns(columns: Iterable[Column], width: int) -> list[Column]:
    """The columns there is room for, in their order, each with its width; the first by importance stays in any case."""
    columns = [column for column in columns if column.wanted > 0]
    left, chosen = width + GAP, dict[str, Column]()
    for column in sorted(columns, key=lambda column: -column.importance):
        size = column.wanted if column.least is None else min(column.least, column.wanted)
        if chosen and size + GAP > left:
            break  # a less important one that is narrower does not take its place
        chosen[column.by] = replace(column, width=max(min(size, width), 0))
        left = max(left - size - GAP, 0)
    for by, column in chosen.items():
        more = min(left, column.wanted - column.width)
        chosen[by] = replace(column, width=column.width + more)
        left -= more
    for by, column in chosen.items():
        if column.rest:
            chosen[by] = replace(column, width=column.width + left)
            left = 0
    return [chosen[column.by] for column in columns if column.by in chosen]


# -- names

_LONGEST_NAME = 40
_WORTH_LEAVING_OUT = 8
"""Cells from which it pays to leave out what names begin with: an ellipsis is there, and the eye has to add it."""
_STRAY = 50
"""One of this many names may have another beginning, at either end of the alphabet."""


@dataclass(frozen=True, slots=True)
class Names:
    """How the names of a list are written: what nearly all of them begin with is left out."""

    shared: str = ""
    wanted: int = 0
    """Cells of the longest of them."""

    def short(self, name: str) -> str:
        """A name as it is shown if there is room."""
        return f"…{name[len(self.shared) :]}" if self.shared and name.startswith(self.shared) else name

    def fit(self, name: str, width: int) -> str:
        """The name in exactly `width` cells."""
        return fit(elide(self.short(name), width), width)


AS_THEY_ARE = Names()
"""Names that are never shortened."""


def names_of(names: Iterable[str]) -> Names:
    """How these names are written together."""
    ordered = sorted(names)
    known = Names(_shared(ordered))
    # The longest by characters: measuring every one would take long.
    widest = max((cell_width(safe_line(known.short(name), 200)) for name in nlargest(20, ordered, len)), default=0)
    return replace(known, wanted=min(widest, _LONGEST_NAME))


def _shared(ordered: Sequence[str]) -> str:
    """The common beginning of nearly all names, up to the end of a word."""
    stray = len(ordered) // _STRAY
    if not ordered or ordered[stray] == ordered[-1 - stray]:
        return ""
    ends = ordered[stray], ordered[-1 - stray]
    both = _common(*ends)
    marks = [place for place, sign in enumerate(both) if not sign.isalnum()]
    if marks:
        both = both[: marks[-1]]
    else:
        both = both.rstrip("0123456789")
        if not all(end[len(both) : len(both) + 1].isdigit() for end in ends):
            return ""
    return both if cell_width(both) >= _WORTH_LEAVING_OUT else ""


def _common(first: str, last: str) -> str:
    """The common beginning of two texts, and so of all texts between them in the alphabet."""
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of prompts or targets without what they share: folders, the provider, or unvaried parameters."""
    if len(names) < 2:
        return tuple(names)
    parts = [name.split("@") for name in names]
    if len({first for first, *_ in parts}) == 1 and all("=" in "".join(rest) for _, *rest in parts):
        same = set[str].intersection(*(set(rest) for _, *rest in parts))
        return tuple("@".join(part for part in rest if part not in same) for _, *rest in parts)
    if len({name.rpartition("/")[0] for name in names}) > 1:
        return tuple(names)
    return tuple(name.rpartition("/")[2] for name in names)


def told_apart(names: Sequence[str], width: int) -> list[str]:
    """Names as headings of a width, whole where they fit, else without the words that all or some begin with."""
    whole = [safe_line(name, 200) for name in numbered(names)]
    if all(cell_width(name) <= width for name in whole):
        return whole
    rests = _without_common_words(whole)
    heads = [_cut_heading(rest, width) for rest in rests]
    alike = Counter(heads)
    for head in (head for head, count in alike.items() if count > 1):
        places = [place for place, one in enumerate(heads) if one == head]
        for place, rest in zip(places, _without_common_words([rests[place] for place in places]), strict=True):
            heads[place] = _cut_heading(rest, width)
    alike = Counter(heads)
    return [head if alike[head] == 1 else elide(rest, width) for head, rest in zip(heads, rests, strict=True)]


def _cut_heading(name: str, width: int) -> str:
    """The beginning of a name; an ellipsis says that there is more where a cell can be spared for it."""
    if cell_width(name) <= width or width < _LEAST:
        return beginning(name, width)
    return beginning(name, width - 1) + "…"


def _without_common_words(names: Sequence[str]) -> list[str]:
    both = _common(min(names), max(names)) if len(names) > 1 else ""
    start = max((place + 1 for place, sign in enumerate(both) if sign in "_-. /:@"), default=0)
    return [name[start:] or name for name in names]


_ALIKE = {
    "-": "–−─╌┄┈▁▔□",
    "[": "⟦",
    "]": "⟧",
    "|": "│╎┆┊▌▍▎▏▐▕",
    "+": "┌┐└┘├┤┬┴┼╭╮╯╰",
    "#": "█▇▉▊▋▆▄▅▀▗▖▝▘▛▜▙▟■▰┃╏║┏┓┗┛╔╗╚╝",
    ".": "·░▱▂▃",
    ":": "▒",
    "%": "▓◐",
    "/": "╱⏎",
    "\\": "╲",
    "~": "…⋯",
    "*": "•●◆▪★",
    "o": "○◌◇°",
    ">": "→▸▶»›↳",
    "<": "←◂◀«‹",
    "^": "↑▲▴",
    "v": "↓▼▾✓",
    "x": "×✗",
    "=": "‖━╍═",
    "!": "⚑⚠✎",
    '"': "“”„",
    "'": "‘’",
    " ": "\u00a0",
}
ASCII: Mapping[str, str] = {sign: plain for plain, signs in _ALIKE.items() for sign in signs}
"""The ASCII replacement of each character that we draw, of the same width."""
UNKNOWN = "?"


def in_ascii(text: str) -> str:
    """A text of ASCII alone, as many cells wide: what has no sign there is a question mark for each of its cells."""
    if text.isascii():
        return text
    # Imported when needed: its tables would delay the first frame.
    from wcwidth import iter_graphemes

    return "".join(
        sign if sign.isascii() else ASCII.get(sign) or UNKNOWN * cell_width(sign) for sign in iter_graphemes(text)
    )


def unambiguous(text: str) -> str:
    """A text without the signs that a terminal of East Asia may draw twice as wide as we count them."""
    if text.isascii():
        return text
    return "".join(
        UNKNOWN if (sign := ASCII.get(character, character)) > "~" and _is_ambiguous(sign) else sign
        for character in text
    )


def _is_ambiguous(sign: str) -> bool:
    return east_asian_width(sign) == "A" and cell_width(sign) == 1
