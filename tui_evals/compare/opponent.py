"""Which run a single one is compared with: its baseline, the one it was made from, or the finished one before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tui_evals.store.records import RunRow

How = Literal["baseline", "parent", "before"]


def opponent(
    run: RunRow, baseline: RunRow | None, parent: RunRow | None, others: Iterable[RunRow]
) -> tuple[RunRow, How] | None:
    """The other run, and what it is; `others` are the runs of the same dataset, the latest first."""
    if baseline is not None and baseline.id != run.id:
        return baseline, "baseline"
    if parent is not None:
        return parent, "parent"
    before = next((one for one in others if one.id < run.id and one.status == "finished"), None)
    return None if before is None else (before, "before")
