"""The library's gates: thresholds, the worst answer allowed, what broke, and a run to measure against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tui_evals.datasets.discover import project_root
from tui_evals.present.runs import stop_reason
from tui_evals.runs.gate_options import gates_of
from tui_evals.runs.gates import GateResults, GatesNotMet, check_gates, with_baseline
from tui_evals.runs.project import demand_own_store, store_of
from tui_evals.runs.selection import find_run
from tui_evals.store.reader import Reader
from tui_evals.store.records import CheckedGate
from tui_evals.targets.config import load_settings

from .run import Run

__all__ = ["CheckedGate", "GateResults", "GatesNotMet", "gate"]


def gate(
    run: Run | str,
    *,
    fail_under: float | None = None,
    fail_under_score: float | None = None,
    must_pass: str | Sequence[str] | None = None,
    fail_on: Literal["fail", "partial", "error"] | None = None,
    fail_on_broken: int | bool | None = None,
    fail_on_regression: float | bool | None = None,
    baseline: Run | str | None = None,
    max_missing: float | None = None,
    fail_on_incomplete: int | bool | None = None,
    project: str | Path | None = None,
) -> GateResults:
    """Check a run against gates, which mean what the options of `tui-evals run` with the same names mean.

    `run` is a run that `evaluate` returned, or a key or name in the store. `fail_under` is the lowest pass rate of
    every column in percent, `fail_under_score` its lowest mean score from 0 to 100; `must_pass` names items that
    must pass, as in ["MT-1", "tag:critical"]; `fail_on` is the mildest result of
    an answer that is not accepted. `fail_on_broken` refuses so many items (True is 1) that passed in `baseline` and
    fail now; `fail_on_regression` refuses a run that is worse than it beyond chance, True at a level of 0.05. Without
    `baseline` they use the one set for the dataset; `baseline` alone compares and refuses nothing. No gate is met
    where more than `max_missing` percent (5) of the answers are missing or unjudged, or of what the baseline judged
    cannot be compared. `project` is the folder whose `.evals/` holds the runs.

    The results are true when all gates are met, so `assert gate(run, fail_under=90)` works; `raise_unless_met()`
    raises GatesNotMet with the reasons. Gates of an unfinished run are not decided unless they are already lost.
    CannotPlan says that there is no such run, or nothing to measure against.
    """
    gates = gates_of(
        {
            "fail_under": fail_under,
            "fail_under_score": fail_under_score,
            "must_pass": must_pass if must_pass is None or isinstance(must_pass, str) else list(must_pass),
            "fail_on": fail_on,
            "fail_on_broken": fail_on_broken,
            "fail_on_regression": fail_on_regression,
            "baseline": baseline.key if isinstance(baseline, Run) else baseline,
            "max_missing": max_missing,
            "fail_on_incomplete": fail_on_incomplete,
        }
    )
    root = project_root(Path(project) if project is not None else Path.cwd())
    with Reader(store_of(root)) as reader:
        row = find_run(reader, run.key if isinstance(run, Run) else run)
        gates = replace(gates, rules_of_0_2=load_settings(root).run.gates == "0.2")
        demand_own_store(reader, row.key, run=row)
        gates = with_baseline(gates, reader, row.source, row)
        finished = row.status == "finished"
        results = check_gates(reader, row, reader.totals(row.id), gates, finished=finished)
        if finished or results.checks:
            return results
        reason = stop_reason(row)
        sentence = f"{row.key} is {row.status}" + f": {reason}" * bool(reason)
        return replace(results, checks=(CheckedGate("finished", "not decided", sentence),), basis=sentence)
