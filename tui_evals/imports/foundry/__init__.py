"""Evaluations of Prompt Foundry, as the JSON of its SDK: read as a dataset, and written."""

from __future__ import annotations

from .file import is_foundry
from .reading import read
from .writing import write

__all__ = ["is_foundry", "read", "write"]
