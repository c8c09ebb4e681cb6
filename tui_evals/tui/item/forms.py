"""Forms for the fields and parts of fields that are no text: objects, lists, mappings, schemas, files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

from tui_evals.datasets.attachments import MAX_BYTES, attachable_files, describe_file, has_media_name
from tui_evals.datasets.fields import place_of, value_at, with_value
from tui_evals.datasets.paths import CannotEdit, Path, get_at, path_text, same_data, set_at
from tui_evals.files import CannotSave, make_folder, write_atomically
from tui_evals.present.figures import file_size
from tui_evals.project_files import read_bytes
from tui_evals.text import strictjson
from tui_evals.text.safe import safe_line
from tui_evals.tui.completion import Completer
from tui_evals.tui.item.field_edit import parts_at
from tui_evals.tui.item.rows import kind_of
from tui_evals.tui.pane import Pane
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.workspace import Workspace

if TYPE_CHECKING:
    from tui_evals.tui.widgets.form_fields import Field

_ASKED = ("tool_results", "attachments", "response_format")
"""Fields that offer what there is already: calls of a run, files, the answer on screen."""
_MOST_ANSWERS = 40
"""Recorded answers whose calls are offered."""
_MOST_FILES = 5000


def has_form(field: str, value: object) -> bool:
    """Whether a field is written in a form; v writes it as JSON."""
    return field in _ASKED or kind_of(field, value) == "json"


def part_has_form(value: object) -> bool:
    """Whether a part of a field is written in a form."""
    return isinstance(value, (dict, list))


async def edit_in_form(pane: Pane, field: str) -> None:
    """Edit a field in its form and apply the result as one step."""
    before = value_at(pane.workspace.data, pane.workspace.where, field)
    asking = {"tool_results": _ask_results, "attachments": _ask_files, "response_format": _ask_format}.get(field)
    suits = before is None or isinstance(before, list) or field == "response_format"
    value = await (asking(pane, before) if asking is not None and suits else _ask_value(pane, field, before))
    if value is not None:
        _put(pane, field, (), before, value or None)


async def edit_part(pane: Pane, field: str, number: int) -> None:
    """Write a part of a field in its form."""
    from tui_evals.tui.model_form import entry_field

    part = parts_at(pane.workspace, field)[number]
    value = await _ask(pane, entry_field(field, part.label, part.value), part.value)
    if value is not None:
        _put(pane, field, part.place, part.value, value)


async def add_tool(pane: Pane, field: str, number: int) -> bool:
    """Add a tool at a position after its form is submitted; False if it was cancelled."""
    from tui_evals.tui.model_form import TOOL
    from tui_evals.tui.widgets.form_fields import Field

    before = value_at(pane.workspace.data, pane.workspace.where, field)
    tool = await _ask(pane, Field("new tool", "object", shape=TOOL), {})
    if tool is not None:
        _put(pane, field, (), before, [*(before or ())[:number], tool, *(before or ())[number:]])
    return tool is not None


def _put(pane: Pane, field: str, part: Path, before: Any, value: Any) -> None:
    """Set a field, or a part of it, as one step, unless it was changed meanwhile."""
    workspace = pane.workspace
    name, place = path_text((field, *part)), (*place_of(workspace.where, field), *part)
    if same_data(value, before):
        return
    if not same_data(get_at(workspace.data, place), before):
        pane.say(f"{name} changed here meanwhile, so nothing was taken", "warn")
        return
    try:
        data = workspace.data
        after = set_at(data, place, value) if part else with_value(data, workspace.where, field, value)
        workspace.apply(after, f"edit {name}")
    except CannotEdit as problem:
        pane.say(str(problem), "warn")
        return
    pane.changed()


async def _ask_value(pane: Pane, field: str, before: Any) -> Any:
    # Imported only for a form, because the models would delay the first frame.
    from tui_evals.tui.model_form import dataset_field

    return await _ask(pane, dataset_field(field, pane.workspace.where, before), before)


async def _ask(pane: Pane, one: Field, before: Any) -> Any:
    """Write a value in a form or a box, where the names of the dataset are completed."""
    from tui_evals.tui.widgets.form import ask_value

    return await ask_value(pane.app, one, before, Completer(pane.workspace, one.name))


async def _ask_format(pane: Pane, before: Any) -> Any:
    """Choose text, JSON, or a schema: written field by field, or made of the answer on screen."""
    from tui_evals.tui.model_form import SCHEMA, schema_made
    from tui_evals.tui.widgets.form_fields import Field

    made = schema_made(await asyncio.to_thread(_text_on_screen, pane))
    entries = [
        Entry("schema", "a schema", "the fields of a JSON answer, written one by one"),
        *([Entry("made", made[0], "a schema that this answer conforms to")] if made else []),
        Entry("text", "text", "any text"),
        Entry("json", "json", "any JSON"),
    ]
    now = before if before in ("text", "json") else "schema"
    chosen = await pane.app.push_screen_wait(Menu("response_format", entries, at=now))
    if chosen == "made" and made is not None:
        return made[1]
    if chosen != "schema":
        return chosen
    schema = before if isinstance(before, dict) else {}
    return await _ask(pane, Field("response_format", "object", shape=SCHEMA), schema)


def _text_on_screen(pane: Pane) -> str:
    """The text of the answer on screen, or of the response in the dataset; empty where there is none."""
    from tui_evals.store.database import StoreError
    from tui_evals.store.reader import Reader

    shown, kept = pane.watching.answer, (pane.workspace.unit or {}).get("response")
    if shown is not None:
        try:
            with Reader(pane.watching.database) as reader:
                answer = reader.detail(shown).answer
            kept = answer.text if answer is not None else kept
        except (StoreError, LookupError):
            return ""  # the run may have been deleted meanwhile
    return kept if isinstance(kept, str) else ""


async def _ask_results(pane: Pane, before: Any) -> Any:
    from tui_evals.tui.model_form import dataset_field

    starts = [*await asyncio.to_thread(_recorded_results, pane), *_templates(pane.workspace)]
    one = dataset_field("tool_results", pane.workspace.where, before)
    assert one.rows is not None
    about = "What the tools give, written beforehand. The first that fits a call answers it."
    return await _ask(pane, replace(one, about=about, rows=one.rows.starting_with(starts)), before)


def _recorded_results(pane: Pane) -> list[Any]:
    """The tool results recorded in the current run as initial values, those of this item first."""
    from tui_evals.store.database import StoreError
    from tui_evals.store.reader import Reader
    from tui_evals.store.records import transcript_of
    from tui_evals.transcript import calls_with_results
    from tui_evals.tui.widgets.form_fields import Start

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
    """A call and its result, as a predefined tool result."""
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
    from tui_evals.tui.widgets.form_fields import Start

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
    root = pane.workspace.root
    sizes, elsewhere = await asyncio.to_thread(_find_files, folder, root)
    found = sorted((name for name in sizes if name != dataset), key=lambda name: not has_media_name(name))
    names = dict.fromkeys([*attached, *found])
    entries: list[Entry] = [
        Entry(
            name,
            name,
            file_size(sizes[name]) if name in sizes else "missing",
            partial(describe_file, folder, name),
            marked=name in attached,
        )
        for name in names
    ]
    entries += [
        Entry(_ToCopy(name), name, file_size(size), partial(describe_file, root, name), group=_COPIED)
        for name, size in elsewhere.items()
    ]
    chosen: Sequence[str | _ToCopy] | None = await pane.app.push_screen_wait(
        Menu(
            "files that go along with the prompt",
            entries,
            several=True,
            optional=bool(attached),
            empty=f"no file is in {safe_line(str(folder), 60)} or below it. Put a copy there first",
        )
    )
    if chosen is None:
        return None
    try:
        copied = [one.name for one in chosen if isinstance(one, _ToCopy)]
        await asyncio.to_thread(_copy_files, copied, root, folder)
    except (CannotSave, OSError) as problem:
        pane.say(f"no file was attached: {problem}", "error")
        return None
    if copied:
        pane.say(f"copied to {safe_line(folder.name)}/: {safe_line(', '.join(copied), 200)}")
    given = [one.name if isinstance(one, _ToCopy) else one for one in chosen]
    return [attached.get(name, name) for name in given]


_COPIED = "elsewhere in the project; a copy is put next to the dataset"


class _ToCopy(NamedTuple):
    """The key of a file that does not go along from where it is."""

    name: str


def _find_files(folder: FilePath, root: FilePath) -> tuple[dict[str, int], dict[str, int]]:
    """The files that may go along and their sizes, and the pictures, sounds and PDFs elsewhere in the project."""
    here = dict(islice(attachable_files(folder), _MOST_FILES))
    folder, root = folder.resolve(), root.resolve()
    if folder == root or not folder.is_relative_to(root):
        return here, {}
    every = islice(attachable_files(root), _MOST_FILES)
    return here, {
        name: size
        for name, size in every
        if has_media_name(name) and not (folder / name).exists() and not (root / name).is_relative_to(folder)
    }


def _copy_files(names: Sequence[str], root: FilePath, folder: FilePath) -> None:
    """Copy files of the project below the folder of a dataset."""
    for name in names:
        if (folder / name).exists():
            raise CannotSave(f"{folder / name} has come meanwhile. Choose it again, from where it is now.")
        content = read_bytes(root / name, root=root, most=MAX_BYTES)
        make_folder((folder / name).parent)
        write_atomically(folder / name, content)


def _has_path(one: object) -> bool:
    return isinstance(one, str) or (isinstance(one, dict) and isinstance(one.get("path"), str))
