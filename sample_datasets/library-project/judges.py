"""What judges the agent: functions that see the answer, what was expected, and the whole item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def order(output_json: Any, expected_json: Any) -> Mapping[str, tuple[bool, str]]:
    """Scores the parts of an order: its products, how many of each, and the total."""
    if not isinstance(expected_json, Mapping) or not isinstance(output_json, Mapping):
        return {
            "kind": (type(output_json) is type(expected_json), f"the answer is of type {type(output_json).__name__}")
        }
    said, wanted = output_json.get("lines", {}), expected_json["lines"]
    return {
        "products": (set(said) == set(wanted), f"{', '.join(said)} for {', '.join(wanted)}"),
        "counts": (said == wanted, f"{said} for {wanted}"),
        "total": (output_json.get("total") == expected_json["total"], f"{output_json.get('total')} dollars"),
    }


def cheap_enough(output_json: Any, extensions: Mapping[str, Any]) -> bool:
    """Passes when the total is within the budget of the item."""
    budget = extensions.get("budget")
    return budget is None or not isinstance(output_json, Mapping) or float(output_json["total"]) <= float(budget)
