"""The end of the run on screen: a bell, the title of the terminal, and a sentence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui_evals.store.database import StoreError
from tui_evals.store.records import RunRow
from tui_evals.tui.state.ending import told_ending
from tui_evals.tui.terminal import title_bytes, to_terminal

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench


def notice(app: Workbench) -> None:
    """See how the run on screen stands; the bell rings when one is over that was seen going on."""
    run = app.watching.run
    if run is None:
        return
    if run.status not in ("finished", "interrupted"):
        app.going_on = run.key
        entitle(app, f"{run.name} {run.status}")
        return
    if app.going_on == run.key:
        app.going_on = None
        entitle(app, f"{run.name} {run.status}")
        if app.workspace.settings.ui.get("bell") is not False:
            app.bell()
        app.run_worker(_tell(app, run), group="ending", name="counting the run", exclusive=True, exit_on_error=False)


async def _tell(app: Workbench, run: RunRow) -> None:
    try:
        ending = await asyncio.to_thread(told_ending, app.workspace.database, run)
    except StoreError as problem:
        app.tell(str(problem), "error")
        return
    app.tell(ending.says, "info" if ending.finished else "warn")


def entitle(app: Workbench, text: str) -> None:
    """The title of the terminal."""
    if not app.is_headless:
        to_terminal(title_bytes(f"{text} · tui-evals"))
