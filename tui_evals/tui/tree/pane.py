"""Pane 1, the dataset: marks, edits, categories, tags and folds over the tree of its items."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType

from tui_evals.datasets.paths import CannotEdit
from tui_evals.datasets.steps import item_tags, set_on_items, tag_items
from tui_evals.text.safe import safe_line
from tui_evals.tui import editing
from tui_evals.tui.actions import bindings
from tui_evals.tui.completion import item_filter_values, known_tags
from tui_evals.tui.editing import copy_menu, copyable_values, edit_whole_items
from tui_evals.tui.messages import OpenDataset, Place, ShowGrid, ShowPane, WritePrompt
from tui_evals.tui.pane import Pane
from tui_evals.tui.tree.rows import DATASET, NO_CATEGORY, Key, category_of, parent_row
from tui_evals.tui.tree.view import TreeView, is_unit
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu
from tui_evals.tui.widgets.finding import complete_list
from tui_evals.tui.widgets.inputs import FilterLine, give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import NO_DATASET_OPEN, Selection, Workspace


def categorise(workspace: Workspace, items: Sequence[int], category: str) -> str:
    """Put items into a category, or into none when it is empty."""
    name = category.strip()
    message = _items_name(workspace, items)
    data = set_on_items(workspace.data, items, "category", lambda _: name or None)
    workspace.apply(data, f"category of {message}")
    return f"{message}: category {name}" if name else f"{message}: no category"


def common_tags(workspace: Workspace, items: Sequence[int]) -> list[str]:
    """The tags shared by all items, in the first item's order; without those with commas, which a list cannot hold."""
    first, *rest = (item_tags(workspace.items[number], number) for number in items)
    return [tag for tag in first if "," not in tag and all(tag in other for other in rest)]


def set_tags(workspace: Workspace, items: Sequence[int], remove: Sequence[str], add: Sequence[str]) -> str:
    """Remove tags from items and add others; each item keeps the rest of its own."""
    message = _items_name(workspace, items)
    workspace.apply(tag_items(workspace.data, items, add, remove), f"tags of {message}")
    gone = [tag for tag in remove if tag not in add]
    added = [f"tagged {', '.join(add)}"] if add else []
    return f"{message}: " + ("; ".join([*added, *([f"without {', '.join(gone)}"] if gone else [])]) or "tags as before")


def read_tags(text: str, listed: Mapping[str, str], had: Collection[str]) -> tuple[list[str], list[str]]:
    """The tags to remove and those to add: `tag` or `+tag` adds one, `-tag` removes one that an item has.

    `listed` has the tags that were in the line, by their spelling; those that are no longer in it are removed.
    """
    words = [word for part in text.split(",") if (word := part.strip())]
    minus = {tag: word for word in words if word not in listed and word[:1] == "-" and (tag := word[1:].strip()) in had}
    add = [listed.get(word) or word.removeprefix("+").strip() for word in words if word not in minus.values()]
    add = [tag for tag in dict.fromkeys(add) if tag and tag not in minus]
    return list(dict.fromkeys((*listed.values(), *minus))), add


def _items_name(workspace: Workspace, items: Sequence[int]) -> str:
    return f"{len(items)} items" if len(items) > 1 else f"item {workspace.name_of(items[0])}"


_NONE = ("none",)


async def ask_category(pane: Pane, items: Sequence[int]) -> str | None:
    """A category of the dataset, another one, or none as an empty text; None when one thinks better of it."""
    known = frozenset(map(category_of, pane.workspace.items))

    def another(text: str) -> Entry | None:
        name = text.strip()
        return Entry(name, name, "another category") if name and name not in known else None

    entries, empty = _categories(pane.workspace, items), "no item has a category yet; type the name of one"
    choice = await pane.app.push_screen_wait(Menu(_heading("category", items), entries, empty=empty, typed=another))
    if choice is None:
        return None
    return "" if choice == _NONE else str(choice)


def _categories(workspace: Workspace, items: Sequence[int]) -> list[Entry]:
    counts = Counter(category_of(item) for item in workspace.items)
    counts.pop("", None)
    entries = [Entry(name, name, f"{count} item{'s' * (count != 1)}") for name, count in sorted(counts.items())]
    if any(category_of(workspace.items[number]) for number in items):
        entries.append(Entry(_NONE, "no category", "take it away"))
    return entries


async def ask_tags(pane: Pane, items: Sequence[int]) -> tuple[list[str], list[str]] | None:
    """Ask for tags to remove from items and to add; None to cancel.

    The line of one item starts with its tags; that of several items takes only changes.
    """
    common = common_tags(pane.workspace, items)
    had = {tag for number in items for tag in item_tags(pane.workspace.items[number], number)}
    listed = {safe_line(tag).strip(): tag for tag in common} if len(items) == 1 else {}
    hint = "tag or +tag adds, -tag removes, commas between"
    if len(items) > 1 and common:
        hint += f" · all have {safe_line(', '.join(common), 40)}"
    start = "".join(f"{tag}, " for tag in listed)
    complete = complete_list(known_tags(pane.workspace.items))
    ask = Ask(_heading("tags", items), start, hint=hint, keeps=True, complete=complete)
    entered = await pane.app.push_screen_wait(ask)
    return None if entered is None else read_tags(entered, listed, had)


def _heading(what: str, items: Sequence[int]) -> str:
    return f"{what} of {len(items)} item{'s' * (len(items) != 1)}"


class FoldingTree(TreeView):
    """A tree whose parts can be folded and filtered."""

    _came_from: Key = DATASET
    """The current place from before a filter was typed."""

    def do_unfold(self) -> None:
        key = self.cursor_key
        if key[:1] == ("open",):
            return
        if self._shape.unfold(key):
            self.sync()
            return
        rows, row = self._lines.rows, self._lines.cursor + 1
        below = rows[row].key if row < len(rows) else None
        if isinstance(below, tuple) and below[0] != "open" and self._above(below) == key:
            self._lines.to_row(row)

    def do_fold(self) -> None:
        key = self.cursor_key
        if key[:1] == ("open",):
            return
        if self._shape.fold(key):
            self.sync()
        else:
            self._lines.to_key(self._above(key))

    def _above(self, key: Key) -> Key:
        return parent_row(key, self.workspace.items, self._shape.by_category)

    def do_group(self) -> None:
        self._shape.by_category = not self._shape.by_category
        self.sync()
        if self._shape.by_category and not any(map(category_of, self.workspace.items)):
            self.say("no item has a category yet; C gives it one")

    async def do_filter(self) -> None:
        self._came_from = self.workspace.where
        shape, items = self._shape, self.workspace.items
        self._filter.begin(shape.words, partial(item_filter_values, items))
        await asyncio.to_thread(shape.searched.of_all, items)
        await asyncio.to_thread(shape.item_keys.of_all, items)

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        """Show at once what fits; the cursor stays on an item that does, else goes to the first."""
        event.stop()
        shape = self._shape
        if event.text == shape.words or not self._filter.display:
            return
        shape.filter(event.text)
        came_from = self._came_from[1] if len(self._came_from) > 1 else None
        where = self._came_from
        if isinstance(came_from, int) and shape.hides(came_from):
            where = ("items", shape.shown[0]) if shape.shown else DATASET
        if where != self.workspace.where:
            self._be(where)
        self.sync()

    def on_filter_line_submitted(self, event: FilterLine.Submitted) -> None:
        """Back to the rows; the filter stays until escape."""
        event.stop()
        self._filter.display = False
        give_keys(self._lines)

    def escape(self) -> bool:
        """Take the filter off; the cursor stays on the item, or returns to the place before the filter."""
        if not (self._filter.display or self._shape.filtered):
            return False
        if not self._shape.shown and self.workspace.where == DATASET:
            self._be(self._came_from)
        self._shape.filter("")
        self._filter.display = False
        give_keys(self._lines)
        self.sync()
        return True


_OF_ONE = frozenset(("new_turn", "conversation", "down", "up"))
_OF_ITEMS = frozenset(("duplicate", "remove", "category", "tags", "down", "up", "whole"))


class TreePane(FoldingTree):
    """The open dataset as a tree of items and turns, and the other datasets of the project."""

    place: ClassVar[Place] = "tree"
    number: ClassVar[int] = 1
    name_: ClassVar[str] = "Dataset"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("tree")]

    def action_act(self, name: str) -> None:
        """Run an action on the row at the cursor, even if the cursor has just moved."""
        self.sync()
        self._go()
        super().action_act(name)

    def why_not(self, action: str) -> str | None:
        if self.workspace.editing is None:
            return NO_DATASET_OPEN
        key = self.cursor_key
        if action in ("down", "up") and len(key) < 4 and (self._shape.filtered or self._shape.groups is not None):
            way = "esc takes the filter off" if self._shape.filtered else "c shows them in the order of the file"
            return f"items that are not next to each other cannot be moved together: {way}"
        if self.workspace.marks and action in _OF_ITEMS:
            return None
        if key[:1] == ("open",) and action in (_OF_ONE | _OF_ITEMS | {"new", "mark"}):
            return "that is another dataset: enter opens it"
        if key == DATASET and action in (_OF_ONE | _OF_ITEMS):
            return "go to an item first, or mark some with space"
        if key[:1] == ("category",) and action in _OF_ONE:
            return "that is about one item: go to one of the category"
        return None

    def selection(self) -> Selection | None:
        space, key = self.workspace, self.cursor_key
        if space.editing is None:
            return None
        if space.marks:
            return Selection(tuple(sorted(space.marks)), f"{len(space.marks)} marked {_items(len(space.marks))}")
        if key == DATASET:
            count = len(space.items)
            return Selection(None, f"all {count} items" if count > 1 else "the only item")
        if members := self._shape.members(key):
            name = f"category {key[1]}" if key[1] else NO_CATEGORY
            return Selection(tuple(members), f"{name} ({len(members)} {_items(len(members))})")
        if is_unit(key) and isinstance(key[1], int):
            return Selection((key[1],), f"item {space.name_of(key[1])}")
        return None

    def _chosen(self) -> list[int]:
        """The items an action is about: the marked ones, else those of the category or the item of the cursor."""
        chosen = self.selection()
        return list(chosen.items or ()) if chosen else []

    def _several_items(self) -> list[int]:
        """The marked items or those of the category; none where an action is about the current place."""
        key = self.cursor_key
        return sorted(self.workspace.marks) or self._shape.members(key)

    def _edit(self, step: Callable[[], str]) -> bool:
        """Run an edit, show it, and report its message or its error."""
        try:
            message = step()
        except CannotEdit as problem:
            self.say(str(problem), "warn")
            return False
        self.sync()
        self.changed()
        self.say(message)
        return True

    # -- marks

    def do_mark(self) -> None:
        """Mark the item and continue to the next, or mark all of the category; again takes the marks off."""
        key = self.cursor_key
        if key == DATASET:
            self.do_mark_all()
            return
        members = self._shape.members(key)
        if members:
            self._toggle(members)
        elif isinstance(key[1], int):
            self._mark_with(self.workspace.marks ^ {key[1]})
            self._lines.to_key(self._shape.after(key))

    def do_mark_all(self) -> None:
        self._toggle(list(self._shape.shown))

    def _toggle(self, items: list[int]) -> None:
        marks = self.workspace.marks
        self._mark_with(marks - set(items) if marks.issuperset(items) else marks | set(items))

    def _mark_with(self, marks: frozenset[int]) -> None:
        self.workspace.marks = marks
        self.sync()

    def escape(self) -> bool:
        if super().escape():
            return True
        marked = bool(self.workspace.marks)
        self._mark_with(frozenset())
        return marked

    # -- editing

    def do_new(self) -> None:
        if members := self._shape.members(self.cursor_key):
            self._be(("items", members[-1]))
        if self._edit(lambda: editing.new_item(self.workspace)):
            self.post_message(WritePrompt())

    def do_new_turn(self) -> None:
        if self._edit(lambda: editing.new_turn(self.workspace)):
            self._shape.unfold(self.workspace.where[:2])
            self.sync()
            self.post_message(WritePrompt())

    def do_duplicate(self) -> None:
        self._edit(lambda: editing.duplicate(self.workspace, self._several_items()))

    def do_remove(self) -> None:
        """Delete the marked items, a category's, or the current place; does not ask, because undo restores them."""
        self._edit(lambda: editing.remove(self.workspace, self._several_items()))

    def do_down(self) -> None:
        self._edit(lambda: editing.move(self.workspace, 1, self._several_items()))

    def do_up(self) -> None:
        self._edit(lambda: editing.move(self.workspace, -1, self._several_items()))

    def do_conversation(self) -> None:
        self._edit(lambda: editing.conversation(self.workspace))

    def do_grid(self) -> None:
        """The items as a table."""
        self.post_message(ShowGrid(self._statuses.by_item))

    async def do_whole(self) -> None:
        await edit_whole_items(self, self._chosen())

    async def do_copy(self) -> None:
        await copy_menu(self, copyable_values(self.workspace, self._several_items()))

    async def do_category(self) -> None:
        items = self._chosen()
        name = await ask_category(self, items)
        if name is not None:
            self._edit(lambda: categorise(self.workspace, items, name))

    async def do_tags(self) -> None:
        items = self._chosen()
        try:
            tags = await ask_tags(self, items)
        except CannotEdit as problem:
            self.say(str(problem), "warn")
            return
        if tags is not None:
            self._edit(lambda: set_tags(self.workspace, items, *tags))

    # -- going on

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Open another dataset, fold a category, or continue to the editor."""
        event.stop()
        self._go()
        key = self.cursor_key if self.workspace.editing is not None else event.key
        if not isinstance(key, tuple):
            return
        if key[:1] == ("open",):
            self.post_message(OpenDataset(Path(str(key[1]))))
        elif key[:1] == ("category",):
            _ = self._shape.fold(key) or self._shape.unfold(key)
            self.sync()
        else:
            self.post_message(ShowPane("editor"))


def _items(count: int) -> str:
    return "item" if count == 1 else "items"
