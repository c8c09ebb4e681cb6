"""An SVG of a terminal without what nobody sees: fewer bytes, nothing fetched from elsewhere, a line for each line."""

from __future__ import annotations

import re

_ID = re.compile(r"terminal-\d+")
_FONT = re.compile(r"\n    @font-face \{.*?\n    \}", re.DOTALL)
_CLIPS = re.compile(r'<clipPath id="tui-line-\d+">.*?</clipPath>\s*', re.DOTALL)
_CLIP = re.compile(r' clip-path="url\(#tui-line-\d+\)"')
_NOTHING = re.compile(r"<text [^>]*>\n</text>")
_CRISP = 'shape-rendering="crispEdges"/>'
_RECT = r'<rect fill="(#\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" ' + _CRISP
_RECTS = re.compile(f"(?:{_RECT})+")


def slim(svg: str) -> str:
    """The same picture: an id that does not change with what it shows, no fonts of the web, no cell painted twice."""
    svg = _FONT.sub("", _ID.sub("tui", svg))
    svg = _NOTHING.sub("\n", _CLIP.sub("", _CLIPS.sub("", svg)))
    return _RECTS.sub(lambda found: "\n".join(_painted(found[0])), svg)


def _painted(rects: str) -> list[str]:
    """Neighbours of one colour as one rectangle."""
    painted: list[tuple[str, float, float, str, str]] = []
    for fill, left, y, width, height in re.findall(_RECT, rects):
        start, end = float(left), float(left) + float(width)
        if painted and (fill, y, height) == (painted[-1][0], *painted[-1][3:]) and start - painted[-1][2] < 1:
            start = painted.pop()[1]
        painted.append((fill, start, end, y, height))
    return [
        f'<rect fill="{fill}" x="{start:g}" y="{y}" width="{end - start:g}" height="{height}" {_CRISP}'
        for fill, start, end, y, height in painted
    ]
