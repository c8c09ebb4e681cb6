"""Copies what a dataset holds to the clipboard of whoever sits at the terminal: a field, an item, several of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from tui_evals.datasets.paths import get_at
from tui_evals.text.safe import safe_line

from .messages import CopyText
from .pane import Pane
from .widgets.dialogs import Entry, Menu
from .workspace import Workspace

_USUAL = ("prompt", "expected_response", "testId", "response")
_UNITS = {0: "dataset", 2: "item", 4: "turn"}
_PREVIEW = 60


def copyable_values(workspace: Workspace, items: Sequence[int] = ()) -> dict[str, Any]:
    """What there is to copy by its name: these items, or else where one is with its usual texts."""
    if items:
        return {f"{len(items)} item{'s' * (len(items) != 1)} as JSON": [workspace.items[number] for number in items]}
    unit = get_at(workspace.data, workspace.where) if workspace.where else workspace.data
    texts = {name: unit[name] for name in _USUAL if isinstance(unit.get(name), str)} if isinstance(unit, dict) else {}
    return {**texts, f"{_UNITS[len(workspace.where)]} as JSON": unit}


async def copy_menu(pane: Pane, values: dict[str, Any]) -> None:
    """Choose what of these values goes to the clipboard; what is no text goes as JSON."""
    entries = [Entry(name, name, _about(value)) for name, value in values.items() if value not in (None, "")]
    chosen = await pane.app.push_screen_wait(Menu("copy", entries, does="copies", empty="nothing stands here"))
    if chosen is None:
        return
    value = values[chosen]
    try:
        text = (
            value
            if isinstance(value, str)
            else await asyncio.to_thread(json.dumps, value, ensure_ascii=False, indent=2)
        )
    except RecursionError:
        pane.say(f"{chosen} is nested too deeply to be copied", "warn")
        return
    pane.post_message(CopyText(text, chosen))


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _about(value: Any) -> str:
    """The beginning of a text, or how much there is of anything else."""
    if isinstance(value, str):
        return safe_line(value, _PREVIEW)
    return f"{len(value)} part{'s' * (len(value) != 1)}" if isinstance(value, dict | list) else str(value)
