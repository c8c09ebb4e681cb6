"""From pane to pane, and how wide they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tui_evals.targets.base import ConfigurationError
from tui_evals.tui.widgets.dialogs import Entry, Menu, Reading
from tui_evals.tui.widgets.form import Faults, Field, Form, Values

from . import layout
from .action_help import help_rows
from .actions import PLACES, Action, key_names, of
from .messages import Place, StateChanged

if TYPE_CHECKING:
    from .app import Workbench


def to(place: Place) -> Callable[[Workbench], None]:
    """Bring a pane in front."""
    return lambda app: app.bring(place)


def on(way: int) -> Callable[[Workbench], None]:
    """Bring the next pane in front."""
    return lambda app: app.bring(layout.neighbour(app.front, app.size.width, app.zoomed, way))


def zoom(app: Workbench) -> None:
    """Only the pane in front, or all again."""
    app.zoomed = not app.zoomed
    app.arrange()
    if app.zoomed and app.size.width < 100:
        app.tell("below 100 columns one pane is shown at a time in any case")


def widen(way: int) -> Callable[[Workbench], None]:
    """The pane in front a step wider or narrower."""

    def step(app: Workbench) -> None:
        app.remembered.put("weights", layout.changed_weight(app.remembered.weights, app.front, way))
        app.arrange()

    return step


def back(app: Workbench) -> None:
    """Out of a mode of the pane, else out of the zoom, else to the pane before."""
    if app.pane(app.front).escape():
        return
    if app.zoomed:
        zoom(app)
    elif app.before:
        place = app.before.pop()
        app.bring(place, returning=True)


async def palette(app: Workbench) -> None:
    """Every action of the pane in front and those that hold everywhere, by name; what cannot be done says why."""
    pane = app.pane(app.front)
    entries = []
    for action in (*of(app.front), *of("everywhere")):
        everywhere = action.where == "everywhere"
        reason = app.why_not(action.name) if everywhere else pane.why_not(action.name)
        keys = " ".join(key_names(action))
        entries.append(
            Entry(action, f"{_noun(action)}: {action.word}", f"{keys:<6} {action.says}", why_not=reason or "")
        )
    chosen = await app.push_screen_wait(Menu("commands", entries))
    if isinstance(chosen, Action):
        target: Any = app if chosen.where == "everywhere" else pane
        target.action_act(chosen.name)


def _noun(action: Action) -> str:
    title = PLACES[action.where]
    return "workbench" if action.where == "everywhere" else title.partition(" ")[2].lower()


def show_help(app: Workbench) -> None:
    """What the pane in front is for, and every key that works in it."""
    where = app.front
    app.push_screen(Reading(f"help · {PLACES[where]}", lambda width: help_rows(where, width)))


_SETTINGS: dict[str, tuple[str, ...]] = {
    "theme": ("ui", "theme"),
    "mouse": ("ui", "mouse"),
    "bell": ("ui", "bell"),
    "targets": ("run", "targets"),
    "judge": ("judge", "target"),
    "concurrency": ("run", "concurrency"),
    "repeats": ("run", "repeats"),
    "budget": ("run", "max_cost"),
}


async def settings(app: Workbench) -> None:
    """A form over .evals/config.toml; what it does not show stays in the file as it is."""
    now = app.workspace.settings
    values = {
        "theme": app.theme,
        "mouse": now.ui.get("mouse"),
        "bell": now.ui.get("bell"),
        "targets": list(now.run.targets) or None,
        "judge": now.judge,
        "concurrency": now.run.concurrency,
        "repeats": now.run.repeats,
        "budget": now.run.max_cost,
    }
    known = tuple(dict.fromkeys((*now.targets, "demo")))
    fields = (
        Field("theme", "choice", "ansi-dark and ansi-light use the terminal's own 16 colours.", _themes(app)),
        Field(
            "mouse",
            "yes",
            "Whether the mouse works, from the next start on.",
            default="yes",
        ),
        Field("bell", "yes", "Whether the terminal rings when a run ends.", default="yes"),
        Field("targets", "several", "What answers where a run names nothing.", known),
        Field("judge", "choice", "The target that judges.", known),
        Field("concurrency", "whole", "Calls in flight at once, per target.", default="10"),
        Field("repeats", "whole", "How often each item is asked."),
        Field("budget", "number", "Stop a run before it spends more US dollars.", default="none"),
    )
    form = Form(
        "settings of this project: .evals/config.toml", fields, _given(values), check=_faults, done="write them"
    )
    given = await app.push_screen_wait(form)
    if given is None:
        return
    changed = [name for name in _SETTINGS if given.get(name) != values[name]]
    if not changed:
        app.tell("nothing was changed")
        return
    try:
        for name in changed:
            # Imported when it is wanted: what edits the file in style would hold up every first picture.
            from tui_evals.targets.config_file import write_setting

            await asyncio.to_thread(write_setting, app.workspace.root, _SETTINGS[name], given.get(name))
        remarks = app.workspace.configure()
    except ConfigurationError as problem:
        app.tell(str(problem), "error")
        return
    app.set_theme(app.workspace.settings.ui.get("theme", app.theme))
    app.post_message(StateChanged())
    app.tell(remarks[0] if remarks else "written to .evals/config.toml")


def _given(values: Values) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _themes(app: Workbench) -> tuple[str, ...]:
    return tuple(sorted(app.available_themes))


def _faults(values: Values) -> Faults:
    return {
        name: "more than 0"
        for name in ("concurrency", "repeats", "budget")
        if values.get(name) is not None and values[name] <= 0
    }
