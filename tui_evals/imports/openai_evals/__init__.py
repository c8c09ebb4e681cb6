"""OpenAI Evals registries: folders of YAML files that name evals, and the JSONL files with their samples."""

from __future__ import annotations

from tui_evals.imports.openai_evals.evals import EvalSpec, Listed, NoFolder, Registry, by_reason, load, load_named
from tui_evals.imports.openai_evals.templates import Needs

__all__ = ["EvalSpec", "Listed", "Needs", "NoFolder", "Registry", "by_reason", "load", "load_named"]
