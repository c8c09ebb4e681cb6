"""The commands that start, pause, stop and judge runs, which work in every pane."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.runs.run_status import why_no_pause, why_no_rerun, why_no_run, why_no_stop


def _starting(name: str) -> Callable[[Desk], Coroutine[Any, Any, None]]:
    """A command of the module that starts runs."""

    def command(desk: Desk) -> Coroutine[Any, Any, None]:
        # Imported when it is wanted, because the engine behind it would hold up every first picture.
        from . import starting

        work: Coroutine[Any, Any, None] = getattr(starting, name)(desk)
        return work

    return command


COMMANDS: Commands = {
    "run": Command(_starting("run"), why_no_run),
    "rerun": Command(_starting("rerun"), why_no_rerun),
    "rescore": Command(_starting("rescore"), why_no_rerun),
    "pause": Command(_starting("pause"), why_no_pause),
    "stop": Command(_starting("stop"), why_no_stop),
}
