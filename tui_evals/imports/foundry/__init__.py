"""Evaluations of Prompt Foundry, as the JSON of its SDK: read as a dataset, and written."""

from __future__ import annotations

from tui_evals.imports.foundry.reading import IMPORTER, is_foundry, read
from tui_evals.imports.foundry.writing import write

__all__ = ["IMPORTER", "is_foundry", "read", "write"]
