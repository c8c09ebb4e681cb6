"""Doing something to runs that are there: control, export, label, delete, and the cache."""

from __future__ import annotations

import getpass
import time
from pathlib import Path
from typing import Literal

import click

from tui_evals.runs.asking import cache_key, recipe
from tui_evals.store.records import Control, RunRow
from tui_evals.targets.base import Request
from tui_evals.text import strictjson

from . import project
from .finishing import write_results
from .output import Stop, say, say_json
from .reading import answers_to

_ALIVE = ("running", "paused", "stopping")


def say_control(word: str, wish: Control) -> None:
    """Write a wish into the store, which the run obeys wherever it is executed."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if run.status not in _ALIVE:
            raise Stop(f"{run.key} is {run.status}; there is nothing to {wish}")
        with project.writer({}) as writer:
            writer.control(run.id, wish)
    say(f"{run.key} will {wish} as soon as what is in flight allows")


def export(word: str, kind: str, output: Path | None, raw: bool) -> None:
    """Write the results of a run."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if output == Path("-"):
            from tui_evals.reports import results

            from .output import say_data

            texts = {
                "json": lambda: results.json_text(reader, run),
                "csv": lambda: results.table(reader, run, raw=raw),
                "jsonl": lambda: "".join(results.json_lines(reader, run)),
            }
            say_data(texts[kind]())
            return
        file = output or project.store_path().parent / "results" / f"{run.key}.{kind}"
        write_results(reader, run, file, kind, raw)
    say(f"wrote {file}", fg="green")


def label(
    word: str,
    item: str,
    verdict: Literal["pass", "fail"],
    *,
    turn: int,
    target: str | None,
    evaluator: str | None,
    note: str,
    author: str | None,
) -> None:
    """Keep a person's verdict beside the scores."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        rows = answers_to(reader, run, item, turn)
        if target is not None:
            rows = [row for row in rows if run.targets[row.target] == target]
        if len({row.target for row in rows}) > 1:
            raise Stop(f"{item} was answered by {', '.join(run.targets)}; say whom you mean with --target")
        if not rows:
            raise Stop(f"{run.key} has no target {target!r}; it has {', '.join(run.targets)}")
        with project.writer({}) as writer:
            for row in rows:
                writer.label(row.id, verdict, author or getpass.getuser(), evaluator=evaluator, note=note)
    say(f"{run.key} {item}: {verdict}")


def delete(word: str, sure: bool) -> None:
    """Delete a run, after a question that names it."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        _refuse_alive(run)
        _ask(f"Delete run {run.key} ({run.name}, {run.total} answers)?", sure)
        with project.writer({}) as writer:
            writer.delete_run(run)
    say(f"deleted {run.key}")


def prune(keep: int | None, days: int | None, sure: bool) -> None:
    """Delete all but the newest runs, or those older than some days."""
    if keep is None and days is None:
        raise Stop("say which runs to delete: --keep N, --older-than DAYS, or both")
    with project.reader() as reader:
        runs = list(reader.runs(limit=1_000_000))[keep or 0 :]
        if days is not None:
            runs = [run for run in runs if run.created < time.time() - days * 86_400]
        runs = [run for run in runs if run.status not in _ALIVE]
        if not runs:
            say("no run is that old")
            return
        named = ", ".join(run.key for run in runs[:10])
        _ask(f"Delete {len(runs)} runs: {named}{'…' if len(runs) > 10 else ''}?", sure)
        with project.writer({}) as writer:
            for run in runs:
                writer.delete_run(run)
    say(f"deleted {len(runs)} runs")


def _refuse_alive(run: RunRow) -> None:
    if run.status in _ALIVE:
        raise Stop(f"{run.key} is {run.status}; stop it first: `tui-evals stop {run.key}`")


def _ask(question: str, sure: bool) -> None:
    if not sure and not click.confirm(question, default=False):
        raise Stop("nothing was deleted", 1)


def cache_info() -> None:
    """What the cache holds."""
    with project.reader() as reader:
        found = reader.cache_info()
    oldest = "" if found.oldest is None else f", the oldest {(time.time() - found.oldest) / 86_400:.1f} days old"
    say(f"{found.entries} answers, {found.characters} characters{oldest}")


def cache_clear(sure: bool) -> None:
    """Forget what need not be asked again."""
    with project.reader() as reader:
        entries = reader.cache_info().entries
    _ask(f"Forget {entries} cached answers?", sure)
    with project.writer({}) as writer:
        writer.cache_clear()
    say(f"forgot {entries} cached answers")


def cache_why(word: str, item: str, turn: int) -> None:
    """What the key of an answer is made of."""
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
            kept = reader.cache_get(key) is not None
            say(f"{run.targets[row.target]}: key {key[:16]}…, {'kept' if kept else 'not kept'}", bold=True)
            say_json(recipe(identity, request))
    say(strictjson.dumps({"made of": "target, messages, tools, response_format, params, repeat; any change asks anew"}))
