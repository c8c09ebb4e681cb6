"""The fields of a dataset, item or turn: where each stands, how it is written as text and read again, and set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from tui_evals.text import strictjson
from tui_evals.text.safe import safe

from . import paths, steps
from .layout import Path

Kind = Literal["text", "line", "lines", "number", "format", "json"]
"""How a value is written while it is edited: `lines` has one entry per line, `format` is a word or JSON."""

RESULTS = ("status", "response", "citations", "scores", "diagnostics", "error", "summary", "conversation_id")
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("testId", "name", "category", "prompt_file", "metadata.name", "tool_functions"), "line"),
    **dict.fromkeys(("evaluators_mode", "allowed_tools_mode"), "line"),
    **dict.fromkeys(("tags", "ideal", "allowed_tools", "default_allowed_tools", "metadata.tags"), "lines"),
    **dict.fromkeys(("weight", "threshold", "repeats", "max_steps"), "number"),
    **dict.fromkeys(("variables", "matrix", "messages", "attachments", "user", "other_questions"), "json"),
    **dict.fromkeys(("tools", "tool_results", "mcp"), "json"),
    **dict.fromkeys(("extensions", "metadata.extensions", "metadata"), "json"),
    "response_format": "format",
}


class Unreadable(ValueError):
    """What was typed cannot be read as a value; the sentence says why, `wanted` what it should have been."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"not yet {wanted}")
        self.wanted = wanted


def place_of(where: Path, name: str) -> Path:
    """Where a field stands in the data; those of the metadata are shown among the dataset's own."""
    if not where and name.startswith("metadata."):
        return ("metadata", name.removeprefix("metadata."))
    return (*where, name)


def value_at(data: dict[str, Any], where: Path, name: str) -> Any:
    """The value of a field; None while it is not given."""
    return paths.get_at(data, place_of(where, name))


def with_value(data: dict[str, Any], where: Path, name: str, value: Any) -> dict[str, Any]:
    """The data with a field set, or taken away with None; CannotEdit says why that cannot be."""
    place = place_of(where, name)
    if len(place) == len(where) + 1:
        return steps.set_field(data, where, name, value)
    if value is not None:
        return paths.set_at(data, place, value)
    kept = paths.remove_at(data, place)
    return kept if kept.get("metadata") else paths.remove_at(kept, ("metadata",))


def read_only(name: str, where: Path) -> str | None:
    """Why a field is not edited here; None when it is."""
    if not where:
        return "schemaVersion changes with `tui-evals upgrade` only" if name == "schemaVersion" else None
    return f"{name} is what a run wrote; it is not edited here" if name in RESULTS else None


def read_value(kind: Kind, text: str) -> Any:
    """The value of an edited text; nothing typed is no value; Unreadable says what cannot be read."""
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
            raise Unreadable(f"a number: {text.strip()[:40]}") from None
        reason = str(problem).removeprefix("not valid JSON: ")
        place = f" (line {problem.line}, column {problem.column})" if problem.line and problem.column else ""
        raise Unreadable(f"JSON: {reason}{place}") from None


def pretty(value: Any) -> str:
    """JSON to read and edit; what must not reach a terminal is spelled in the way of JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if safe(text) == text else json.dumps(value, indent=2)
