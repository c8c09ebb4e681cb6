"""Two runs compared on a screen of their own: numbers, pairs, and what differs in the pair under the cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import ModalScreen

from tui_evals.compare.match import Kind
from tui_evals.compare.runs import KINDS, Pair
from tui_evals.store.database import StoreError
from tui_evals.tui.actions import bindings, of
from tui_evals.tui.keyboard import give_keys
from tui_evals.tui.lines import Maker, Rows, row, wrapped
from tui_evals.tui.messages import Said
from tui_evals.tui.panes.pane import act
from tui_evals.tui.state.comparing import Compared, read_pair, read_runs, read_texts
from tui_evals.tui.views.comparison import PairRows, empty_pairs, head_lines, pair_rows
from tui_evals.tui.views.keys import help_rows
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.lines import Lines

from .ask import Reading

_BESIDE = 100  # columns from which the pair stands beside the list


_CSS = """
CompareScreen { layout: vertical; background: $background; }
CompareScreen #head { max-height: 7; scrollbar-size-horizontal: 0; border-bottom: solid $panel; }
CompareScreen #both { height: 1fr; layout: vertical; }
CompareScreen #pair { border-top: solid $panel; }
CompareScreen.beside #both { layout: horizontal; }
CompareScreen.beside #pairs { width: 2fr; }
CompareScreen.beside #pair { width: 3fr; border-top: none; border-left: solid $panel; }
CompareScreen.full #head, CompareScreen.full #pairs { display: none; }
CompareScreen.full #pair { border: none; }
"""


class CompareScreen(ModalScreen[None]):
    """Reads both runs away from the screen and shows them; escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("compare")]
    DEFAULT_CSS = _CSS

    def __init__(self, database: Path, left: int, right: int) -> None:
        super().__init__()
        self._database = database
        self._ids = left, right
        self._runs: Compared | None = None
        self._kinds: tuple[Kind, ...] = KINDS
        self._wanted: Pair | None = None
        self._shown: Pair | None = None
        self._reading = False

    def compose(self) -> ComposeResult:
        """The head, the pairs, one pair, and the keys."""
        self.top = Lines(choosing=False, id="head")
        self.top.can_focus = False
        self.top.styles.height = "auto"
        self.pairs = Lines(id="pairs")
        self.pair = Lines(choosing=False, id="pair")
        yield self.top
        with Container(id="both"):
            yield self.pairs
            yield self.pair
        yield Status()
        yield Keys()

    def on_mount(self) -> None:
        """Begin to read."""
        self.set_class(self.app.size.width >= _BESIDE, "beside")
        self.pairs.show(lambda width: [row(("Comparing…", "dim"))])
        give_keys(self.pairs)
        self._offer()
        self.run_worker(self._read(), group="comparing", name="comparing", exit_on_error=False)

    def on_resize(self, event: events.Resize) -> None:
        """Beside each other where there is room."""
        self.set_class(event.size.width >= _BESIDE, "beside")

    # -- reading

    async def _read(self) -> None:
        try:
            self._take(await asyncio.to_thread(read_runs, self._database, *self._ids))
            assert self._runs is not None
            self._take(await asyncio.to_thread(read_texts, self._database, self._runs))
        except (LookupError, StoreError) as problem:
            says = f"The runs cannot be compared: {problem}."
            self.pairs.show(lambda width: [row((line, "error")) for line in wrapped(says, width)])

    def _take(self, runs: Compared) -> None:
        self._runs = runs
        self.top.show(lambda width: head_lines(runs, width))
        self._list()
        self._offer()

    def _list(self) -> None:
        runs, kinds = self._runs, self._kinds
        if runs is None:
            return

        def rows(width: int) -> Rows:
            return PairRows(runs.found.pairs, kinds, width) or empty_pairs(kinds, width)

        self.pairs.show(rows)
        self._look(self.pairs.key)

    def _look(self, key: object) -> None:
        """Show a pair in full; only the last one wanted is read."""
        pair = self._runs.found.pairs[key] if self._runs and isinstance(key, int) else None
        self._wanted = pair
        if pair is None:
            self._shown = None
            self.pair.show(lambda width: ())
        elif pair is not self._shown and not self._reading:
            self._reading = True
            self.run_worker(self._read_pairs(), group="pair", name="reading the pair", exit_on_error=False)

    async def _read_pairs(self) -> None:
        try:
            while self._runs is not None and self._wanted is not None and self._wanted is not self._shown:
                self._shown = self._wanted
                self.pair.show(await self._made(self._runs, self._wanted))
                self.pair.scroll_home(animate=False)
        finally:
            self._reading = False

    async def _made(self, runs: Compared, pair: Pair) -> Maker:
        """A maker whose rows for the width of now are there already."""
        now = self.pair.scrollable_content_region.width
        try:
            faced = await asyncio.to_thread(read_pair, self._database, runs, pair)
        except (LookupError, StoreError) as problem:
            says = str(problem)
            return lambda width: [row((line, "error")) for line in wrapped(says, width)]
        ready = await asyncio.to_thread(pair_rows, faced, now)
        return lambda width: ready if width == now else pair_rows(faced, width)

    # -- where one is

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Show the pair the cursor is on."""
        event.stop()
        if event.lines is self.pairs:
            self._look(event.key)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Show it over the whole screen."""
        event.stop()
        self.do_wide()

    def on_said(self, message: Said) -> None:
        """Say it here, since the line of the workbench is not in sight."""
        message.stop()
        self.query_one(Status).tell(message.text, message.kind)

    def action_act(self, name: str) -> None:
        """Do an action of the table, or say why not."""
        self.query_one(Status).tell("")
        act(self, name)

    def why_not(self, action: str) -> str | None:
        """What cannot be done before the runs are read, or because there is nothing of the kind."""
        return None if action in ("leave", "help") else _why_not(action, self._runs, self.pairs.key)

    def _offer(self) -> None:
        offered = [action for action in of("compare") if action.footer]
        self.query_one(Keys).offer(offered, lambda action: self.why_not(action.name))

    # -- doing

    def _only(self, *kinds: Kind) -> None:
        self._kinds = kinds or KINDS
        self._list()

    def do_broken(self) -> None:
        """Only what is broken."""
        self._only("broken")

    def do_fixed(self) -> None:
        """Only what is fixed."""
        self._only("fixed")

    def do_changed(self) -> None:
        """Only what changed otherwise."""
        self._only("changed")

    def do_every(self) -> None:
        """All pairs."""
        self._only()

    def do_next_broken(self) -> None:
        """The next broken pair, round the end."""
        self._to_broken(lambda number, here: number > here, 0)

    def do_previous_broken(self) -> None:
        """The broken pair before, round the start."""
        self._to_broken(lambda number, here: number < here, -1)

    def _to_broken(self, further: Callable[[int, int], bool], which: int) -> None:
        if self._runs is None:
            return
        if "broken" not in self._kinds:
            self._only()
        here = self.pairs.key if isinstance(self.pairs.key, int) else -1
        broken = [number for number, pair in enumerate(self._runs.found.pairs) if pair.kind == "broken"]
        self.pairs.to_key(([number for number in broken if further(number, here)] or broken)[which])

    def do_down(self) -> None:
        """Scroll the pair."""
        self.pair.scroll_relative(y=1, animate=False)

    def do_up(self) -> None:
        """Scroll it back."""
        self.pair.scroll_relative(y=-1, animate=False)

    def do_wide(self) -> None:
        """The pair over the whole screen, or the list again."""
        full = not self.has_class("full")
        self.set_class(full, "full")
        give_keys(self.pair if full else self.pairs)

    def do_help(self) -> None:
        """The keys of this screen."""
        self.app.push_screen(Reading("help · comparing runs", lambda width: help_rows("compare", width)))

    def do_leave(self) -> None:
        """Back to the list, then to the workbench."""
        if self.has_class("full"):
            self.do_wide()
        else:
            self.dismiss(None)


def _why_not(action: str, runs: Compared | None, key: object) -> str | None:
    if runs is None:
        return "the runs are still being read"
    counts = runs.found.counts
    if action in ("broken", "next_broken", "previous_broken") and not counts["broken"]:
        return "nothing is broken: no answer passed before and fails now"
    if action == "fixed" and not counts["fixed"]:
        return "nothing is fixed: no answer failed before and passes now"
    if action == "changed" and not counts["changed"]:
        return "no answer changed that is judged alike"
    return "there is no pair here" if action == "wide" and key is None else None
