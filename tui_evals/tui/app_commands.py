"""What can be done everywhere: each action of the table's first part by its name, and why it cannot be done now."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from tui_evals.tui.playground.screen import open_playground
from tui_evals.tui.results.workers import open_workers, why_no_workers
from tui_evals.tui.rules.screen import open_rules
from tui_evals.tui.runs import starting

from . import files, navigation
from .navigation import palette, settings, show_help

if TYPE_CHECKING:
    from .app import Workbench

Command = Callable[["Workbench"], Coroutine[Any, Any, None] | None]

COMMANDS: Mapping[str, Command] = {
    "pane_1": navigation.to("tree"),
    "pane_2": navigation.to("editor"),
    "pane_3": navigation.to("judges"),
    "pane_4": navigation.to("results"),
    "pane_5": navigation.to("detail"),
    "pane_6": navigation.to("runs"),
    "rules": open_rules,
    "next_pane": navigation.on(1),
    "previous_pane": navigation.on(-1),
    "zoom": navigation.zoom,
    "narrower": navigation.widen(-1),
    "wider": navigation.widen(1),
    "back": navigation.back,
    "run": starting.run,
    "rerun": starting.rerun,
    "rescore": starting.rescore,
    "pause": starting.pause,
    "stop": starting.stop,
    "workers": open_workers,
    "save": files.save,
    "save_as": files.save_as,
    "undo": files.undo,
    "redo": files.redo,
    "open": files.open_other,
    "new_dataset": files.new_dataset,
    "quit": files.leave,
    "playground": open_playground,
    "settings": settings,
    "palette": palette,
    "help": show_help,
}

_REASONS: Mapping[str, Callable[[Workbench], str | None]] = {
    "rules": files.why_none_open,
    "run": starting.why_no_run,
    "rerun": starting.why_no_rerun,
    "rescore": starting.why_no_rerun,
    "pause": starting.why_no_pause,
    "stop": starting.why_no_stop,
    "workers": why_no_workers,
    "save": files.why_no_save,
    "save_as": files.why_none_open,
    "undo": files.why_no_undo,
    "redo": files.why_no_redo,
}


def why_not(app: Workbench, name: str) -> str | None:
    """Why an action cannot be done now, as a sentence; None when it can."""
    reason = _REASONS.get(name)
    return None if reason is None else reason(app)
