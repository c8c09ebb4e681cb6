"""`tui-evals runs` and `verify`: the list of runs, whether a run matches its signatures, and the keys you trust."""

from __future__ import annotations

import time
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.output import Stop, colour, columns, say, say_json
from tui_evals.figures import percent
from tui_evals.present.columns import table
from tui_evals.present.gates import gates_data
from tui_evals.present.provenance import history_lines, provenance, provenance_data
from tui_evals.present.runs import (
    line_names,
    lost_runs_sentence,
    progress,
    run_data,
    stop_reason,
    totals_data,
    wait_sentence,
)
from tui_evals.present.status import final_count, run_look, short_counts
from tui_evals.provenance.keys import KeyProblem, fingerprint, forget_key, own_key, trust_key, trusted_keys
from tui_evals.runs.status import GENERATION
from tui_evals.store.connection import alive, executed_runs, run_lock
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.run_figures import spent
from tui_evals.store.verifying import find_key, verify
from tui_evals.text.measures import age, money


def list_runs(limit: int, as_json: bool) -> None:
    """The runs, newest first."""
    with project.reader() as reader:
        runs = reader.runs(limit=limit)
        lost = () if runs else executed_runs(reader.path)
        if lost:  # unless the first of all runs has just begun
            runs = reader.runs(limit=limit)
            lost = () if runs else lost
        if as_json:
            say_json([{**run_data(run), "gates": gates_data(run.gates), **run_figures(reader, run)} for run in runs])
        if lost:
            raise Stop(lost_runs_sentence(reader.path, lost), 1)
        if as_json:
            return
        if not runs:
            say("no runs yet; `tui-evals run DATASET --target demo` makes one")
        cells = [_run_cells(reader, run, time.time()) for run in runs]
        head, *lines = table([_HEAD, *cells], right=(3,), elastic=(6, 7), names=(6,), headed=True, room=columns())
        if runs:
            say(head, bold=True)
        for run, line in zip(runs, lines, strict=True):
            say(line)
            if reason := stop_reason(run) or wait_sentence(run, time.time()):
                say(f"    {reason}", fg=colour(run_look(run).tone))


_HEAD = ("run", "begun", "status", "answers", "verdicts", "pass rate", "name", "targets, tags")


def run_figures(reader: Reader, run: RunRow) -> dict[str, Any]:
    """The counts of a run, and of each of its columns with its pass rate, as plain data."""
    names, columns = line_names(run), reader.totals_by(run.id, "column")
    told = [{"column": names[place], **totals_data(totals)} for place, totals in columns.items()]
    return {"totals": totals_data(reader.totals(run.id)), "columns": told}


def _run_cells(reader: Reader, run: RunRow, now: float) -> list[str]:
    """A run as a line of a table; a generation, which has no answers, shows its cost."""
    totals, when = reader.totals(run.id), f"{age(now - run.created)} ago"
    if GENERATION in run.config:
        status, done, counts, rate = run_look(run).text, "", generation_figures(reader, run), ""
    else:
        status = f"{run_look(run).text} {progress(run, totals)}".rstrip()
        done, counts = f"{final_count(totals):,}/{run.total:,}", short_counts(totals)
        by_column = [totals.pass_rate for totals in reader.totals_by(run.id, "column").values()]
        rates = [figure.value for figure in by_column if figure is not None]
        # Columns are never pooled; several have the range of their rates.
        rate = " to ".join(map(percent, sorted({min(rates), max(rates)}))) if rates else ""
    return [run.key, when, status, done, counts, rate, run.name, " ".join([", ".join(run.targets), *run.tags])]


def generation_figures(reader: Reader, run: RunRow) -> str:
    """The cost of a generation, which has no answers."""
    return f"wrote tests for {money(spent(reader, run.id))}"


def verify_run(word: str, history: bool, as_json: bool) -> int:
    """Print what verifying a run against its chain found."""
    path = project.store_path()
    try:
        key = find_key(path, word)
    except LookupError as problem:
        raise Stop(str(problem.args[0])) from None
    found = verify(path, key)
    try:
        said = provenance(found, is_live=alive(run_lock(path, key)))
    except KeyProblem as problem:
        raise Stop(f"{problem}.", 3) from None
    if as_json:
        say_json(provenance_data(found, said))
        return 0 if said.holds else 1
    colour = "green" if said.holds else "red" if said.verdict in ("changed", "broken") else "yellow"
    say(said.sentence, fg=colour, bold=True)
    for line in said.details:
        say(line)
    for line in said.sources:
        say(line)
    if history:
        for line in history_lines(found):
            say(line, dim=True)
    return 0 if said.holds else 1


def say_own_key(as_json: bool) -> int:
    """Print the public half of the user's key, which is made where there is none yet."""
    try:
        public = own_key().public
    except KeyProblem as problem:
        raise Stop(f"{problem}.", 3) from None
    if as_json:
        say_json({"key": public, "fingerprint": fingerprint(public)})
    else:
        say(public)
    return 0


def list_keys(as_json: bool) -> int:
    """Print the keys that the user trusts."""
    try:
        keys = trusted_keys()
    except KeyProblem as problem:
        raise Stop(f"{problem}.", 3) from None
    if as_json:
        say_json([{"name": name, "key": key, "fingerprint": fingerprint(key)} for name, key in keys.items()])
    elif not keys:
        say("No keys are trusted but your own. `tui-evals verify --trust-key NAME KEY` trusts one.")
    else:
        for name, key in keys.items():
            say(f"{name}  {fingerprint(key)}  {key}")
    return 0


def trust(name: str, key: str) -> int:
    """Trust a public key."""
    try:
        trust_key(name, key)
    except KeyProblem as problem:
        raise Stop(f"{problem}.") from None
    say(f"{name} ({fingerprint(key)}) is trusted now: `tui-evals verify` names what this key signed")
    return 0


def forget(name: str) -> int:
    """Trust a key no more."""
    try:
        forget_key(name)
    except KeyProblem as problem:
        raise Stop(f"{problem}.") from None
    say(f"{name} is trusted no more")
    return 0
