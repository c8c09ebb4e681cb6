"""The workers of a run that many execute, in a list of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench


def why_no_workers(app: Workbench) -> str | None:
    """No run, or one without workers."""
    if app.watching.run is None:
        return "no run is on screen: 6 lists runs"
    if app.watching.crew.rows:
        return None
    shared = app.watching.run.config.get("terms", {}).get("cluster") is not None
    return "no worker has said anything yet" if shared else "this run has no workers: it is executed by one process"


def open_workers(app: Workbench) -> None:
    """The list, over what is on screen."""
    # Imported when it is wanted: it would hold up every first picture.
    from tui_evals.tui.screens.workers import Workers

    app.push_screen(Workers(app.watching))
