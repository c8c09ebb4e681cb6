"""How a run ended in a sentence, and why it cannot be started, paused or stopped now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tui_evals.present.answers import cause_line
from tui_evals.present.figures import run_measures, skipped_sentence
from tui_evals.present.runs import basis_sentence, counts_sentence, stop_reason
from tui_evals.present.status import OVER, rateless
from tui_evals.runs.status import GENERATION
from tui_evals.store import run_figures
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import LIVE_STATUSES, RunRow, Totals
from tui_evals.tui.desk import Desk
from tui_evals.tui.terminal import NOTIFY_WAYS, notification_bytes, title_bytes, write_to_terminal


class Ending(NamedTuple):
    """The message at the end of a run."""

    says: str
    finished: bool


def told_ending(database: Path, run: RunRow) -> Ending:
    """The sentence for a run that is over; counting takes a while, so this is for a thread."""
    with Reader(database) as reader:
        totals = reader.totals(run.id)
        measures = run_measures(reader, run, totals)
        skipped = skipped_sentence(run_figures.skipped(reader, run.id), run_figures.left_out(reader, run.id))
        causes = run_figures.causes(reader, run.id) if totals.errored or totals.partial else ()
    if run.status == "finished":
        why = f"; {cause_line(causes)}" if causes else ""
        more = f"; {skipped}" if skipped else ""
        return Ending(
            f"{run.name} is finished: {_outcome(totals, measures)}; {basis_sentence(totals)}{more}{why}", True
        )
    if run.code != "asked" and (why := stop_reason(run)):
        return Ending(f"{run.name} stopped: {why.rstrip('.')}; p resumes it", False)
    answered = totals.total - totals.pending - totals.running
    return Ending(f"{run.name} stopped with {answered} of {totals.total} answered; p resumes it", False)


def _outcome(totals: Totals, measures: Sequence[str]) -> str:
    bad = totals.failed + totals.partial + totals.errored
    if rateless(totals):
        return counts_sentence(totals, measures)
    return f"{totals.passed} of {totals.total} passed" + (f"; R asks the other {bad} again" if bad else "")


def wrote_tests(run: RunRow) -> str:
    """The purpose of a run that generated tests and asked none of them; empty for others."""
    if GENERATION not in run.config:
        return ""
    return f"{run.key} wrote tests and asked none of them; it is here for what that cost"


def notice(app: Desk) -> None:
    """Show the status of the run on screen; rings the bell when a run that was seen running is over."""
    run = app.watching.run
    if run is None:
        return
    if run.status not in OVER:
        app.followed_run = run.key
        entitle(app, f"{run.name} {run.status}")
        return
    if app.followed_run == run.key:
        app.followed_run = None
        entitle(app, f"{run.name} {run.status}")
        if app.workspace.settings.ui.get("bell") is not False:
            app.bell()
        way = app.workspace.settings.ui.get("notify", "9")
        if way in NOTIFY_WAYS and not app.is_headless:
            write_to_terminal(notification_bytes(f"{run.name} {run.status}", way))
        app.run_worker(_tell(app, run), group="ending", name="counting the run", exclusive=True, exit_on_error=False)


async def _tell(app: Desk, run: RunRow) -> None:
    try:
        ending = await asyncio.to_thread(told_ending, app.workspace.database, run)
    except StoreError as problem:
        app.tell(str(problem), "error")
        return
    app.tell(ending.says, "info" if ending.finished else "warn")


def entitle(app: Desk, text: str) -> None:
    """The title of the terminal."""
    if not app.is_headless:
        write_to_terminal(title_bytes(f"{text} · tui-evals", ascii_alone=app.signs == "ascii"))


def why_no_run(app: Desk) -> str | None:
    """Why there is nothing to run, or None."""
    editing = app.workspace.editing
    if editing is None:
        return "no dataset is open: o opens one, ctrl+n creates one"
    report = app.workspace.report
    if report is not None and report.dataset is None:
        problem = next(one for one in report.problems if one.severity == "error")
        return f"the dataset is not valid yet: {problem}"
    return None


def why_no_rerun(app: Desk) -> str | None:
    """No run, or one that is still running."""
    found = app.watching.run
    if found is None:
        return "no run is on screen: 6 lists runs"
    going_on = f"{found.key} is still running; x stops it" if found.status in ("running", "stopping") else None
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
    """No run that is running."""
    found = app.pane(app.front).run_row()
    if found is None:
        return "no run is chosen: 6 lists runs"
    over = (
        None
        if found.status in (*LIVE_STATUSES, "planned")
        else f"{found.key} is {found.status}; there is nothing to stop"
    )
    return wrote_tests(found) or over
