"""Logs of Inspect, read as finished runs."""

from __future__ import annotations

from tui_evals.imports.inspect.log import IMPORTER, read, recognises

__all__ = ["IMPORTER", "read", "recognises"]
