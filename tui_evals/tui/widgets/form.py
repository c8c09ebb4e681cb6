"""A form as a list of fields: enter edits one, what is wrong is next to it, and the last row does it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Literal, Protocol

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.safe import safe, safe_line
from tui_evals.tui.rows import Row, fit, row, wrapped
from tui_evals.tui.widgets.dialogs import AskLong, Dialog, Entry, Menu, unread_menu
from tui_evals.tui.widgets.inputs import HOLDS_KEYS, LineInput, give_keys
from tui_evals.tui.widgets.lines import Lines

Kind = Literal[
    "text", "number", "whole", "yes", "choice", "several", "list", "map", "value", "object", "objects", "json"
]
"""A list is written one value a line, a map one `name: value` a line; a text that is no other value is that text.

An object has a form of its own, and each of a list of objects.
"""
Values = Mapping[str, Any]
Faults = Mapping[str, str]
"""What is wrong, by the name of the field; under the empty name what concerns no single one."""


class Shape(Protocol):
    """What an object holds: the fields of its form, and the way from an object of a file to their values and back."""

    def fields(self, before: Values) -> Sequence[Field]:
        """A field for each member."""

    def values(self, before: Values) -> dict[str, Any]:
        """What is given, by the names of the form."""

    def written(self, before: Values, values: Values) -> dict[str, Any]:
        """The object with the values of a form."""

    def faults(self, written: Values) -> Faults:
        """What is wrong with an object."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form; None is its value while it is not given."""

    name: str
    kind: Kind = "text"
    about: str = ""
    choices: Sequence[str] = field(default_factory=tuple)
    default: str = ""
    """What holds while it is not given, in words."""
    make: tuple[str, Any] | None = None
    """A value that can be made of what is there, and how that is called."""
    shape: Shape | None = None
    """What an object holds, or each object of a list."""


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
        Binding("space", "edit", "edit", show=False),
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
        """What stood in the line at first."""
        self._check = check
        self._done = done
        self._says = says
        self._leave = leave
        """What a row says that leaves it, where there is one."""
        self._note = note
        self._writes = writes
        self._editing: Field | None = None

    def body(self) -> list[Widget]:
        """The fields, and a line to type in while one is edited."""
        self._lines = Lines(id="fields", classes="tall")
        self._lines.show(self._rows)
        self._input = LineInput(id="line", classes=HOLDS_KEYS, select_on_focus=False)
        self._input.display = False
        return [self._lines, self._input]

    def on_mount(self) -> None:
        """Begin to type, in a form that begins with it."""
        if self._writes:
            self.call_after_refresh(self.action_edit)

    def redraw(self, says: str | None = None) -> None:
        """Show the values as they are now, and what is to be said above the last row."""
        self._says = self._says if says is None else says
        self._lines.show(self._rows)

    def _rows(self, width: int) -> list[Row]:
        faults = self._check(self.values)
        column = max(len(name) for name in self._fields) + 2 if self._fields else 0
        rows: list[Row] = []
        for name, one in self._fields.items():
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
        """Edit the field under the cursor in the way of its kind."""
        name = self._lines.key
        if name is DONE:
            self.action_take()
        elif name is LEAVE:
            self.action_leave()
        elif isinstance(name, str):
            one = self._fields[name]
            if one.kind == "yes":
                self._set(one, {None: True, True: False, False: None}[self.values.get(name)])
            elif one.kind in ("choice", "several"):
                self._choose(one)
            elif one.kind == "object" and one.shape is not None:
                self.fill(one, self.values.get(name) or {})
            elif one.kind == "objects" and one.shape is not None:
                self._list(one, one.shape)
            elif one.make is not None and name not in self.values:
                self._offer_made(one, *one.make)
            elif one.kind in _IN_LINES or "\n" in str(self.values.get(name)):
                self._write(one)
            else:
                self._editing = one
                value = self.values.get(name)
                shown = written_value if one.kind == "value" else lambda kind, value: shown_value(value)
                self._begun = "" if value is None else safe_line(shown(one.kind, value))
                self._input.value = self._begun
                self._input.select_all()
                self._input.display = True
                give_keys(self._input)

    def _choose(self, one: Field) -> None:
        several = one.kind == "several"
        now = self.values.get(one.name)
        marked = set(now or ()) if several else {now}
        entries = [Entry(choice, choice, marked=choice in marked) for choice in one.choices]

        def chosen(choice: Any) -> None:
            if choice is not None:
                self._set(one, list(choice) if several else choice)

        self.app.push_screen(Menu(one.name, entries, several=several), chosen)

    def fill(self, one: Field, before: Values) -> None:
        """Write an object in a form of its own."""
        shape = one.shape
        assert shape is not None

        def filled(values: dict[str, Any] | None) -> None:
            if values is not None:
                self._set(one, shape.written(before, values))

        self.app.push_screen(object_form(one.name, shape, before), filled)

    def _list(self, one: Field, shape: Shape) -> None:
        """Write the objects of a list, each in a form of its own."""

        def listed(entries: dict[str, Any] | None) -> None:
            if entries is not None:
                self._set(one, list(entries.values()))

        self.app.push_screen(ListForm(one.name, shape, self.values.get(one.name) or (), says=one.about), listed)

    def _offer_made(self, one: Field, name: str, value: Any) -> None:
        """Offer a value that can be made of what is there, next to writing one."""

        def chosen(choice: Any) -> None:
            if choice == "make":
                self._set(one, value)
            elif choice == "write":
                self._write(one)

        entries = [Entry("make", name, shown_value(value)), Entry("write", "write it", "as JSON")]
        self.app.push_screen(Menu(one.name, entries), chosen)

    def action_json(self) -> None:
        """Write the value under the cursor as JSON."""
        one = self._fields.get(str(self._lines.key))
        if one is not None:
            self._write(replace(one, kind="json"))

    def _write(self, one: Field, more: str = "") -> None:
        """Write a value in lines, JSON, or a text of several lines, in a box of its own."""
        value = self.values.get(one.name)
        text = "" if value is None else written_value(one.kind, value)

        def written(answer: str | None) -> None:
            if answer is not None:
                self._set(one, read_value(one.kind, answer)[0])
            if box.saves and self._keeps:
                self.action_take()

        box = AskLong(
            f"{one.name}{_IN_LINES.get(one.kind, '')}",
            text + more,
            check=lambda text: read_value(one.kind, text)[1],
            lines=True,
            json=one.kind == "json",
            saving=self._keeps,
        )
        self.app.push_screen(box, written)

    def action_line(self) -> None:
        """Go on with a second line of the text that is typed, in a box of its own."""
        one = self._editing
        if one is not None and one.kind == "text" and self._take_line():
            self._write(one, "\n")

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._editing is not None and self._input.display:
            value, problem = read_value(self._editing.kind, event.value)
            noted = "" if problem else self._note(self._editing.name, {**self.values, self._editing.name: value})
            self.say(problem or noted or self._editing.about or self._help)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._take_line()

    def _take_line(self) -> bool:
        """Take the line, if one is typed in; False once it was said why it cannot be read."""
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
        self.say(self._help)
        self.query_one(".help").set_class(False, "wrong")

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
        if (
            typing
            and following is not None
            and following.kind not in ("yes", "choice", "several", "object", "objects", *_IN_LINES)
        ):
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
        """Leave the field being typed, else the form; what cannot be taken is asked about, so that it is not lost."""
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


def object_form(title: str, shape: Shape, before: Values, done: str = "take it") -> Form:
    """The form of an object; its answer are the values by their names, which `shape.written` makes an object of."""
    return Form(
        title,
        shape.fields(before),
        shape.values(before),
        check=lambda values: shape.faults(shape.written(before, values)),
        done=done,
        keeps=True,
        writes=not before,
    )


@dataclass(frozen=True, slots=True)
class Start:
    """An object to begin with: how it is called, and what it is."""

    name: str
    value: Mapping[str, Any]
    about: str = ""


class ListForm(Form):
    """The objects of a list, each in a form of its own; the answer has them in their order."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "add", "add", show=False),
        Binding("J", "move(1)", "down", show=False),
        Binding("K", "move(-1)", "up", show=False),
    ]

    def __init__(
        self, title: str, shape: Shape, entries: Sequence[Any], *, says: str = "", starts: Sequence[Start] = ()
    ) -> None:
        """`starts` are objects that a new entry can be a copy of."""
        super().__init__(title, (), {}, done="take these", says=says, keeps=True, check=self._faults)
        self._help = "enter edits · a adds · D deletes · J K move · v JSON · esc or ctrl+s takes"
        self._shape = shape
        self._starts = starts
        self._number(entries)
        self._given = dict(self.values)

    def on_mount(self) -> None:
        """An empty list begins with its first entry."""
        if not self.values:
            self.call_after_refresh(self.action_add)

    def _faults(self, values: Values) -> Faults:
        faults = {}
        for name, value in values.items():
            if isinstance(value, dict) and (wrong := self._shape.faults(value)):
                faults[name] = "; ".join(f"{inner}: {text}" if inner else text for inner, text in wrong.items())
        return faults

    def _number(self, entries: Sequence[Any], at: int | None = None) -> None:
        """Show these entries, each by its number, with the cursor on one."""
        self.values = {str(number): value for number, value in enumerate(entries, 1)}
        self._fields = {
            name: Field(name, "object" if isinstance(value, dict) else "value", shape=self._shape)
            for name, value in self.values.items()
        }
        if at is not None:
            self._lines.show(self._rows, at=str(min(at, len(entries)) or DONE))

    def _set(self, one: Field, value: Any) -> None:
        self._put(int(one.name), value)

    def _put(self, number: int, value: Any, *, new: bool = False) -> None:
        """Write an entry, or take it away; a new one comes before the one that has its number."""
        entries = list(self.values.values())
        entries[number - 1 : number - 1 if new else number] = [] if value is None else [value]
        self._number(entries, number)

    def action_add(self) -> None:
        """Add an entry after the one under the cursor: an empty one, or a copy of a start."""
        at = int(self._lines.key) if isinstance(self._lines.key, str) else len(self.values)

        def chosen(choice: Any) -> None:
            if choice == "empty":
                self._fill(at + 1, {}, new=True)
            elif isinstance(choice, int):
                self._put(at + 1, dict(self._starts[choice].value), new=True)

        if not self._starts:
            self._fill(at + 1, {}, new=True)
            return
        entries = [Entry(number, one.name, one.about, one.about) for number, one in enumerate(self._starts)]
        empty = Entry("empty", "an empty one", "every field is written by hand")
        self.app.push_screen(Menu(f"add to {self._heading}", [*entries, empty]), chosen)

    def fill(self, one: Field, before: Values) -> None:
        self._fill(int(one.name), before)

    def _fill(self, number: int, before: Values, *, new: bool = False) -> None:
        """Write an entry in a form; a new one is added once it is taken."""

        def filled(values: dict[str, Any] | None) -> None:
            if values is not None:
                self._put(number, self._shape.written(before, values), new=new)

        self.app.push_screen(object_form(f"{self._heading} {number}", self._shape, before), filled)

    def action_move(self, way: int) -> None:
        """Move the entry under the cursor."""
        if isinstance(self._lines.key, str):
            entries, at = list(self.values.values()), int(self._lines.key) - 1
            there = min(max(at + way, 0), len(entries) - 1)
            entries.insert(there, entries.pop(at))
            self._number(entries, there + 1)

    def _rows(self, width: int) -> list[Row]:
        none = [] if self.values else [row(("  none yet; a adds one", "dim")), row()]
        return [*none, *super()._rows(width)]


class _Step:
    """The key of a row below the fields."""


DONE, LEAVE = _Step(), _Step()


def _pretty(value: Any) -> str:
    """JSON to read and edit; what must not reach a terminal is spelled."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if safe(text) == text else json.dumps(value, indent=2)


_IN_LINES: Mapping[Kind, str] = {"list": " · one a line", "map": " · name: value, one a line", "json": " · JSON"}
"""Kinds that are written in a box of their own, and how."""


_NOT_TYPED = frozenset((*_IN_LINES, "yes", "choice", "several", "object", "objects"))
"""Kinds that are not typed in the line of the form."""


def written_value(kind: Kind, value: Any) -> str:
    """A value as it is written in a box of its own."""
    if kind == "list":
        return "\n".join(value)
    if kind == "map":
        return "\n".join(f"{name}: {_plain(part)}" for name, part in value.items())
    if kind == "value":
        return _plain(value)
    return _pretty(value) if kind == "json" else str(value)


def can_write(kind: Kind, value: Any) -> bool:
    """Whether a value that is written in lines is read back as it was, with nothing hidden in it."""
    try:
        text = written_value(kind, value)
    except (AttributeError, RecursionError, TypeError, ValueError):
        return False
    read, problem = read_value(kind, text)
    return problem is None and json.dumps(read) == json.dumps(value) and safe(text) == text


def _plain(part: Any) -> str:
    """A value of a map: a text as it is, unless it would be read as something else."""
    plain = isinstance(part, str) and part == part.strip() and _read_part(part) == part
    return part if plain else json.dumps(part, ensure_ascii=False)


def _read_part(text: str) -> Any:
    try:
        return strictjson.loads(text)
    except strictjson.JsonError:
        return text


def _read_map(text: str) -> tuple[Any, str | None]:
    """What was written as a map, and what is wrong with it."""
    read: dict[str, Any] = {}
    for line in text.splitlines():
        name, colon, part = (piece.strip() for piece in line.partition(":"))
        if not line.strip():
            continue
        if not colon or not name:
            return None, f"no name before a colon in {safe_line(line, 40)!r}"
        if name in read:
            return None, f"{safe_line(name, 40)} is given twice"
        read[name] = _read_part(part)
    return read or None, None


def shown_value(value: Any) -> str:
    """A value as it is shown and typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return f"{len(value)}: " + " · ".join(map(shown_value, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {shown_value(part)}" for name, part in value.items())
    return json.dumps(value, ensure_ascii=False)


def read_value(kind: Kind, text: str) -> tuple[Any, str | None]:
    """What was typed as a value of a kind, and what is wrong with it; nothing typed is no value."""
    if not text.strip():
        return None, None
    if kind in ("number", "whole"):
        try:
            return (int(text) if kind == "whole" else float(text)), None
        except ValueError:
            return None, f"{text!r} is not a {'whole ' if kind == 'whole' else ''}number"
    if kind == "list":
        return [line for line in text.split("\n") if line.strip()], None
    if kind == "map":
        return _read_map(text)
    if kind == "value":
        return _read_part(text), None
    if kind == "json":
        try:
            return strictjson.loads(text), None
        except strictjson.JsonError as problem:
            return None, f"this is {problem}; put texts in quotation marks"
    return text, None
