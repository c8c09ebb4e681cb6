"""Scoring passes that count from their beginning, as a store has them once they are whole."""

from collections.abc import Mapping
from typing import Any

from tui_evals.store.writer import Writer


def new_pass(writer: Writer, run: int, config: Mapping[str, Any]) -> int:
    number = writer.begin_pass(run, config)
    writer.count_pass(run)
    return number
