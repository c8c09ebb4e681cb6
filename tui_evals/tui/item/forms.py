"""Forms for the fields of an item that are objects: its user, the results of its tools, the files that go along."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from tui_evals.datasets.attachments import attachable_files, describe_file, has_media_name
from tui_evals.datasets.fields import value_at, with_value
from tui_evals.datasets.paths import CannotEdit, same_data
from tui_evals.present.figures import file_size
from tui_evals.text import strictjson
from tui_evals.text.safe import safe_line
from tui_evals.tui.pane import Pane
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.workspace import Workspace

FIELDS = ("user", "tool_results", "attachments")
"""Fields with a form of their own; v writes them as JSON."""
_MOST_ANSWERS = 40
"""Recorded answers whose calls are offered."""
_MOST_FILES = 5000


def has_form(workspace: Workspace, field: str) -> bool:
    """Whether a field of the current place is written in a form: it has one, and holds what the form can show."""
    if field not in FIELDS:
        return False
    value = value_at(workspace.data, workspace.where, field)
    if value is None:
        return True
    return isinstance(value, dict) if field == "user" else isinstance(value, list)


async def edit_in_form(pane: Pane, field: str) -> None:
    """Write a field in its form, and take what comes out of it as one step."""
    workspace = pane.workspace
    editing, where = workspace.editing, workspace.where
    before = value_at(workspace.data, where, field)
    asking = {"user": _ask_user, "tool_results": _ask_results, "attachments": _ask_files}[field]
    value = await asking(pane, before)
    if value is None or same_data(value, before):
        return
    if workspace.editing is not editing or not same_data(value_at(workspace.data, where, field), before):
        pane.say(f"{field} changed here meanwhile, so nothing was taken", "warn")
        return
    try:
        workspace.apply(with_value(workspace.data, where, field, value or None), f"edit {field}")
    except CannotEdit as problem:
        pane.say(str(problem), "warn")
        return
    pane.changed()


async def _ask_user(pane: Pane, before: Any) -> Any:
    # Imported when a form is wanted, because models would hold up the first picture.
    from tui_evals.datasets.model import SimulatedUser
    from tui_evals.tui.model_form import ModelShape
    from tui_evals.tui.widgets.form import object_form

    shape = ModelShape(SimulatedUser)
    values = await pane.app.push_screen_wait(object_form("user", shape, before or {}))
    return None if values is None else shape.written(before or {}, values)


async def _ask_results(pane: Pane, before: Any) -> Any:
    from tui_evals.datasets.model import ToolResult
    from tui_evals.tui.model_form import ModelShape
    from tui_evals.tui.widgets.form import ListForm

    starts = [*await asyncio.to_thread(_recorded_results, pane), *_templates(pane.workspace)]
    about = "What the tools give, written beforehand. The first that fits a call answers it."
    form = ListForm("tool_results", ModelShape(ToolResult), before or (), says=about, starts=starts)
    entries = await pane.app.push_screen_wait(form)
    return None if entries is None else list(entries.values())


def _recorded_results(pane: Pane) -> list[Any]:
    """What tools gave in the run on screen, as objects to begin with; calls of this item first."""
    from tui_evals.store.database import StoreError
    from tui_evals.store.reader import Reader
    from tui_evals.store.records import transcript_of
    from tui_evals.transcript import calls_with_results
    from tui_evals.tui.widgets.form import Start

    workspace, run = pane.workspace, pane.watching.run
    if run is None or not pane.watching.database.exists():
        return []
    name = workspace.name_of(workspace.item) if workspace.item is not None else ""
    found: dict[str, Start] = {}
    try:
        with Reader(pane.watching.database) as reader:
            rows = [row for row in reader.all_rows(run.id) if row.code is None]
            for row in sorted(rows, key=lambda row: row.name != name)[:_MOST_ANSWERS]:
                answer = reader.detail(row.id).answer
                for call, result in calls_with_results(transcript_of(answer)) if answer is not None else ():
                    if result is not None:
                        value = recorded_result(call.name, call.arguments, result.text, failed=result.failed)
                        about = f"recorded for {row.name} in {run.name}"
                        found.setdefault(json.dumps(value), Start(_call_words(value), value, about))
    except (StoreError, LookupError):
        return []
    return list(found.values())


def recorded_result(tool: str, arguments: str, result: str, *, failed: bool = False) -> dict[str, Any]:
    """A call and what it gave as a result that is written beforehand."""
    sent = _read(arguments)
    given = {"arguments": sent} if isinstance(sent, dict) and sent else {}
    outcome = (
        {"error": result or "it failed"} if failed else {"result": result if _read(result) is None else _read(result)}
    )
    return {"tool": tool, **given, **outcome}


def _read(text: str) -> Any:
    """A text as JSON data; None where it is none."""
    try:
        return strictjson.loads(text)
    except (strictjson.JsonError, RecursionError):
        return None


def _call_words(value: Mapping[str, Any]) -> str:
    sent = ", ".join(f"{name}={part}" for name, part in value.get("arguments", {}).items())
    gave = value["error"] if "error" in value else value["result"]
    return safe_line(f"{value['tool']}({sent}) → {gave}", 100)


def _templates(workspace: Workspace) -> Iterator[Any]:
    """An object to begin with for each tool of the item and the dataset."""
    from tui_evals.datasets.tools import tool_name
    from tui_evals.tui.widgets.form import Start

    units = (workspace.unit if workspace.where else None, workspace.data)
    tools = [
        tool for unit in units if unit for tool in (unit.get("tools") or ()) if isinstance(unit.get("tools"), list)
    ]
    for name in dict.fromkeys(filter(None, map(tool_name, tools))):
        yield Start(name, {"tool": name, "result": "what it gives"}, "a tool of the dataset; any call of it")


async def _ask_files(pane: Pane, before: Any) -> Any:
    assert pane.workspace.editing is not None
    folder = pane.workspace.editing.document.file.parent
    attached = {one if isinstance(one, str) else one.get("path"): one for one in before or () if _has_path(one)}
    dataset = pane.workspace.editing.document.file.name
    found = await asyncio.to_thread(lambda: list(islice(attachable_files(folder), _MOST_FILES)))
    found = sorted((one for one in found if one[0] != dataset), key=lambda one: not has_media_name(one[0]))
    names = dict.fromkeys([*attached, *(name for name, _ in found)])
    sizes = dict(found)
    entries = [
        Entry(
            name,
            name,
            file_size(sizes[name]) if name in sizes else "missing",
            partial(describe_file, folder, name),
            marked=name in attached,
        )
        for name in names
    ]
    chosen: Sequence[str] | None = await pane.app.push_screen_wait(
        Menu(
            "files that go along with the prompt",
            entries,
            several=True,
            optional=bool(attached),
            empty=f"no file is in {safe_line(str(folder), 60)} or below it",
        )
    )
    return None if chosen is None else [attached.get(name, name) for name in chosen]


def _has_path(one: object) -> bool:
    return isinstance(one, str) or (isinstance(one, dict) and isinstance(one.get("path"), str))
