"""The one list and viewer: rows drawn when they come into view, with a cursor and a search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.binding import Binding, BindingType
from textual.css.styles import RenderStyles
from textual.dom import DOMNode
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from tui_evals.text.safe import safe_line
from tui_evals.tui.messages import DoStep, StatusMessage
from tui_evals.tui.rows import Ground, Piece, Row, RowMaker, Rows, Step, rows_with_text
from tui_evals.tui.widgets.inputs import HOLDS_KEYS, LineInput, give_keys

_KEPT = 400
"""Drawn lines kept, some screens' worth."""


_MOVING = (
    Binding("up,k", "step(-1)", "up", show=False),
    Binding("down,j", "step(1)", "down", show=False),
    Binding("pageup,ctrl+u", "page(-1)", "page up", show=False),
    Binding("pagedown,ctrl+d", "page(1)", "page down", show=False),
)
MOVES = frozenset(key for binding in _MOVING for key in binding.key.split(","))
"""The keys that are held down."""
SEARCHING = (
    Binding("slash", "search", "search", show=False),
    Binding("n", "to_next(1)", "next", show=False),
    Binding("N", "to_next(-1)", "before", show=False),
    Binding("escape", "end_search", "end", show=False),
)
"""n, N and escape belong to the search while there is one, and to the place of the list otherwise."""


class Lines(ScrollView, can_focus=True):
    """Rows made for the present width by a maker; with `choosing`, a cursor moves over the rows that have a key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_MOVING,
        Binding("home,g", "edge(-1)", "top", show=False),
        Binding("end,G", "edge(1)", "bottom", show=False),
        Binding("enter", "choose", "choose", show=False),
        *SEARCHING,
    ]

    cursor: var[int] = var(0)

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, lines: Lines, key: Hashable) -> None:
            super().__init__()
            self.lines = lines
            self.key = key

        @property
        def control(self) -> Lines:
            """The widget the message comes from."""
            return self.lines

        def can_replace(self, message: Message) -> bool:
            """Only the latest position matters."""
            return isinstance(message, Lines.Moved) and message.lines is self.lines

    class Chosen(Message):
        """Enter was pressed on a row."""

        def __init__(self, lines: Lines, key: Hashable) -> None:
            super().__init__()
            self.lines = lines
            self.key = key

        @property
        def control(self) -> Lines:
            """The widget the message comes from."""
            return self.lines

    def __init__(
        self,
        *,
        choosing: bool = True,
        searching: bool = True,
        by_height: bool = False,
        quiet: bool = False,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """With `by_height`, rows are remade when the height changes. With `quiet`, the cursor is only shown while
        focused.
        """
        super().__init__(id=id, classes=classes)
        self.set_reactive(Widget.show_vertical_scrollbar, True)
        self._by_height = by_height
        self._made_height = 0
        self._measured_height = 0
        self._quiet = quiet
        self.beyond: Callable[[int], None] | None = None
        """Called when the cursor moves above the first row (-1) or below the last (1), before the next key."""
        self._choosing = choosing
        self._searching = searching
        """Whether / searches the rows; elsewhere it filters them, or is a letter of a dialog."""
        self.filtered = False
        """Whether only rows are listed that were searched for, so that n goes to the next one."""
        self._search: SearchLine | None = None
        self._maker: RowMaker = lambda width: ()
        self._rows: Rows = ()
        self._width = 0
        self._target_key: Hashable = None
        self._search_text = ""
        self._row = lru_cache(maxsize=_KEPT)(self._row_made)
        """The rows by their numbers, as long as they stay: a key asks for the one under the cursor many times."""
        self._strip = lru_cache(maxsize=_KEPT)(self._row_drawn)
        """The lines by their numbers, as long as the rows stay."""
        self._drawn = lru_cache(maxsize=_KEPT)(self._draw)
        self._styles_by_name = lru_cache(maxsize=None)(self._style)
        """The styles by their names, which take long to find, until a theme or the focus changes them."""
        self._plain: RichStyle | None = None
        """The style of a text without one, which takes long to find."""
        self._seen: dict[int, Strip] = {}
        """The lines of the screen as last drawn."""

    # -- content

    def show(self, maker: RowMaker, *, at: Hashable = None) -> None:
        """Show these rows; the cursor goes to the row with the key `at`, else stays on the key it is on."""
        self._target_key = self.key if at is None else at
        self._maker = maker
        if self._text_width:
            self._make()
        else:
            self._width = 0  # hidden now: the rows are made for the same width when it is shown again

    @property
    def rows(self) -> Rows:
        """The current rows."""
        return self._rows

    @property
    def key(self) -> Hashable:
        """The key of the row under the cursor, or of the one it will be on once the rows are made."""
        if self._target_key is not None:
            return self._target_key
        return self._row(self.cursor).key if 0 <= self.cursor < len(self._rows) else None

    def _row_made(self, number: int) -> Row:
        return self._rows[number]

    def refresh_rows(self, numbers: Iterable[int]) -> None:
        """Redraw rows whose content in the lazy sequence changed, including those out of view."""
        changed = set(numbers)
        if changed:
            self._row.cache_clear()
            self._strip.cache_clear()
        for number in changed.intersection(range(self.scroll_offset.y, self.scroll_offset.y + self.size.height)):
            self.refresh_line(number)

    def to_key(self, key: Hashable) -> None:
        """Move the cursor to the row with a key, if it exists; while hidden, after the rows are made."""
        if not self._width:
            self._target_key = key
            return
        number = self._number_of(key)
        if number is not None:
            self.to_row(number)

    def to_row(self, number: int) -> None:
        """Put the cursor on a row and bring it into view."""
        self.cursor = number
        self._into_view(number)

    def reveal(self) -> None:
        """Bring the row of the cursor into view with those below that continue with it: they have no key."""
        start = stop = self.cursor
        while stop + 1 < len(self._rows) and self._rows[stop + 1].key is None:
            stop += 1
        room, top = self.size.height, self.scroll_offset.y
        height = min(stop - start + 1, room)
        if height and not top <= start <= top + room - height:
            self.scroll_to(y=start if start < top else start + height - room, animate=False)

    def mark(self, text: str) -> None:
        """Highlight a text wherever it occurs."""
        self._search_text = text.casefold()
        self._strip.cache_clear()
        self.refresh()

    # -- searching

    @property
    def searched_text(self) -> str:
        """The current search text."""
        return self._search.value if self._search is not None else ""

    @property
    def search_keys(self) -> frozenset[str]:
        """The keys for the next and previous match, during a search."""
        return frozenset(("n", "N")) if self.filtered or self.searched_text else frozenset()

    @property
    def view(self) -> range:
        """The rows that belong to the cursor; without one, those in sight."""
        top = self.scroll_offset.y
        return self._of_row(self.cursor) if self._choosing else range(top, top + self.size.height)

    def _of_row(self, number: int) -> range:
        """A row that can be chosen, and those behind it that say more about it."""
        end = number + 1
        while end < len(self._rows) and self._rows[end].key is None:
            end += 1
        return range(number, end)

    def to_match(self, number: int) -> None:
        """Bring a row into sight, and the cursor to it or to the row it says more about."""
        if not self._choosing:
            self.scroll_to(y=max(number - 1, 0), animate=False)
            return
        above = (one for one in range(number, -1, -1) if self._rows[one].key is not None)
        self.cursor = next(above, self._nearest(number))
        self._into_view(number)
        # After the list's own cursor handling, which may scroll to the start of the row.
        self.call_after_refresh(self._into_view, number)

    def take_keys(self) -> None:
        """The keys belong to the rows."""
        give_keys(self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of a search that is closed are handled elsewhere."""
        if action == "search":
            return self._searching
        if action == "to_next":
            return bool(self.search_keys)
        return bool(self.searched_text) if action == "end_search" else super().check_action(action, parameters)

    async def action_search(self) -> None:
        """Type what to find."""
        if self._search is None:
            self._search = SearchLine(self)
            assert isinstance(self.parent, Widget)
            await self.parent.mount(self._search, after=self)
        self._search.begin()

    def action_to_next(self, way: int) -> None:
        """The next row that was searched for, or the one before."""
        if self._search is not None and self.searched_text:
            self._search.go(way)
        else:
            self.step(way)

    def action_end_search(self) -> None:
        """End the search."""
        self.end_search()

    def end_search(self) -> bool:
        """End the search; False if there was none."""
        return self._search is not None and self._search.end()

    # -- drawing

    @property
    def _text_width(self) -> int:
        return self.scrollable_content_region.width

    def on_resize(self, event: events.Resize) -> None:
        """Rows are made for a width, so another width needs other rows; the cursor stays visible."""
        self._fit()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Some lines of the screen, in rows that fit though the size is unknown: not yet at the first picture, and
        never where Textual finds another size while it places what has come into sight elsewhere.
        """
        self._fit()
        if self.styles.gutter:
            return super().render_lines(crop)
        # Without a frame nothing is added to the lines; Textual would look up forty styles for each.
        strips = [self.render_line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for one in self.get_line_filters():
            strips = [strip.apply_filter(one, background) for strip in strips]
        whole = crop.column_span == (0, self.size.width)
        return strips if whole else [strip.crop(*crop.column_span) for strip in strips]

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        """If all rows were visible they stay so if possible: no temporary scrollbar while resizing."""
        if 0 < self._container_size.height == self.virtual_size.height and not self.styles.is_auto_height:
            least = 0 if self._by_height else len(self._rows)
            self.set_reactive(Widget.virtual_size, self.virtual_size.with_height(max(container_size.height, least)))
        return super()._size_updated(size, virtual_size, container_size, layout)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """An automatic height fits the rows at the first layout too, before they are made for the screen."""
        return super().get_content_height(container, viewport, width) if self._width else len(self._maker(width))

    def _fit(self) -> None:
        if self._text_width != self._width or (self._by_height and self.size.height != self._made_height):
            self._target_key = self.key if self._target_key is None else self._target_key
            self._make()
        elif self.size.height != self._measured_height:
            self._measure()
            if self._choosing:
                self.call_after_refresh(self._into_view, self.cursor)

    def _measure(self) -> None:
        """Set the virtual size, which is at least the visible size."""
        count, self._measured_height = len(self._rows), self.size.height
        size = Size(self._width, max(count, 0 if self.styles.is_auto_height else self.size.height))
        if self.styles.is_auto_height:
            self.virtual_size = size
            self._layout_updates += 1  # while a layout is due already, Textual keeps the height it found before
        else:
            self.set_reactive(Widget.virtual_size, size)
            self.scroll_y = min(self.scroll_y, self.max_scroll_y)
        # Textual only updates this when it detects a change of size itself.
        self.vertical_scrollbar.window_virtual_size = size.height

    def _arrange_scrollbars(self, region: Region) -> Iterable[tuple[Widget, Region]]:
        """The scrollbar knows its size before Textual tells it, who would lay out all a second time."""
        for bar, place in super()._arrange_scrollbars(region):
            bar.set_reactive(Widget.virtual_size, region.size)
            yield bar, place

    def _refresh_scrollbars(self) -> None:
        """The scrollbar is always there, so that rows that come or go change no other layout."""

    def _make(self) -> None:
        self._width, self._made_height = self._text_width, self.size.height
        before = self.key if self._target_key is None else self._target_key
        old = self.cursor
        self._rows = self._maker(self._width)
        self._target_key = None
        self._row.cache_clear()
        self._strip.cache_clear()
        self._measure()
        if self._choosing and self._rows:
            number = None if before is None else self._number_of(before)
            self.cursor = self._nearest(min(old, len(self._rows) - 1)) if number is None else number
            self.call_after_refresh(self._into_view, self.cursor)
            if self.key != before:
                self.post_message(self.Moved(self, self.key))
        self._draw_changed()
        if self._search is not None:
            self._search.again()

    def _draw_changed(self) -> None:
        """Draw only the lines that look different, to send fewer bytes."""
        top = self.scroll_offset.y
        for y in range(self.size.height):
            if self._look(top + y) != self._seen.get(y):
                self.refresh_line(top + y)

    def _number_of(self, key: Hashable) -> int | None:
        finder = getattr(self._rows, "find", None)
        if finder is not None:
            number: int | None = finder(key)
            return number
        return next((number for number, row in enumerate(self._rows) if row.key == key), None)

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        strip = self._seen[y] = self._look(self.scroll_offset.y + y)
        return strip

    def _look(self, number: int) -> Strip:
        lit = self._choosing and number == self.cursor and (self.has_focus or not self._quiet)
        return self._strip(number, lit, lit and self.has_focus)

    def _row_drawn(self, number: int, lit: bool, focused: bool) -> Strip:
        if not 0 <= number < len(self._rows):
            return Strip.blank(self.size.width, self._base)
        row = self._row(number)
        return self._drawn(row.pieces, row.ground, lit, focused, self._width, self.size.width, self._search_text)

    @property
    def _base(self) -> RichStyle:
        self._plain = self._plain or self.rich_style
        return self._plain

    def _draw(
        self, pieces: tuple[Piece, ...], ground: Ground, lit: bool, focused: bool, room: int, width: int, sought: str
    ) -> Strip:
        """A line of these pieces; drawn lines are cached, because most edits leave most rows unchanged."""
        base = self._base
        if ground:
            base += self._styles_by_name(f"ground-{ground}")
        if lit:
            base += self._styles_by_name(f"cursor{'' if focused else '-blurred'}")
        # At the cursor text takes the cursor's color, because its own may equal the cursor's background.
        over = RichStyle(color=base.color, bgcolor=base.bgcolor, dim=False) if lit else RichStyle.null()
        segments = [
            Segment(safe_line(text), base + self._styles_by_name(style) + over if style else base)
            for text, style in pieces
            if text
        ]
        if sought:
            segments = list(self._marked(segments))
        return Strip(segments).adjust_cell_length(room, base).extend_cell_length(width, base)

    def _style(self, name: str) -> RichStyle:
        """A style with its colors blended over the background, because terminals have no transparency."""
        own = self.get_component_rich_style(f"lines--{name}", partial=True)
        whole = self.get_component_rich_style(f"lines--{name}")
        return own + RichStyle(color=own.color and whole.color, bgcolor=own.bgcolor and whole.bgcolor)

    def get_component_styles(self, *names: str) -> RenderStyles:
        """The style rules of a component, looked up when first drawn. Textual would look up all of them for every list
        on each change of focus, although most are never drawn.
        """
        for name in names:
            if name not in self._component_styles:
                part = DOMNode(classes=name)
                part._attach(self)
                self.app.stylesheet.apply(part, animate=False)
                self._component_styles[name] = part.styles
        return super().get_component_styles(*names)

    def _marked(self, segments: list[Segment]) -> Iterable[Segment]:
        """The segments with the text that was searched standing out, within each of them."""
        mark = self._styles_by_name("found")
        for text, style, _ in segments:
            start = 0
            low = text.casefold()
            if len(low) == len(text):
                while (at := low.find(self._search_text, start)) >= 0:
                    yield Segment(text[start:at], style)
                    start = at + len(self._search_text)
                    yield Segment(text[at:start], (style or RichStyle.null()) + mark)
            yield Segment(text[start:], style)

    def notify_style_update(self) -> None:
        """Another theme needs every line drawn again."""
        super().notify_style_update()
        self._component_styles.clear()
        for cache in (self._strip, self._drawn, self._styles_by_name):
            cache.cache_clear()
        self._plain = None

    # -- moving

    @property
    def allow_vertical_scroll(self) -> bool:
        """Whether there is more than the screen shows."""
        return self.is_scrollable and not self.disabled and bool(self.size.height) and self.max_scroll_y > 0

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two rows concerned and tell who listens."""
        if self._choosing and old != new:
            self.refresh_line(old)
            self.refresh_line(new)
            self.post_message(self.Moved(self, self.key))

    def validate_cursor(self, number: int) -> int:
        """Keep it on a row."""
        return max(0, min(number, len(self._rows) - 1)) if len(self._rows) else 0

    def on_focus(self) -> None:
        self.refresh_line(self.cursor)

    def on_blur(self) -> None:
        self.refresh_line(self.cursor)

    def _nearest(self, number: int) -> int:
        """The row with a key nearest to a number."""
        count = len(self._rows)
        for distance in range(count):
            for candidate in (number + distance, number - distance):
                if 0 <= candidate < count and self._rows[candidate].key is not None:
                    return candidate
        return number

    def _into_view(self, number: int) -> None:
        if not self.size.height:
            return
        self.scroll_to_region(Region(0, number, 1, 1), animate=False, force=True, x_axis=False)

    def action_step(self, way: int) -> None:
        """Move one row; at the end another widget may take the focus."""
        if not self.step(way) and self.beyond is not None:
            self.beyond(way)

    def step(self, way: int) -> bool:
        """Move one row if possible; leading rows without a key scroll into view above the first row with one."""
        if not self._choosing:
            self.scroll_relative(y=way, animate=False)
            return True
        number = self.cursor + way
        while 0 <= number < len(self._rows) and self._row(number).key is None:
            number += way
        if 0 <= number < len(self._rows):
            self.to_row(number)
            return True
        self.scroll_relative(y=way, animate=False)
        return False

    def action_page(self, way: int) -> None:
        """Move one screen."""
        height = max(self.size.height - 1, 1)
        if self._choosing:
            self.to_row(self._nearest(self.validate_cursor(self.cursor + way * height)))
        else:
            self.scroll_relative(y=way * height, animate=False)

    def action_edge(self, way: int) -> None:
        """To the top or the bottom."""
        if self._choosing:
            self.to_row(self._nearest(0 if way < 0 else len(self._rows) - 1))
        self.scroll_to(y=0 if way < 0 else len(self._rows), animate=False)

    def action_choose(self) -> None:
        """Enter on the row under the cursor."""
        if isinstance(self.key, Step):
            self.post_message(DoStep(self.key.where, self.key.name))
        elif self.key is not None:
            self.post_message(self.Chosen(self, self.key))

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor there, a second one chooses; a step is done at once."""
        number = self.scroll_offset.y + event.y
        if self._choosing and 0 <= number < len(self._rows) and self._rows[number].key is not None:
            self.to_row(number)
            if event.chain == (1 if isinstance(self._rows[number].key, Step) else 2):
                self.action_choose()


class SearchLine(LineInput):
    """Searches rows, many of them in a thread; visible while typing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "end_search", "end", show=False)]
    FOOTER: ClassVar[tuple[tuple[str, str], ...]] = (("enter", "to the list"), ("esc", "no search"))

    def __init__(self, lines: Lines) -> None:
        super().__init__(placeholder="find", classes=f"filter {HOLDS_KEYS}", select_on_focus=False)
        self._lines = lines
        self._matches: list[int] = []
        self._at = -1

    def begin(self) -> None:
        """Ask what to find."""
        self.value = ""
        self.display = True
        give_keys(self)

    def end(self) -> bool:
        """End the search; False if there was none."""
        if not (self.display or self.value):
            return False
        self.value, self._matches, self.display = "", [], False
        self._lines.mark("")
        self._lines.take_keys()
        return True

    def action_end_search(self) -> None:
        """Escape leaves the line."""
        self.end()

    def again(self) -> None:
        """Search again after the rows were rebuilt."""
        if self.value:
            self._look("search", jump=self.display and self._at < 0)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._lines.mark(event.value)
        self._at = -1
        self._look("search", jump=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return to the rows; n and N keep jumping between matches."""
        event.stop()
        self.display = False
        self._lines.take_keys()
        if event.value:
            self._at = -1
            self.workers.cancel_group(self, "search")
            self._look("acts", jump=True)  # keys typed after enter wait for it

    def _tell(self) -> None:
        if not self._matches:
            self.post_message(StatusMessage(f"{self._named} is not here · esc ends the search", "warn"))
            return
        count = len(self._matches)
        here = f": {self._matches.index(self._at) + 1} of {count}" if self._at in self._matches else f": {count} lines"
        self.post_message(StatusMessage(f"{self._named}{here} · n N · esc ends it"))

    @property
    def _named(self) -> str:
        return f"“{safe_line(self.value, 40)}”"

    def _look(self, group: str, *, jump: bool) -> None:
        self.run_worker(self._find(jump), group=group, name="searching", exclusive=True, exit_on_error=False)

    async def _find(self, jump: bool) -> None:
        self._matches = await asyncio.to_thread(rows_with_text, self._lines.rows, self.value)
        if self._at not in self._matches:
            self._at = -1
        if jump and self.value and (self._matches or not self.display):
            self.go(1)

    def go(self, way: int) -> None:
        """To the next row that was found, wrapping at the end; from the current row after moving away."""
        if not self._matches:
            self._tell()
            return
        view = self._lines.view
        start = self._at if self._at in view else view.start - 1 if way > 0 else view.start
        later = [number for number in self._matches if (number > start if way > 0 else number < start)]
        self._at = (later or self._matches)[0 if way > 0 else -1]
        self._lines.to_match(self._at)
        if not self.display:
            self._tell()
