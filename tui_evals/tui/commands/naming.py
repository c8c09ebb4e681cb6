"""Datasets under a name of one's own: begin one, save one as another file."""

from __future__ import annotations

import asyncio
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.datasets.discover import STARTER
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.save import CannotSave
from tui_evals.tui.messages import Changed, Show
from tui_evals.tui.screens.ask import Ask

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

_BEGUN = "enter writes the prompt · a adds a field · 3 says who judges · ctrl+s saves"


def shown(app: Workbench, file: Path) -> str:
    """A file as it is called in the project."""
    root = app.workspace.root.resolve()
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)


async def told_saved(app: Workbench, editing: Editing, more: str = "") -> None:
    """Say that a dataset was saved; its draft is no longer needed."""
    file = editing.document.file
    await app.pen.write(lambda writer: writer.draft_drop(str(file)))
    app.workspace.look()
    app.post_message(Changed())
    app.tell(f"{shown(app, file)} saved{more}")


async def save_as(app: Workbench) -> None:
    """Save under another name, which is the file that is edited from now on."""
    editing = app.workspace.editing
    assert editing is not None
    try:
        await save_under(app, editing)
    except (CannotSave, DatasetError) as problem:
        app.tell(str(problem), "error")


async def save_under(app: Workbench, editing: Editing) -> None:
    """Ask for another name and save under it; CannotSave says why that could not be done."""
    old = editing.document.file
    whole = editing.document.dialect not in ("csv", "jsonl") and old.suffix == ".json"
    start = f"{old.stem}-mine.json" if whole else f"{old.name.partition('.')[0]}.json"
    endings = tuple(dict.fromkeys((".json", old.suffix))) if old.suffix != ".gz" else (".json",)
    name = await _named(app, "save under another name", old.with_name(start), endings)
    if name is None:
        return
    await asyncio.to_thread(editing.save_as, name)
    app.workspace.open.pop(old, None)
    app.workspace.open[editing.document.file] = editing
    await app.pen.write(lambda writer: writer.draft_drop(str(old)))
    await told_saved(app, editing)


async def new_dataset(app: Workbench) -> None:
    """Begin a dataset from nothing; the file appears when it is saved."""
    file = await _named(app, "a new dataset: its file", app.workspace.root.resolve() / STARTER, (".json",))
    if file is None:
        return
    app.workspace.enter(Editing.fresh(file))
    app.workspace.where = ("items", 0)
    app.post_message(Changed())
    app.post_message(Show("editor"))
    app.tell(_BEGUN)


async def _named(app: Workbench, title: str, start: Path, endings: tuple[str, ...]) -> Path | None:
    """A file that is not there yet, as a person calls it."""
    hint = "enter takes it · esc leaves it"
    name = await app.push_screen_wait(
        Ask(title, shown(app, _free(app, start)), hint=hint, check=lambda name: _why_not(app, name, endings))
    )
    return _file(app, name) if name else None


def _file(app: Workbench, name: str) -> Path:
    return (app.workspace.root / name.strip()).resolve()


def _why_not(app: Workbench, name: str, endings: tuple[str, ...]) -> str | None:
    if not name.strip():
        return "give the file a name"
    if not name.strip().endswith(endings):
        return f"give it a name that ends in {' or '.join(endings)}"
    file = _file(app, name)
    if file in app.workspace.open:
        return "that dataset is open already: esc, then o goes there"
    return "that file is there already: choose another name, or esc and o to open it" if file.exists() else None


def _free(app: Workbench, file: Path) -> Path:
    """The file, or one numbered after it, that nothing stands in the way of."""
    others = (file.with_name(f"{file.stem}-{number}{file.suffix}") for number in count(2))
    return next(one for one in chain((file,), others) if not (one.exists() or one.resolve() in app.workspace.open))
