"""A recorded session: pictures of the workbench as one animated SVG, which needs no script and loads nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tests.pictures.camera import Shot, take_scenes

_RULE = re.compile(r"\.tui-(r\d+) \{ (.*?) \}")
_TITLE = re.compile(r'(<text class="tui-title".*?>).*?(</text>)')
_SCREEN = re.compile(
    r'(<g transform="translate\(9, 41\)" clip-path="url\(#tui-clip-terminal\)">)(.*)(</g>\s*</svg>)', re.DOTALL
)


@dataclass(frozen=True)
class Scene:
    """Keys to press, then a picture that stays for some seconds under a caption."""

    caption: str
    steps: tuple[str, ...] = ()
    seconds: float = 3.0


@dataclass(frozen=True)
class Reel:
    """Scenes of one session, in a terminal of one size."""

    size: tuple[int, int]
    scenes: tuple[Scene, ...]

    async def record(self, base: Path, folder: Path) -> str:
        """Play the session on the sample project and return it as an animated SVG."""
        pictures = await take_scenes(Shot(self.size), [scene.steps for scene in self.scenes], base, folder)
        return _joined(pictures, self.scenes)


def _joined(pictures: Sequence[str], scenes: Sequence[Scene]) -> str:
    """The window of the first picture around the screens of all, of which one is visible at a time."""
    classes: dict[str, str] = {}
    groups, total = [], sum(scene.seconds for scene in scenes)
    timing, began = [], 0.0
    for number, (picture, scene) in enumerate(zip(pictures, scenes, strict=True)):
        names = {name: classes.setdefault(rule, f"tui-c{len(classes)}") for name, rule in _RULE.findall(picture)}
        title = _TITLE.search(picture)
        screen = _SCREEN.search(picture)
        assert title and screen, "rich draws its windows differently now"
        shown = re.sub(r"tui-(r\d+)", lambda found, names=names: names[found[1]], screen[1] + screen[2] + "</g>")
        groups.append(f'<g class="scene s{number}">\n{title[1]}{escape(scene.caption)}{title[2]}\n{shown}\n</g>')
        frames = {0.0: "hidden", (began + scene.seconds) / total: "hidden", began / total: "visible"}
        shows = " ".join(f"{at:.3%} {{ visibility: {how} }}" for at, how in sorted(frames.items()))
        timing.append(f".s{number} {{ animation-name: s{number} }}\n@keyframes s{number} {{ {shows} }}")
        began += scene.seconds
    rules = [f".{name} {{ {rule} }}" for rule, name in classes.items()]
    rules += [f".scene {{ visibility: hidden; animation: {total:g}s step-end infinite }}", *timing]
    rules.append("@media (prefers-reduced-motion: reduce) { .scene { animation: none } .s0 { visibility: visible } }")
    frame = _SCREEN.sub(lambda _: "\n".join(groups) + "\n</svg>", _TITLE.sub("", pictures[0]))
    first, last = (list(_RULE.finditer(frame))[at] for at in (0, -1))
    return frame[: first.start()] + "\n".join(rules) + frame[last.end() :]
