"""What the rules screen shows: the rules in a list, one of them in full with its tests, and how things stand."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tui_evals.tui.actions import of
from tui_evals.tui.keyboard import give_keys
from tui_evals.tui.lines import Rows
from tui_evals.tui.messages import Kind, Said
from tui_evals.tui.state.making import Making
from tui_evals.tui.state.rules import Line, fitting
from tui_evals.tui.state.rules_rates import Board
from tui_evals.tui.state.watch import Watch
from tui_evals.tui.state.workspace import Workspace
from tui_evals.tui.views.parts import paragraph
from tui_evals.tui.views.rules import Columns, RuleRows, head_rows, no_rules, rule_rows
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.lines import Lines

from .rules_reading import Rulebook
from .rules_reasons import news_of

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
        self.making: Making | None = None
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

    def _board(self) -> Board:
        return self.book.board or Board()

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

    def on_said(self, message: Said) -> None:
        """Say it here, since the line of the workbench is not in sight."""
        message.stop()
        self.tell(message.text, message.kind)

    def tell(self, text: str, kind: Kind = "info") -> None:
        """A sentence for the status line."""
        for status in self.query(Status):
            status.tell(text, kind)
