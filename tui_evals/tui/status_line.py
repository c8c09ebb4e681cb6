"""The line below the panes while nothing is said: where the panes are, and the run that goes on behind them."""

from __future__ import annotations

from .layout import LOOKING
from .messages import Place
from .watch import Watch

_WHERE = "1 dataset  2 item  3 evaluators  4 results  5 answer  6 runs"


def standing(watch: Watch, front: Place) -> str:
    """A run on screen that goes on is told of where its table is not seen."""
    run, totals = watch.run, watch.totals
    if run is None or front in LOOKING or run.status not in ("running", "paused", "stopping"):
        return _WHERE
    done = "" if totals is None else f" {totals.total - totals.pending - totals.running}/{totals.total}"
    return f"▸ {run.name} {run.status}{done}, 4 shows it  ·  {_WHERE}"
