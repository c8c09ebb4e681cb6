"""What of the dataset tree is shown: folds, groups by category, and the filter."""

from __future__ import annotations

import asyncio

from textual.widgets import Input

from tui_evals.tui.keyboard import give_keys
from tui_evals.tui.views.tree_outline import DATASET, Key, Texts, above, category_of, matching

from .tree_view import TreeView


class FoldingTree(TreeView):
    """A tree of which one hides and finds parts."""

    def do_unfold(self) -> None:
        """Show what is below the row; when it is shown, go there."""
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
        """Hide what is below the row; when there is nothing to hide, go to the row it belongs to."""
        key = self.cursor_key
        if key[:1] == ("open",):
            return
        if self._shape.fold(key):
            self.sync()
        else:
            self._lines.to_key(self._above(key))

    def _above(self, key: Key) -> Key:
        return above(key, self.workspace.items, self._shape.by_category)

    def do_group(self) -> None:
        """Group the items by category, or not."""
        self._shape.by_category = not self._shape.by_category
        self.sync()
        if self._shape.by_category and not any(map(category_of, self.workspace.items)):
            self.say("no item has a category yet; C gives it one")

    async def do_filter(self) -> None:
        """Type words to show only the items that have all of them."""
        self._filter.display = True
        give_keys(self._filter)
        known: Texts = {}
        await asyncio.to_thread(matching, self.workspace.items, "a", known)
        self._shape.texts.update(known)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show at once what fits; one goes to the first item that does."""
        event.stop()
        if event.value == self._shape.words:
            return
        self._shape.filter(event.value)
        if self._shape.hides(self.workspace.item):
            self._be(("items", self._shape.shown[0]) if self._shape.shown else DATASET)
        self.sync()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the rows; the filter stays until escape."""
        event.stop()
        self._filter.display = self._shape.filtered
        give_keys(self._lines)

    def escape(self) -> bool:
        """Take the filter off."""
        if not self._filter.display:
            return False
        self._shape.filter("")
        self._filter.value, self._filter.display = "", False
        give_keys(self._lines)
        self.sync()
        return True
