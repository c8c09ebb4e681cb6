"""Our signs in ASCII: for terminals that have no others, and for those that draw some of them two cells wide."""

from __future__ import annotations

from collections.abc import Mapping
from unicodedata import east_asian_width

from .columns import cell_width

_ALIKE = {
    "-": "–─╌┄┈▁▔□",
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
"""Each sign that we draw, and the one of ASCII that stands for it: as wide, so that nothing moves."""
UNKNOWN = "?"


def in_ascii(text: str) -> str:
    """A text of ASCII alone, as many cells wide: what has no sign there is a question mark for each of its cells."""
    if text.isascii():
        return text
    # Imported when it is wanted: its tables would hold up every first picture.
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
