"""The fields of a dataset, item or turn: which are shown, how each is written down to be edited, and read again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tui_evals.datasets.fields import (
    KINDS,
    RESULTS,
    Kind,
    Unreadable,
    place_of,
    pretty,
    read_only,
    read_value,
    value_at,
    with_value,
)
from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.paths import same_data
from tui_evals.text.safe import safe

__all__ = ("Kind", "Unreadable", "place_of", "pretty", "read_only", "read_value", "value_at", "with_value")
"""What the pane takes from here and is known without a screen too."""

JUDGING = ("evaluators", "default_evaluators")

_BEGUN = {"extensions": "{}", "metadata.extensions": "{}"}
_UNIT = (
    *("prompt", "attachments", "user", "expected_response", "context", "messages", "variables", "matrix"),
    *("testId", "name", "description", "category", "tags", "notes", "ideal"),
    *("tools", "tool_results", "max_steps", "response_format"),
    *("weight", "threshold", "repeats", "other_questions"),
    *("allowed_tools", "allowed_tools_mode", "evaluators", "evaluators_mode", "extensions"),
)
_DATASET = (
    *("metadata.name", "metadata.description", "metadata.tags", "description", "prompt_file", "messages"),
    *("variables", "matrix", "tools", "tool_results", "tool_functions", "mcp", "max_steps", "response_format"),
    *("repeats", "default_allowed_tools", "default_evaluators"),
)
_ABOUT = {
    "description": "What it is about.",
    "metadata.name": "Display name of the dataset.",
    "metadata.description": "What the dataset is about.",
    "metadata.tags": "Words to find it by.",
    "metadata.extensions": "Anything else; kept as it is.",
    "default_allowed_tools": "Tools the target may use, where an item says nothing.",
    "tools": "Tool definitions sent to the model.",
    "max_steps": "How often the model is asked in a turn with tools; 10 if absent.",
    "response_format": "text, json, or a JSON Schema of the answer.",
    "repeats": "How often each item is asked.",
}
_LONG = 100_000


def shown_fields(unit: Mapping[str, Any], where: Place, also: str | None = None) -> list[str]:
    """The fields to show in the order people read them: the usual ones and `also`, others when they are there."""
    names = dict(_flat(unit) if not where else unit)
    if also is not None:
        names.setdefault(also, None)
    names.pop("items" if not where else "turns", None)
    always = {"metadata.name", "description"} if not where else {"prompt", "expected_response"}
    if len(where) == 2:
        always |= {"testId", "category"}
        if "turns" in unit:
            always -= {"prompt", "expected_response"}
        if "user" in unit:
            always -= {"prompt"}
    order = _UNIT if where else _DATASET
    known = [name for name in order if name in names or name in always]
    last = [name for name in (RESULTS if where else ("schemaVersion",)) if name in names]
    return [*known, *(name for name in names if name not in {*known, *last}), *last]


def _flat(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The members of the dataset with those of its metadata among them."""
    for name, value in data.items():
        if name == "metadata" and isinstance(value, dict):
            yield from ((f"metadata.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


def addable_fields(unit: Mapping[str, Any], where: Place) -> list[str]:
    """The fields of the model that can be given here and are not."""
    if not where:
        present = dict(_flat(unit))
        return [name for name in (*_DATASET, "metadata.extensions") if name not in present and name not in JUDGING]
    # Imported when it is wanted, because it would hold up every first picture.
    from tui_evals.datasets.model import TURN_ONLY_FIELDS, Item, Turn

    known = Turn.model_fields if len(where) > 2 else Item.model_fields
    barred = {"turns", *RESULTS, *JUDGING}
    if "turns" in unit:
        barred |= TURN_ONLY_FIELDS
    if "evaluators" not in unit:
        barred.add("evaluators_mode")
    return [name for name in _UNIT if name in known and name not in unit and name not in barred]


def field_about(name: str, where: Place) -> str:
    """What a field is for, in the words of the model."""
    from tui_evals.datasets.model import Dataset, Item, Turn  # when it is wanted, as above

    model = (Turn if len(where) > 2 else Item) if where else Dataset
    field = model.model_fields.get(name)
    text = field.description if field else None
    return text or _ABOUT.get(
        name, "" if field or name.startswith("metadata.") else "A field the format does not know."
    )


def prompt_is_needed(data: dict[str, Any], where: Place) -> bool:
    """Whether a prompt cannot be taken away here."""
    return value_at(with_value(data, where, "prompt", None), where, "prompt") is not None


def kind_of(name: str, value: Any) -> Kind:
    """How a field is written: in the way of its name, or in another one where its value would not survive that."""
    usual = KINDS.get(name, "text" if value is None or isinstance(value, str) else "json")
    candidates: tuple[Kind, ...] = (usual, "text", "json")
    return usual if value in (None, "") else next(kind for kind in candidates if kind == "json" or _keeps(kind, value))


def _keeps(kind: Kind, value: Any) -> bool:
    try:
        return same_data(read_value(kind, value_as_text(kind, value)), value)
    except Unreadable:
        return False


def value_as_text(kind: Kind, value: Any) -> str:
    """The value as a text to edit."""
    if value in (None, ""):
        return ""
    if kind == "lines" and isinstance(value, list):
        return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in value)
    if kind in ("json", "number", "lines") or not isinstance(value, str):
        return pretty(value)
    return value


def first_text(name: str) -> str:
    """What stands in the box when a field is given for the first time."""
    return _BEGUN.get(name, "")


def why_not_here(name: str, value: Any, *, as_json: bool = False) -> str | None:
    """Why a field, or a part of one, cannot be edited in place but in $EDITOR; None when it can."""
    try:
        size = len(value) if isinstance(value, str) else len(json.dumps(value))
        text = "" if size > _LONG else pretty(value) if as_json else value_as_text(kind_of(name, value), value)
    except RecursionError:
        return too_deep(name)
    if max(size, len(text)) > _LONG:
        return f"{name} is {max(size, len(text)):,} characters long, too long to edit in place; e edits it in $EDITOR"
    if safe(text) != text:
        return f"{name} holds control characters, which cannot be edited in place; e edits it in $EDITOR"
    return None


def too_deep(name: str) -> str:
    """What is said of a value that cannot be written down at all."""
    return f"{name} is nested too deeply to be edited here; edit the file itself"


def suffix_of(kind: Kind, text: str) -> str:
    """The ending of the file it is handed to $EDITOR in, for its colours."""
    structured = kind in ("json", "number") or (kind == "format" and text.lstrip().startswith("{"))
    return ".json" if structured else ".txt" if kind == "lines" else ".md"
