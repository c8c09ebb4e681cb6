"""The commands that start, pause, stop, judge and report runs, which work in every pane."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from tui_evals.files import CannotSave, make_private_folder, write_atomically
from tui_evals.plugins import UnusablePlugin
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.external_programs import open_in_browser
from tui_evals.tui.runs.run_status import why_no_pause, why_no_rerun, why_no_run, why_no_stop
from tui_evals.tui.widgets.dialogs import Entry, Menu


def _starting(name: str) -> Callable[[Desk], Coroutine[Any, Any, None]]:
    """A command of the module that starts runs."""

    def command(desk: Desk) -> Coroutine[Any, Any, None]:
        # Imported when needed, because the engine behind it would delay the first frame.
        from . import starting

        work: Coroutine[Any, Any, None] = getattr(starting, name)(desk)
        return work

    return command


async def report(desk: Desk) -> None:
    """Write the run, or the marked runs compared, as a file of the kind that is chosen; a page opens in the browser."""
    pane = desk.pane(desk.front)
    runs = list(pane.marked_runs())
    if len(runs) < 2 and (run := pane.run_row()) is not None:
        runs = [run]
    title = f"report of {runs[0].name} {runs[0].key}" if len(runs) == 1 else f"report of the {len(runs)} marked runs"
    kind = await desk.push_screen_wait(Menu(title, await asyncio.to_thread(_kinds), does="writes it"))
    if kind is None:
        return
    desk.tell("writing the report…")
    try:
        file = await asyncio.to_thread(_write, desk.workspace.database, runs, kind)
    except (CannotSave, LookupError, OSError, StoreError, UnusablePlugin) as problem:
        desk.tell(f"the report was not written: {problem}", "error")
        return
    opened = kind == "html" and await asyncio.to_thread(open_in_browser, file)
    named = os.path.relpath(file, desk.workspace.root)
    desk.tell(f"wrote {named}{'; it opens in the browser' if opened else ''}")


def _kinds() -> list[Entry]:
    """The kinds of report, those that cannot be written here with the reason."""
    # Imported when needed: some of the modules that write reports take their time.
    from tui_evals.reports.results import names, report_kind

    entries = []
    for name in names():
        try:
            kind = report_kind(name)
        except UnusablePlugin as problem:
            entries.append(Entry(name, name, why_not=str(problem)))
        else:
            entries.append(Entry(name, name, kind.about, why_not=kind.missing() or ""))
    return entries


def _write(database: Path, runs: Sequence[RunRow], name: str) -> Path:
    """Write the report next to the store, where only its owner reads it; returns the file."""
    from tui_evals.reports.results import report_kind, write

    folder = make_private_folder(database.parent / "results")
    file = folder / ("-".join(run.key for run in runs) + report_kind(name).endings[0])
    with Reader(database) as reader:
        made = write(name, reader, runs)
        write_atomically(file, (piece if isinstance(piece, bytes) else piece.encode() for piece in made), private=True)
    return file


def why_no_report(desk: Desk) -> str | None:
    """No run."""
    return None if desk.pane(desk.front).run_row() is not None else "no run is chosen: 6 lists runs"


COMMANDS: Commands = {
    "run": Command(_starting("run"), why_no_run),
    "rerun": Command(_starting("rerun"), why_no_rerun),
    "rescore": Command(_starting("rescore"), why_no_rerun),
    "pause": Command(_starting("pause"), why_no_pause),
    "stop": Command(_starting("stop"), why_no_stop),
    "report": Command(report, why_no_report),
}
