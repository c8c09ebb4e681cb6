"""The way of tab through what can be written: from field to field, from item to turn to item."""

from __future__ import annotations

from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.paths import get_at
from tui_evals.tui.item_edits import neighbour_unit
from tui_evals.tui.workspace import Workspace

from .fields import JUDGING, read_only, shown_fields, value_at, why_not_here


def neighbour_field(workspace: Workspace, name: str, way: int) -> tuple[Place, str] | None:
    """The field after or before one of where one is, in the next item or turn past the last; None at either end."""
    names = writable_fields(workspace, workspace.where, name)
    place = names.index(name) + way if name in names else -1
    if 0 <= place < len(names):
        return workspace.where, names[place]
    there = neighbour_unit(workspace, way)
    beyond = writable_fields(workspace, there) if there is not None else []
    return (there, beyond[0 if way > 0 else -1]) if there is not None and beyond else None


def writable_fields(workspace: Workspace, where: Place, also: str | None = None) -> list[str]:
    """The fields shown there that can be edited in place, and `also`; none of what is no object."""
    unit = get_at(workspace.data, where) if where else workspace.data
    if not isinstance(unit, dict):
        return []
    return [
        name
        for name in shown_fields(unit, where, also)
        if name not in JUDGING
        and read_only(name, where) is None
        and why_not_here(name, value_at(workspace.data, where, name)) is None
    ]
