"""Stored runs and their store: pause and stop, export, delete, the cache; check, repair, vacuum and backup."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tui_evals.cli import project
from tui_evals.cli.look.show import answers_to
from tui_evals.cli.output import (
    Stop,
    columns,
    confirmed,
    is_output,
    say,
    say_data,
    say_json,
    say_json_line,
    say_result,
    warn,
)
from tui_evals.cli.run.ending import kind_named, say_written, write_results
from tui_evals.datasets.discover import project_root
from tui_evals.present.columns import table
from tui_evals.present.figures import file_size
from tui_evals.present.status import LIVE
from tui_evals.present.stores import backup_line, incomplete_lines, readable, saved_lines, store_standing
from tui_evals.reports.results import csv_lines, report_kind
from tui_evals.runs.asking import cache_key, recipe
from tui_evals.runs.plan import planned_before
from tui_evals.runs.project import place_of_store
from tui_evals.store.baselines import baselines
from tui_evals.store.database import StoreError, select
from tui_evals.store.records import Control, RunRow
from tui_evals.store.repair import repairing
from tui_evals.store.upkeep import StoreCheck, back_up, can_restore, check, recount, vacuum
from tui_evals.targets.base import Request
from tui_evals.text import strictjson
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe_line

_NAMED = 50


def say_control(word: str, control: Control) -> None:
    """Write an order into the store, which the process of the run reads."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if run.status not in LIVE:
            raise Stop(f"{run.key} is {run.status}; there is nothing to {control}")
        with project.writer({}) as writer:
            writer.control(run.id, control)
    say_result(f"{run.key} will {control} once its open requests are answered", {"run": run.key, "control": control})


def sql(statement: str, as_csv: bool, raw: bool, as_json: bool, limit: int) -> None:
    """Print the result of a query in the store: as a table, as CSV, or as lines of JSON."""
    if as_csv and as_json:
        raise Stop("--csv and --json exclude each other")
    if statement == "-":
        statement = sys.stdin.read()
    names, found = select(project.store_path(), statement)
    rows = ([value.hex() if isinstance(value, bytes) else value for value in row] for row in found)
    if as_csv:
        say_data(csv_lines(names, rows, raw=raw))
        return
    if as_json:
        for row in rows:
            say_json_line(dict(zip(names, row, strict=True)))
        return
    shown = list(islice(rows, limit + 1))
    cells = [[_sql_text(value) for value in row] for row in shown[:limit]]
    numeric = [
        place for place in range(len(names)) if all(isinstance(row[place], int | float | None) for row in shown[:limit])
    ]
    head = [safe_line(name) for name in names]
    for number, line in enumerate(table([head, *cells], right=numeric, elastic=range(len(names)), room=columns())):
        say(line, dim=not number)
    if len(shown) > limit:
        say(f"The first {counted(limit, 'row')}. --limit shows more, --csv and --json show all.", dim=True)
    elif not shown:
        say("No rows.", dim=True)


def _sql_text(value: object) -> str:
    """A value of a row on the screen; a float with the digits that matter."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else safe_line(str(value))


def export(
    word: str, kind: str | None, output: Path | None, raw: bool, only: str | None = None, *, bare: bool = False
) -> None:
    """Write the results of a run, as the kind or else the ending of the file says."""
    if kind is None:
        kind = "json" if output is None or is_output(output) or not output.suffix else kind_named(output)
    where = project.filter_or_stop(only)
    if where is not None and kind not in ("csv", "jsonl"):
        raise Stop("--only chooses the answers of a csv or jsonl file; add --to csv or --to jsonl")
    with ExitStack() as stack:
        reader = stack.enter_context(project.reader())
        run = project.run_named(reader, word)
        reader = reader if where is None else stack.enter_context(reader.only(where))
        file = output or project.store_path().parent / "results" / (run.key + report_kind(kind).endings[0])
        whole = write_results(reader, [run], file, kind, raw, bare=bare)
    say_written(file, whole)


def delete(word: str, sure: bool) -> None:
    """Delete a run, after a question that names it."""
    with project.reader() as reader:
        run = project.run_to_delete(reader, word)
        _refuse_alive(run)
        _ask(f"Delete run {run.key} ({run.name}, {run.total} answers)?", sure)
        _delete([run])
    say_result(f"deleted {run.key}", {"deleted": [run.key]})


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
        kept = {run.key: measuring[run.id] for run in staying}
        for run in staying:
            say(f"{run.key} stays: it is the baseline of {measuring[run.id]}")
        runs = [run for run in runs if run.id not in measuring]
        if not runs:
            say_result(f"no {'other ' if staying else ''}run is that old", {"deleted": [], "baselines": kept})
            return
        for run in runs[:_NAMED]:
            warn(f"{run.key}  {time.strftime('%Y-%m-%d %H:%M', time.localtime(run.created))}  {safe_line(run.name)}")
        if len(runs) > _NAMED:
            warn(f"… and {counted(len(runs) - _NAMED, 'older run', 'older runs')}, down to {runs[-1].key}")
        _ask(f"Delete {counted(len(runs), 'run', 'runs')}?", sure)
        _delete(runs, "prune")
    deleted = {"deleted": [run.key for run in runs], "baselines": kept}
    say_result(f"deleted {counted(len(runs), 'run', 'runs')}", deleted)


def _delete(runs: Sequence[RunRow], why: Literal["deletion", "prune"] = "deletion") -> None:
    with project.writer({}) as writer:
        for run in runs:
            try:
                writer.delete_run(run, why)
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
    _ask(f"Forget {entries} cached answers in {project.store_path()}?", sure)
    with project.writer({}) as writer:
        writer.cache_clear()
    say_result(f"forgot {entries} cached answers", {"forgotten": entries})


def cache_why(word: str, item: str, turn: int, as_json: bool) -> None:
    """Print the parts of the keys of an item's answers."""
    keys: list[dict[str, Any]] = []
    with project.reader() as reader:
        run = project.run_named(reader, word)
        for row in answers_to(reader, run, item, turn):
            answer = reader.detail(row.id).answer
            if answer is None:
                keys.append({"target": run.targets[row.target], "key": None, "kept": False, "made_of": None})
                if not as_json:
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
            made_of = recipe(identity, request)
            keys.append({"target": run.targets[row.target], "key": key, "kept": is_cached, "made_of": made_of})
            if not as_json:
                say(f"{run.targets[row.target]}: key {key[:16]}…, {'kept' if is_cached else 'not kept'}", bold=True)
                say_json(made_of)
    if as_json:
        say_json({"run": run.key, "item": item, "turn": turn, "keys": keys})
        return
    say(
        strictjson.dumps({"made of": "target, messages, tools, response_format, params, repeat; any change asks again"})
    )


def check_store(store: Path | None, as_json: bool, count_again: bool = False) -> int:
    """Print whether the store is sound, after recounting its runs if requested; returns 1 if it is not."""
    path = _place(store)
    if count_again:
        recount(path)
    checked = _checked(path)
    if as_json:
        wrong = {"problems": checked.problems, "miscounted": checked.miscounted, "schema": checked.schema.harmful}
        known = {"own": checked.own, "ignored": checked.schema.others, "readable": dict(checked.readable)}
        say_json({"store": str(path), "sound": checked.is_sound, **wrong, **known})
    elif checked.problems:
        say(f"✗ {path} is damaged; readable are {readable(checked)}", fg="red")
        for problem in checked.problems:
            say(f"  {problem}")
        say(f"`{_command('repair', store)}` saves what can be read into a new store")
    elif checked.miscounted:
        say(f"✗ {path}: the counts of some runs differ from their answers", fg="red")
        for found in checked.miscounted:
            say(f"  {found}")
        say(f"`{_command('check', store)} --recount` counts them again")
    elif checked.schema.harmful:
        say(f"✗ {path} is {store_standing(checked)}", fg="red")
    else:
        say(f"✓ {path} is {store_standing(checked)}", fg="green")
    return int(not checked.is_sound)


def repair_store(store: Path | None, yes: bool) -> None:
    """Save what can be read, say what that is, and put it in place after a question."""
    path = _place(store)
    if not can_restore(path) and not ((checked := _checked(path)).problems or checked.schema.harmful):
        sound = {"store": str(path), "repaired": False, "damaged_file": None}
        say_result(f"✓ {path} is sound; there is nothing to repair", sound, fg="green")
        return
    with repairing(path, planned_before) as repair:
        say(f"Of {path}:", bold=True)
        for line in saved_lines(repair.tables):
            say(f"  {line}")
        if repair.backup is not None:
            say(backup_line(repair.backup))
        for line in incomplete_lines(repair.incomplete):
            say(line)
        if not repair.saved("runs"):
            raise Stop(f"no run can be read of {path}. It was left as it is; put a backup in its place", 1)
        if not confirmed(
            f"Put what was saved in the place of {path}, and keep the damaged file under another name?", yes=yes
        ):
            raise Stop(f"nothing was changed; {path} is as it was", 1)
        kept = repair.put_in_place()
    damaged = str(kept) if kept.exists() else None
    was = f"; the damaged file is {damaged}" if damaged else ""
    say_result(f"repaired {path}{was}", {"store": str(path), "repaired": True, "damaged_file": damaged}, fg="green")


def vacuum_store(store: Path | None) -> None:
    """Release the unused space of the store."""
    path = _place(store)
    before, after = vacuum(path)
    text = f"{path}: {file_size(before)} before, {file_size(after)} now ({before:,} and {after:,} bytes)"
    say_result(text, {"store": str(path), "bytes_before": before, "bytes": after}, fg="green")


def back_up_store(dest: Path, force: bool) -> None:
    """Copy the store."""
    path = _place(None)
    copy, size = back_up(path, dest, replace=force)
    result = {"store": str(path), "copy": str(copy), "bytes": size}
    say_result(f"copied {path} to {copy} ({file_size(size)})", result, fg="green")


def _place(store: Path | None) -> Path:
    return place_of_store(project_root(Path.cwd())) if store is None else store.absolute()


def _checked(path: Path) -> StoreCheck:
    try:
        return check(path, thorough=True)
    except StoreError as problem:  # not one of our stores; exit code 1 would mean that it is damaged
        raise Stop(str(problem)) from None


def _command(name: str, store: Path | None) -> str:
    return f"tui-evals db {name}{'' if store is None else f' {store}'}"
