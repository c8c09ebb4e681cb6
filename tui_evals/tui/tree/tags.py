"""Categories and tags of many items at once: asked for, and written as one edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tui_evals.datasets.steps import item_tags, set_on_items, tag_items
from tui_evals.text.safe import safe_line
from tui_evals.tui.pane import Pane
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu
from tui_evals.tui.workspace import Workspace

from .outline import category_of


def categorise(workspace: Workspace, items: Sequence[int], category: str) -> str:
    """Put items into a category, or into none when it is empty."""
    name = category.strip()
    message = _items_name(workspace, items)
    data = set_on_items(workspace.data, items, "category", lambda _: name or None)
    workspace.apply(data, f"category of {message}")
    return f"{message}: category {name}" if name else f"{message}: no category"


def common_tags(workspace: Workspace, items: Sequence[int]) -> list[str]:
    """The tags that all of the items have, in the order of the first; one with a comma cannot be typed in a list."""
    first, *rest = (item_tags(workspace.items[number], number) for number in items)
    return [tag for tag in first if "," not in tag and all(tag in other for other in rest)]


def set_tags(workspace: Workspace, items: Sequence[int], before: Sequence[str], after: Sequence[str]) -> str:
    """Give items these tags in place of those they had in common; each keeps its others."""
    message = _items_name(workspace, items)
    workspace.apply(tag_items(workspace.data, items, after, before), f"tags of {message}")
    return f"{message}: " + (f"tagged {', '.join(after)}" if after else "common tags taken away")


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
    """The tags that the items had in common and those that they are to have; None when one thinks better of it."""
    before = common_tags(pane.workspace, items)
    spelled = {safe_line(tag).strip(): tag for tag in before}
    hint = "separate tags by commas"
    if len(items) > 1:
        hint = f"tags that all {len(items)} have in common, separated by commas"
    entered = await pane.app.push_screen_wait(Ask(_heading("tags", items), ", ".join(spelled), hint=hint, keeps=True))
    if entered is None:
        return None
    words = [word.strip() for word in entered.split(",")]
    return before, [spelled.get(word, word) for word in words if word]


def _heading(what: str, items: Sequence[int]) -> str:
    return f"{what} of {len(items)} item{'s' * (len(items) != 1)}"
