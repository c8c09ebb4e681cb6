"""What PromptPex wrote: its tests as a dataset, its recorded answers as a finished run."""

from __future__ import annotations

from tui_evals.imports.promptpex.importer import IMPORTER

__all__ = ["IMPORTER"]
