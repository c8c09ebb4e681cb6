"""What a run is opened in from the list, beside others or for labelling, and why something cannot be done with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from textual.app import App

from tui_evals.store.records import RunRow
from tui_evals.tui.state.history import Chosen, Past, Shelf, to_compare

from .run_edits import why_no_baseline

_NO_RUN = "there is no run here yet: r starts one"
_ALONE = "nothing to compare it with: mark other runs with space"
Known = Callable[[int | None], RunRow | None]


def why_not(action: str, past: Past | None, chosen: Callable[[], Chosen | None]) -> str | None:
    """Nothing can be done with no run, nor compared with only one."""
    if past is None:
        return _NO_RUN
    if action == "baseline":
        return why_no_baseline(past)
    return _ALONE if action == "compare" and chosen() is None else None


def chosen(here: RunRow | None, shelf: Shelf | None, marks: Sequence[int], known: Known) -> Chosen | None:
    """The runs to compare: the marked ones, or this one with its baseline, its parent, or the one before."""
    marked = [run for run in map(known, marks) if run is not None]
    if here is None or shelf is None:
        return to_compare(None, marked, None, None, ())
    return to_compare(here, marked, known(shelf.baseline_of(here.id)), known(here.parent), shelf.others(here.id))


def compare(app: App[Any], database: Path, runs: Chosen) -> None:
    """Put runs beside each other."""
    # Imported when it is wanted: it would hold up every first picture.
    from tui_evals.tui.screens.compare import CompareScreen

    app.push_screen(CompareScreen(database, [run.id for run in runs.runs], runs.why))


def label(app: App[Any], database: Path, run: RunRow) -> None:
    """Label answers of a run without seeing what the judges said."""
    # Imported when it is wanted, as above.
    from tui_evals.tui.screens.labelling import LabelScreen

    app.push_screen(LabelScreen(database, run.id))
