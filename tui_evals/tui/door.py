"""Opens the workbench, gives the terminal back as it was, and returns what is left to say."""

from __future__ import annotations

import gc
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tui_evals.private_files import make_private_folder, private_opener
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import load_settings

from .terminal import RESTORE_TITLE, SAVE_TITLE, write_to_terminal

if TYPE_CHECKING:
    from .app import Workbench

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_LOCALS = re.compile(r"^│ [╭│╰].*\n?", re.MULTILINE)


def open_workbench(
    root: Path, *, dataset: Path | None, run: str | None, mouse: bool, database: Path
) -> tuple[int, str]:
    """Show the workbench until it is left; returns the exit code and what is to be said on the terminal."""
    gc.disable()  # nothing of what is made up to the first picture can go, and to look for it costs 100 ms
    from .app import Workbench

    app = Workbench(root, database, dataset=dataset, run=run)
    # What Textual prints of an error holds the values of variables, which have no place on a terminal or in a log.
    app.error_console = Console(file=io.StringIO(), width=120, color_system=None)
    write_to_terminal(SAVE_TITLE)
    try:
        message = app.run(mouse=mouse and _mouse(root))
    finally:
        write_to_terminal(RESTORE_TITLE)
    if app.return_code in (0, None):
        return 0, message or ""
    return 1, _recorded(app, database)


def _mouse(root: Path) -> bool:
    try:
        return load_settings(root).ui.get("mouse") is not False
    except ConfigurationError:
        return True


def _recorded(app: Workbench, database: Path) -> str:
    """Write down what nobody foresaw, without the values it was about."""
    stream = app.error_console.file
    text = stream.getvalue() if isinstance(stream, io.StringIO) else ""
    log = database.parent / "logs" / "workbench.log"
    try:
        make_private_folder(log.parent, database.parent)
        with open(log, "a", encoding="utf-8", opener=private_opener) as record:
            record.write(_LOCALS.sub("", _STYLE.sub("", text)))
        where = f"{log} holds the details"
    except OSError as problem:
        where = f"The details could not be written down: {problem}"
    return (
        f"the workbench ended because of an error of its own. Runs go on and nothing stored is lost; unsaved edits are "
        f"offered when it opens again. {where}"
    )
