"""Doing something to runs that are there: control, export, delete, and the cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from tui_evals.cli import project
from tui_evals.cli.asking import confirmed
from tui_evals.cli.output import Stop, say, say_json
from tui_evals.cli.output_files import is_output
from tui_evals.cli.run.finishing import write_results
from tui_evals.present.status import LIVE
from tui_evals.reports.kinds import report_kind
from tui_evals.runs.asking import cache_key, recipe
from tui_evals.store.baselines import baselines
from tui_evals.store.database import StoreError
from tui_evals.store.records import Control, RunRow
from tui_evals.targets.base import Request
from tui_evals.text import strictjson

from .show import answers_to


def say_control(word: str, control: Control) -> None:
    """Write a control into the store, which the run obeys wherever it goes on."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if run.status not in LIVE:
            raise Stop(f"{run.key} is {run.status}; there is nothing to {control}")
        with project.writer({}) as writer:
            writer.control(run.id, control)
    say(f"{run.key} will {control} as soon as what is in flight allows")


def export(word: str, kind: str, output: Path | None, raw: bool, only: str | None = None) -> None:
    """Write the results of a run."""
    where = project.filter_or_stop(only)
    if where is not None and kind not in ("csv", "jsonl"):
        raise Stop("--only chooses the answers of a csv or jsonl file; add --to csv or --to jsonl")
    with ExitStack() as stack:
        reader = stack.enter_context(project.reader())
        run = project.run_named(reader, word)
        reader = reader if where is None else stack.enter_context(reader.only(where))
        file = output or project.store_path().parent / "results" / (run.key + report_kind(kind).endings[0])
        write_results(reader, [run], file, kind, raw)
    if not is_output(file):
        say(f"wrote {file}", fg="green")


def delete(word: str, sure: bool) -> None:
    """Delete a run, after a question that names it."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        _refuse_alive(run)
        _ask(f"Delete run {run.key} ({run.name}, {run.total} answers)?", sure)
        _delete([run])
    say(f"deleted {run.key}")


def prune(keep: int | None, days: int | None, sure: bool) -> None:
    """Delete all but the newest runs, or those older than some days."""
    if keep is None and days is None:
        raise Stop("say which runs to delete: --keep N, --older-than DAYS, or both")
    with project.reader() as reader:
        runs = list(reader.runs(limit=1_000_000))[keep or 0 :]
        if days is not None:
            runs = [run for run in runs if run.created < time.time() - days * 86_400]
        runs = [run for run in runs if run.status not in LIVE]
        measuring = {baseline.run: baseline.source for baseline in baselines(reader)}
        staying = [run for run in runs if run.id in measuring]
        for run in staying:
            say(f"{run.key} stays: it is the baseline of {measuring[run.id]}")
        runs = [run for run in runs if run.id not in measuring]
        if not runs:
            say(f"no {'other ' if staying else ''}run is that old")
            return
        keys = ", ".join(run.key for run in runs[:10])
        _ask(f"Delete {len(runs)} runs: {keys}{'…' if len(runs) > 10 else ''}?", sure)
        _delete(runs)
    say(f"deleted {len(runs)} runs")


def _delete(runs: Sequence[RunRow]) -> None:
    with project.writer({}) as writer:
        for run in runs:
            try:
                writer.delete_run(run)
            except StoreError as problem:
                raise Stop(str(problem), 1) from None


def _refuse_alive(run: RunRow) -> None:
    if run.status in LIVE:
        raise Stop(f"{run.key} is {run.status}; stop it first: `tui-evals stop {run.key}`")


def _ask(question: str, sure: bool) -> None:
    if not confirmed(question, yes=sure):
        raise Stop("nothing was deleted", 1)


def cache_info(as_json: bool) -> None:
    """Print the cache size."""
    with project.reader() as reader:
        info = reader.cache_info()
    if as_json:
        say_json(asdict(info))
        return
    oldest = "" if info.oldest is None else f", the oldest {(time.time() - info.oldest) / 86_400:.1f} days old"
    say(f"{info.entries} answers, {info.characters} characters{oldest}")


def cache_clear(sure: bool) -> None:
    """Forget what need not be asked again."""
    with project.reader() as reader:
        entries = reader.cache_info().entries
    _ask(f"Forget {entries} cached answers?", sure)
    with project.writer({}) as writer:
        writer.cache_clear()
    say(f"forgot {entries} cached answers")


def cache_why(word: str, item: str, turn: int) -> None:
    """Print the parts of an answer's key."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        for row in answers_to(reader, run, item, turn):
            answer = reader.detail(row.id).answer
            if answer is None:
                say(f"{item} has no answer from {run.targets[row.target]} yet")
                continue
            identity = {key: value for key, value in run.config["targets"][row.target].items() if key != "name"}
            sent = answer.request
            request = Request(
                messages=tuple(sent.get("messages", ())),
                tools=tuple(sent.get("tools", ())),
                response_format=sent.get("response_format"),
                params=sent.get("params", {}),
                repeat=row.repeat,
            )
            key = cache_key(identity, request)
            is_cached = reader.cache_get(key) is not None
            say(f"{run.targets[row.target]}: key {key[:16]}…, {'kept' if is_cached else 'not kept'}", bold=True)
            say_json(recipe(identity, request))
    say(strictjson.dumps({"made of": "target, messages, tools, response_format, params, repeat; any change asks anew"}))
