"""The commands that start, pause, stop and judge runs, which work in every pane."""

from __future__ import annotations

from tui_evals.tui.desk import Command, Commands

from . import starting

COMMANDS: Commands = {
    "run": Command(starting.run, starting.why_no_run),
    "rerun": Command(starting.rerun, starting.why_no_rerun),
    "rescore": Command(starting.rescore, starting.why_no_rerun),
    "pause": Command(starting.pause, starting.why_no_pause),
    "stop": Command(starting.stop, starting.why_no_stop),
}
