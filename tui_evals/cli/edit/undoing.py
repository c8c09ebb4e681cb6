"""Taking back what commands did to a dataset, and what they did."""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path

from tui_evals.atomic_files import CannotSave
from tui_evals.cli.output import Stop, say, say_json
from tui_evals.datasets import history


def undo_command(file: Path) -> str:
    """The command line that takes the last edit back."""
    return f"tui-evals dataset undo {shlex.quote(str(file))}"


def undo(file: Path, back: bool, force: bool, as_json: bool) -> None:
    """Take back what the last command did to a dataset, or do again what was taken back."""
    try:
        step = (history.undo if back else history.redo)(file, force=force)
        rest = history.history_of(file)
    except (history.CannotUndo, CannotSave) as problem:
        raise Stop(str(problem)) from None
    left = rest.done if back else len(rest.steps) - rest.done
    if as_json:
        say_json({"file": str(file), "what": step.what, "undone": back, "left": left})
        return
    say(f"{'taken back' if back else 'done again'}: {step.what}", fg="green")
    if back:
        say(f"`tui-evals dataset redo {shlex.quote(str(file))}` does it again")
    else:
        say(f"`{undo_command(file)}` takes it back")


def show_history(file: Path, as_json: bool) -> None:
    """What commands did to a dataset, the newest last."""
    try:
        known = history.history_of(file)
    except history.CannotUndo as problem:
        raise Stop(str(problem)) from None
    if as_json:
        steps = [
            {"what": step.what, "time": step.time, "undone": number >= known.done}
            for number, step in enumerate(known.steps)
        ]
        say_json({"file": str(file), "kept_in": str(known.folder), "steps": steps})
        return
    if not known.steps:
        say(f"no command has changed {file}; what the workbench does is taken back there, with u")
        return
    for number, step in enumerate(known.steps):
        when = datetime.fromtimestamp(step.time).isoformat(" ", "seconds")
        say(f"{when}  {step.what}{'' if number < known.done else '  (taken back)'}")
