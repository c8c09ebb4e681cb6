"""Rows of promptfoo's CSV tests: columns are variables, but for those that start with two underscores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tui_evals.datasets.losses import Losses

from .files import Spot

_CALLED = re.compile(r"(?P<kind>[a-z][a-z0-9:-]*?)(?:\((?P<threshold>\d+(?:\.\d+)?)\))?(?::(?P<value>.*))?", re.DOTALL)
_LISTS = frozenset(("contains-all", "contains-any", "icontains-all", "icontains-any"))
_LIMITS = frozenset(("latency", "cost"))
_USUAL_LIMIT = 0.75  # what promptfoo takes where a cell names no threshold
_ABOUT_ASSERTS = ("__config:", "__metric")
_OF_CONFIG = re.compile(r"__config:__expected(\d*):(\w+)")


def case_of_row(spot: Spot, kinds: frozenset[str], losses: Losses) -> dict[str, Any]:
    """A row as the test it stands for; `kinds` are the assertions a cell can begin with."""
    case: dict[str, Any] = {"vars": {}}
    asserts: list[dict[str, Any]] = []
    for column, cell in spot.value.items():
        if not column.startswith("__"):
            if column:
                case["vars"][column] = cell
        elif column.startswith("__expected"):
            if cell.strip():
                asserts.append(assert_of_cell(cell.strip(), kinds))
        elif cell.strip() and not (column.startswith(_ABOUT_ASSERTS) or _special(spot, column, cell, case)):
            losses.left_out(f"the column {column}", spot.where, "there is no equal")
    _configure(spot, asserts)
    return {**case, "assert": asserts} if asserts else case


def _special(spot: Spot, column: str, cell: str, case: dict[str, Any]) -> bool:
    if column == "__description":
        case["description"] = cell
    elif column == "__providerOutput":
        case["providerOutput"] = cell
    elif column == "__threshold":
        case["threshold"] = _number(spot, column, cell)
    elif column.startswith("__metadata:"):
        name = column.removeprefix("__metadata:")
        value: Any = cell
        if name.endswith("[]"):
            name, value = name[:-2], [part.strip().replace("\\,", ",") for part in re.split(r"(?<!\\),", cell)]
        case.setdefault("metadata", {})[name] = value
    else:
        return False
    return True


def _number(spot: Spot, column: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise spot.wrong(f"{column} must be a number, not {cell[:40]!r}") from None


def _configure(spot: Spot, asserts: list[dict[str, Any]]) -> None:
    """Columns that say more about the assertions of the row: a metric of all, a threshold of one."""
    row: Mapping[str, str] = spot.value
    if metric := row.get("__metric", "").strip():
        for one in asserts:
            one["metric"] = metric
    for column, cell in row.items():
        found = _OF_CONFIG.fullmatch(column)
        if found and cell.strip():
            at = int(found[1] or 1) - 1
            if found[2] != "threshold" or not 0 <= at < len(asserts):
                raise spot.wrong(f"{column} names no threshold of an assertion in this row")
            asserts[at]["threshold"] = _number(spot, column, cell)


def assert_of_cell(cell: str, kinds: frozenset[str]) -> dict[str, Any]:
    """The assertion a cell stands for; text that begins with none must be equalled."""
    for code in ("javascript:", "fn:", "eval:"):
        if cell.startswith(code):
            return {"type": "javascript", "value": cell.removeprefix(code)}
    if cell.startswith("grade:"):
        return {"type": "llm-rubric", "value": cell.removeprefix("grade:")}
    if cell.startswith("file://"):
        return {"type": "python" if ".py" in cell else "javascript", "value": cell}
    found = _CALLED.fullmatch(cell)
    if not found or found["kind"].removeprefix("not-") not in kinds:
        return {"type": "equals", "value": cell}
    kind, value = found["kind"], found["value"]
    bare = kind.removeprefix("not-")
    case: dict[str, Any] = {"type": kind}
    if value:
        case["value"] = [part.strip() for part in value.split(",")] if bare in _LISTS else value.strip()
    if found["threshold"] or bare in _LIMITS:
        case["threshold"] = float(found["threshold"] or _USUAL_LIMIT)
    return case
