"""The application as its panes and commands know it: the state they share, the panes on screen, the commands."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen
from textual.widgets import Input, TextArea

from tui_evals.datasets.editing import Editing
from tui_evals.present.status import LIVE
from tui_evals.text.safe import safe
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.boxes import Boxes, BoxesById
from tui_evals.tui.widgets.focus import holder_of_keys

from . import layout
from .actions import bindings, footer_actions
from .colours import DARK, LIGHT, readable
from .compositing import ChangesScreen
from .desk import Commands
from .drafts import Drafts
from .drawing import IN_SIGNS, WITHOUT_COLOUR
from .feature_screen import FeatureScreen
from .looks import Looks, Signs
from .messages import Place, Severity
from .pane import Pane
from .session import Session
from .store_writer import StoreWriter
from .watch import Watch
from .wire import SentCells
from .workspace import Workspace

_PANES_BY_KEY = "1 dataset  2 item  3 evaluators  4 results  5 answer  6 runs"


class DeskApp(App[str]):
    """Implements `Desk`: composes the panes over one shared state, and does the commands that work in all of them."""

    CSS_PATH = "styles/app.tcss"
    TITLE = "tui-evals"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("everywhere")]

    def __init__(
        self, root: Path, database: Path, panes: Sequence[type[Pane]], commands: Commands, looks: Looks
    ) -> None:
        super().__init__()
        self.sent_cells = SentCells()
        self.animation_level = "none"
        self.no_color = bool(os.environ.get("NO_COLOR"))
        self.looks = looks
        self.signs: Signs = looks.signs
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.set_reactive(App.theme, looks.theme)
        self.stylesheet.set_variables(self.get_css_variables())
        self.workspace = Workspace(root, database)
        self.watching = Watch(database)
        self.writer = StoreWriter(database, lambda: self.workspace.variables, lambda: self.workspace.settings)
        self.session = Session(root, self.writer, self.watching.reader)
        self.front: Place = "tree"
        self.visited: list[Place] = []
        self.zoomed = False
        self.followed_run: str | None = None
        self.drafts = Drafts(self.workspace, self.writer)
        self._pane_types = panes
        self._arranged_for: Editing | None = None
        self.shown: layout.Columns = ()
        self._boxes: BoxesById = lambda width, height: {}
        self._panes: list[Pane] = []
        self._status = Status()
        self._stand: object = None
        self._kept_screens: list[FeatureScreen] = []
        self._commands = commands

    def get_default_screen(self) -> Screen[Any]:
        """The screen of the panes."""
        return ChangesScreen(id="_default")

    def compose(self) -> ComposeResult:
        """The panes, and two lines below them."""
        self._panes = [pane(self.workspace, self.watching, self.writer) for pane in self._pane_types]
        yield Boxes(*self._panes, boxes=lambda width, height: self._boxes(width, height), id="panes")
        yield self._status
        yield Keys()

    # -- how it looks

    def dress(self) -> None:
        """Look as the settings say, and where they say nothing as suits the terminal."""
        ui = self.workspace.settings.ui
        self.set_theme(ui.get("theme", self.looks.theme))
        signs: Signs = "ascii" if ui.get("ascii") is True else self.looks.signs
        if signs != self.signs:
            self.signs = signs
            self.refresh_css(animate=False)

    def set_theme(self, name: object) -> None:
        """Change the theme, if there is one of that name."""
        if isinstance(name, str) and name in self.available_themes:
            self.theme = name

    def get_css_variables(self) -> dict[str, str]:
        """The variables of the theme, such that everything can be read."""
        super().get_css_variables()
        self.theme_variables = readable(self.current_theme, self.console.color_system == "256")
        return self.theme_variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What each line goes through; Textual's own answer to NO_COLOR is grey, which is a colour."""
        own = [one for one in super().get_line_filters() if not isinstance(one, Monochrome | NoColor)]
        colours = [WITHOUT_COLOUR] if self.no_color else own
        return [*colours, IN_SIGNS[self.signs]] if self.signs in IN_SIGNS else colours

    async def keep_drafts(self) -> None:
        """Write unsaved edits and what is on screen into the store."""
        await self.drafts.keep()
        self.session.note(self.workspace, self.watching, self.front)
        await self.session.keep()

    @property
    def writing(self) -> bool:
        """Whether something is being written or asked that a change from elsewhere would pull away."""
        return len(self.screen_stack) > 1 or any(pane.writing for pane in self.present_panes())

    # -- panes

    def pane(self, place: Place) -> Pane:
        """The pane at a place."""
        return self.query_one(f"#{place}", Pane)

    def present_panes(self, places: Collection[Place] = ()) -> list[Pane]:
        """The panes that exist: while the screen is being left, messages still come and panes have gone."""
        return [pane for pane in self._panes if pane.is_attached and (not places or pane.place in places)]

    def sync(self, *places: Place) -> None:
        """Have panes show the state as it is now."""
        for pane in self.present_panes(places):
            pane.sync()

    def bring(self, place: Place, *, returning: bool = False) -> None:
        """Put a pane in front and the keys into it, unless somebody writes in another one."""
        if place != self.front and holder_of_keys(self.pane(self.front)) is not None:
            self.tell(f"esc ends what you write here; {layout.PLACES.index(place) + 1} goes on then", "warn")
            return
        if place != self.front and not returning:
            self.visited = [*self.visited[-20:], self.front]
        self.front = place
        self.arrange()
        self.pane(place).focus_lines()
        self.offer_keys()

    def arrange(self, width: int | None = None, height: int | None = None) -> None:
        """Show the panes that fit the terminal, whose size is the one known where none is given."""
        width, height = width or self.size.width, height or self.size.height
        self._arranged_for = self.workspace.editing
        session = self.session
        shown = layout.columns(self.front, width, height, session.arrangement, zoomed=self.zoomed)
        panes = {place: self.pane(place) for place in layout.PLACES}
        wanted = {place: columns for place, pane in panes.items() if (columns := pane.wanted_columns()) is not None}
        recent, weights = (*self.visited, self.front), session.weights
        stand = (shown, layout.boxes(shown, width, height, recent, weights, wanted))
        if stand == self._stand:
            return
        self._stand, self.shown = stand, shown
        self._boxes = lambda width, height: layout.boxes(shown, width, height, recent, weights, wanted)
        for place, pane in panes.items():
            pane.display = any(place in column for column in shown)
        panes[self.front].refresh(repaint=False, layout=True)  # has what holds the panes place them anew

    def arrange_for_another(self) -> None:
        """Another dataset has other names, for which a pane may want another width."""
        if self.workspace.editing is not self._arranged_for:
            self.arrange()

    def on_resize(self, event: events.Resize) -> None:
        """Another size shows other panes; the size that the application knows is still the one before."""
        self.redraw()
        self.arrange(event.size.width, event.size.height)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """A click puts another pane in front as well."""
        for node in event.widget.ancestors_with_self:
            if isinstance(node, Pane) and node.place != self.front:
                self.visited = [*self.visited[-20:], self.front]
                self.front = node.place
                self.arrange()
                self.offer_keys()

    def redraw(self) -> None:
        """Send all that is on screen again: the terminal may show something else by now."""
        self.sent_cells.forget()
        self.screen.refresh()

    def install_screen(self, screen: Screen[Any], name: str) -> None:
        """Keep a screen while it is not shown, with what leaving would lose of it."""
        super().install_screen(screen, name)
        if isinstance(screen, FeatureScreen):
            self._kept_screens.append(screen)

    def would_be_lost(self) -> list[str]:
        """What leaving now would lose, a sentence each."""
        places: list[Pane | FeatureScreen] = [*self.present_panes(), *self._kept_screens]
        return [lost for place in places if (lost := place.would_be_lost())]

    # -- the two lines below the panes

    def offer_keys(self) -> None:
        """Show the keys of the pane in front."""
        if not self.present_panes((self.front,)):
            return
        pane = self.pane(self.front)
        place = pane.keys_place
        self.query_one(Keys).offer(
            footer_actions(place, "everywhere") if place == self.front else footer_actions(place),
            lambda action: (
                self.why_not(action.name) or self._commands[action.name].why_not_shown(self)
                if action.where == "everywhere"
                else pane.why_not(action.name)
                if action.where == self.front
                else None  # the box that is open does what its keys say
            ),
            typing=isinstance(self.default_screen.focused, Input | TextArea),
        )
        self.show_resting_status()

    def show_resting_status(self) -> None:
        """What stands in the status line while nothing is said."""
        if self._status.is_attached:
            self._status.rest(resting_status(self.watching, layout.places_in(self.shown)))

    def tell(self, text: str, kind: Severity = "info") -> None:
        """A sentence in the status line; an error also as a toast."""
        if self._status.is_attached:  # not so any more while the screen is being left
            self._status.tell(text, kind)
        if kind == "error" and self.is_running:
            self.notify(safe(text), severity="error", markup=False, timeout=8)

    # -- commands

    def why_not(self, name: str) -> str | None:
        """Why a command that works everywhere cannot be done now."""
        return self._commands[name].why_not(self)

    def action_act(self, name: str) -> None:
        """Do a command that works everywhere, or say why not."""
        reason = self.why_not(name)
        if reason:
            self.tell(reason, "warn")
            return
        work = self._commands[name].run(self)
        if work is not None:
            self.run_worker(work, group="acts", name=name, exit_on_error=False)


def resting_status(watch: Watch, shown: Collection[Place]) -> str:
    """Where the panes are, and the run on screen that goes on while its table is not in sight."""
    run, totals = watch.run, watch.totals
    if run is None or "results" in shown or run.status not in LIVE:
        return _PANES_BY_KEY
    done = "" if totals is None else f" {totals.total - totals.pending - totals.running}/{totals.total}"
    return f"▸ {run.name} {run.status}{done}, 4 shows it  ·  {_PANES_BY_KEY}"
