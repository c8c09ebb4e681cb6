"""The pictures that go along with a question, drawn in cells: two points of color in each, one above the other."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.strip import Strip
from textual.widget import Widget

from tui_evals.datasets.attachments import CannotAttach, digest, media_type, read_attachment
from tui_evals.text.chats import attachment_text
from tui_evals.tui.drawing import InSigns
from tui_evals.tui.pane import Pane
from tui_evals.tui.widgets.dialogs import Dialog

if TYPE_CHECKING:
    from PIL import Image

NO_PICTURE = "no picture goes along here; `attachments` names those that do"
_LARGEST = 50_000_000
"""Points of a picture that is still drawn; a small file may claim to hold any number."""
_KEPT = 400
"""Points of a side that are kept to be drawn at any size, more than a terminal shows."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


class CannotDraw(ValueError):
    """A picture cannot be drawn; the sentence says why."""


async def show_pictures(pane: Pane, folder: Path | None, files: Sequence[Mapping[str, Any]]) -> None:
    """Show the pictures that are named, one at a time."""
    if folder is None:
        pane.say("where the files of this run lay is not known here", "warn")
    elif pane.app.no_color:
        pane.say("pictures are drawn in colors, and NO_COLOR asks for none", "warn")
    else:
        await pane.app.push_screen_wait(PicturePage(folder, files))


class Picture(Widget):
    """A picture, as large as there is room."""

    def __init__(self) -> None:
        super().__init__()
        # If half blocks may be drawn wide or not at all, each point is a colored blank.
        self._points = 1 if any(isinstance(one, InSigns) for one in self.app.get_line_filters()) else 2
        self._image: Image.Image | None = None
        self._drawn: tuple[object, list[Strip]] = (None, [])

    def show(self, image: Image.Image | None) -> None:
        """Draw another one, or none."""
        self._image = image
        self.refresh()

    def render_line(self, y: int) -> Strip:
        ground = self.background_colors[1]
        key = (id(self._image), self.size, ground)
        if self._drawn[0] != key:
            self._drawn = (key, [] if self._image is None else self._strips(self._image, ground))
        blank = Style(bgcolor=ground.rich_color)
        lines = self._drawn[1]
        y -= (self.size.height - len(lines)) // 2
        line = lines[y] if 0 <= y < len(lines) else Strip([])
        before = (self.size.width - line.cell_length) // 2
        return Strip([Segment(" " * before, blank), *line]).adjust_cell_length(self.size.width, blank)

    def _strips(self, image: Image.Image, ground: Color) -> list[Strip]:
        across, down = self.size.width * 2 // self._points, self.size.height * 2
        scale = min(across / image.width, down / image.height)
        width = max(1, round(image.width * scale * self._points / 2))
        height = max(1, round(image.height * scale * self._points / 2))
        small = image.resize((width, height + height % self._points))
        whole = small.copy()
        whole.paste(ground.rgb, (0, 0, *small.size))
        whole.paste(small, (0, 0), small)
        data = whole.convert("RGB").tobytes()
        points = list(zip(data[::3], data[1::3], data[2::3], strict=True))
        rows = [points[start : start + width] for start in range(0, len(points), width)]
        if self._points == 1:
            return [Strip([Segment(" ", _style(point, point)) for point in row]) for row in rows]
        pairs = zip(rows[::2], rows[1::2], strict=True)
        return [Strip([Segment("▀", _style(*both)) for both in zip(*pair, strict=True)]) for pair in pairs]


def _style(upper: tuple[int, int, int], lower: tuple[int, int, int]) -> Style:
    return Style(color=Color(*upper).rich_color, bgcolor=Color(*lower).rich_color)


class PicturePage(Dialog[None]):
    """Shows one picture of several with its details."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,n,space", "turn(1)", "next", show=False),
        Binding("left,h,N", "turn(-1)", "before", show=False),
        Binding("q", "leave", "back", show=False),
    ]

    def __init__(self, folder: Path, files: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("pictures" if len(files) > 1 else "picture", "esc back")
        self._folder = folder
        self._files = files
        self._at = 0

    def body(self) -> list[Widget]:
        return [Picture()]

    def on_mount(self) -> None:
        self._show()

    def action_turn(self, by: int) -> None:
        """Another one."""
        if len(self._files) > 1:
            self._at = (self._at + by) % len(self._files)
            self._show()

    def _show(self) -> None:
        self.run_worker(self._draw(self._files[self._at]), exclusive=True, exit_on_error=False)

    async def _draw(self, file: Mapping[str, Any]) -> None:
        others = f"{self._at + 1} of {len(self._files)} · ← → others · " if len(self._files) > 1 else ""
        try:
            image, words = await asyncio.to_thread(read_picture, self._folder, file)
        except (CannotAttach, CannotDraw) as problem:
            self.query_one(Picture).show(None)
            self.say(f"{problem} · {others}esc back")
            return
        self.query_one(Picture).show(image)
        self.say(f"{words} · {others}esc back", wrong=False)


def read_picture(folder: Path, file: Mapping[str, Any]) -> tuple[Image.Image, str]:
    """A downscaled picture and its details; raises CannotAttach or CannotDraw."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise CannotDraw("pictures are read by the library Pillow: pip install 'tui-evals[pictures]'") from None
    Image.MAX_IMAGE_PIXELS = None  # its warning would overwrite the screen; large pictures are refused below
    name = str(file["path"])
    content = read_attachment(folder, name)
    kind = media_type(name, content)
    try:
        image = Image.open(io.BytesIO(content), formats=_FORMATS)
        size = image.size
        image.draft("RGB", (_KEPT, _KEPT))  # of a JPEG only as much is read as will be drawn
        if image.width * image.height > _LARGEST:
            raise CannotDraw(f"{name!r} has {size[0]:,} × {size[1]:,} points, which are too many to be drawn")
        kept = ImageOps.exif_transpose(image).convert("RGBA")
        kept.thumbnail((_KEPT, _KEPT))
    except CannotDraw:
        raise
    except Exception as problem:  # decoders can raise anything for a broken file
        why = "it is broken" if isinstance(problem, UnidentifiedImageError) else problem
        raise CannotDraw(f"{name!r} cannot be read as a picture: {why}") from None
    about = attachment_text({"path": name, "media_type": kind, "size": len(content)})
    words = f"{about} {size[0]:,} × {size[1]:,}"
    if file.get("sha256", digest(content)) != (now := digest(content)):
        words += f" · another file now ({now[:8]}) than the one that was sent"
    return kept, words
