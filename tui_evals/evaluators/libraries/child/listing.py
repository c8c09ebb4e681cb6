"""Which metrics are importable in this Python, with their inputs: one JSON object on standard output."""

from __future__ import annotations

import importlib.metadata
import json
import os
from typing import Any

from .metrics import LIBRARIES, why_unloadable


def main() -> None:
    """Inspect each library; what it prints during its import goes to standard error."""
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
    except (Exception, SystemExit) as problem:  # report anything that a library raises during its import
        return {"version": version, "problem": why_unloadable(problem)}
