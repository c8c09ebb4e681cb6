"""The application: composes the panes, routes their messages, and polls the store for changes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter, Monochrome, NoColor
from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import Worker, WorkerState

from tui_evals.datasets.editing import Editing
from tui_evals.datasets.paths import DatasetError
from tui_evals.files import make_private_folder, private_opener
from tui_evals.present.status import LIVE
from tui_evals.store.database import StoreError
from tui_evals.targets.base import ConfigurationError
from tui_evals.text.safe import safe
from tui_evals.tui import commands, drafts, importing, layout, opening, settings
from tui_evals.tui.actions import ACTIONS, AT_ONCE, actions_at, bindings, footer_actions
from tui_evals.tui.answer.pane import DetailPane
from tui_evals.tui.colors import DARK, LIGHT, readable
from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.drafts import Drafts, leave, offer_drafts
from tui_evals.tui.drawing import IN_SIGNS, WITHOUT_COLOR, ChangesScreen, SentCells
from tui_evals.tui.external_programs import LONGEST_PASTE, keep_paste
from tui_evals.tui.item.pane import EditorPane
from tui_evals.tui.judges.pane import JudgesPane
from tui_evals.tui.keyboard import AltKey, Keyboard, KeyQueue, TerminalDriver, Typed
from tui_evals.tui.messages import (
    CompareColumns,
    CompareRuns,
    CopyText,
    DoStep,
    FightBattle,
    KeepRule,
    LabelRun,
    OpenDataset,
    OpenRun,
    Place,
    Severity,
    ShowGrid,
    ShowMatrix,
    ShowPane,
    ShowTrend,
    StatusMessage,
    TryRule,
    WriteCheck,
)
from tui_evals.tui.opening import DiskChanges
from tui_evals.tui.pane import FeatureScreen, Pane
from tui_evals.tui.results import totals
from tui_evals.tui.results.pane import ResultsPane
from tui_evals.tui.rules import commands as rules_commands
from tui_evals.tui.runs import commands as runs_commands
from tui_evals.tui.runs.pane import RunsPane
from tui_evals.tui.runs.run_status import entitle, notice
from tui_evals.tui.terminal import Looks, Signs, copy_to_clipboard, exit_later
from tui_evals.tui.tree.pane import TreePane
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.inputs import holder_of_keys, return_keys
from tui_evals.tui.workspace import Session, StoreWriter, Workspace, check_dataset

BoxesById = Callable[[int, int], Mapping[str, tuple[int, int, int, int]]]
"""From a width and a height, where each child stands by its id: left, top, width and height."""


class Boxes(Widget):
    """Children that have no box are not shown."""

    def __init__(self, *children: Widget, boxes: BoxesById, id: str) -> None:
        super().__init__(*children, id=id)
        self._layout = _BoxLayout(boxes)

    @property
    def layout(self) -> Layout:
        return self._layout


class _BoxLayout(Layout):
    name = "boxes"

    def __init__(self, boxes: BoxesById) -> None:
        self._boxes = boxes

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        placed = self._boxes(size.width, size.height)
        return [
            WidgetPlacement(Region(*box), NULL_OFFSET, Spacing(), child)
            for child in children
            if (box := placed.get(child.id or "")) is not None
        ]


_PANES_BY_KEY = "1 dataset  2 item  3 evaluators  4 results  5 answer  6 runs"


class DeskApp(App[str]):
    """Implements `Desk`: composes the panes over one shared state, and does the commands that work in all of them."""

    CSS_PATH = "styles/app.tcss"
    TITLE = "tui-evals"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False  # Textual's selection fails where a click hits a widget that is just being removed
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
        return ChangesScreen(id="_default")

    def compose(self) -> ComposeResult:
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
        super().get_css_variables()
        self.theme_variables = readable(self.current_theme, self.console.color_system == "256")
        return self.theme_variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What each line goes through; Textual's own answer to NO_COLOR is grey, which is a color."""
        own = [one for one in super().get_line_filters() if not isinstance(one, Monochrome | NoColor)]
        colours = [WITHOUT_COLOR] if self.no_color else own
        return [*colours, IN_SIGNS[self.signs]] if self.signs in IN_SIGNS else colours

    async def keep_drafts(self, *, now: bool = False) -> None:
        """Write unsaved edits and what is on screen into the store; large ones only every few seconds, unless `now`."""
        await self.drafts.keep(now=now)
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
        """The panes that exist: messages still come while the screen is being left."""
        return [pane for pane in self._panes if pane.is_attached and (not places or pane.place in places)]

    def sync(self, *places: Place) -> None:
        for pane in self.present_panes(places):
            pane.sync()

    def bring(self, place: Place, *, returning: bool = False) -> None:
        """Put a pane in front and focus it, unless a text box is open in another one."""
        if place != self.front and holder_of_keys(self.pane(self.front)) is not None:
            self.tell(f"press esc to stop typing, then {layout.PLACES.index(place) + 1}", "warn")
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
        """What is in the status line while nothing is said."""
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
        return self._commands[name].why_not(self)

    def action_help_quit(self) -> None:
        """Say what ctrl+c would be pressed for, where it can be read."""
        text = "ctrl+c does not leave. esc goes back, ctrl+q leaves, y copies."
        self.screen.post_message(StatusMessage(text, "warn"))

    def action_act(self, name: str) -> None:
        reason = self.why_not(name)
        if reason:
            self.tell(reason, "warn")
            return
        work = self._commands[name].run(self)
        if work is not None:
            self.run_worker(work, group="acts", name=name, exit_on_error=False)


def resting_status(watch: Watch, shown: Collection[Place]) -> str:
    """The keys of the panes, and the progress of the run while its table is hidden."""
    run, totals = watch.run, watch.totals
    if run is None or "results" in shown or run.status not in LIVE:
        return _PANES_BY_KEY
    done = "" if totals is None else f" {totals.total - totals.pending - totals.running}/{totals.total}"
    return f"▸ {run.name} {run.status}{done}, 4 shows it  ·  {_PANES_BY_KEY}"


_PLAYGROUND = "playground"


def open_playground(desk: Desk) -> None:
    """Show the playground with the conversation it had before."""
    if not desk.is_screen_installed(_PLAYGROUND):
        # Imported when it is wanted: the engine behind it takes 100 ms, which every start would pay.
        from tui_evals.tui.playground.screen import Playground

        desk.install_screen(Playground(desk.workspace), _PLAYGROUND)
    desk.push_screen(_PLAYGROUND)


def open_proposals(desk: Desk) -> None:
    """Show the queue of proposed items; where it is empty, ask what is wanted first."""
    # Imported when it is wanted, as above.
    from tui_evals.tui.proposals import ProposalsScreen

    desk.push_screen(ProposalsScreen(desk))


PANES: tuple[type[Pane], ...] = (TreePane, EditorPane, JudgesPane, RunsPane, ResultsPane, DetailPane)
COMMANDS: Commands = {
    **commands.COMMANDS,
    **opening.COMMANDS,
    **importing.COMMANDS,
    **drafts.COMMANDS,
    **settings.COMMANDS,
    **runs_commands.COMMANDS,
    **totals.COMMANDS,
    **rules_commands.COMMANDS,
    "playground": Command(open_playground),
    "propose": Command(open_proposals, opening.why_none_open),
}
"""What can be done everywhere, by the name of its action; each feature brings its own."""

_POLL_SECONDS = 0.1
_DRAFT_SECONDS = 0.5
_SESSION_SECONDS = 3.0
_OTHERS_SECONDS = 0.5
_DISK_SECONDS = 0.5
_TYPING_PAUSE = 0.15
_HELD_SECONDS = 0.1
"""Between two presses of the same key below which it is held down: thirty items or answers a second are not read."""


class Workbench(DeskApp):
    """Routes the messages of the panes; the state is in the workspace and the watch."""

    def __init__(
        self,
        root: Path,
        database: Path,
        *,
        dataset: Path | None = None,
        run: str | None = None,
        looks: Looks = Looks(),  # noqa: B008  frozen
    ) -> None:
        super().__init__(root, database, PANES, COMMANDS, looks)
        self._first_dataset, self._first_run = dataset, run
        self._key, self._key_time, self._held = "", -inf, False
        """The last key, when it came, and whether it is held down."""
        self._behind: set[Place] = set()
        """The panes that show what the cursor has left."""
        self._rests = 0
        """How many looks are left out, because the last one found something."""
        self.key_queue = KeyQueue(self, self._forward, self._offer_keys_here)

    def get_driver_class(self) -> type[Driver]:
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    async def on_mount(self) -> None:
        for event in Keyboard().feed(self.looks.typed):
            if isinstance(event, events.Key):
                self.key_queue.take(event)
        self.session.load()
        self.workspace.read_looks()
        self.dress()
        self.workspace.look()
        self._open_first()
        entitle(self, self.workspace.root.name)
        loop = asyncio.get_running_loop()
        for signal_ in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(signal_, self._hung_up)
        self.call_after_refresh(self._equip)
        self.call_after_refresh(_settle_memory)

    def _open_first(self) -> None:
        front = self.session.restore(self.workspace, self.watching, self._first_dataset, self._first_run, self.tell)
        notice(self)
        self.sync()
        self.bring(front)

    def _equip(self) -> None:
        """Behind the first picture: read the settings, find the evaluators, check the dataset, take what is typed."""
        try:
            remarks = self.workspace.read_settings()
        except ConfigurationError as problem:
            remarks = [str(problem)]
        for remark in [*filter(None, [self.writer.read_only]), *remarks, *self.workspace.equip()][:1]:
            self.tell(remark, "warn")
        # Only now, because the writer needs the environment to know its secrets.
        self.set_interval(_POLL_SECONDS, self._look)
        self.set_interval(_DRAFT_SECONDS, lambda: self._work_alone(self.drafts.keep, "drafts"))
        self.set_interval(_SESSION_SECONDS, lambda: self._work_alone(self.keep_drafts, "session"))
        self.set_interval(_OTHERS_SECONDS, lambda: self._work_alone(self._tell_others, "edits of other windows"))
        self.set_interval(_DISK_SECONDS, DiskChanges(self).look)
        generations = rules_commands.Generations(self)
        generations.look()  # one that ends from now on is announced
        self.set_interval(_DISK_SECONDS, generations.look)
        self.sync("judges")
        self._check_soon()
        self._typing = asyncio.create_task(self.key_queue.work())
        self._typing.add_done_callback(self._no_longer_typing)
        self._work(self._ask_first(), "what is asked first")

    async def _ask_first(self) -> None:
        """Offer what was not saved, and show what is wrong with a dataset that was asked for and cannot be opened.

        Not before keys are taken, for whatever waits for a picture of the panes would wait for the end of a dialog, and
        not before those are done that were typed when no question was in sight.
        """
        await self.key_queue.idle.wait()
        await offer_drafts(self)
        if self._first_dataset is not None and self.workspace.editing is None:
            self.post_message(OpenDataset(self._first_dataset))

    async def _tell_others(self) -> None:
        """Say which open files are edited in another window."""
        for sentence in await self.drafts.of_others(self.watching.reader):
            self.tell(sentence, "warn")

    def on_unmount(self) -> None:
        self.drafts.end()

    def _no_longer_typing(self, typing: asyncio.Task[None]) -> None:
        """End as any defect ends the app: without its queue the keyboard would be dead."""
        if not typing.cancelled() and typing.exception() is not None:
            self.call_next(typing.result)

    async def on_event(self, event: events.Event) -> None:
        """Keys and clicks go through one queue, in their order; what comes back from a widget is handled here."""
        if isinstance(event, events.Paste) and len(event.text) > LONGEST_PASTE:
            self.tell(keep_paste(self.workspace.root, event.text), "error")
        elif isinstance(event, events.Key | events.Paste | events.MouseEvent) and not event.is_forwarded:
            self.key_queue.take(event)
        else:
            await super().on_event(event)

    async def _forward(self, event: Typed) -> None:
        self._note_key(event)
        if isinstance(event, AltKey) and len(self.screen_stack) == 1 and self._acts_at_once(event.key):
            self.tell(f"alt+{event.key} does nothing. Press {event.key} alone.", "warn")
            return
        if not isinstance(event, events.MouseEvent):
            return_keys(self.screen)
        await super().on_event(event)

    def _note_key(self, event: Typed) -> None:
        """Whether a key is held down; before anything else is done, the panes show what the cursor is on."""
        key, now = event.key if isinstance(event, events.Key) else "", monotonic()
        self._held = bool(key) and key == self._key and now - self._key_time < _HELD_SECONDS
        self._key, self._key_time = key, now
        if not self._held:
            self._catch_up()

    def _catch_up(self) -> None:
        if places := self._behind:
            self._behind = set()
            self._follow(*places)

    def _let_go(self) -> None:
        """Show what is under the cursor once the key is held no more."""
        left = self._key_time + _HELD_SECONDS - monotonic()
        if left > 0:
            self.set_timer(left, self._let_go)
        else:
            self._held = False
            self._catch_up()

    def _acts_at_once(self, key: str) -> bool:
        """Whether a key would stop, resume or delete something, unasked."""
        actions = (*actions_at(self.pane(self.front).keys_place), *actions_at("everywhere"))
        return any(key in action.keys.split(",") for action in actions if action.name in AT_ONCE)

    def _offer_keys_here(self) -> None:
        here = self.screen
        (here if isinstance(here, FeatureScreen) else self).offer_keys()

    # -- messages

    def on_status_message(self, message: StatusMessage) -> None:
        self.tell(message.text, message.kind)

    def on_state_changed(self) -> None:
        self.arrange_for_another()
        self.sync()
        self.offer_keys()
        self._check_soon()

    def on_item_shown(self) -> None:
        self._follow("tree", "editor", "judges")

    def on_answer_shown(self) -> None:
        self._follow("results", "detail")

    def _follow(self, *places: Place) -> None:
        """Have panes show what the cursor is on; while a key is held down, once it is let go."""
        if self._held:
            if not self._behind:
                self.set_timer(_HELD_SECONDS, self._let_go)
            self._behind.update(places)
            return
        self.sync(*places)
        if self.key_queue.idle.is_set():  # else they are offered once the keys that are typed are done
            self.offer_keys()

    def on_do_step(self, message: DoStep) -> None:
        """Do what a row says; the sample project has no key of its own, as it is wanted only once."""
        if message.name == "sample":
            self.run_worker(self._try_sample(), group="acts", name="sample", exit_on_error=False)
        else:
            if message.name == "run":
                self.workspace.where = ()
                self.bring("tree")
            commands.do(self, next(one for one in ACTIONS if one[:2] == (message.where, message.name)))

    async def _try_sample(self) -> None:
        # Imported when it is wanted, because it would hold up every first picture.
        from tui_evals.tui.runs.starting import run_open

        if await opening.open_sample(self):
            await run_open(self)

    def on_show_pane(self, message: ShowPane) -> None:
        self.bring(message.place)

    def on_open_dataset(self, message: OpenDataset) -> None:
        """Put a dataset on screen, or show what is wrong with it."""
        entering = opening.enter_file(self, message.file)
        self.run_worker(entering, group="acts", name="open", exit_on_error=False)

    def on_write_prompt(self) -> None:
        """Bring the editor in front with the box of the prompt open."""
        self.bring("editor")
        if self.front == "editor":
            self.query_one(EditorPane).write("prompt")

    def on_save_dataset(self) -> None:
        self.action_act("save")

    def on_open_run(self, message: OpenRun) -> None:
        shown = self.watching.run
        try:
            if shown is None or shown.id != message.run:
                self.watching.open_run(message.run)
        except LookupError as problem:
            self.tell(str(problem), "warn")
            return
        self.watching.answer = message.answer or self.watching.answer
        notice(self)
        self.sync("results", "detail", "runs", "tree")
        self.bring("results")

    def on_compare_runs(self, message: CompareRuns) -> None:
        # Imported when it is wanted, because it would hold up every first picture.
        from tui_evals.tui.compare.screen import CompareScreen

        self.push_screen(CompareScreen(self.workspace.database, message.runs, message.why))

    def on_compare_columns(self, message: CompareColumns) -> None:
        # Imported when it is wanted, as above.
        from tui_evals.tui.compare.screen import CompareScreen

        self.push_screen(CompareScreen(self.workspace.database, [message.run], columns=message.columns))

    def on_try_rule(self, message: TryRule) -> None:
        self.bring("results")
        results = self.query_one(ResultsPane)
        self.run_worker(results.do_what_if(message.evaluator), group="acts", name="what if", exit_on_error=False)

    def on_write_check(self, message: WriteCheck) -> None:
        self.bring("judges")
        if self.front == "judges":
            adding = self.query_one(JudgesPane).do_add(message.answers)
            self.run_worker(adding, group="acts", name="add check", exit_on_error=False)

    def on_keep_rule(self, message: KeepRule) -> None:
        # Imported when it is wanted, as above.
        from tui_evals.tui.runs.starting import keep_rule

        keeping = keep_rule(self, message.run, message.rule)
        self.run_worker(keeping, group="acts", name="keep rule", exit_on_error=False)

    def on_fight_battle(self, message: FightBattle) -> None:
        # Imported when it is wanted, as above.
        from tui_evals.tui.runs.battle import begin

        self.run_worker(begin(self, self.workspace, message), group="acts", name="battle", exit_on_error=False)

    def on_show_battles(self) -> None:
        # Imported when it is wanted, as above.
        from tui_evals.tui.runs.battle import choose_past

        self.run_worker(choose_past(self, self.workspace), group="acts", name="battles", exit_on_error=False)

    def on_show_trend(self, message: ShowTrend) -> None:
        # Imported when it is wanted, as above.
        from tui_evals.tui.runs.rows import show_trend

        showing = show_trend(self, self.workspace, message.dataset)
        self.run_worker(showing, group="acts", name="trend", exit_on_error=False)

    def on_show_grid(self, message: ShowGrid) -> None:
        # Imported when it is wanted, as above.
        from tui_evals.tui.tree.grid import GridScreen

        self.push_screen(GridScreen(self, message.statuses))

    def on_show_matrix(self, message: ShowMatrix) -> None:
        # Imported when it is wanted, as above.
        from tui_evals.tui.matrix import MatrixScreen

        figures = self.watching.figures
        names = figures.names if figures is not None and figures.run == message.run else None
        self.push_screen(MatrixScreen(self.workspace.database, message.run, message.answer, names))

    def on_label_run(self, message: LabelRun) -> None:
        # Imported when it is wanted, as above.
        from tui_evals.tui.labels import LabelScreen

        self.push_screen(LabelScreen(self.workspace.database, message.run, self.writer))

    def on_copy_text(self, message: CopyText) -> None:
        self._work(self._copy(message), "copying")

    async def _copy(self, message: CopyText) -> None:
        # In a thread, because writing to a stalled line blocks.
        self.tell(await asyncio.to_thread(copy_to_clipboard, message.text, message.what, self.workspace.root))

    # -- what happens by itself

    def _look(self) -> None:
        if not self.is_running:  # a last tick while the screen is being left finds no panes
            return
        if self._rests:  # where answers come all the time, two pictures a second show as much as ten
            self._rests -= 1
            return
        try:
            change = self.watching.poll()
        except StoreError as problem:
            self.tell(str(problem), "error")
            return
        if change:
            self._rests = 4
            for pane in self.present_panes():
                pane.pulse(change)
            self.show_resting_status()
            if change.run:
                self.offer_keys()
                notice(self)

    def _hung_up(self) -> None:
        """The terminal is gone or the process is being ended: keep unsaved edits as drafts."""
        exit_later()
        self.run_worker(leave(self), group="acts", name="leaving", exit_on_error=False)

    def _check_soon(self) -> None:
        """Validate the open dataset once typing pauses, away from the screen."""
        self._work(self._check, "checking the dataset")

    async def _check(self) -> None:
        await asyncio.sleep(_TYPING_PAUSE)
        editing = self.workspace.editing
        if editing is None or not self.workspace.registry.by_name:
            return
        state = editing.state
        if self.workspace.reported == state:
            return
        first = self.workspace.report is None
        if first:
            await asyncio.to_thread(self.workspace.count_test_ids)  # for many items longer than a key may take
        report = await asyncio.to_thread(check_dataset, editing, self.workspace.registry, first)
        if self.is_running and self.workspace.editing is editing and editing.state == state:
            self.workspace.report, self.workspace.reported = report, state
            self.sync("tree", "editor", "judges")
            self._offer_keys_here()  # what is valid now can be run

    def _work(self, work: object, name: str) -> None:
        self.run_worker(work, group=name, name=name, exclusive=True, exit_on_error=False)  # type: ignore[arg-type]

    def _work_alone(self, work: object, name: str) -> None:
        """Begin work unless the last time is still going on."""
        if not any(worker.group == name and worker.is_running for worker in self.workers):
            self._work(work, name)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show what went wrong in the background, and log unexpected errors."""
        if event.state is not WorkerState.ERROR:
            return
        problem = event.worker.error
        if isinstance(problem, StoreError | DatasetError | ConfigurationError):
            self.tell(str(problem), "error")
            return
        log = self.workspace.database.parent / "logs" / "workbench.log"
        try:
            make_private_folder(log.parent, log.parent.parent)
            with open(log, "a", encoding="utf-8", opener=private_opener) as stream:
                stream.writelines(traceback.format_exception(problem) if problem else ["unknown\n"])
            where = f"{log} holds the details"
        except OSError as unwritten:
            where = f"the details could not be written down: {unwritten}"
        self.tell(f"{event.worker.name} failed: {problem}. Nothing stored is lost; {where}", "error")


def _settle_memory() -> None:
    """What is there after the first picture stays: full collections of it would hold up keys for 50 ms and more."""
    gc.enable()
    gc.collect()
    gc.freeze()
