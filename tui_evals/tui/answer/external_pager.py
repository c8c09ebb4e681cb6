"""Shows a text in the pager a person has chosen."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

from textual.app import App, SuspendNotSupported

from tui_evals.text.safe import safe


def pager_command(variables: Mapping[str, str]) -> list[str]:
    """The pager a person has chosen, else less; ValueError where it cannot be read as a command."""
    return shlex.split(variables.get("PAGER", "")) or ["less"]


def show_in_pager(app: App[Any], text: str) -> str | None:
    """Show a text, made safe, until the pager ends; returns why it was not shown."""
    try:
        command = pager_command(os.environ)
    except ValueError as problem:
        return f"$PAGER cannot be read as a command: {problem}"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="tui-evals-", suffix=".txt", encoding="utf-8") as file:
            file.write(safe(text))
            file.flush()
            return _run_pager(app, [*command, file.name])
    except OSError as problem:
        return f"there is no room for a file to show: {problem.strerror or problem}"


def _run_pager(app: App[Any], command: list[str]) -> str | None:
    """Lend the terminal to a command; ctrl-c in it is meant for it, and a handler is not handed down to it."""
    try:
        with app.suspend():
            before = signal.signal(signal.SIGINT, lambda *_: None)
            try:
                subprocess.run(command, check=False)
            except OSError as problem:
                return f"{command[0]} could not be started: {problem.strerror or problem}; set $PAGER to another"
            finally:
                signal.signal(signal.SIGINT, before)
    except SuspendNotSupported:
        return "this terminal cannot be lent to a pager; y copies the answer"
    return None
