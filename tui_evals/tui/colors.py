"""Colors that can be read: the stylesheet's variables, derived from a theme with a floor for every contrast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.color import ColorSystem
from textual.color import BLACK, WHITE, Color
from textual.theme import Theme

TEXT = 4.5
"""The minimum contrast between text and its background."""
CALM = 5.8
"""The contrast of secondary text where possible, so that it differs from disabled items."""
SHAPE = 3.0
"""The least contrast of a border, a scrollbar or a cursor with its surroundings."""

DARK = Theme(
    name="calm-dark",
    primary="#8ab4f8",
    accent="#8ab4f8",
    foreground="#d8dce2",
    background="#14171c",
    surface="#1c2027",
    panel="#262b33",
    variables={"block-cursor-background": "#3b70c9"},
)
LIGHT = Theme(
    name="calm-light",
    primary="#1f5fbf",
    accent="#1f5fbf",
    foreground="#23272e",
    background="#fbfbf9",
    surface="#f1f2f0",
    panel="#e5e7e6",
    dark=False,
    variables={"block-cursor-background": "#1f5fbf"},
)

_MEANINGS = {"success": Color.parse("#4f9cf0"), "error": Color.parse("#ee7430"), "warning": Color.parse("#dcb53c")}
"""Colors of all themes, distinguishable without telling red from green."""
_RESTING = ("block-cursor-blurred", "input-selection", "screen-selection")
_TROUGHS = (
    "scrollbar-background",
    "scrollbar-background-hover",
    "scrollbar-background-active",
    "scrollbar-corner-color",
)
_TINT, _RAISED, _DIM, _FAINT, _EDGE = 0.12, 0.05, 0.7, 0.5, 0.35
"""How far each color is mixed from the background towards another color."""
_STEP = 0.02


def contrast(one: Color, other: Color) -> float:
    """The contrast of two opaque colors as WCAG 2 defines it, from 1 to 21."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Color) -> float:
    parts = (part / 255 for part in colour.rgb)
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def in_256(colour: Color) -> Color:
    """The color that a terminal with 256 of them shows for one."""
    return Color.from_rich_color(colour.rich_color.downgrade(ColorSystem.EIGHT_BIT))


def readable(theme: Theme, only_256: bool = False) -> dict[str, str]:
    """The variables of a theme: each color moved in lightness until it can be read where it is used.

    Where the terminal has 256 colors only, those that come nearest must be readable.
    """
    given = theme.to_color_system().generate() | theme.variables
    if theme.ansi:
        return given | _of_16(theme)
    return given | _Palette(given, in_256 if only_256 else _as_it_is).variables()


def _as_it_is(colour: Color) -> Color:
    return colour


class _Palette:
    """The colors of a theme, and those derived from them as a terminal shows them."""

    def __init__(self, given: Mapping[str, str], shown: Callable[[Color], Color]) -> None:
        self._given = given
        self._shown = shown
        self._background, self._surface = self._named("background"), self._named("surface")
        self._away = max((WHITE, BLACK), key=lambda end: contrast(end, self._background))
        self._fields = (self._background, self._surface)
        self._boost = self._away.with_alpha(_RAISED)
        self._tints = {f"{name}-muted": self._background.blend(colour, _TINT) for name, colour in _MEANINGS.items()}
        self._grounds = (*self._fields, *(field + self._boost for field in self._fields), *self._tints.values())

    def variables(self) -> dict[str, str]:
        """The CSS variables that differ from those of the theme."""
        ink = self._text(self._named("foreground"))
        inks = (self._background, ink, BLACK, WHITE)
        edge = self._standing_out(self._mixed(ink, _EDGE), self._fields, SHAPE)
        accent = self._text(self._named("accent"))
        cursor, cursor_ink = self._bar(self._named("block-cursor-background").with_alpha(1), inks)
        resting, resting_ink = self._bar(edge, inks)
        colours = {
            **self._tints,
            **{f"{kind}{name}": self._text(colour) for name, colour in _MEANINGS.items() for kind in ("", "text-")},
            **dict.fromkeys(("primary", "text-primary"), self._text(self._named("primary"))),
            **dict.fromkeys(("accent", "text-accent", "border", "scrollbar-hover", "scrollbar-active"), accent),
            **dict.fromkeys(("foreground", "text", "input-cursor-background"), ink),
            **dict.fromkeys(("text-muted", "foreground-muted"), self._text(self._mixed(ink, _DIM), CALM)),
            **dict.fromkeys(("text-disabled", "foreground-disabled"), self._text(self._mixed(ink, _FAINT))),
            **dict.fromkeys(("border-blurred", "scrollbar"), edge),
            **dict.fromkeys(_TROUGHS, self._background),
            "boost": self._boost,
            "input-cursor-foreground": self._background,
            "block-cursor-background": cursor,
            "block-cursor-foreground": cursor_ink,
            **{f"{name}-background": resting for name in _RESTING},
            **{f"{name}-foreground": resting_ink for name in _RESTING},
        }
        return {name: colour.hex for name, colour in colours.items()}

    def _named(self, name: str) -> Color:
        return Color.parse(self._given[name])

    def _mixed(self, ink: Color, share: float) -> Color:
        return self._background.blend(ink, share)

    def _contrast(self, colour: Color, grounds: Iterable[Color]) -> float:
        return min(contrast(self._shown(colour), self._shown(ground)) for ground in grounds)

    def _shades(self, colour: Color) -> Iterator[Color]:
        """A color, then lighter or darker shades of it up to white or black."""
        step = _STEP if self._away == WHITE else -_STEP
        for number in range(int(1 / _STEP)):
            yield colour.lighten(number * step).clamped
        yield self._away

    def _text(self, colour: Color, floor: float = TEXT) -> Color:
        return self._standing_out(colour, self._grounds, floor)

    def _standing_out(self, colour: Color, grounds: Sequence[Color], floor: float) -> Color:
        """The nearest shade of a color that has the contrast with all grounds."""
        return next((shade for shade in self._shades(colour) if self._contrast(shade, grounds) >= floor), self._away)

    def _bar(self, colour: Color, inks: Sequence[Color]) -> tuple[Color, Color]:
        """A background for a row that contrasts with its surroundings, and the first ink that is readable on it."""
        for shade in self._shades(colour):
            if self._contrast(shade, self._fields) >= SHAPE:
                ink = next((ink for ink in inks if self._contrast(ink, (shade,)) >= TEXT), None)
                if ink is not None:
                    return shade, ink
        return self._away, self._background


def _of_16(theme: Theme) -> dict[str, str]:
    """The 16 terminal colors that should be readable on the terminal's own background."""
    bright = "bright_" if theme.dark else ""
    meanings = {
        "success": f"ansi_{bright}{'cyan' if theme.dark else 'blue'}",
        "error": f"ansi_{bright}red",
        "warning": f"ansi_{bright}{'yellow' if theme.dark else 'magenta'}",
    }
    return {
        **meanings,
        **{f"text-{name}": colour for name, colour in meanings.items()},
        # A tint would be the full color and hide the words on it; the signs + - ~ say the same.
        **dict.fromkeys((f"{name}-muted" for name in meanings), "ansi_default"),
        **dict.fromkeys(("primary", "text-primary"), f"ansi_{bright}blue"),
        **dict.fromkeys(("text-muted", "foreground-muted", *_TROUGHS), "ansi_default"),
        **dict.fromkeys(("border-blurred", "scrollbar", "text-disabled", "foreground-disabled"), "ansi_bright_black"),
    }
