"""What models cost, read from the table inside the installed litellm package without importing litellm."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from .base import Price

_TABLE = "model_prices_and_context_window_backup.json"
_TABLE_LOCK = Lock()


def price_of(model: str) -> Price | None:
    """The listed price of provider/model, None where none is listed; the first call reads 3 MB, best in a thread."""
    with _TABLE_LOCK:
        table = _table()
    provider, slash, rest = model.partition("/")
    if not slash:
        return _price(table.get(model))
    entries = (table.get(model), table.get(rest))
    return next((price for entry in entries if _is_of_provider(entry, provider) and (price := _price(entry))), None)


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    # find_spec of a top-level name does not import it; importlib.resources would, which takes seconds.
    spec = importlib.util.find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder, _TABLE)
        if file.is_file():
            table: dict[str, Mapping[str, Any]] = json.loads(file.read_bytes())
            table.pop("sample_spec", None)
            return table
    return {}


def _is_of_provider(entry: Mapping[str, Any] | None, provider: str) -> bool:
    """Whether the entry is this provider's; some providers are listed under several names such as vertex_ai-…."""
    owner = str((entry or {}).get("litellm_provider"))
    return owner == provider or owner.startswith((f"{provider}_", f"{provider}-"))


def _price(entry: Mapping[str, Any] | None) -> Price | None:
    input_cost, output_cost = ((entry or {}).get(f"{side}_cost_per_token") for side in ("input", "output"))
    if not isinstance(input_cost, int | float) or not isinstance(output_cost, int | float):
        return None
    return Price(round(input_cost * 1e6, 9), round(output_cost * 1e6, 9))
