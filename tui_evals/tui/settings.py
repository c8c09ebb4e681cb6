"""The form for `.evals/config.toml`; settings that it does not show are kept."""

from __future__ import annotations

import asyncio
from typing import Any

from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings
from tui_evals.tui.widgets.form import Form
from tui_evals.tui.widgets.form_fields import Faults, Field, Values

from .desk import Command, Commands, Desk
from .messages import StateChanged

_KEYS: dict[str, tuple[str, ...]] = {
    "theme": ("ui", "theme"),
    "ascii": ("ui", "ascii"),
    "mouse": ("ui", "mouse"),
    "bell": ("ui", "bell"),
    "notify": ("ui", "notify"),
    "targets": ("run", "targets"),
    "judge": ("judge", "target"),
    "embeddings": ("judge", "embedding"),
    "concurrency": ("run", "concurrency"),
    "repeats": ("run", "repeats"),
    "budget": ("run", "max_cost"),
    "durable": ("store", "durable"),
}
"""The place in the file of each field of the form."""


async def edit_settings(desk: Desk) -> None:
    """Show the form, write the fields that were changed, and use them from now on."""
    before = _current_values(desk.workspace.settings, desk.theme)
    shown = {name: value for name, value in before.items() if value is not None}
    fields = _fields(desk.workspace.settings, tuple(sorted(desk.available_themes)))
    form = Form(
        "settings of this project: .evals/config.toml", fields, shown, check=_faults, done="write them", keeps=True
    )
    values = await desk.push_screen_wait(form)
    if values is None:
        return
    changed = [name for name in _KEYS if values.get(name) != before[name]]
    if not changed:
        desk.tell("nothing was changed")
        return
    try:
        # Imported here, because loading the style-preserving editor would delay the first frame.
        from tui_evals.targets.config_file import write_setting

        for name in changed:
            await asyncio.to_thread(write_setting, desk.workspace.root, _KEYS[name], values.get(name))
        remarks = desk.workspace.configure()
    except ConfigurationError as problem:
        desk.tell(str(problem), "error")
        return
    desk.dress()
    desk.post_message(StateChanged())
    desk.tell(remarks[0] if remarks else "written to .evals/config.toml")


def _current_values(settings: Settings, theme: str) -> dict[str, Any]:
    return {
        "theme": theme,
        "ascii": settings.ui.get("ascii"),
        "mouse": settings.ui.get("mouse"),
        "bell": settings.ui.get("bell"),
        "notify": settings.ui.get("notify"),
        "targets": list(settings.run.targets) or None,
        "judge": settings.judge,
        "embeddings": settings.embedder,
        "concurrency": settings.run.concurrency,
        "repeats": settings.run.repeats,
        "budget": settings.run.max_cost,
        "confirm dollars": settings.run.confirm_cost,
        "confirm calls": settings.run.confirm_calls,
        "durable": settings.durable or None,
    }


def _fields(settings: Settings, themes: tuple[str, ...]) -> tuple[Field, ...]:
    targets = tuple(dict.fromkeys((*settings.answering, "demo")))
    embedders = [name for name in settings.targets if name not in targets]
    about = "The target whose vectors evaluators compare."
    named = tuple(dict.fromkeys((*embedders, *filter(None, [settings.embedder]))))
    embeddings = [Field("embeddings", "choice", about, named)] if named else []
    return (
        Field("theme", "choice", "ansi-dark and ansi-light use the terminal's own 16 colors.", themes),
        Field("ascii", "yes", "Whether all is drawn in ASCII, without other signs.", default="automatic"),
        Field("mouse", "yes", "Whether the mouse works, from the next start on.", default="yes"),
        Field("bell", "yes", "Whether the terminal rings when a run ends.", default="yes"),
        Field("notify", "choice", "How to notify the desktop when a run ends: OSC 9 or 777.", ("9", "777", "none")),
        Field("targets", "several", "What answers where a run names nothing.", targets),
        Field("judge", "choice", "The target that judges.", targets),
        *embeddings,
        Field("concurrency", "whole", "Calls in flight at once, per target.", default="10"),
        Field("repeats", "whole", "How often each item is asked."),
        Field("budget", "number", "Stop a run before it spends more US dollars.", default="none"),
        Field("confirm dollars", "number", "Enter alone does not start a run that costs more US dollars.", default="1"),
        Field("confirm calls", "whole", "Enter alone does not start a run with more calls.", default="500"),
        Field("durable", "yes", "Whether answers survive a power cut too, for some speed.", default="no"),
    )


def _faults(values: Values) -> Faults:
    found = {
        name: "more than 0"
        for name in ("concurrency", "repeats", "budget")
        if values.get(name) is not None and values[name] <= 0
    }
    return found | {name: "not below 0" for name in ("confirm dollars", "confirm calls") if (values.get(name) or 0) < 0}


async def show_permissions(desk: Desk) -> None:
    """Show the permissions of the project."""
    # Imported when needed, because the evaluators behind it would delay the first frame.
    from tui_evals.tui import permissions

    await permissions.show_permissions(desk)


COMMANDS: Commands = {"settings": Command(edit_settings), "trust": Command(show_permissions)}
