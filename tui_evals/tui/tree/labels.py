"""Categories and tags of many items at once, as one edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tui_evals.datasets.paths import CannotEdit, Data, set_at, unit_at, with_field
from tui_evals.tui.workspace import Workspace


def categorise(workspace: Workspace, items: Sequence[int], category: str) -> str:
    """Put items into a category, or into none when it is empty."""
    name = category.strip()
    says = _called(workspace, items)
    _each(workspace, items, "category", lambda _: name or None, f"category of {says}")
    return f"{says}: category {name}" if name else f"{says}: no category"


def common_tags(workspace: Workspace, items: Sequence[int]) -> list[str]:
    """The tags that all of the items have, in the order of the first; one with a comma cannot be typed in a list."""
    first, *rest = (_tags(workspace.items[number], number) for number in items)
    return [tag for tag in first if "," not in tag and all(tag in other for other in rest)]


def retag(workspace: Workspace, items: Sequence[int], before: Sequence[str], after: Sequence[str]) -> str:
    """Give items these tags in place of those they had in common; each keeps its others."""

    def tagged(unit: Data) -> list[Any] | None:
        kept = [tag for tag in unit.get("tags") or [] if tag not in before]
        return [*dict.fromkeys([*kept, *after])] or None

    says = _called(workspace, items)
    for number in items:
        _tags(workspace.items[number], number)
    _each(workspace, items, "tags", tagged, f"tags of {says}")
    return f"{says}: " + (f"tagged {', '.join(after)}" if after else "common tags taken away")


def _each(workspace: Workspace, items: Sequence[int], field: str, value_of: Callable[[Data], Any], what: str) -> None:
    data = workspace.data
    changed = list(workspace.items)
    for number in items:
        unit = unit_at(data, ("items", number))
        value = value_of(unit)
        if value is None:
            changed[number] = {name: kept for name, kept in unit.items() if name != field}
        else:
            changed[number] = with_field(unit, field, value)
    workspace.apply(set_at(data, ("items",), changed), what)


def _tags(item: object, number: int) -> list[Any]:
    tags = item.get("tags") if isinstance(item, dict) else None
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise CannotEdit(f"the tags of item {number + 1} are no list of texts; mend them in the editor (2) first")
    return tags or []


def _called(workspace: Workspace, items: Sequence[int]) -> str:
    return f"{len(items)} items" if len(items) > 1 else f"item {workspace.name_of(items[0])}"
