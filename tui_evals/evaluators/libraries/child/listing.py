"""Which metrics are importable in this Python, with their inputs: one JSON object on standard output."""

from __future__ import annotations

import importlib.metadata
import json
import os
from typing import Any

from .metrics import LIBRARIES, why_unloadable


def main() -> None:
    """Look at each library; what one prints while it is imported goes to standard error."""
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)
        json.dump({name: _listed(name) for name in LIBRARIES}, answer)


def _listed(name: str) -> dict[str, Any] | None:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    try:
        return {"version": version, "metrics": {each: list(of) for each, of in LIBRARIES[name].listed().items()}}
    except (Exception, SystemExit) as problem:  # whatever a library raises while it is imported is worth saying
        return {"version": version, "problem": why_unloadable(problem)}
