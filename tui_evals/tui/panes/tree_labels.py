"""Asking for the category and the tags of items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tui_evals.text.safe import safe_line
from tui_evals.tui.screens.ask import Ask
from tui_evals.tui.screens.menu import Entry, Menu
from tui_evals.tui.state.labels import common_tags
from tui_evals.tui.state.workspace import Workspace
from tui_evals.tui.views.tree_outline import category_of

from .pane import Pane

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
    """The tags that the items had in common and those that they are to have; None when one thinks better of it."""
    before = common_tags(pane.workspace, items)
    spelled = {safe_line(tag).strip(): tag for tag in before}
    hint = "separate tags by commas · enter takes them · esc leaves them"
    if len(items) > 1:
        hint = f"tags that all {len(items)} have in common; {hint}"
    entered = await pane.app.push_screen_wait(Ask(_heading("tags", items), ", ".join(spelled), hint=hint))
    if entered is None:
        return None
    words = [word.strip() for word in entered.split(",")]
    return before, [spelled.get(word, word) for word in words if word]


def _heading(what: str, items: Sequence[int]) -> str:
    return f"{what} of {len(items)} item{'s' * (len(items) != 1)}"
