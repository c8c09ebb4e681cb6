"""What can be done everywhere: each action of the table's first part by its name, and why it cannot be done now."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from . import drafts, keeping, moving, naming, running
from .crewing import open_workers, why_no_workers
from .finding import palette, settings, show_help
from .ruling import open_rules
from .talking import open_playground

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

Command = Callable[["Workbench"], Coroutine[Any, Any, None] | None]

COMMANDS: Mapping[str, Command] = {
    "pane_1": moving.to("tree"),
    "pane_2": moving.to("editor"),
    "pane_3": moving.to("judges"),
    "pane_4": moving.to("results"),
    "pane_5": moving.to("detail"),
    "pane_6": moving.to("runs"),
    "rules": open_rules,
    "next_pane": moving.on(1),
    "previous_pane": moving.on(-1),
    "zoom": moving.zoom,
    "narrower": moving.widen(-1),
    "wider": moving.widen(1),
    "back": moving.back,
    "run": running.run,
    "rerun": running.rerun,
    "rescore": running.rescore,
    "pause": running.pause,
    "stop": running.stop,
    "workers": open_workers,
    "save": keeping.save,
    "save_as": naming.save_as,
    "undo": keeping.undo,
    "redo": keeping.redo,
    "open": keeping.open_other,
    "new_dataset": naming.new_dataset,
    "quit": drafts.leave,
    "playground": open_playground,
    "settings": settings,
    "palette": palette,
    "help": show_help,
}

_REASONS: Mapping[str, Callable[[Workbench], str | None]] = {
    "rules": keeping.why_none_open,
    "run": running.why_no_run,
    "rerun": running.why_no_rerun,
    "rescore": running.why_no_rerun,
    "pause": running.why_no_pause,
    "stop": running.why_no_stop,
    "workers": why_no_workers,
    "save": keeping.why_no_save,
    "save_as": keeping.why_none_open,
    "undo": keeping.why_no_undo,
    "redo": keeping.why_no_redo,
}


def why_not(app: Workbench, name: str) -> str | None:
    """Why an action cannot be done now, as a sentence; None when it can."""
    reason = _REASONS.get(name)
    return None if reason is None else reason(app)
