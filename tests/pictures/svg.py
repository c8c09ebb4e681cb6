"""An SVG of a terminal without what nobody sees: fewer bytes, nothing fetched from elsewhere, a line for each line."""

from __future__ import annotations

import re
from itertools import groupby

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
    lines = []
    for (fill, y, height), group in groupby(re.findall(_RECT, rects), key=lambda rect: (rect[0], rect[2], rect[4])):
        cells = list(group)
        start, end = float(cells[0][1]), float(cells[-1][1]) + float(cells[-1][3])
        lines.append(f'<rect fill="{fill}" x="{start:g}" y="{y}" width="{end - start:g}" height="{height}" {_CRISP}')
    return lines
