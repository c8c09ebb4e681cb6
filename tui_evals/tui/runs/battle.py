"""A battle: a form, what it takes, and a page that fills as the command line fights it; the battles there were."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from tui_evals.interpreter import python_command
from tui_evals.present.battles import asked_text, outcome_text, runs_of_battles, sides_text
from tui_evals.present.runs import column_names
from tui_evals.runs.approving import missing_of_targets
from tui_evals.runs.store_path import DATABASE
from tui_evals.store.battles import BattleRow, battles
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, find_target
from tui_evals.tui.approving import NOT_AGREED, approve
from tui_evals.tui.desk import Desk
from tui_evals.tui.messages import FightBattle
from tui_evals.tui.rows import Row, row, wrapped
from tui_evals.tui.widgets.dialogs import Confirm, Entry, Menu, Reading
from tui_evals.tui.widgets.form import Faults, Field, Form, Values
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

_LOOK = 0.2
"""Seconds after which it is looked whether more was printed."""


def fields_of(settings: Settings) -> tuple[Field, ...]:
    """The fields; a judge is one of those that the configuration names, or the offline demo."""
    return (
        Field("judge", "choice", "Chooses the better answer, in both orders.", (*settings.answering, "demo")),
        Field("pairs", "whole", "How many pairs of answers at most.", default="all"),
        Field("budget", "number", "Stop before more US dollars are spent.", default="none"),
    )


def arguments(wanted: FightBattle, between: str, values: Mapping[str, Any]) -> list[str]:
    """The battle as the command line says it, perhaps between columns of a run."""
    words = ["battle", *wanted.runs, "--judge", values["judge"]]
    words += ["--columns", between] if between else []
    words += ["--limit", str(values["pairs"])] if values.get("pairs") else []
    return words + (["--max-cost", str(values["budget"])] if values.get("budget") else [])


def _faults(values: Values) -> Faults:
    found = {name: "more than 0" for name in ("pairs", "budget") if values.get(name) is not None and values[name] <= 0}
    return found if values.get("judge") else {**found, "judge": "choose who judges; never one of those that answered"}


async def begin(app: Desk, workspace: Workspace, wanted: FightBattle) -> None:
    """Ask who judges, say what it takes, and let them fight; a page says where nothing was begun, and why."""
    refused = await _fight(app, workspace, wanted)
    if refused:
        app.push_screen(
            Reading("why no battle was begun", lambda width: [row(line) for line in wrapped(refused, width)])
        )


async def _fight(app: Desk, workspace: Workspace, wanted: FightBattle) -> str | None:
    settings = workspace.settings
    begun = {"judge": settings.judge} if settings.judge else {}
    form = Form("battle", fields_of(settings), begun, check=_faults, done="say what it takes", says=wanted.why)
    values = await app.push_screen_wait(form)
    if values is None:
        return None
    try:
        between = await asyncio.to_thread(_columns_in_numbers, workspace.database, wanted)
    except (LookupError, StoreError) as problem:
        return str(problem)
    words = arguments(wanted, between, values)
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


def _columns_in_numbers(database: Path, wanted: FightBattle) -> str:
    """The columns as `--columns` takes them, by number, since their names may hold anything."""
    if wanted.columns is None:
        return ""
    with Reader(database) as reader:
        places = list(column_names(reader.find_run(wanted.runs[0])))
    return ",".join(f"#{places.index(place) + 1}" for place in wanted.columns)


async def choose_past(app: Desk, workspace: Workspace) -> None:
    """List the battles there were, and show the result of the one that is chosen again."""
    try:
        past, runs = await asyncio.to_thread(_read_past, workspace.database)
    except StoreError as problem:
        app.tell(str(problem), "error")
        return
    entries = [
        Entry(one.id, sides_text(one, runs), asked_text(one), f"{outcome_text(one)} {one.criteria}") for one in past
    ]
    menu = Menu("battles", entries, empty="there has been no battle yet; B begins one", does="shows it", whole=True)
    chosen = await app.push_screen_wait(menu)
    if chosen is not None:
        judge = next(one.judge for one in past if one.id == chosen)
        app.push_screen(BattlePage(workspace, ["battles", str(chosen)], judge, over=True))


def _read_past(database: Path) -> tuple[list[BattleRow], dict[int, RunRow]]:
    with Reader(database) as reader:
        past = battles(reader)
        return past, runs_of_battles(reader, past)


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
    """What the battle prints while it is fought; leaving ends it, and what was decided is kept.

    Of one that is over only the result is printed again.
    """

    def __init__(self, workspace: Workspace, words: Sequence[str], judge: str, *, over: bool = False) -> None:
        super().__init__(f"battle · {judge} judges", self._printed)
        if not over:
            self._help = "j k scroll · esc ends it; what was decided is kept, and the same battle goes on"
        self._waits = "the result is read…" if over else "the judge is asked…"
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
        said = self._said or [self._waits]
        return [row(part) for line in said for part in (wrapped(line, width) or [""])]
