"""The library's way to let a run pass or not: thresholds, the worst answer allowed, and a run to measure against."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tui_evals.compare.measures import LEVEL
from tui_evals.datasets.discover import project_root
from tui_evals.present.runs import stop_reason
from tui_evals.runs.gates import Check, GateResults, Gates, check_gates, with_baseline
from tui_evals.runs.selection import find_run
from tui_evals.runs.store_path import store_of
from tui_evals.store.reader import Reader

from .results import Run

__all__ = ["GateResults", "gate"]


def gate(
    run: Run | str,
    *,
    fail_under: float | None = None,
    fail_on: Literal["fail", "partial", "error"] | None = None,
    baseline: Run | str | None = None,
    fail_on_regression: float | bool | None = None,
    max_missing: float | None = None,
    project: str | Path | None = None,
) -> GateResults:
    """Whether a run is good enough, as the options of `tui-evals run` with the same names decide it.

    `run` is a run that `evaluate` returned, or a key or name in the store. `fail_under` is the least score of every
    column, from 0 to 100; `fail_on` the mildest result of an answer that is not let pass. `fail_on_regression` refuses
    a run that is worse than `baseline` (else the baseline set for its dataset) beyond chance: True where chance alone
    would make such a gap in 5 % of cases at most, or another share from 0 to 1. `baseline` alone compares and refuses
    nothing. No gate is met where more than `max_missing` percent (5) of the answers are missing or were not judged, or
    of what the baseline judged cannot be compared. `project` is the folder whose `.evals/` holds the runs.

    The results say which gates were met (`met`, `checks`; `line` in a sentence) and how the run compares (`verdict`).
    A run that has not
    finished meets none. CannotPlan says that there is no such run, or nothing to measure against.
    """
    level = _level(fail_on_regression)
    if fail_under is not None and not 0 <= fail_under <= 100:
        raise ValueError(f"fail_under is a score from 0 to 100, not {fail_under:g}")
    if fail_on not in (None, "fail", "partial", "error"):
        raise ValueError(f"fail_on is 'fail', 'partial' or 'error', not {fail_on!r}")
    if max_missing is not None and not 0 <= max_missing <= 100:
        raise ValueError(f"max_missing is a percentage from 0 to 100, not {max_missing:g}")
    against = baseline.key if isinstance(baseline, Run) else baseline
    root = project_root(Path(project) if project is not None else Path.cwd())
    with Reader(store_of(root)) as reader:
        row = find_run(reader, run.key if isinstance(run, Run) else run)
        gates = with_baseline(Gates(fail_under, fail_on, against, level, max_missing), reader, row.source, row)
        if row.status != "finished":
            reason = stop_reason(row)
            return GateResults((Check("finished", (f"{row.key} is {row.status}" + f": {reason}" * bool(reason),)),))
        return check_gates(reader, row, reader.totals(row.id), gates)


def _level(regression: float | bool | None) -> float | None:
    """The significance level of a regression; None where none is checked."""
    if regression is None or regression is False:
        return None
    level = LEVEL if regression is True else float(regression)
    if not 0 < level < 1:
        raise ValueError(f"fail_on_regression is True or a share between 0 and 1, not {level:g}")
    return level
