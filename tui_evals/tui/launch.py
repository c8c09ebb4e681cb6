"""Opens the workbench, restores the terminal afterwards, and returns a last message."""

from __future__ import annotations

import gc
import io
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tui_evals.files import make_private_folder, private_opener
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, load_looks
from tui_evals.terminal_facts import Answers, Question, colour_count, shade, why_ascii
from tui_evals.tui.terminal import Looks, Signs

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench


_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_LOCALS = re.compile(r"^│ [╭│╰].*\n?", re.MULTILINE)


def open_workbench(
    root: Path, *, dataset: Path | None, run: str | None, mouse: bool, database: Path
) -> tuple[int, str]:
    """Show the workbench until the user leaves it; returns the exit code and a message for the terminal."""
    gc.disable()  # startup creates no garbage, and searching for it takes 100 ms
    sys.setswitchinterval(0.001)  # a thread that checks or writes gives way to a key in this time, 5 ms by default
    settings = _settings(root)
    ascii_alone = bool(why_ascii(sys.stdout.encoding, os.environ))
    unsure = not ascii_alone and settings.ui.get("ascii") is not True
    with Question(os.environ, background=_wants_theme(settings), signs=unsure) as question:
        from tui_evals.tui.app import Workbench  # takes as long as the terminal does to answer

        answers = question.answers()
    app = Workbench(root, database, dataset=dataset, run=run, looks=_looks(answers, ascii_alone))
    # Textual's error output contains the values of variables, which must not reach a terminal or log.
    app.error_console = Console(file=io.StringIO(), width=120, color_system=None)
    message = app.run(mouse=mouse and settings.ui.get("mouse") is not False)
    if app.return_code in (0, None):
        return 0, message or ""
    return 1, _recorded(app, database)


def _settings(root: Path) -> Settings:
    """How the workbench is to look; where that cannot be read it says so itself."""
    try:
        return load_looks(root)
    except ConfigurationError:
        return Settings()


def _wants_theme(settings: Settings) -> bool:
    """Whether to choose a theme that suits the terminal."""
    return "theme" not in settings.ui and colour_count(os.environ) > 0


def _looks(answers: Answers, ascii_alone: bool) -> Looks:
    """How to draw for the terminal that gave these answers."""
    dark = shade(answers, os.environ).dark
    kind = "ansi" if colour_count(os.environ) <= 16 else "calm"
    signs: Signs = "all"
    if ascii_alone or answers.width == "no UTF-8":
        signs = "ascii"
    elif answers.width == "wide":
        signs = "narrow"
    return Looks(f"{kind}-{'dark' if dark else 'light'}", signs, answers.typed)


def _recorded(app: Workbench, database: Path) -> str:
    """Write an unexpected error into the log, without the values of its variables."""
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
        f"the workbench crashed because of a bug. Runs continue and nothing stored is lost. Unsaved edits are "
        f"offered when it opens again. {where}"
    )
