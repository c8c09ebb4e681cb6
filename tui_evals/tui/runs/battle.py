"""A battle from the list of runs: a form, what it takes, and a page that fills as the command line fights it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile
from typing import IO, Any

from textual.app import App

from tui_evals.interpreter import python_command
from tui_evals.runs.approving import missing_of_targets
from tui_evals.runs.store_path import DATABASE
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, find_target
from tui_evals.tui.approving import NOT_AGREED, approve
from tui_evals.tui.rows import Row, row, wrapped
from tui_evals.tui.widgets.dialogs import Confirm, Reading
from tui_evals.tui.widgets.form import Faults, Field, Form, Values
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

from .history import ChosenRuns

_LOOK = 0.2
"""Seconds after which it is looked whether more was printed."""


def fields_of(settings: Settings) -> tuple[Field, ...]:
    """The fields; a judge is one of those that the configuration names, or the offline demo."""
    return (
        Field("judge", "choice", "Chooses the better answer, in both orders.", (*settings.answering, "demo")),
        Field("pairs", "whole", "How many pairs of answers at most.", default="all"),
        Field("budget", "number", "Stop before more US dollars are spent.", default="none"),
    )


def arguments(chosen: ChosenRuns, values: Mapping[str, Any]) -> list[str]:
    """The battle as the command line says it."""
    words = ["battle", *(run.key for run in chosen.runs), "--judge", values["judge"]]
    words += ["--limit", str(values["pairs"])] if values.get("pairs") else []
    return words + (["--max-cost", str(values["budget"])] if values.get("budget") else [])


def _faults(values: Values) -> Faults:
    found = {name: "more than 0" for name in ("pairs", "budget") if values.get(name) is not None and values[name] <= 0}
    return found if values.get("judge") else {**found, "judge": "choose who judges; never one of those that answered"}


async def fight(app: App[Any], workspace: Workspace, chosen: ChosenRuns) -> str | None:
    """Ask who judges, say what it takes, and let the runs fight; a sentence where nothing was begun."""
    settings = workspace.settings
    begun = {"judge": settings.judge} if settings.judge else {}
    form = Form("battle", fields_of(settings), begun, check=_faults, done="say what it takes", says=chosen.why)
    values = await app.push_screen_wait(form)
    if values is None:
        return None
    words = arguments(chosen, values)
    process = _start(workspace, [*words, "--plan"], subprocess.PIPE)
    printed, _ = await asyncio.to_thread(process.communicate)
    said = printed.decode(errors="replace").strip()
    if process.returncode:
        return said
    if await app.push_screen_wait(Confirm("battle", said, "lets them fight")) is not True:
        return None
    try:
        judge = find_target(values["judge"], settings)
        missing = await asyncio.to_thread(missing_of_targets, workspace.project(), [judge])
    except ConfigurationError as problem:
        return str(problem)
    if not await approve(app, missing, workspace.root):
        return NOT_AGREED
    app.push_screen(BattlePage(workspace, words, values["judge"]))
    return None


def _start(workspace: Workspace, words: Sequence[str], out: int | IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        python_command("-m", "tui_evals", *words),
        cwd=workspace.root,
        env={**os.environ, DATABASE: str(workspace.database)},
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


class BattlePage(Reading):
    """What the battle prints while it is fought; leaving ends it, and what was decided is kept."""

    def __init__(self, workspace: Workspace, words: Sequence[str], judge: str) -> None:
        super().__init__(f"battle · {judge} judges", self._printed)
        self._help = "j k scroll · esc ends it; what was decided is kept, and the same battle goes on"
        self._workspace = workspace
        self._words = words
        self._progress = f"{judge}: "
        self._said: list[str] = []

    def on_mount(self) -> None:
        """Fight."""
        self.run_worker(self._fight(), group="battle", exit_on_error=False)

    async def _fight(self) -> None:
        with TemporaryFile() as out:
            process = _start(self._workspace, self._words, out)
            try:
                over = False
                while not over:
                    await asyncio.sleep(_LOOK)
                    over = process.poll() is not None
                    self._take(os.pread(out.fileno(), os.fstat(out.fileno()).st_size, 0).decode(errors="replace"))
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    # What is in flight is let finish; nobody waits for it, and it leaves no zombie.
                    threading.Thread(target=process.wait, daemon=True, name="end of a battle").start()

    def _take(self, printed: str) -> None:
        """Of the lines that say how far it is only the last stays."""
        lines = printed.splitlines()
        steps = [line for line in lines if line.startswith(self._progress)]
        said = [line for line in lines if line not in steps[:-1]]
        if said != self._said:
            self._said = said
            self.query_one(Lines).show(self._printed)

    def _printed(self, width: int) -> list[Row]:
        said = self._said or ["the judge is asked…"]
        return [row(part) for line in said for part in (wrapped(line, width) or [""])]
