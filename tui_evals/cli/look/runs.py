"""`tui-evals runs`: the runs of a project, each in a line."""

from __future__ import annotations

import time

from tui_evals.cli import project
from tui_evals.cli.output import Stop, colour, columns, say, say_json
from tui_evals.present.columns import table
from tui_evals.present.figures import age
from tui_evals.present.pace import wait_sentence
from tui_evals.present.runs import lost_runs_sentence, progress, run_data, stop_reason
from tui_evals.present.status import final_count, run_look, short_counts
from tui_evals.runs.status import GENERATION
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.runlock import executed_runs
from tui_evals.text.money import money


def list_runs(limit: int, as_json: bool) -> None:
    """The runs, newest first."""
    with project.reader() as reader:
        runs = reader.runs(limit=limit)
        lost = () if runs else executed_runs(reader.path)
        if lost:  # or the first of all runs has begun meanwhile
            runs = reader.runs(limit=limit)
            lost = () if runs else lost
        if as_json:
            say_json([run_data(run) for run in runs])
        if lost:
            raise Stop(lost_runs_sentence(reader.path, lost), 1)
        if as_json:
            return
        if not runs:
            say("no runs yet; `tui-evals run DATASET --target demo` makes one")
        lines = table(
            [_run_cells(reader, run, time.time()) for run in runs], elastic=(5, 6), names=(5,), room=columns()
        )
        for run, line in zip(runs, lines, strict=True):
            say(line)
            if reason := stop_reason(run) or wait_sentence(run, time.time()):
                say(f"    {reason}", fg=colour(run_look(run).tone))


def _run_cells(reader: Reader, run: RunRow, now: float) -> list[str]:
    """A run as a line of a table; of a generation, which has no answers, what it cost."""
    totals, when = reader.totals(run.id), f"{age(now - run.created)} ago"
    if GENERATION in run.config:
        status, done, counts = run_look(run).text, "", generation_figures(reader, run)
    else:
        status = f"{run_look(run).text} {progress(run, totals)}".rstrip()
        done, counts = f"{final_count(totals):,}/{run.total:,}", short_counts(totals)
    return [run.key, when, status, done, counts, run.name, " ".join([", ".join(run.targets), *run.tags])]


def generation_figures(reader: Reader, run: RunRow) -> str:
    """What a generation cost, which has no answers."""
    return f"wrote tests for {money(reader.spent(run.id)[0])}"
