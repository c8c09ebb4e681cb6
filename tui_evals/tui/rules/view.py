"""The rules' screen without its keys: the lists, what can be done now, and edits of rules and tests."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Input

from tui_evals.datasets.editing import Editing
from tui_evals.datasets.paths import CannotEdit
from tui_evals.files import CannotSave
from tui_evals.generate.folder import UnreadableFile
from tui_evals.light_records import dataclass
from tui_evals.present.battles import progress_text
from tui_evals.present.runs import command_wait_sentence
from tui_evals.store.battles import ActivityRow
from tui_evals.text.safe import safe_line
from tui_evals.tui import editing as item_edits
from tui_evals.tui.actions import Where
from tui_evals.tui.desk import Desk
from tui_evals.tui.messages import CopyText, ItemShown, Severity, ShowPane, StateChanged
from tui_evals.tui.pane import FeatureScreen
from tui_evals.tui.rows import Rows, Style, paragraph
from tui_evals.tui.rules.book import Columns, Rulebook, RuleRows, VerdictBoard, head_rows, no_rules, rule_rows
from tui_evals.tui.rules.state import (
    RuleLine,
    RuleTexts,
    deletion_words,
    filter_rules,
    texts_of,
    with_rule,
    with_rules,
    with_text,
    without_rule,
    write_files,
)
from tui_evals.tui.runs.run_status import why_no_run
from tui_evals.tui.runs.starting import start
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import AskLong, Confirm, Entry, Menu
from tui_evals.tui.widgets.inputs import LineInput, give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Selection


@dataclass(slots=True)
class Making:
    """A generation for the open dataset, as the store has it."""

    row: ActivityRow
    editing: Editing
    orders: int = 0
    """How often it was told to stop here."""

    @property
    def live(self) -> bool:
        """Whether it is being made."""
        return self.row.is_live

    @property
    def title(self) -> str:
        """A title for the generation."""
        title = self.row.request.get("title")
        return title if isinstance(title, str) else "a generation of the command line"


_ALWAYS = frozenset(("leave", "help"))
_OF_RULE = frozenset(("edit", "tests", "inverse"))
_MAKES = frozenset(("tests", "inverse"))
_CHANGES = frozenset(("edit", "new", "remove"))


def why_not(screen: RulesView, action: str) -> str | None:
    """Why an action is not possible now, or None."""
    if action in _ALWAYS:
        return None
    if action in ("stop", "messages"):
        return _of_making(screen, action)
    editing = screen.workspace.editing
    if editing is None:
        return "no dataset is open: go back with esc, o opens one"
    if action in ("undo", "redo", "save"):
        known = {"undo": editing.can_undo, "redo": editing.can_redo, "save": editing.dirty}
        nothing = {"undo": "there is nothing to undo", "redo": "there is nothing to redo"}
        return None if known[action] else nothing.get(action, "nothing to save: the file is as it is here")
    if not screen.has_rules:
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
        return "save first (ctrl+s): tests are written to the file of the dataset"
    return None


def news_lines(making: Making | None, book: Rulebook) -> list[tuple[str, Style]]:
    """Further messages: running work, files that differ, unreadable runs."""
    lines: list[tuple[str, Style]] = []
    if making is not None and making.live:
        seconds = max(time.time() - making.row.created, 0)
        lines.append(
            (f"▸ making {making.title}, {seconds:.0f} s · x stops it · {progress_text(making.row)}", "running")
        )
        if making.row.wait is not None:
            lines.append((command_wait_sentence(making.row.wait, time.time(), is_over=False), "warn"))
    elif book.differs:
        lines.append(("▲ rules.txt next to the dataset has other rules. e, n, t and i ask which to use", "warn"))
    if book.problem:
        lines.append((f"✗ {book.problem}", "error"))
    return lines


_BESIDE = 120  # columns from which a rule in full is next to the list
_TICK = 1.0

_CSS = """
RulesView { layout: vertical; background: $background; }
RulesView #head { max-height: 30%; scrollbar-size-horizontal: 0; border-bottom: solid $border-blurred; }
RulesView #both { height: 1fr; layout: vertical; }
RulesView #rules-side { height: 1fr; }
RulesView #tests { border-top: solid $border-blurred; }
RulesView.tests #rules-side { height: 35%; }
RulesView.beside #both { layout: horizontal; }
RulesView.beside #rules-side { width: 1fr; height: 1fr; }
RulesView.beside #tests { width: 1fr; border-top: none; border-left: solid $border-blurred; }
"""


class RulesView(FeatureScreen):
    """Lists the rules and the tests of one of them; it keeps its state while another screen is shown."""

    where: ClassVar[Where] = "rules"
    DEFAULT_CSS = _CSS

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.workspace = desk.workspace
        self.book = Rulebook(self, desk.workspace, desk.watching, self.refresh_all)
        self.making: Making | None = None
        """The current or latest generation for this project."""
        self.cursor_target: object = None
        """The rule for the cursor, once it exists."""
        self.words = ""
        self.shown: dict[object, tuple[int, ...]] = {}
        self._file: object = None
        self.away = True
        """Whether the user was elsewhere, where anything may have changed."""

    def compose(self) -> ComposeResult:
        """The head, the rules, the tests of one rule, the messages and the keys."""
        self.top = Lines(choosing=False, id="head")
        self.titles = Lines(choosing=False, id="titles")
        for part in (self.top, self.titles):
            part.can_focus = False
        self.top.styles.height, self.titles.styles.height = "auto", 1
        self.rules, self.tests = Lines(searching=False, id="rules"), Lines(searching=False, id="tests")
        self.entry = LineInput(placeholder="words of a rule or of its tests", classes="filter")
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
        """Show the current rules."""
        self.set_class(self.app.size.width >= _BESIDE, "beside")
        if self.focused is None:
            give_keys(self.rules)
        if self.away:
            self.away = False
            self.book.touch()
        self.refresh_all()

    def on_resize(self, event: events.Resize) -> None:
        """Side by side if there is room."""
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
    def line(self) -> RuleLine | None:
        """The rule under the cursor."""
        return self.book.sheet.line(self.rules.key)

    @property
    def test(self) -> int | None:
        """The test under the cursor, by its position, where the keys go to the tests."""
        key = self.tests.key
        return key if self.focused is self.tests and isinstance(key, int) else None

    @property
    def has_rules(self) -> bool:
        """Whether the open dataset was made from rules."""
        return bool(self.book.sheet.texts.output)

    # -- showing

    def refresh_all(self) -> None:
        """Show the current state, and read what has changed."""
        if not self.is_mounted:
            return
        file = self.workspace.editing and self.workspace.editing.document.file
        if file != self._file:
            self._file, self.words, self.entry.value, self.entry.display = file, "", "", False
        self.book.soon()
        self._head()
        self._list()
        self._rule()
        self.offer_keys()

    def _board(self) -> VerdictBoard:
        return self.book.board or VerdictBoard()

    def _head(self) -> None:
        book, news = self.book, news_lines(self.making, self.book)
        self.top.display = self.has_rules
        self.top.show(lambda width: head_rows(book.sheet, book.board, news, width))

    def _list(self) -> None:
        sheet, verdicts = self.book.sheet, self._board()
        self.shown = filter_rules(sheet, self.words.casefold().split()) if self.has_rules else {}
        shown = self.shown

        def rows(width: int) -> Rows:
            if not self.has_rules:
                return self._none(width)
            if not shown:
                return paragraph(f"No rule and no test holds “{self.words}”; esc shows all.", width, "dim")
            return rule_rows(sheet, verdicts, shown, Columns(verdicts, list(shown), width))

        self.rules.filtered = self.tests.filtered = bool(self.words.strip())
        self.titles.display = self.has_rules
        self.tests.display = self.has_rules
        self.titles.show(lambda width: [Columns(verdicts, list(shown), width).title(verdicts)])
        at, self.cursor_target = self.cursor_target, None if self.book.ready else self.cursor_target
        self.rules.show(rows, at=at if at in shown else None)

    def _none(self, width: int) -> Rows:
        """Why there are no rules to show."""
        return no_rules(self.workspace.data.get("prompt_file"), width) if self.book.ready else paragraph("…", width)

    def _rule(self, another: bool = False) -> None:
        """Show the rule under the cursor with its tests."""
        sheet, verdicts, key = self.book.sheet, self._board(), self.rules.key
        tests = self.shown.get(key)
        if tests is None:
            self.tests.show(lambda width: [])
            return
        self.tests.show(
            lambda width: RuleRows(sheet, verdicts, key, tests, width), at=tests[0] if another and tests else None
        )
        if another:
            # Behind what brings the cursor into view, so that the rule itself is read first.
            self.tests.call_after_refresh(self.tests.call_after_refresh, self.tests.scroll_home, animate=False)

    def why_not(self, action: str) -> str | None:
        """Why an action is not possible now, or None."""
        return why_not(self, action)

    # -- messages

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Show the rule the cursor is on."""
        event.stop()
        if event.lines is self.rules:
            self.rules.reveal()
            self._rule(another=True)
        self.offer_keys()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The list one is in has more room, and keys of its own."""
        among = self.focused is self.tests
        self.set_class(among, "tests")
        for lines in (self.rules, *([self.tests] if among else [])):
            lines.call_after_refresh(self._into_view, lines)
        self.offer_keys()

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

    def changed(self) -> None:
        """The dataset was changed here."""
        self.app.post_message(StateChanged())
        self.book.touch()
        self.refresh_all()

    def tell_everywhere(self, text: str, kind: Severity = "info") -> None:
        """Show the message on the active screen."""
        self.tell(text, kind)
        self.desk.tell(text, kind)

    def leave(self) -> None:
        """Back to the workbench, unless something else is on screen already."""
        if self.is_current:
            self.away = True
            self.dismiss(None)


_FILES = "here and in rules.txt"
_INVERSE = "here and in inverse_rules.txt"


# -- rules


async def edit_rule(screen: RulesView, line: RuleLine) -> None:
    """Edit a rule."""
    if not await files_agree(screen):
        return
    title = f"inverse of rule {line.rule.of}" if line.rule.inverse else f"rule {line.rule.of}"
    shown, before = safe_line(line.rule.text), screen.book.sheet.texts
    text = await screen.app.push_screen_wait(
        AskLong(title, line.rule.text, check=lambda text: None if text == shown else _problem(before, line, text))
    )
    if text is None or text == shown:
        return
    message = f"{title} changed {_INVERSE if line.rule.inverse else _FILES}"
    message += "; t generates its tests again" if line.tests else ""
    await apply_rules(screen, with_text(before, line.key, text), f"edit {title}", message)


def _problem(texts: RuleTexts, line: RuleLine, text: str) -> str | None:
    try:
        with_text(texts, line.key, text)
    except CannotEdit as problem:
        return str(problem)
    return None


async def add_rule(screen: RulesView) -> None:
    """Another rule at the end, with a plain one that inverts it."""
    if not await files_agree(screen):
        return
    before = screen.book.sheet.texts

    def problem(text: str) -> str | None:
        try:
            with_rule(before, text)
        except CannotEdit as problem:
            return str(problem)
        return None

    text = await screen.app.push_screen_wait(AskLong("a new rule: what every output has to keep", "", check=problem))
    if text is None:
        return
    after = with_rule(before, text)
    number = len(after.output)
    message = f"rule {number} and a plain inverse added; i has a better one written, t its tests"
    if not before.paired:
        message = f"rule {number} added {_FILES}; t makes its tests"
    await apply_rules(screen, after, f"new rule {number}", message, at=(False, number))


async def remove_rule(screen: RulesView, line: RuleLine) -> None:
    """Delete a rule, after saying what that means for its tests."""
    if not await files_agree(screen):
        return
    before = screen.book.sheet.texts
    try:
        after = without_rule(before, line.key)
    except CannotEdit as problem:
        screen.tell(str(problem), "warn")
        return
    name = f"rule {line.rule.of}" if not line.rule.inverse else f"the inverse of rule {line.rule.of}"
    turned = screen.book.sheet.line((True, line.rule.of)) if before.paired else None
    tests = len(line.tests) + (len(turned.tests) if turned is not None else 0)
    text = f"“{safe_line(line.rule.text, 200)}”" + (" and the rule that inverts it go" if turned else " goes")
    text += f", {_FILES}. {deletion_words(tests)}"
    if await screen.app.push_screen_wait(Confirm(f"Delete {name}?", text, "delete")):
        await apply_rules(screen, after, f"delete {name}", f"{name} deleted {_FILES}; u brings it back")


async def apply_rules(screen: RulesView, after: RuleTexts, what: str, says: str, at: object = None) -> None:
    """Write other rules to the files and the dataset, as one undoable step."""
    book, workspace = screen.book, screen.workspace
    sheet, editing, data = book.sheet, workspace.editing, workspace.data
    try:
        await asyncio.to_thread(write_files, book.origin.folder, sheet.texts, after, sheet.most)
        changed = await asyncio.to_thread(with_rules, data, sheet, after)
    except (CannotSave, CannotEdit, UnreadableFile) as problem:
        screen.tell(str(problem), "error")
        return
    if workspace.editing is not editing or workspace.data is not data:
        screen.tell("the dataset was changed by another edit; try again", "warn")
        return
    workspace.apply(changed, what)
    screen.cursor_target = at
    screen.changed()
    screen.tell(says)


async def files_agree(screen: RulesView) -> bool:
    """Whether the files next to the dataset hold its rules; where they do not, ask which ones count."""
    book = screen.book
    await book.settled()
    files, own = book.origin.texts, book.sheet.texts
    if not book.differs or files is None:
        return True
    entries = [
        Entry("files", "those of the files", "they come into the dataset; u takes that back"),
        Entry("own", "those of the dataset", "they are written into rules.txt and inverse_rules.txt"),
    ]
    choice = await screen.app.push_screen_wait(
        Menu("The files next to the dataset have other rules. Which do you want?", entries)
    )
    if choice == "own":
        try:
            await asyncio.to_thread(write_files, book.origin.folder, files, own, book.sheet.most)
        except (CannotSave, UnreadableFile) as problem:
            screen.tell(str(problem), "error")
        else:
            screen.tell("the files have the rules of the dataset now; you can continue")
        book.touch()
    elif choice == "files":
        workspace = screen.workspace
        workspace.apply(
            await asyncio.to_thread(with_rules, workspace.data, book.sheet, files), "the rules of the files"
        )
        screen.changed()
        screen.tell("the dataset has the rules of the files now; you can continue")
    return False


async def after_step(screen: RulesView, step: str | None, before: RuleTexts, says: str) -> None:
    """After undo or redo: the files go along, unless they held other rules anyway."""
    book, workspace = screen.book, screen.workspace
    if step is None:
        return
    after = texts_of(workspace.data)
    if book.origin.texts == before and after != before:
        try:
            await asyncio.to_thread(write_files, book.origin.folder, before, after, book.sheet.most)
        except (CannotSave, UnreadableFile) as problem:
            screen.tell(str(problem), "error")
    screen.changed()
    screen.tell(f"{says}: {step}")


# -- tests


def open_test(screen: RulesView, position: int) -> None:
    """Go to a test in the editor of items."""
    desk = screen.desk
    screen.workspace.where = ("items", position)
    screen.leave()
    for message in (ItemShown(), ShowPane("editor")):
        desk.post_message(message)
    desk.tell("7 goes back to the rules")


def remove_test(screen: RulesView, position: int) -> None:
    """Delete a test without asking, because undo restores it."""
    try:
        message = item_edits.remove(screen.workspace, [position])
    except CannotEdit as problem:
        screen.tell(str(problem), "warn")
        return
    screen.changed()
    screen.tell(message)


async def run_tests(screen: RulesView, positions: tuple[int, ...] | None, says: str) -> None:
    """Show the form with the cost, run the tests, and watch the run."""
    desk = screen.desk
    if reason := why_no_run(desk):
        screen.tell(reason, "warn")
        return
    if await start(desk, Selection(positions, says)):
        screen.leave()


async def copy_menu(screen: RulesView) -> None:
    """Choose what goes to the clipboard."""
    sheet, line, test = screen.book.sheet, screen.line, screen.test
    parts: dict[str, str] = {}
    if line is not None:
        parts["rule"] = line.rule.text
        other = sheet.line((not line.rule.inverse, line.rule.of))
        parts["inverse"] = other.rule.text if other is not None else ""
    if test is not None:
        case = sheet.cases[test]
        parts |= {"test": case.name, "input": case.question, "expected": case.expected}
    parts["all rules"] = "\n".join((*sheet.texts.output, *sheet.texts.inverse))
    entries = [
        Entry(name, name, safe_line(text, 60), why_not="" if text else "there is none") for name, text in parts.items()
    ]
    chosen = await screen.app.push_screen_wait(Menu("copy", entries))
    if chosen is not None:
        screen.app.post_message(CopyText(parts[chosen], chosen))
        screen.tell(f"{chosen} copied")
