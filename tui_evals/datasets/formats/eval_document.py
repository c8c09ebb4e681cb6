"""JSON documents: the versioned eval document, and the two older shapes that are read as one."""

from __future__ import annotations

from typing import Any, Literal

from tui_evals.datasets.layout import Path
from tui_evals.datasets.model import CURRENT_VERSION

Shape = Literal["document", "array", "parallel"]


def shape_of(value: object) -> Shape | None:
    """Which of the accepted shapes a JSON value has."""
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict) and "items" not in value and isinstance(value.get("prompts"), list):
        return "parallel"
    return "document" if isinstance(value, dict) else None


def as_document(value: Any, shape: Shape) -> dict[str, Any]:
    """The value as an eval document; a document without a version stays without one until it is upgraded."""
    if shape == "array":
        return {"schemaVersion": CURRENT_VERSION, "items": value}
    if shape == "parallel":
        rest = {key: part for key, part in value.items() if key not in ("prompts", "expected_responses")}
        return {"schemaVersion": CURRENT_VERSION, **rest, "items": _paired(value)}
    return {"schemaVersion": CURRENT_VERSION, **value} if "schemaVersion" not in value else dict(value)


def _paired(value: dict[str, Any]) -> list[dict[str, Any]]:
    prompts = value["prompts"]
    expected = value.get("expected_responses", [None] * len(prompts))
    if not isinstance(expected, list) or len(expected) != len(prompts):
        count = len(expected) if isinstance(expected, list) else "no list of"
        raise ValueError(f"there are {len(prompts)} prompts but {count} expected_responses; give one for each")
    return [
        {"prompt": prompt} if reference is None else {"prompt": prompt, "expected_response": reference}
        for prompt, reference in zip(prompts, expected, strict=True)
    ]


def written_path(path: Path, shape: Shape) -> Path:
    """Where a value of the document stands in the file as it was written."""
    if shape == "document" or path[:1] != ("items",):
        return path
    if shape == "array":
        return path[1:]
    column = "expected_responses" if path[2:3] == ("expected_response",) else "prompts"
    return (column, *path[1:2])
