"""A form as a list of fields: enter edits one, errors are next to it, and the last row submits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from tui_evals.text.safe import safe_line
from tui_evals.tui.rows import Row, fit, row, wrapped
from tui_evals.tui.widgets.dialogs import Ask, AskLong, Dialog, Entry, Menu, unread_menu
from tui_evals.tui.widgets.finding import Complete
from tui_evals.tui.widgets.form_fields import (
    DATA_STARTS,
    IN_LINES,
    LIST,
    MAPPING,
    NOT_TYPED,
    Faults,
    Field,
    ListShape,
    Shape,
    Start,
    Values,
    data_field,
    entry_faults,
    fits_line,
    free_key,
    line_text,
    read_value,
    shown_value,
    written_value,
)
from tui_evals.tui.widgets.inputs import HOLDS_KEYS, CompletionSuggester, LineInput, give_keys
from tui_evals.tui.widgets.lines import Lines


class _Step:
    """The key of a row below the fields."""


DONE, LEAVE = _Step(), _Step()


class Form(Dialog[dict[str, Any]]):
    """Fields with values; the answer is the values that are given, or None.

    One that `keeps` is a text written in parts: escape takes it, as in every box. Others begin something, which escape
    does not.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", "take", show=False, priority=True),
        Binding("tab", "go(1)", "next", show=False, priority=True),
        Binding("shift+tab", "go(-1)", "previous", show=False, priority=True),
        Binding("delete,D", "drop", "not given", show=False),
        Binding("space", "rows", "rows", show=False),
        Binding("ctrl+j", "line", "line", show=False),
        Binding("v", "json", "JSON", show=False),
    ]

    def __init__(
        self,
        title: str,
        fields: Sequence[Field],
        values: Values,
        *,
        check: Callable[[Values], Faults] = lambda values: {},
        done: str = "take it",
        says: str = "",
        keeps: bool = False,
        leave: str = "",
        note: Callable[[str, Values], str] = lambda name, values: "",
        writes: bool = False,
        complete: Complete | None = None,
    ) -> None:
        """`note` is what there is to say of a field with these values, also while it is typed.

        With `writes` the first field is open at first.
        """
        leaving = "esc or ctrl+s takes" if keeps else "ctrl+s takes · esc leaves"
        super().__init__(title, f"enter edits · D leaves it out · v JSON · tab next · {leaving}")
        self._fields = {field.name: field for field in fields}
        self.values: dict[str, Any] = dict(values)
        self._given = dict(values)
        self._keeps = keeps
        self._begun = ""
        """The initial text of the line."""
        self._check = check
        self._done = done
        self._says = says
        self._leave = leave
        """The label of the row that leaves the form, if there is one."""
        self._note = note
        self._writes = writes
        self._complete = complete
        """Completes typed texts."""
        self._editing: Field | None = None

    def body(self) -> list[Widget]:
        """The fields, and a line to type in while one is edited."""
        self._lines = Lines(id="fields", classes="tall")
        self._lines.show(self._rows)
        suggester = None if self._complete is None else CompletionSuggester(self._complete)
        self._input = LineInput(id="line", classes=HOLDS_KEYS, select_on_focus=False, suggester=suggester)
        self._input.display = False
        return [self._lines, self._input]

    def on_mount(self) -> None:
        """Begin to type, in a form that begins with it."""
        if self._writes:
            self.call_after_refresh(self.action_edit)

    def redraw(self, says: str | None = None) -> None:
        """Show the current values, and a message above the last row."""
        self._says = self._says if says is None else says
        self._lines.show(self._rows)

    def _rows(self, width: int) -> list[Row]:
        faults = self._check(self.values)
        fields = {name: one for name, one in self._fields.items() if name in self.values or one.applies(self.values)}
        column = min(max(map(len, fields), default=0) + 2, width // 2)
        rows: list[Row] = []
        for name, one in fields.items():
            value = self.values.get(name)
            shown = fit(one.default or "–", width - column - 2, "dim")
            if value is not None:
                shown = fit(shown_value(value), width - column - 2, "accent")
            rows.append(row("  ", fit(name, column, "strong"), shown, key=name))
            if name == self._lines.key or name in faults:
                rows += [row(" " * (column + 2), (line, "dim")) for line in wrapped(one.about, width - column - 2)]
                said = self._note(name, self.values)
                rows += [row(" " * (column + 2), (line, "")) for line in wrapped(said, width - column - 2) if said]
            if name in faults:
                rows += [row(" " * (column + 2), (line, "error")) for line in wrapped(faults[name], width - column - 2)]
        rows.append(row())
        for text, style in ((self._says, ""), (faults.get("", ""), "error")):
            rows += [row("  ", (line, style)) for line in wrapped(text, width - 2) if text]  # type: ignore[arg-type]
        rows.append(row((f"  ▸ {self._done}", "key"), key=DONE))
        if self._leave:
            rows.append(row((f"  ▸ {self._leave}", "key"), key=LEAVE))
        return rows

    def on_lines_moved(self, event: Lines.Moved) -> None:
        self._lines.show(self._rows)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        event.stop()
        self.action_edit()

    def action_edit(self) -> None:
        """Edit the field at the cursor according to its kind."""
        name = self._lines.key
        if name is DONE:
            self.action_take()
        elif name is LEAVE:
            self.action_leave()
        elif isinstance(name, str):
            one = self._fields[name]
            if one.make is not None and name not in self.values:
                self._offer_made(one, *one.make)
            else:
                self.edit(one, self.values.get(name))

    def edit(self, one: Field, value: Any) -> None:
        """Edit a value according to its kind."""
        if one.kind == "yes":
            self._set(one, {None: True, True: False, False: None}[value])
        elif one.kind in ("choice", "several"):
            self._choose(one, value)
        elif one.kind == "object":
            self.fill(one, value or {})
        elif one.kind == "rows" and one.rows is not None:
            self._list(one, one.rows, value)
        elif one.kind in IN_LINES or not fits_line(value):
            self._write(one, value)
        else:
            self._editing = one
            self._begun = "" if value is None else line_text(one.kind, value)
            self._input.value = self._begun
            self._input.placeholder = safe_line(one.name, 60)
            self._input.select_all()
            self._input.display = True
            give_keys(self._input)
            self._hint(self._begun)

    def action_rows(self) -> None:
        """Edit the value under the cursor as rows, where it can be a list or a mapping; else as enter does."""
        one = self._fields.get(str(self._lines.key))
        if one is None or one.kind not in ("value", "values", "map"):
            self.action_edit()
            return
        value = self.values.get(one.name)
        if isinstance(value, (dict, list)):
            self._list(one, MAPPING if isinstance(value, dict) else LIST, value)
        elif one.kind == "value":
            menu = Menu(one.name, start_entries(DATA_STARTS))
            self.app.push_screen(menu, lambda number: None if number is None else self._begin(one, DATA_STARTS[number]))
        else:
            self._list(one, MAPPING if one.kind == "map" else LIST, None)

    def _begin(self, one: Field, start: Start) -> None:
        """Edit a value of another kind, starting with its template."""
        self.edit(replace(data_field(one.name, start.value), about=one.about), start.value)

    def _choose(self, one: Field, now: Any) -> None:
        several = one.kind == "several"
        marked = set(now or ()) if several else {now}
        choices = one.choices(self.values) if callable(one.choices) else one.choices
        choices = [*choices, *(choice for choice in marked if choice and choice not in choices)]
        entries = [Entry(choice, choice, marked=choice in marked) for choice in choices]

        def chosen(choice: Any) -> None:
            if choice is not None:
                self._set(one, list(choice) if several else choice)

        self.app.push_screen(Menu(one.name, entries, several=several, empty="there is nothing to choose yet"), chosen)

    def fill(self, one: Field, before: Values) -> None:
        """Write an object in a form of its own."""
        shape = one.shape
        assert shape is not None

        def filled(values: dict[str, Any] | None) -> None:
            if values is not None:
                self._set(one, shape.written(before, values))

        self.app.push_screen(object_form(one.name, shape, before, complete=self._complete), filled)

    def _list(self, one: Field, rows: ListShape, value: Any) -> None:
        """Write the entries of a list or a mapping one by one."""

        def listed(entries: dict[str, Any] | None) -> None:
            if entries is not None:
                self._set(one, entries if rows.named else list(entries.values()))

        form = ListForm(one.name, rows, value or (), says=one.about, complete=self._complete)
        self.app.push_screen(form, listed)

    def _offer_made(self, one: Field, name: str, value: Any) -> None:
        """Offer a value made of existing data, next to writing one."""

        def chosen(choice: Any) -> None:
            if choice == "make":
                self._set(one, value)
            elif choice == "write":
                self.edit(one, None)

        entries = [Entry("make", name, shown_value(value)), Entry("write", "write it", "field by field")]
        self.app.push_screen(Menu(one.name, entries), chosen)

    def action_json(self) -> None:
        """Write the value under the cursor as JSON."""
        one = self._fields.get(str(self._lines.key))
        if one is not None:
            self._write(replace(one, kind="json"), self.values.get(one.name))

    def _write(self, one: Field, value: Any, more: str = "") -> None:
        """Write a value in lines, JSON, or a text of several lines, in a box of its own."""
        text = "" if value is None else written_value(one.kind, value)

        def written(answer: str | None) -> None:
            if answer is not None:
                self._set(one, read_value(one.kind, answer)[0])
            if box.saves and self._keeps:
                self.action_take()

        box = value_box(one, text + more, saving=self._keeps, complete=self._complete)
        self.app.push_screen(box, written)

    def action_line(self) -> None:
        """Go on with a second line of the text that is typed, in a box of its own."""
        one = self._editing
        if one is not None and one.kind == "text" and self._take_line():
            self._write(one, self.values.get(one.name), "\n")

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._input.display:
            self._hint(event.value)

    def _hint(self, text: str) -> None:
        """Show what the line is for and how it is read, or its error."""
        one = self._editing
        if one is None:
            return
        value, problem = read_value(one.kind, text)
        noted = "" if problem else self._note(one.name, {**self.values, one.name: value})
        about = ": ".join(filter(None, (one.name, noted or one.about)))
        self.say(problem or f"{about} · enter takes it · tab next", wrong=bool(problem))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._take_line()

    def _take_line(self) -> bool:
        """Accept the typed line, if there is one; False, with a message, if it is invalid."""
        if self._editing is None:
            return True
        value, problem = read_value(self._editing.kind, self._input.value)
        if problem:
            self.say(problem)
            return False
        one = self._editing
        changed = self._input.value != self._begun
        self._end_typing()
        if changed:
            self._set(one, value)
        return True

    def _end_typing(self) -> None:
        self._editing = None
        self._input.display = False
        give_keys(self._lines)
        self.say(self._help, wrong=False)

    def _set(self, one: Field, value: Any) -> None:
        if value is None or value == []:
            self.values.pop(one.name, None)
        else:
            self.values[one.name] = value
        self._lines.show(self._rows)
        self.values_changed()

    def values_changed(self) -> None:
        """A hook for a form that works something out from its values."""

    def action_drop(self) -> None:
        """Leave the field under the cursor out."""
        name = self._lines.key
        if isinstance(name, str) and name in self._fields:
            self._set(self._fields[name], None)

    def action_go(self, way: int) -> None:
        """Take the line and type in the next field; from the list only to its row."""
        typing = self._editing is not None
        if not self._take_line():
            return
        self._lines.action_step(way)
        following = self._fields.get(str(self._lines.key))
        if typing and following is not None and following.kind not in NOT_TYPED:
            self.action_edit()

    def action_take(self) -> None:
        """Take the line and the values, unless something is wrong with them."""
        if not self._take_line():
            return
        faults = self._check(self.values)
        if faults:
            self.say(next(iter(faults.values())))
            self._lines.show(self._rows)
        else:
            self.dismiss(self.values)

    def action_leave(self) -> None:
        """Leave the current field, otherwise the form; asks about an invalid text, so that it is not lost."""
        if self._editing is not None:
            _, problem = read_value(self._editing.kind, self._input.value)
            if problem:
                self.app.push_screen(unread_menu(self._editing.name, problem, file=False), self._line_decided)
            else:
                self._take_line()
        elif not self._keeps or self.values == self._given:
            self.dismiss(None)
        elif faults := self._check(self.values):
            self.app.push_screen(unread_menu("the form", next(iter(faults.values())), file=False), self._form_decided)
        else:
            self.dismiss(self.values)

    def _line_decided(self, choice: object) -> None:
        if choice == "drop":
            self._end_typing()

    def _form_decided(self, choice: object) -> None:
        if choice == "drop":
            self.dismiss(None)


def object_form(title: str, shape: Shape, before: Values, complete: Complete | None = None) -> Form:
    """The form of an object; its answer are the values by their names, which `shape.written` makes an object of."""
    return Form(
        title,
        shape.fields(before),
        shape.values(before),
        check=lambda values: shape.faults(shape.written(before, values)),
        keeps=True,
        writes=not before,
        complete=complete,
    )


def value_box(one: Field, text: str, *, saving: bool = False, complete: Complete | None = None) -> AskLong:
    """A box for a value that is written in lines, as JSON, or as a text of several lines."""
    return AskLong(
        f"{one.name}{IN_LINES.get(one.kind, '')}",
        text,
        check=lambda text: read_value(one.kind, text)[1],
        lines=True,
        json=one.kind == "json",
        saving=saving,
        complete=complete,
    )


async def ask_value(app: App[Any], one: Field, before: Any, complete: Complete | None = None) -> Any:
    """Ask for a value in a form or dialog according to its kind; None if cancelled."""
    if one.kind == "object" and one.shape is not None:
        values = await app.push_screen_wait(object_form(one.name, one.shape, before or {}, complete))
        return None if values is None else one.shape.written(before or {}, values)
    if one.kind == "rows" and one.rows is not None:
        form = ListForm(one.name, one.rows, before or (), says=one.about, complete=complete)
        entries = await app.push_screen_wait(form)
        return entries if entries is None or one.rows.named else list(entries.values())
    written = "" if before is None else written_value(one.kind, before)
    text = await app.push_screen_wait(value_box(one, written, complete=complete))
    return None if text is None else read_value(one.kind, text)[0]


def start_entries(starts: Iterable[Start]) -> list[Entry]:
    """The initial values to choose from, by number."""
    return [Entry(number, one.name, one.about, one.more or one.about) for number, one in enumerate(starts)]


class ListForm(Form):
    """The entries of a list or a mapping, each written in its own way; the answer has them in their order."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "add", "add", show=False),
        Binding("c", "rename", "name", show=False),
        Binding("J", "move(1)", "down", show=False),
        Binding("K", "move(-1)", "up", show=False),
    ]

    def __init__(
        self,
        title: str,
        rows: ListShape,
        entries: Mapping[str, Any] | Sequence[Any],
        *,
        says: str = "",
        complete: Complete | None = None,
    ) -> None:
        done = "take these"
        super().__init__(title, (), {}, done=done, says=says, keeps=True, check=self._faults, complete=complete)
        naming = "c name · " if rows.named else ""
        self._help = f"enter edits · a adds · D deletes · {naming}J K move · v JSON · esc or ctrl+s takes"
        self._shape = rows
        self._new: tuple[int, Field] | None = None
        """The position of an entry that is being added."""
        self._number(entries.items() if isinstance(entries, Mapping) else [("", one) for one in entries])
        self._given = dict(self.values)

    def on_mount(self) -> None:
        """An empty list begins with its first entry."""
        if not self.values:
            self.call_after_refresh(self.action_add)

    def _faults(self, values: Values) -> Faults:
        faults = {name: entry_faults(self._shape.entry(name, value), value) for name, value in values.items()}
        return {name: said for name, said in faults.items() if said}

    def _number(self, entries: Iterable[tuple[str, Any]], at: int | None = None) -> None:
        """Show these entries, each by its name or number, with the cursor on one."""
        named = self._shape.named
        self.values = {name if named else str(number): value for number, (name, value) in enumerate(entries, 1)}
        self._fields = {name: self._shape.entry(name, value) for name, value in self.values.items()}
        if at is not None:
            names = list(self.values)
            self._lines.show(self._rows, at=names[min(at, len(names) - 1)] if names else DONE)

    def _set(self, one: Field, value: Any) -> None:
        entries = list(self.values.items())
        if self._new is not None and self._new[1] is one:
            at, self._new = self._new[0], None
            entries[at:at] = [] if value is None else [(one.name, value)]
        else:
            at = list(self.values).index(one.name)
            entries[at : at + 1] = [] if value is None else [(one.name, value)]
        self._number(entries, at)

    @property
    def _at(self) -> int:
        """The position of the entry under the cursor; the end where there is none."""
        names = list(self.values)
        return names.index(self._lines.key) if self._lines.key in names else len(names)

    def action_add(self) -> None:
        """Add an entry after the one under the cursor."""
        if self._shape.named and not any(start.key for start in self._shape.starts):
            name = Ask(f"add to {self._heading}", hint=self._shape.pair_hint, check=self._why_not_pair)
            self.app.push_screen(name, self._add_named)
        else:
            self._choose_start("")

    def _why_not_name(self, name: str) -> str | None:
        if not name:
            return "give it a name"
        return f"there is a {safe_line(name, 40)} already" if name in self.values else None

    def _why_not_pair(self, text: str) -> str | None:
        name, value = self._pair(text)
        refused = value is None and name != text.strip().rstrip(": ")
        return self._why_not_name(name) or (f"{self._shape.pair_hint} is wanted here" if refused else None)

    def _pair(self, text: str) -> tuple[str, Any]:
        """A name, and the value after its colon if one is typed."""
        read = self._shape.pair
        if read is None:
            return text.strip(), None
        name, _, value = (part.strip() for part in text.partition(":"))
        return name, read(value) if value else None

    def _add_named(self, text: str | None) -> None:
        if text is not None:
            name, value = self._pair(text)
            if value is None:
                self._choose_start(name)
            else:
                self._add(name, value)

    def _choose_start(self, name: str) -> None:
        starts = self._shape.starts

        def chosen(number: int | None) -> None:
            if number is not None:
                key = name or free_key(starts[number].key, self.values)
                value = self._shape.renamed(starts[number].key, key, starts[number].value)
                self._add(key, value, whole=bool(starts[number].key))

        if len(starts) == 1:
            chosen(0)
        else:
            self.app.push_screen(Menu(f"add to {name or self._heading}", start_entries(starts)), chosen)

    def _add(self, name: str, value: Any, *, whole: bool = False) -> None:
        """Add a value that is valid, or edit it first; an empty one is valid if `whole`."""
        at = min(self._at + 1, len(self.values))
        one = self._shape.entry(name if self._shape.named else str(at + 1), value)
        self._new = (at, one)
        if (value in ("", [], {}) and not whole) or entry_faults(one, value):
            self.edit(one, value)
        else:
            self._set(one, dict(value) if isinstance(value, dict) else value)

    def action_rename(self) -> None:
        """Give the entry under the cursor another name."""
        if not self._shape.named or self._lines.key not in self.values:
            return
        old, at = str(self._lines.key), self._at

        def renamed(text: str | None) -> None:
            if text is not None and (new := text.strip()) != safe_line(old):
                entries = [*self.values.items()]
                entries[at] = (new, self._shape.renamed(old, new, self.values[old]))
                self._number(entries, at)

        def check(text: str) -> str | None:
            return None if text.strip() == safe_line(old) else self._why_not_name(text.strip())

        self.app.push_screen(Ask("another name", old, check=check), renamed)

    def action_move(self, way: int) -> None:
        """Move the entry under the cursor."""
        if self._lines.key in self.values:
            entries, at = list(self.values.items()), self._at
            there = min(max(at + way, 0), len(entries) - 1)
            entries.insert(there, entries.pop(at))
            self._number(entries, there)

    def _rows(self, width: int) -> list[Row]:
        none = [] if self.values else [row(("  none yet; a adds one", "dim")), row()]
        return [*none, *super()._rows(width)]
