"""Keeps the rules, their tests and what came of them as they are now, all read away from the screen's thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker

from tui_evals.store.database import StoreError
from tui_evals.tui.actions import of
from tui_evals.tui.key_queue import give_keys
from tui_evals.tui.messages import Severity, StatusMessage
from tui_evals.tui.rows import Rows, Style, paragraph
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

from .generation import RegenerationProgress
from .rates import Rates, VerdictBoard, VerdictReader, board
from .rows import Columns, RuleRows, head_rows, no_rules, rule_rows
from .state import Line, Origin, RuleSheet, fitting, read_origin, read_sheet

_SHARE = 4  # reading verdicts takes a fifth of the time at most


class Rulebook:
    """The sheet of the open dataset and its board; `changed` is called when one of them is another."""

    def __init__(self, widget: Widget, workspace: Workspace, watch: Watch, changed: Callable[[], None]) -> None:
        self.sheet = RuleSheet()
        self.board: VerdictBoard | None = None
        self.origin = Origin()
        self.problem = ""
        """Why nothing can be said of the runs."""
        self._widget = widget
        self._workspace = workspace
        self._watch = watch
        self._changed = changed
        self._rater = VerdictReader(workspace.database, workspace.root)
        self._rates = Rates()
        self._read: object = None
        self._rated: object = None
        self._touched = 0
        self._busy = False
        self._work: Worker[None] | None = None
        self._rest = 0.0
        """Until when the verdicts are not read again, though others may have come."""

    @property
    def differs(self) -> bool:
        """Whether the files beside the dataset hold other rules than it does."""
        return self.origin.texts is not None and self.origin.texts != self.sheet.texts

    @property
    def ready(self) -> bool:
        """Whether the sheet is that of the dataset as it is now."""
        return self._read is not None and self._read == self._mark

    @property
    def _mark(self) -> object:
        """What the sheet depends on."""
        editing = self._workspace.editing
        return (id(editing), editing.version, editing.document.digest, self._touched) if editing else None

    def touch(self) -> None:
        """The files beside the dataset have changed."""
        self._touched += 1
        self.soon()

    def soon(self) -> None:
        """Read what is no longer as it was read."""
        if not self._busy and self._stale():
            self._busy = True
            self._work = self._widget.run_worker(
                self._go_on(), group="rules", name="reading the rules", exit_on_error=False
            )

    async def settled(self) -> None:
        """Wait until the rules are those of now."""
        while self._work is not None and not self.ready and not self._work.is_finished:
            await self._work.wait()

    def _stale(self) -> bool:
        if self._mark is None or (self.ready and time.monotonic() < self._rest):
            return False
        return self._rated != (self._mark, self._watch.reader.data_version())

    async def _go_on(self) -> None:
        """Read until the rules are those of now; the verdicts once, for while a run goes on they always change."""
        try:
            while self._mark is not None and not self.ready:
                await self._sheet()
            await self._verdicts()
        finally:
            self._busy = False
        self._again()

    def _again(self) -> None:
        if not self.ready:
            self.soon()

    async def _sheet(self) -> None:
        mark, editing = self._mark, self._workspace.editing
        if editing is None:
            return
        data, file = editing.data, editing.document.file
        origin, sheet, found = await asyncio.to_thread(_read, data, file, self._rates)
        if mark == self._mark:
            another = self._read is None or not isinstance(self._read, tuple) or self._read[0] != id(editing)
            self.origin, self.sheet, self._read = origin, sheet, mark
            self.board = None if another else found
            self._changed()

    async def _verdicts(self) -> None:
        editing, sheet, mark = self._workspace.editing, self.sheet, self._read
        if editing is None:
            return
        wanted, began = (mark, self._watch.reader.data_version()), time.monotonic()
        try:
            rates = await asyncio.to_thread(self._rater.read, editing.document.file)
            found = await asyncio.to_thread(board, sheet, rates)
        except StoreError as problem:
            self.problem = str(problem)
        else:
            self.problem = ""
            self._rest = time.monotonic() + _SHARE * (time.monotonic() - began)
            if mark == self._read:
                self._rates, self.board, self._rated = rates, found, wanted
        self._changed()


def _read(data: dict[str, Any], file: Path, rates: Rates) -> tuple[Origin, RuleSheet, VerdictBoard]:
    origin = read_origin(file)
    sheet = read_sheet(data, origin.most)
    return origin, sheet, board(sheet, rates)


_ALWAYS = frozenset(("leave", "help"))
_OF_RULE = frozenset(("edit", "tests", "inverse"))
_MAKES = frozenset(("tests", "inverse"))
_CHANGES = frozenset(("edit", "new", "remove"))


def why_not(screen: RulesView, action: str) -> str | None:
    """What cannot be done now."""
    if action in _ALWAYS:
        return None
    if action in ("stop", "messages"):
        return _of_making(screen, action)
    editing = screen.workspace.editing
    if editing is None:
        return "no dataset is open: go back with esc, o opens one"
    if action in ("undo", "redo", "save"):
        known = {"undo": editing.can_undo, "redo": editing.can_redo, "save": editing.dirty}
        nothing = {"undo": "there is nothing to take back", "redo": "nothing was taken back"}
        return None if known[action] else nothing.get(action, "nothing to save: the file is as it is here")
    if not screen.of_rules:
        return "this dataset was not made from rules" if screen.book.ready else "the rules are still being read"
    return _of_rules(screen, action)


def _of_making(screen: RulesView, action: str) -> str | None:
    if action == "stop":
        return None if screen.making_now else "nothing is being made"
    return None if screen.making is not None else "nothing has been made here yet: t has tests made for a rule"


def _of_rules(screen: RulesView, action: str) -> str | None:
    test, line, editing = screen.test, screen.line, screen.workspace.editing
    if action in _OF_RULE and line is None:
        return "that is a group of tests, no rule"
    if action == "remove" and test is None and line is None:
        return "that is a group of tests, no rule: tab goes to the tests, which can be deleted one by one"
    if action == "run" and test is None and not screen.shown.get(screen.rules.key):
        return "no test belongs to it: t has some made"
    if action in _CHANGES | _MAKES and screen.making_now:
        return "something is being made here: wait for it, or x stops it"
    if action in _MAKES and screen.book.origin.cannot:
        return screen.book.origin.cannot
    if action in _MAKES and editing is not None and editing.dirty:
        return "save first (ctrl+s): what is made goes into the file of the dataset"
    return None


def news_of(making: RegenerationProgress | None, book: Rulebook) -> list[tuple[str, Style]]:
    """What is to be said besides: something under way, files that differ, runs that cannot be read."""
    found: list[tuple[str, Style]] = []
    if making is not None and making.live:
        last = making.said[-1] if making.said else "starting"
        seconds = time.monotonic() - making.began
        found.append((f"▸ making {making.remake.says}, {seconds:.0f} s · x stops it · {last}", "running"))
    elif book.differs:
        found.append(("▲ rules.txt beside the dataset holds other rules; e, n, t and i ask which count", "warn"))
    if book.problem:
        found.append((f"✗ {book.problem}", "error"))
    return found


_BESIDE = 120  # columns from which a rule in full stands beside the list
_TICK = 1.0

_CSS = """
RulesView { layout: vertical; background: $background; }
RulesView #head { max-height: 30%; scrollbar-size-horizontal: 0; border-bottom: solid $panel; }
RulesView #both { height: 1fr; layout: vertical; }
RulesView #rules-side { height: 1fr; }
RulesView #tests { border-top: solid $panel; }
RulesView.tests #rules-side { height: 35%; }
RulesView.beside #both { layout: horizontal; }
RulesView.beside #rules-side { width: 1fr; height: 1fr; }
RulesView.beside #tests { width: 1fr; border-top: none; border-left: solid $panel; }
"""


class RulesView(ModalScreen[None]):
    """Lists the rules and the tests of one of them; it stays as it is while one is elsewhere."""

    DEFAULT_CSS = _CSS

    def __init__(self, workspace: Workspace, watch: Watch) -> None:
        super().__init__()
        self.workspace = workspace
        self.book = Rulebook(self, workspace, watch, self.refresh_all)
        self.making: RegenerationProgress | None = None
        """What was made last for this project, or is being made."""
        self.wanted: object = None
        """The rule the cursor goes to once it is there."""
        self.words = ""
        self.shown: dict[object, tuple[int, ...]] = {}
        self._file: object = None
        self.away = True
        """One comes from the workbench, or from elsewhere, where anything may have been changed."""

    def compose(self) -> ComposeResult:
        """What it is about, the rules, the tests of one of them, what is to be said, and the keys."""
        self.top = Lines(choosing=False, id="head")
        self.titles = Lines(choosing=False, id="titles")
        for part in (self.top, self.titles):
            part.can_focus = False
        self.top.styles.height, self.titles.styles.height = "auto", 1
        self.rules, self.tests = Lines(id="rules"), Lines(id="tests")
        self.entry = Input(placeholder="words of a rule or of its tests", classes="filter")
        self.entry.display = False
        yield self.top
        with Container(id="both"):
            with Vertical(id="rules-side"):
                yield self.titles
                yield self.rules
            yield self.tests
        yield self.entry
        yield Status()
        yield Keys()

    def on_mount(self) -> None:
        """Look at the store from now on."""
        self.set_interval(_TICK, self._tick)

    def on_screen_resume(self) -> None:
        """Whoever comes back sees the rules as they are now."""
        self.set_class(self.app.size.width >= _BESIDE, "beside")
        if self.focused is None:
            give_keys(self.rules)
        if self.away:
            self.away = False
            self.book.touch()
        self.refresh_all()

    def on_resize(self, event: events.Resize) -> None:
        """Beside each other where there is room."""
        self.set_class(event.size.width >= _BESIDE, "beside")

    def _tick(self) -> None:
        if self.is_current:
            self.book.soon()
            if self.making_now:
                self._head()

    # -- what there is

    @property
    def making_now(self) -> bool:
        """Whether something is being made."""
        return self.making is not None and self.making.live

    @property
    def line(self) -> Line | None:
        """The rule under the cursor."""
        return self.book.sheet.line(self.rules.key)

    @property
    def test(self) -> int | None:
        """The test under the cursor, by its position, where the keys go to the tests."""
        key = self.tests.key
        return key if self.focused is self.tests and isinstance(key, int) else None

    @property
    def of_rules(self) -> bool:
        """Whether the open dataset was made from rules."""
        return bool(self.book.sheet.texts.output)

    # -- showing

    def refresh_all(self) -> None:
        """Show all as it is now, and read what is not."""
        if not self.is_mounted:
            return
        file = self.workspace.editing and self.workspace.editing.document.file
        if file != self._file:
            self._file, self.words, self.entry.value, self.entry.display = file, "", "", False
        self.book.soon()
        self._head()
        self._list()
        self._rule()
        self._offer()

    def _board(self) -> VerdictBoard:
        return self.book.board or VerdictBoard()

    def _head(self) -> None:
        book, news = self.book, news_of(self.making, self.book)
        self.top.display = self.of_rules
        self.top.show(lambda width: head_rows(book.sheet, book.board, news, width))

    def _list(self) -> None:
        sheet, found = self.book.sheet, self._board()
        self.shown = fitting(sheet, self.words.casefold().split()) if self.of_rules else {}
        shown = self.shown

        def rows(width: int) -> Rows:
            if not self.of_rules:
                return self._none(width)
            if not shown:
                return paragraph(f"No rule and no test holds “{self.words}”; esc shows all.", width, "dim")
            return rule_rows(sheet, found, shown, Columns(found, list(shown), width))

        self.titles.display = self.of_rules
        self.tests.display = self.of_rules
        self.titles.show(lambda width: [Columns(found, list(shown), width).title(found)])
        at, self.wanted = self.wanted, None if self.book.ready else self.wanted
        self.rules.show(rows, at=at if at in shown else None)

    def _none(self, width: int) -> Rows:
        """Why there are no rules to show."""
        return no_rules(self.workspace.data.get("prompt_file"), width) if self.book.ready else paragraph("…", width)

    def _rule(self, another: bool = False) -> None:
        """Show the rule under the cursor with its tests."""
        sheet, found, key = self.book.sheet, self._board(), self.rules.key
        tests = self.shown.get(key)
        if tests is None:
            self.tests.show(lambda width: [])
            return
        self.tests.show(
            lambda width: RuleRows(sheet, found, key, tests, width), at=tests[0] if another and tests else None
        )
        if another:
            # Behind what brings the cursor into view, so that the rule itself is read first.
            self.tests.call_after_refresh(self.tests.call_after_refresh, self.tests.scroll_home, animate=False)

    def _offer(self) -> None:
        offered = [action for action in of("rules") if action.footer]
        for keys in self.query(Keys):
            keys.offer(offered, lambda action: self.why_not(action.name))

    def why_not(self, action: str) -> str | None:
        """What cannot be done now."""
        raise NotImplementedError

    # -- messages

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Show the rule the cursor is on."""
        event.stop()
        if event.lines is self.rules:
            self._rule(another=True)
        self._offer()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The list one is in has more room, and keys of its own."""
        among = self.focused is self.tests
        self.set_class(among, "tests")
        for lines in (self.rules, *([self.tests] if among else [])):
            lines.call_after_refresh(self._into_view, lines)
        self._offer()

    def _into_view(self, lines: Lines) -> None:
        lines.to_row(lines.cursor)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while one types."""
        event.stop()
        self.words = event.value
        self._list()
        self._rule()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the list, filtered."""
        event.stop()
        self.entry.display = bool(self.words.strip())
        give_keys(self.rules)

    def on_status_message(self, message: StatusMessage) -> None:
        """Say it here, since the line of the workbench is not in sight."""
        message.stop()
        self.tell(message.text, message.kind)

    def tell(self, text: str, kind: Severity = "info") -> None:
        """A sentence for the status line."""
        for status in self.query(Status):
            status.tell(text, kind)
