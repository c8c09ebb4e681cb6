"""Dialogs: one line of text, a sentence, a yes or no, rows to read, a list to choose from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from tui_evals.light_records import dataclass
from tui_evals.text.safe import safe, safe_line, spelled, unspelled
from tui_evals.tui.actions import ALONE, MOVING, PLACES, PROSE, Action, Where, actions_at, key_names
from tui_evals.tui.messages import StatusMessage
from tui_evals.tui.rows import Piece, Row, RowMaker, Style, fit, paragraph, row, wrapped
from tui_evals.tui.widgets.finding import Complete, letters_of, ranked
from tui_evals.tui.widgets.inputs import HOLDS_KEYS, CompletionSuggester, EditArea, LineInput, give_keys
from tui_evals.tui.widgets.lines import Lines

Outcome = TypeVar("Outcome")


class Dialog(ModalScreen[Outcome | None]):
    """A box in the middle; escape leaves it with nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "back", show=False)]

    def __init__(self, title: str, help: str = "") -> None:
        super().__init__(classes="dialog")
        self.HORIZONTAL_BREAKPOINTS = [(0, "narrow"), (100, "medium")]
        self._heading = title
        self._help = help

    def body(self) -> list[Widget]:
        """The widgets in the box."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        box = Vertical(*self.body(), Static(Content(safe(self._help)), classes="help"), classes="box")
        box.border_title = Content(safe_line(self._heading, 100))
        yield box

    def say(self, text: str, *, wrong: bool = True) -> None:
        """Show a sentence on the help line, for an entry that cannot be accepted."""
        line = self.query_one(".help", Static)
        line.update(Content(safe(text)))
        line.set_class(wrong, "wrong")

    def on_status_message(self, message: StatusMessage) -> None:
        """Show the message here, because the dialog hides the workbench's status line."""
        message.stop()
        self.say(message.text, wrong=message.kind != "info")

    def action_leave(self) -> None:
        """Leave with nothing."""
        self.dismiss(None)


Check = Callable[[str], str | None]
"""The problem of an entry, as a sentence; None if it is valid."""


class Ask(Dialog[str]):
    """One line of text; the answer is None if the user cancels.

    With `keeps`, escape accepts the text, as in every box. Otherwise escape cancels, after a warning if something was
    typed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "take", "take", show=False)]

    def __init__(
        self,
        title: str,
        value: str = "",
        *,
        hint: str = "",
        check: Check | None = None,
        keeps: bool = False,
        complete: Complete | None = None,
    ) -> None:
        keys = "esc or enter takes it" if keeps else "enter takes it · esc leaves it"
        super().__init__(title, f"{hint} · {keys}" if hint else keys)
        self._value = safe_line(value)
        self._check = check
        self._keeps = keeps
        self._complete = complete
        self._warned = False

    def body(self) -> list[Widget]:
        suggester = CompletionSuggester(self._complete) if self._complete else None
        return [LineInput(self._value, id="line", select_on_focus=False, suggester=suggester)]

    def on_input_changed(self, event: Input.Changed) -> None:
        self._warned = False
        problem = self._check(event.value) if self._check else None
        self.say(problem or self._help, wrong=problem is not None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.action_take()

    def action_take(self) -> None:
        """Take it, if it can be taken."""
        if problem := self._problem():
            self.say(problem)
        else:
            self.dismiss(self.query_one(Input).value)

    def _problem(self) -> str | None:
        return self._check(self.query_one(Input).value) if self._check else None

    def action_leave(self) -> None:
        """Accept or cancel, depending on `keeps`; warns before typed text is dropped."""
        typed = self.query_one(Input).value
        if typed == self._value or self._warned or not (self._keeps or typed.strip()):
            self.dismiss(None)
        elif not self._keeps:
            self._warned = True
            self.say(_not_taken(typed, "it", self._problem()))
        elif problem := self._problem():
            self.app.push_screen(unread_menu("the text", problem, file=False), self._decided)
        else:
            self.action_take()

    def _decided(self, choice: object) -> None:
        if choice == "drop":
            self.dismiss(None)


def _not_taken(text: str, what: str, problem: str | None) -> str:
    """The warning before a second press of escape discards a text: what enter takes, or why it cannot."""
    if problem:
        return f"“{safe_line(text, 60)}” cannot be taken: {problem.rstrip('.')}. esc again discards it."
    return f"“{safe_line(text, 60)}” is not taken yet. enter takes {what}, esc again discards it."


class Confirm(Dialog[bool]):
    """A question about something that costs or cannot be taken back; anything but `y` is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "yes", show=False),
        Binding("n,enter,q", "leave", "no", show=False, priority=True),
    ]

    def __init__(self, title: str, text: str, yes: str = "yes") -> None:
        super().__init__(title, f"y {yes} · n or esc leaves it")
        self._text = text

    def body(self) -> list[Widget]:
        lines = Lines(choosing=False, searching=False, classes="message")
        lines.show(lambda width: paragraph(self._text, width))
        return [lines]

    def action_yes(self) -> None:
        """Answer yes."""
        self.dismiss(True)


Price = Callable[[], Awaitable[tuple[str, Any]]]
"""Calculates a price: returns the question, empty if none is needed, and the value for a yes."""

_PRICING = "Working out what it costs…"


class ConfirmPriced(Confirm):
    """A question about money that opens at once; `y` is refused until its price is shown."""

    def __init__(self, title: str, price: Price, yes: str = "do it") -> None:
        super().__init__(title, _PRICING, yes)
        self.priced: Any = None
        """The priced work to confirm; None until the price is known."""
        self.failure: Exception | None = None
        """Why it cannot be done."""
        self._price = price

    def on_mount(self) -> None:
        self.run_worker(self._work_out(), group="price", name="working out what it costs", exit_on_error=False)

    async def _work_out(self) -> None:
        try:
            self._text, self.priced = await self._price()
        except Exception as problem:  # raised again where the question was asked
            self.failure = problem
            self.dismiss(None)
            return
        if not self._text:
            self.dismiss(True)
            return
        text = self._text
        self.query_one(Lines).show(lambda width: paragraph(text, width))
        self.say(self._help, wrong=False)

    def action_yes(self) -> None:
        """Answer yes, once the price is there."""
        if self.priced is None:
            self.say("Wait until the price is shown. Nothing has started.")
        else:
            super().action_yes()


class Asking(Protocol):
    """An application that can show a dialog."""

    async def push_screen_wait(self, screen: Dialog[Any]) -> Any:
        """The answer to a question."""


async def ask_priced(app: Asking, title: str, price: Price, yes: str = "do it") -> Any:
    """The priced work if the user confirms, otherwise None. Raises the exception of a failed estimate."""
    dialog = ConfirmPriced(title, price, yes)
    agreed = await app.push_screen_wait(dialog)
    if dialog.failure is not None:
        raise dialog.failure
    return dialog.priced if agreed else None


class ConfirmPage(Confirm):
    """A question that takes a page to ask: the rows scroll, and anything but `y` is no."""

    def __init__(self, title: str, maker: RowMaker, yes: str) -> None:
        super().__init__(title, "", yes)
        self._help = f"j k scroll · {self._help}"
        self._maker = maker

    def body(self) -> list[Widget]:
        lines = Lines(choosing=False, searching=False, classes="tall")
        lines.show(self._maker)
        return [lines]


class Reading(Dialog[None]):
    """Rows to read: help, a problem in full."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,question_mark", "leave", "back", show=False)]

    def __init__(self, title: str, maker: RowMaker) -> None:
        super().__init__(title, "j k scroll · esc back")
        self._maker = maker

    def body(self) -> list[Widget]:
        lines = Lines(choosing=False, classes="tall")
        lines.show(self._maker)
        return [lines]


class AskLong(Dialog[str]):
    """A sentence, a text of several lines, or JSON; returns None if it was cancelled or discarded."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "take", show=False),
        Binding("ctrl+s", "save", "take", show=False),
        Binding("ctrl+j", "line", "line", show=False),
        Binding("tab,shift+tab", "take", "take", show=False),
    ]
    DEFAULT_CSS = """
    AskLong EditArea { height: auto; min-height: 3; max-height: 12; border: none; padding: 0; background: $boost; }
    AskLong EditArea .text-area--cursor-line { background: transparent; }
    """

    def __init__(
        self,
        title: str,
        value: str,
        *,
        check: Check,
        lines: bool = False,
        json: bool = False,
        saving: bool = False,
        complete: Complete | None = None,
    ) -> None:
        """With `saving`, ctrl+s also submits the form that opened this box, which reads `saves`."""
        enter = "enter adds a line" if lines else "enter takes it"
        super().__init__(title, f"esc done · {enter}{' · ctrl+s takes the form too' if saving else ''}")
        self.saves = False
        self._value = value if lines else safe_line(value)
        self._box = EditArea(spelled(self._value), one_line=not lines, spells=True)
        self._box.json, self._box.complete = json, complete
        self._check = check

    def body(self) -> list[Widget]:
        return [self._box]

    def on_mount(self) -> None:
        self._box.move_cursor(self._box.document.end)
        give_keys(self._box)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._hint()

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._hint()

    def _hint(self) -> None:
        """Show the completion of the text, else its error."""
        found = self._box.completion
        problem = None if found is not None else self._check(unspelled(self._box.text))
        self.say(found.words if found is not None else problem or self._help, wrong=problem is not None)

    def action_line(self) -> None:
        """Begin a new line; a sentence has none and is taken."""
        if self._box.one_line:
            self.action_take()
        else:
            self._box.add_line()

    def action_take(self) -> None:
        """Accept the text; asks about an invalid one, so that it is not lost."""
        text = unspelled(self._box.text)
        if text == self._value:
            self.dismiss(None)
        elif problem := self._check(text):
            self.app.push_screen(unread_menu("the text", problem, file=False), self._decided)
        else:
            self.dismiss(text)

    def action_save(self) -> None:
        """Take it, and the form around it."""
        self.saves = True
        self.action_take()

    def _decided(self, choice: object) -> None:
        self.saves = False
        if choice == "drop":
            self.dismiss(None)

    def action_leave(self) -> None:
        """Escape accepts the text, as in every box."""
        self.action_take()


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to choose: its name, a word next to it, and more to read while the cursor is on it."""

    key: Hashable
    """What is chosen; None for an entry that can only be read."""
    name: str
    about: str = ""
    more: str | Callable[[], str] = ""
    """The details, or a function that reads them when the cursor is on the entry."""
    why_not: str = ""
    """Why it cannot be chosen now; the entry is dimmed and shows the reason."""
    marked: bool = False
    group: str = ""
    """A heading over it and those that follow with the same."""


_MOST = 300
"""Entries that are listed at once; more than that is not useful to scroll through."""


class Menu(Dialog[Any]):
    """A list; returns the key of an entry, or a tuple of keys with `several`, or None.

    With `several` and no marks, the entry at the cursor is chosen; with `optional` as well, none is. The entry that
    `typed` makes from the typed text is listed below the matching names, and escape asks before discarding it. `does`
    describes enter; `intro` is shown above the entries until something is typed. With `whole` the full descriptions are
    in the list, and `intro` is below the first group.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,ctrl+j", "step(1)", "down", show=False, priority=True),
        Binding("up,ctrl+k", "step(-1)", "up", show=False, priority=True),
        Binding("pagedown", "page(1)", "page down", show=False, priority=True),
        Binding("pageup", "page(-1)", "page up", show=False, priority=True),
        Binding("enter", "take", "take", show=False, priority=True),
        Binding("tab", "tab", "mark or complete", show=False, priority=True),
    ]

    def __init__(
        self,
        title: str,
        entries: Sequence[Entry],
        *,
        several: bool = False,
        optional: bool = False,
        empty: str = "nothing fits",
        typed: Callable[[str], Entry | None] | None = None,
        typing: str = "a new name",
        does: str = "takes",
        intro: str = "",
        whole: bool = False,
        says: str = "",
        at: Hashable = None,
    ) -> None:
        """The cursor begins on the entry with the key `at`, else on the first."""
        marking = "tab marks · " if several else "tab completes · " if typed else ""
        wanted = f"type to search, or {typing}" if typed else "type to search"
        super().__init__(title, f"{wanted} · {marking}enter {does} · esc leaves")
        self._entries = entries
        self._texts = [f"{entry.group} {entry.name} {entry.about}" for entry in entries]
        self._longest = max((len(entry.name) for entry in entries), default=0)
        self._several = several
        self._optional = optional
        self._marked = {entry.key for entry in entries if entry.marked}
        self._empty = empty
        self._typed = typed
        self._own: Entry | None = None
        """The entry made from the typed text."""
        self._warned = False
        """Whether it was said that leaving drops it."""
        self._intro = intro
        self._whole = whole
        self._says = says
        self._at = at
        self._words: list[str] = []
        self._shown: list[Entry] = list(entries)

    def body(self) -> list[Widget]:
        self._lines = Lines(searching=False, id="entries", classes="tall whole" if self._whole else "tall")
        self._more = Lines(choosing=False, classes="more")
        self._more.display = any(entry.more for entry in self._entries)
        self._lines.show(self._rows, at=self._at)
        says = [Static(Content(safe(self._says)), classes="says")] if self._says else []
        line = LineInput(placeholder="", id="line", classes=HOLDS_KEYS, select_on_focus=False)
        return [*says, line, self._lines, self._more]

    def on_input_changed(self, event: Input.Changed) -> None:
        self._words = event.value.casefold().split()
        names = [entry.name for entry in self._entries]
        found = ranked(event.value, names, self._texts, roughly=self._typed is None)
        self._shown = [self._entries[number] for number in (sorted(found) if self._whole else found)]
        own = self._own = self._typed(event.value) if self._typed else None
        if own is not None:
            named = ranked(event.value, names, [""] * len(names), roughly=False)
            self._shown.insert(len(found) if own.why_not else len(named), own)
        self._unwarn()
        self._lines.show(self._rows)
        self._lines.action_edge(-1)

    def _unwarn(self) -> None:
        """Say the keys again once the text or the cursor is another one."""
        if self._warned:
            self._warned = False
            self.say(self._help, wrong=False)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Show what there is to read about the entry under the cursor."""
        entry = self._entry(event.key)
        text = "" if entry is None else entry.more if isinstance(entry.more, str) else entry.more()
        self._more.show(lambda width: paragraph(text, width))

    def _entry(self, key: Hashable) -> Entry | None:
        return next((entry for entry in self._shown if entry.key == key), None)

    def _rows(self, width: int) -> list[Row]:
        shown = self._shown if len(self._shown) <= _MOST else self._shown[:_MOST]
        typed = 0 if self._own is None else len(self._own.name)
        column = min(max(self._longest, typed) + 2, width // 2)
        intro = paragraph(self._intro, width) if self._intro and not self._words else []
        rows: list[Row] = [] if self._whole else [*intro]
        intro = [row(), *intro] if intro and self._whole else []
        group = ""
        for entry in shown:
            if entry.group != group and (self._whole or not self._words):
                if group:
                    rows, intro = rows + intro, []
                group = entry.group
                rows += [*([row()] if rows else []), row((group, "title"))]
            rows += self._entry_rows(entry, column, width)
        if len(shown) < len(self._shown):
            rows.append(row((f"… {len(self._shown) - len(shown):,} more: another word finds them", "dim")))
        rows += intro
        nothing = f"nothing matches {' '.join(self._words)}" if self._words and self._entries else self._empty
        return rows or [row((nothing, "dim"))]

    def _entry_rows(self, entry: Entry, column: int, width: int) -> list[Row]:
        style: Style = "dim" if entry.why_not else "key" if self._whole and entry.key is not None else ""
        mark = Piece("▪ " if entry.key in self._marked else "  ", "mark") if self._several else Piece("")
        about = entry.about if self._whole else entry.why_not or entry.about
        room = column if about else width - len(mark.text)
        rest = width - room - len(mark.text)
        name = fit(entry.name, room, style)
        if not self._whole:
            return [Row((mark, *self._with_matches(name), fit(about, rest, "dim")), entry.key)]
        first, *more = wrapped(about, max(rest, 1))
        tone: Style = "dim" if entry.why_not else ""
        rows = [Row((mark, name, Piece(first, tone)), entry.key)]
        return rows + [row(" " * (width - rest), (line, tone)) for line in more]

    def _with_matches(self, name: Piece) -> list[Piece]:
        """A name with the letters marked that were typed."""
        pieces, at = [], 0
        for start, end in letters_of(" ".join(self._words), name.text):
            pieces += [Piece(name.text[at:start], name.style), Piece(name.text[start:end], "accent")]
            at = end
        return [*pieces, Piece(name.text[at:], name.style)]

    def action_step(self, way: int) -> None:
        """The keys of the list work while you type."""
        self._unwarn()
        self._lines.action_step(way)

    def action_page(self, way: int) -> None:
        """A screen on."""
        self._unwarn()
        self._lines.action_page(way)

    def action_tab(self) -> None:
        """Mark or unmark the entry under the cursor, or complete the line to its name."""
        entry = self._entry(self._lines.key)
        if self._several and entry is not None:
            self._marked ^= {entry.key}
            self._lines.show(self._rows)
        elif entry is not None and safe_line(entry.name) == entry.name:
            line = self.query_one(LineInput)
            line.value = entry.name
            line.cursor_position = len(entry.name)

    def action_leave(self) -> None:
        """Leave with nothing; a text that could be taken is dropped only by a second press."""
        own, entry = self._own, self._entry(self._lines.key)
        if own is None or self._warned:
            self.dismiss(None)
            return
        self._warned = True
        if entry is None or entry is own:
            self.say(_not_taken(own.name, "it", own.why_not))
        elif entry.why_not:
            self.say(_not_taken(own.name, "it once the cursor is on it", own.why_not))
        else:
            self.say(_not_taken(own.name, f"“{safe_line(entry.name, 60)}”", None))

    def action_take(self) -> None:
        """Take the entry under the cursor, or those that are marked."""
        entry = self._entry(self._lines.key)
        if self._several:
            chosen = [entry.key for entry in self._entries if entry.key in self._marked]
            under_cursor = [entry.key] if entry and not self._optional else []
            self.dismiss(tuple(chosen or under_cursor))
        elif entry is not None and entry.why_not:
            self.say(entry.why_not)
        elif entry is not None:
            self.dismiss(entry.key)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        event.stop()
        self.action_take()

    def on_mount(self, event: events.Mount) -> None:
        give_keys(self.query_one(Input))


def unread_menu(name: str, problem: str, *, file: bool = True) -> Menu:
    """Asks what to do with an invalid text: `edit`, `file` or `drop`; None also continues editing."""
    entries = [Entry("edit", "keep editing", "nothing is lost")]
    if file:
        entries.append(Entry("file", "put it into a file", "below .evals/kept; the field stays as it was"))
    entries.append(Entry("drop", "drop it", "what you wrote is lost"))
    return Menu(f"{name} cannot be taken as it is", entries, says=problem)


def help_menu(where: Where, why_not: Callable[[Action], str | None], *words: Entry) -> Menu:
    """The purpose of a place, its keys, those that work everywhere, and its glossary."""
    entries = []
    for place in (where,) if where in ALONE else (where, "everywhere"):
        for action in actions_at(place):
            keys = "  ".join(key_names(action))
            entries.append(Entry(action, keys, action.description, why_not=why_not(action) or "", group=PLACES[place]))
    intro = "\n".join((*PROSE.get(where, ()), MOVING))
    return Menu(f"help · {PLACES[where]}", [*entries, *words], does="does it", intro=intro, whole=True)
