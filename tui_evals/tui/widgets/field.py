"""The box in which a text is edited in place, with its keys and its error."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widgets import Static, TextArea

from tui_evals.text.safe import safe, safe_line, spelled, unspelled
from tui_evals.tui.actions import Action, bindings
from tui_evals.tui.widgets.dialogs import help_menu
from tui_evals.tui.widgets.finding import Complete
from tui_evals.tui.widgets.inputs import HOLDS_KEYS, EditArea, give_keys

Then = Literal["done", "next", "previous", "save"]
"""The next step after the text is applied: none, the next or previous field, or saving the file."""


class FieldBox(Vertical):
    """A text being edited: every change is posted, and the opener closes it once the text is accepted."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("field")]

    class Typed(Message):
        """The text is another one now."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Ended(Message):
        """The edit has ended; the box stays until it is closed or used again."""

        def __init__(self, text: str, then: Then) -> None:
            super().__init__()
            self.text = text
            self.then: Then = then

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.area = EditArea(spells=True)
        self.area.add_class(HOLDS_KEYS)
        self._hint = Static(classes="hint")
        self._told = ""
        self._problem = ""
        """The message about the field, apart from completions."""

    def compose(self) -> ComposeResult:
        yield self.area
        yield self._hint

    @property
    def text(self) -> str:
        """The current text, with hidden characters restored from their spelling in the box."""
        return unspelled(self.area.text)

    def begin(
        self,
        title: str,
        text: str,
        *,
        one_line: bool = False,
        json: bool = False,
        complete: Complete | None = None,
    ) -> None:
        """Edit a text; its hidden characters are spelled."""
        self.area.complete = complete
        self._told = text
        self.area.one_line, self.area.json = one_line, json
        self.area.load_text(spelled(text))
        self.area.move_cursor(self.area.document.end)
        self.border_title = Content(safe_line(title, 100))
        enter = "enter takes it" if one_line else "enter adds a line"
        self.border_subtitle = Content(f"esc done · tab next · {enter} · ctrl+s save")
        self.tell("")
        self.display = True
        self.focus_text()

    def close(self) -> None:
        """Hide it; the keys must be elsewhere by then."""
        self.display = False

    def focus_text(self) -> None:
        give_keys(self.area)

    def to_index(self, number: int) -> None:
        """Put the cursor before a character of the text."""
        before = spelled(self.text[:number]).split("\n")
        self.area.move_cursor((len(before) - 1, len(before[-1])))

    def tell(self, text: str, *, wrong: bool = False) -> None:
        """Show a message next to the field while the user types, over as many lines as needed."""
        self._problem = text
        self._hint_at_cursor()
        self.set_class(wrong, "wrong")
        self._hint.set_class(wrong, "wrong")

    def _hint_at_cursor(self) -> None:
        """Show the completion of the text, or else the message."""
        found = self.area.completion
        hint = Content(safe(found.words if found is not None else self._problem))
        if hint != self._hint.content:
            self._hint.update(hint)  # lays out the whole screen, so only if the text changed
        self._hint.display = bool(hint)

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        """Show the completion at the cursor."""
        event.stop()
        self._hint_at_cursor()

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        """Another height needs no second layout: the box never scrolls, and the area in it has got its size."""
        return super()._size_updated(size, virtual_size, container_size, layout=False)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Post the text, except for the one it began with."""
        event.stop()
        self._hint_at_cursor()
        if self.display and self.text != self._told:
            self._told = self.text
            self.post_message(self.Typed(self.text))

    # -- its part of the action table

    def action_act(self, name: str) -> None:
        getattr(self, f"do_{name}")()

    def do_done(self) -> None:
        self._end("done")

    def do_next(self) -> None:
        self._end("next")

    def do_previous(self) -> None:
        self._end("previous")

    def do_save(self) -> None:
        self._end("save")

    def do_line(self) -> None:
        if self.area.one_line:
            self._end("done")
        elif self.text:
            self.area.add_line()

    def do_zoom(self) -> None:
        self.toggle_class("whole")

    def do_undo(self) -> None:
        self.area.undo()

    def do_redo(self) -> None:
        self.area.redo()

    def do_help(self) -> None:
        self.app.push_screen(help_menu("field", lambda action: None), self._press)

    def _press(self, chosen: object) -> None:
        if isinstance(chosen, Action):
            self.action_act(chosen.name)

    def _end(self, then: Then) -> None:
        self.post_message(self.Ended(self.text, then))
