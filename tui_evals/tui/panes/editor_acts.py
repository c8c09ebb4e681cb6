"""What the item editor does beyond its box: steps, the choice of a field, an editor of one's own."""

from __future__ import annotations

from collections.abc import Callable

from tui_evals.datasets.layout import Path as Where
from tui_evals.datasets.steps import CannotEdit
from tui_evals.tui import external
from tui_evals.tui.messages import Went
from tui_evals.tui.screens.menu import Entry, Menu
from tui_evals.tui.state import changes, visit
from tui_evals.tui.state.workspace import Workspace
from tui_evals.tui.views import item_fields as fields

from .pane import Pane


async def hand_over(pane: Pane, name: str, number: int) -> None:
    """Hand a field to $EDITOR and take what it makes of it; what cannot be taken is kept in a file."""
    try:
        one, text = visit.begin(pane.workspace, name, number)
    except RecursionError:
        pane.say(fields.too_deep(name), "warn")
        return
    suffix = fields.suffix_of(one.kind, text)
    try:
        after = await external.edited(pane.app, text, suffix)
    except external.NotEdited as problem:
        pane.say(str(problem), "warn")
        return
    if after is None:
        pane.say(f"{name} is as it was")
        return
    done = visit.typed(pane.workspace, one, after)
    if done.fault:
        kept = external.keep(after, suffix)
        pane.say(f"{name} was left as it was: {done.fault}; what you wrote is kept in {kept}", "error")
        return
    pane.say(f"{name} taken from the editor")
    pane.changed()


async def choose_field(pane: Pane) -> str | None:
    """Which field of those that can still be given here."""
    workspace = pane.workspace
    names = fields.addable(workspace.unit or workspace.data, workspace.where)
    entries = [Entry(name, name, fields.about(name, workspace.where)) for name in names]
    name: str | None = await pane.app.push_screen_wait(
        Menu("add a field", entries, empty="every field that can stand here does")
    )
    return name


def make(pane: Pane, step: Callable[[Workspace], str]) -> None:
    """Make a step, and say what it did or why it could not be done."""
    try:
        said = step(pane.workspace)
    except CannotEdit as problem:
        pane.say(str(problem), "warn")
    else:
        pane.say(said)
        pane.changed()


def clear(workspace: Workspace, name: str) -> str:
    """Take a field away where one is."""
    workspace.apply(fields.with_value(workspace.data, workspace.where, name, None), f"clear {name}")
    return f"took {name} away; u brings it back"


def go(pane: Pane, where: Where) -> None:
    """Go to an item or turn, or to the dataset itself."""
    pane.workspace.where = where
    pane.post_message(Went())


def step(pane: Pane, way: int) -> None:
    """Go to the next item or turn, or the one before."""
    there = changes.neighbour(pane.workspace, way)
    if there is not None:
        go(pane, there)
    else:
        pane.say("this is the last" if way > 0 else "this is the dataset itself, nothing comes before it")
