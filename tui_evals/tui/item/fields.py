"""The fields of a dataset, item or turn: which are shown, how each is written down to be edited, and read again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from tui_evals.datasets import paths, steps
from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.model import Dataset, Item, Turn
from tui_evals.datasets.paths import same_data
from tui_evals.text import strictjson
from tui_evals.text.safe import safe

Kind = Literal["text", "line", "lines", "number", "format", "json"]
"""How a value is written while it is edited: `lines` has one entry per line, `format` is a word or JSON."""

RESULTS = ("status", "response", "citations", "scores", "diagnostics", "error", "summary", "conversation_id")
JUDGING = ("evaluators", "default_evaluators")

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("testId", "name", "category", "prompt_file", "metadata.name"), "line"),
    **dict.fromkeys(("evaluators_mode", "allowed_tools_mode"), "line"),
    **dict.fromkeys(("tags", "ideal", "allowed_tools", "default_allowed_tools", "metadata.tags"), "lines"),
    **dict.fromkeys(("weight", "threshold", "repeats"), "number"),
    **dict.fromkeys(("variables", "messages", "tools", "extensions", "metadata.extensions", "metadata"), "json"),
    "response_format": "format",
}
_BEGUN = {"extensions": "{}", "metadata.extensions": "{}"}
_UNIT = (
    *("prompt", "expected_response", "context", "messages", "variables", "testId", "name", "description"),
    *("category", "tags", "notes", "ideal", "tools", "response_format", "weight", "threshold", "repeats"),
    *("allowed_tools", "allowed_tools_mode", "evaluators", "evaluators_mode", "extensions"),
)
_DATASET = (
    *("metadata.name", "metadata.description", "metadata.tags", "description", "prompt_file", "messages"),
    *("variables", "tools", "response_format", "repeats", "default_allowed_tools", "default_evaluators"),
)
_ON_TURNS = frozenset(Turn.model_fields) - {"tags", "extensions", "messages"}
_ABOUT = {
    "description": "What it is about.",
    "metadata.name": "Display name of the dataset.",
    "metadata.description": "What the dataset is about.",
    "metadata.tags": "Words to find it by.",
    "metadata.extensions": "Anything else; kept as it is.",
    "default_allowed_tools": "Tools the target may use, where an item says nothing.",
    "tools": "Tool definitions sent to the model.",
    "response_format": "text, json, or a JSON Schema of the answer.",
    "repeats": "How often each item is asked.",
}
_LONG = 100_000


class Unreadable(ValueError):
    """What was typed cannot be read as a value; the sentence says why."""


def place_of(where: Place, name: str) -> Place:
    """Where a field stands in the data; those of the metadata are shown among the dataset's own."""
    if not where and name.startswith("metadata."):
        return ("metadata", name.removeprefix("metadata."))
    return (*where, name)


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
    known = Turn.model_fields if len(where) > 2 else Item.model_fields
    barred = {"turns", *RESULTS, *JUDGING}
    if "turns" in unit:
        barred |= _ON_TURNS
    if "evaluators" not in unit:
        barred.add("evaluators_mode")
    return [name for name in _UNIT if name in known and name not in unit and name not in barred]


def field_about(name: str, where: Place) -> str:
    """What a field is for, in the words of the model."""
    model = (Turn if len(where) > 2 else Item) if where else Dataset
    field = model.model_fields.get(name)
    text = field.description if field else None
    return text or _ABOUT.get(
        name, "" if field or name.startswith("metadata.") else "A field the format does not know."
    )


def read_only(name: str, where: Place) -> str | None:
    """Why a field is not edited here; None when it is."""
    if not where:
        return "schemaVersion changes with `tui-evals upgrade` only" if name == "schemaVersion" else None
    return f"{name} is what a run wrote; it is not edited here" if name in RESULTS else None


def value_at(data: dict[str, Any], where: Place, name: str) -> Any:
    """The value of a field; None while it is not given."""
    return paths.get_at(data, place_of(where, name))


def with_value(data: dict[str, Any], where: Place, name: str, value: Any) -> dict[str, Any]:
    """The data with a field set, or taken away with None; CannotEdit says why that cannot be."""
    place = place_of(where, name)
    if len(place) == len(where) + 1:
        return steps.set_field(data, where, name, value)
    if value is not None:
        return paths.set_at(data, place, value)
    kept = paths.remove_at(data, place)
    return kept if kept.get("metadata") else paths.remove_at(kept, ("metadata",))


def prompt_is_needed(data: dict[str, Any], where: Place) -> bool:
    """Whether a prompt cannot be taken away here."""
    return value_at(with_value(data, where, "prompt", None), where, "prompt") is not None


def kind_of(name: str, value: Any) -> Kind:
    """How a field is written: in the way of its name, or in another one where its value would not survive that."""
    usual = _KINDS.get(name, "text" if value is None or isinstance(value, str) else "json")
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


def read_value(kind: Kind, text: str) -> Any:
    """The value of an edited text; nothing typed is no value; NotYet says what cannot be read."""
    if kind == "text":
        return text or None
    if kind == "line":
        return text.replace("\n", " ").strip() or None
    if kind == "lines":
        return [line.strip() for line in text.split("\n") if line.strip()] or None
    if not text.strip():
        return None
    if kind == "format" and not text.lstrip().startswith(("{", "[")):
        return text.strip()
    try:
        return strictjson.loads(text)
    except strictjson.JsonError as problem:
        if kind == "number":
            raise Unreadable(f"not yet a number: {text.strip()[:40]}") from None
        reason = str(problem).removeprefix("not valid JSON: ")
        place = f" (line {problem.line}, column {problem.column})" if problem.line and problem.column else ""
        raise Unreadable(f"not yet JSON: {reason}{place}") from None


def pretty(value: Any) -> str:
    """JSON to read and edit; what must not reach a terminal is spelled in the way of JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if safe(text) == text else json.dumps(value, indent=2)


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
