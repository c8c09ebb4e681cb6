"""Why runs cannot be started, asked again, paused or stopped now; known without what it takes to start one."""

from __future__ import annotations

from tui_evals.store.records import LIVE_STATUSES
from tui_evals.tui.desk import Desk

from .ending import wrote_tests


def why_no_run(app: Desk) -> str | None:
    """Nothing to run."""
    editing = app.workspace.editing
    if editing is None:
        return "no dataset is open: o opens one, ctrl+n begins one"
    report = app.workspace.report
    if report is not None and report.dataset is None:
        problem = next(one for one in report.problems if one.severity == "error")
        return f"the dataset is not valid yet: {problem}"
    return None


def why_no_rerun(app: Desk) -> str | None:
    """No run, or one that still goes on."""
    found = app.watching.run
    if found is None:
        return "no run is on screen: 6 lists runs"
    going_on = f"{found.key} still goes on; x stops it" if found.status in ("running", "stopping") else None
    return wrote_tests(found) or going_on


def why_no_pause(app: Desk) -> str | None:
    """No run, or one that is over."""
    found = app.pane(app.front).run_row()
    if found is None:
        return "no run is chosen: 6 lists runs"
    if wrote := wrote_tests(found):
        return wrote
    return f"{found.key} is stopping" if found.status == "stopping" else None


def why_no_stop(app: Desk) -> str | None:
    """No run that goes on."""
    found = app.pane(app.front).run_row()
    if found is None:
        return "no run is chosen: 6 lists runs"
    over = (
        None
        if found.status in (*LIVE_STATUSES, "planned")
        else f"{found.key} is {found.status}; there is nothing to stop"
    )
    return wrote_tests(found) or over
