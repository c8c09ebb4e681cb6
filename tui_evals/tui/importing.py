"""The command `import`: asks for a path, imports what another tool wrote there, says what became of it and opens it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.store.database import StoreError
from tui_evals.text.nearest import did_you_mean
from tui_evals.text.safe import safe_line
from tui_evals.tui.widgets.dialogs import Ask, Reading

from .dataset_files import enter_file
from .desk import Command, Commands, Desk
from .imported_page import ImportedPage
from .messages import OpenRun, ShowPane
from .rows import paragraph

if TYPE_CHECKING:
    from tui_evals.imports.base import ImportResult
    from tui_evals.store.writer import Writer

_HINT = "a file or folder, as seen from the project's folder; ~ is your own"
_NAMES = 2_000
"""How many names of a folder are looked through for the one that was meant."""


async def import_path(desk: Desk) -> None:
    """Ask for a path and import what is there; what it was, or why it cannot be, is there to read, then it opens."""
    # Imported when they are wanted, because they would hold up every first picture.
    from tui_evals.imports.base import ImportFailed, project_at, shown
    from tui_evals.imports.doors import import_from

    root, database = desk.workspace.root, desk.workspace.database
    entered = await desk.push_screen_wait(
        Ask("import what another tool wrote", hint=_HINT, check=lambda text: why_no_source(root, text))
    )
    if entered is None:
        return
    path = Path(shown(source_path(root, entered)))
    name = safe_line(path.name or str(path), 60)

    def work(writer: Writer) -> ImportResult:
        return import_from(path, project=project_at(root, database=database, writer=writer))

    desk.tell(f"importing {name} …")
    try:
        result = await desk.writer.write(work)
    except (ImportFailed, StoreError) as problem:
        sentence = problem_text(str(problem), path)
        desk.tell(f"{name} was not imported", "warn")
        await desk.push_screen_wait(
            Reading(f"{name} was not imported", lambda width: paragraph(sentence, width, "error"))
        )
        return
    desk.tell(f"{name} is imported")
    await desk.push_screen_wait(ImportedPage(f"imported {name}", path, result, desk.workspace))
    await _open(desk, result)


async def _open(desk: Desk, result: ImportResult) -> None:
    """Put the dataset on screen, and the run where there is one."""
    desk.workspace.look()
    entered = result.dataset is not None and await enter_file(desk, result.dataset.resolve())
    if result.run is not None:
        desk.post_message(OpenRun(desk.watching.reader.find_run(result.run).id))
    elif entered:
        desk.post_message(ShowPane("tree"))


def source_path(root: Path, text: str) -> Path:
    """The path that somebody typed, seen from the project's folder."""
    return Path(os.path.abspath(root / os.path.expanduser(text.strip())))


def why_no_source(root: Path, text: str) -> str | None:
    """Nothing is there, with the name that was most likely meant."""
    if not text.strip():
        return "name a file or folder"
    missing = source_path(root, text)
    if os.path.exists(missing):
        return None
    while missing.parent != missing and not os.path.exists(missing.parent):
        missing = missing.parent
    known = list(islice(_names_in(missing.parent), _NAMES))
    begun = [name for name in known if name.casefold().startswith(missing.name.casefold())]
    meant = f" (did you mean '{min(begun, key=len)}'?)" if begun else did_you_mean(missing.name, known)
    return f"there is no {missing.name} in {_folder_name(root, missing.parent)}{meant}"


def _folder_name(root: Path, folder: Path) -> str:
    project = os.path.abspath(root)
    if folder == Path(project):
        return "the project's folder"
    return os.path.relpath(folder, project) if folder.is_relative_to(project) else str(folder)


def _names_in(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries)
    except OSError:  # a folder that cannot be read suggests no names
        return


def problem_text(sentence: str, path: Path) -> str:
    """Why nothing was imported; what options mend is done on the command line."""
    if "--" not in sentence:
        return sentence
    return f"{sentence}\n\nOptions are for the command line: tui-evals import {path} …"


COMMANDS: Commands = {"import": Command(import_path)}
