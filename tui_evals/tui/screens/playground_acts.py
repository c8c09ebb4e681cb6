"""What the playground asks a person: who is talked to, what is filled in, and by what the new item is judged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui_evals.datasets.steps import CannotEdit, insert_item
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, target_named
from tui_evals.tui.messages import Changed, Said, Show
from tui_evals.tui.state.checks import Check, suggested_checks, with_checks
from tui_evals.tui.state.talk import CannotTalk, Talk

from .ask import Ask
from .form import Field, Form
from .menu import Entry, Menu

if TYPE_CHECKING:
    from .playground import Playground

_OTHER = ("another",)


async def choose_target(screen: Playground) -> None:
    """Choose who is talked to: a target of the configuration, the demo, or any model by its spelling."""
    settings = screen.workspace.settings
    entries = [Entry(name, name, config.model) for name, config in settings.targets.items()]
    if "demo" not in settings.targets:
        entries.append(Entry("demo", "demo", "scripted answers, offline and free"))
    entries.append(Entry(_OTHER, "another…", "openai/gpt-4o-mini, replay:FILE, command:PROGRAM"))
    name = await screen.app.push_screen_wait(Menu("talk to", entries))
    if name == _OTHER:
        name = await screen.app.push_screen_wait(Ask("talk to a model", check=lambda text: _no_target(text, settings)))
    if isinstance(name, str):
        await screen.talk.change(target_named(name, settings))
        screen.tell("")
        screen.draw()


def _no_target(text: str, settings: Settings) -> str | None:
    try:
        target_named(text, settings)
    except ConfigurationError as problem:
        return str(problem)
    return None


async def fill_in(screen: Playground) -> None:
    """Give the variables of the prompt under test their values; where there is none, a system message."""
    talk = screen.talk
    if talk.beginning.prompt is None:
        about = "What the target is told before the first question; an item of the conversation keeps it."
        values = {"system": talk.system} if talk.system else {}
        form = Form("system message", [Field("system", about=about, default="none")], values)
    elif talk.beginning.names:
        form = Form("variables of the prompt under test", _fields(talk), talk.values)
    else:
        screen.tell("the prompt under test has no variables", "warn")
        return
    given = await screen.app.push_screen_wait(form)
    if given is None:
        return
    if talk.beginning.prompt is None:
        talk.system = given.get("system", "")
    else:
        talk.values = given
    screen.tell("what was answered before was asked otherwise; ctrl+l begins again" if talk.messages else "")
    screen.draw()


def _fields(talk: Talk) -> Sequence[Field]:
    """A field for each variable; one whose value is no text is given as JSON."""
    values: Mapping[str, Any] = {**talk.beginning.known, **talk.values}
    return [
        Field(name, "text" if isinstance(values.get(name, ""), str) else "json", "Put into the prompt under test.")
        for name in talk.beginning.names
    ]


async def make_item(screen: Playground) -> None:
    """Make an item of the conversation after the one the workbench is at, and go there."""
    workspace = screen.workspace
    try:
        item = screen.talk.item()
        found = await asyncio.to_thread(suggested_checks, *screen.talk.answer())
        chosen = await screen.app.push_screen_wait(_menu(found)) if found else ()
        if chosen is None:
            screen.tell("no item was made")
            return
        position = len(workspace.items) if workspace.item is None else workspace.item + 1
        made = with_checks(item, [found[number][1] for number in chosen])
        data = insert_item(workspace.data, position, made)
    except (CannotTalk, CannotEdit) as problem:
        screen.tell(str(problem), "warn")
        return
    workspace.apply(data, "a new item from the playground")
    workspace.where = ("items", position)
    screen.do_leave()
    for message in (Changed(), Show("editor"), Said("the conversation is an item now; u takes it back, P goes on")):
        screen.app.post_message(message)


def _menu(found: Sequence[Check]) -> Menu:
    entries = []
    for number, (says, check) in enumerate(found):
        ((name, options),) = check.items()
        entries.append(Entry(number, name, says, json.dumps(options, ensure_ascii=False) if options else ""))
    return Menu("checks for the last answer: mark any, or none", entries, several=True, optional=True)
