"""Finds anything by its name and goes there: what can be done, datasets, runs, pages of the manual, items."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from tui_evals.store.reader import Reader
from tui_evals.text.manual import pages, title_of
from tui_evals.tui.widgets.dialogs import Entry, Menu, Reading

from .actions import PLACES, Action, Where, actions_at, key_names
from .dataset_files import enter_file
from .desk import Command, Commands, Desk
from .layout import PLACES as PANES
from .manual import page_rows
from .messages import ItemShown, OpenRun, ShowPane
from .workspace import Workspace

_MOST_RUNS = 1_000
_BEGINNING = 200  # characters of what an item asks; more of it there is no room for


async def palette(desk: Desk) -> None:
    """Choose something by its name; an action is done, anything else is shown."""
    actions = sorted(_actions(desk), key=lambda entry: bool(entry.why_not))
    others = await asyncio.to_thread(lambda: [*_datasets(desk.workspace), *_runs(desk), *_pages(), *_items(desk)])
    chosen = await desk.push_screen_wait(Menu("find", [*actions, *others], does="does it or goes there"))
    if isinstance(chosen, Action):
        do(desk, chosen)
    elif chosen is not None:
        await _show(desk, *chosen)


def do(desk: Desk, action: Action) -> None:
    """Do an action where it belongs, or say why not."""
    if action.where == "everywhere":
        desk.action_act(action.name)
        return
    (place,) = (place for place in PANES if place == action.where)
    pane = desk.pane(place)
    if place == desk.front:
        pane.action_act(action.name)
    else:
        desk.bring(place)
        pane.call_after_refresh(pane.action_act, action.name)  # its rows are made when it is drawn


def why_not(desk: Desk, action: Action) -> str | None:
    """Why an action cannot be done now."""
    for place in PANES:
        if place == action.where:
            return desk.pane(place).why_not(action.name)
    return desk.why_not(action.name)


async def _show(desk: Desk, what: str, name: object) -> None:
    if what == "item" and isinstance(name, int):
        desk.workspace.where = ("items", name)
        desk.workspace.settle()
        desk.post_message(ItemShown())
        desk.post_message(ShowPane("editor"))
    elif what == "run" and isinstance(name, int):
        desk.post_message(OpenRun(name))
    elif what == "dataset" and isinstance(name, Path):
        if await enter_file(desk, name):
            desk.post_message(ShowPane("tree"))
    else:
        text = pages()[str(name)]
        desk.push_screen(Reading(f"help · {name}", lambda width: page_rows(text, width)))


# -- what there is


def _actions(desk: Desk) -> Iterator[Entry]:
    """What can be done in the pane in front, everywhere, and in the other panes; what cannot be done says why."""
    wheres: tuple[Where, ...] = (desk.front, "everywhere", *(place for place in PANES if place != desk.front))
    for where in wheres:
        noun = "workbench" if where == "everywhere" else PLACES[where].partition(" ")[2].lower()
        for action in actions_at(where):
            keys = " ".join(key_names(action))
            about = f"{keys:<6} {action.description}"
            yield Entry(action, f"{noun}: {action.word}", about, why_not=why_not(desk, action) or "")


def _datasets(workspace: Workspace) -> Iterator[Entry]:
    workspace.look()
    root = workspace.root.resolve()
    for file in dict.fromkeys((*workspace.open, *(file.resolve() for file in workspace.files))):
        name = str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
        here = workspace.editing is not None and workspace.editing.document.file == file
        yield Entry(("dataset", file), f"dataset: {name}", "on screen" if here else "a file of the project")


def _runs(desk: Desk) -> Iterator[Entry]:
    with Reader(desk.workspace.database) as reader:
        for run in reader.runs(_MOST_RUNS):
            words = (run.key, run.status, run.suite, run.source, *run.tags, run.note)
            yield Entry(("run", run.id), f"run: {run.name}", " · ".join(filter(None, words)))


def _pages() -> Iterator[Entry]:
    for name, text in pages().items():
        yield Entry(("page", name), f"help: {name}", title_of(text))


def _items(desk: Desk) -> Iterator[Entry]:
    items = desk.workspace.items
    for number, (name, item) in enumerate(zip(desk.workspace.names(), items, strict=False)):
        yield Entry(("item", number), f"item: {name}", _asked(item))


def _asked(item: object) -> str:
    """The beginning of what an item asks."""
    if not isinstance(item, dict):
        return ""
    turns = item.get("turns")
    first = turns[0] if isinstance(turns, list) and turns and isinstance(turns[0], dict) else {}
    texts = (item.get("prompt"), first.get("prompt"), item.get("name"))
    return next((" ".join(text[:_BEGINNING].split()) for text in texts if isinstance(text, str) and text), "")


COMMANDS: Commands = {"palette": Command(palette)}
