"""What becomes of a line on its way to a terminal that knows no colours, or not all signs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from tui_evals.present.glyphs import in_ascii, unambiguous

from .looks import Signs


class WithoutColour(LineFilter):
    """Leaves bold, dim, underline and reverse, and no colour, not even that of the terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without colours."""
        return [Segment(text, style and _colourless(style), control) for text, style, control in segments]


@lru_cache(1024)
def _colourless(style: Style) -> Style:
    return style.without_color


class InSigns(LineFilter):
    """Draws each text in signs that the terminal has, as wide as it was."""

    def __init__(self, translate: Callable[[str], str]) -> None:
        super().__init__()
        self._translate = translate

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments in other signs."""
        return [
            segment if segment.text.isascii() else Segment(self._drawn(segment.text), segment.style, segment.control)
            for segment in segments
        ]

    def _drawn(self, text: str) -> str:
        translated = self._translate(text)
        width = cell_len(text)
        return translated if cell_len(translated) == width else set_cell_size(translated, width)


WITHOUT_COLOUR = WithoutColour()
IN_SIGNS: Mapping[Signs, InSigns] = {"narrow": InSigns(unambiguous), "ascii": InSigns(in_ascii)}
