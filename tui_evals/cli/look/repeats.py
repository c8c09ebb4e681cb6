"""`tui-evals show --by repeats`: how steady a run is, and whether the model or the judge is to blame."""

from __future__ import annotations

from dataclasses import asdict

from tui_evals.cli.output import cell, columns, say, say_json
from tui_evals.compare.repeats import RepeatColumn, Repeats, read_repeats
from tui_evals.compare.statistics import percent
from tui_evals.present.columns import table
from tui_evals.present.status import run_look
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

_LISTED = 20


def show_repeats(reader: Reader, run: RunRow, as_json: bool) -> None:
    """The repeats of a run, column by column."""
    repeats = read_repeats(reader, run.id)
    if as_json:
        say_json(_repeats_json(run, repeats))
        return
    say(f"{run.key}  {run.name}  {run_look(run).text}", bold=True)
    for column in repeats.columns:
        _say_column(column, len(repeats.passes))
    for line in repeat_notes(run, repeats):
        say(line)


def repeat_notes(run: RunRow, repeats: Repeats) -> list[str]:
    """Notes on what was not repeated, and how it can be."""
    notes = []
    if not any(column.together.repeated for column in repeats.columns):
        notes.append(
            "no item has two judged repeats, so how steady the answers are is unknown; `tui-evals run DATASET "
            "--repeats 5` asks each item five times"
        )
    if len(repeats.passes) < 2 and run.config.get("judge"):
        notes.append(
            "the answers were judged once in this way, so the judge's noise cannot be told from the model's; "
            f"`tui-evals rescore {run.key} --no-cache` judges them again, and its scores count from then on"
        )
    return notes


def _say_column(column: RepeatColumn, passes: int) -> None:
    totals, room = column.together, columns()
    say(f"{column.name}: {totals.items} items judged, {totals.repeated} of them more than once")
    if totals.repeated:
        rows = [["k", "pass@k", "pass^k", "at least k", "items"]]
        rows += [
            [str(draw.k), percent(draw.any_passes), percent(draw.all_pass), percent(share), str(draw.items)]
            for draw, share in zip(totals.drawn, column.at_least, strict=True)
        ]
        for line in table(rows, right=range(5), elastic=(), room=room):
            say(f"  {line}")
        say(f"  majority {percent(totals.majority)} · flakiness {percent(totals.flakiness)} · {totals.flaky} flaky")
        for item in column.flaky[:_LISTED]:
            say(f"  ~ {cell(item.name, 40)}  {item.passed} of {item.judged} pass")
        if len(column.flaky) > _LISTED:
            say(f"  and {len(column.flaky) - _LISTED} more; --json lists all")
    if column.noise:
        rows = [["noise of the", "model", "judge"]]
        rows += [[key, _noise_text(noise.model), _noise_text(noise.judge)] for key, noise in column.noise.items()]
        for line in table(rows, right=(1, 2), room=room):
            say(f"  {line}")
        if passes > 1:
            say(f"  from {passes} judgings alike; noise is the standard deviation of the scores")


def _noise_text(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _repeats_json(run: RunRow, repeats: Repeats) -> dict[str, object]:
    columns = []
    for column in repeats.columns:
        drawn = [
            {"k": draw.k, "items": draw.items, "pass@k": draw.any_passes, "pass^k": draw.all_pass, "at_least_k": share}
            for draw, share in zip(column.together.drawn, column.at_least, strict=True)
        ]
        numbers = {name: value for name, value in asdict(column.together).items() if name != "drawn"}
        flaky = [{**asdict(item), "flakiness": item.flakiness} for item in column.flaky]
        noise = {key: asdict(scores) for key, scores in column.noise.items()}
        columns.append(
            {"column": column.name, **numbers, "flaky": column.together.flaky, "by_k": drawn}
            | {"flaky_items": flaky, "noise": noise}
        )
    return {"run": run.key, "passes": list(repeats.passes), "columns": columns, "notes": repeat_notes(run, repeats)}
