"""OpenAI Evals registries: folders of YAML files that name evals, and the JSONL files with their samples."""

from __future__ import annotations

from .evals import EvalSpec
from .registry import Listed, Registry, load
from .templates import Needs

__all__ = ["EvalSpec", "Listed", "Needs", "Registry", "load"]
