"""`tui-evals show --by repeats`: how steady a run is, and whether the model or the judge is to blame."""

from __future__ import annotations

from dataclasses import asdict

from tui_evals.compare.repeated import Column, Repeats, read_repeats
from tui_evals.compare.statistics import percent
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from .output import cell, columns, say, say_json
from .tables import table

_LISTED = 20


def show_repeats(reader: Reader, run: RunRow, as_json: bool) -> None:
    """The repeats of a run, column by column."""
    found = read_repeats(reader, run.id)
    if as_json:
        say_json(_shown(run, found))
        return
    say(f"{run.key}  {run.name}  {run.status}", bold=True)
    for column in found.columns:
        _say_column(column, len(found.passes))
    for line in ways(run, found):
        say(line)


def ways(run: RunRow, found: Repeats) -> list[str]:
    """What was not repeated, and how it can be."""
    said = []
    if not any(column.together.repeated for column in found.columns):
        said.append(
            "no item has two judged repeats, so how steady the answers are is unknown; `tui-evals run DATASET "
            "--repeats 5` asks each item five times"
        )
    if len(found.passes) < 2 and run.config.get("judge"):
        said.append(
            "the answers were judged once in this way, so the judge's noise cannot be told from the model's; "
            f"`tui-evals rescore {run.key} --no-cache` judges them again, and its scores count from then on"
        )
    return said


def _say_column(column: Column, passes: int) -> None:
    found, room = column.together, columns()
    say(f"{column.name}: {found.items} items judged, {found.repeated} of them more than once")
    if found.repeated:
        rows = [["k", "pass@k", "pass^k", "at least k", "items"]]
        rows += [
            [str(one.k), percent(one.any_passes), percent(one.all_pass), percent(share), str(one.items)]
            for one, share in zip(found.drawn, column.at_least, strict=True)
        ]
        for line in table(rows, right=range(5), elastic=(), room=room):
            say(f"  {line}")
        say(f"  majority {percent(found.majority)} · flakiness {percent(found.flakiness)} · {found.flaky} flaky")
        for item in column.flaky[:_LISTED]:
            say(f"  ~ {cell(item.name, 40)}  {item.passed} of {item.judged} pass")
        if len(column.flaky) > _LISTED:
            say(f"  and {len(column.flaky) - _LISTED} more; --json lists all")
    if column.noise:
        rows = [["noise of the", "model", "judge"]]
        rows += [[key, _number(one.model), _number(one.judge)] for key, one in column.noise.items()]
        for line in table(rows, right=(1, 2), room=room):
            say(f"  {line}")
        if passes > 1:
            say(f"  from {passes} judgings alike; noise is the standard deviation of the scores")


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _shown(run: RunRow, found: Repeats) -> dict[str, object]:
    shown = []
    for column in found.columns:
        drawn = [
            {"k": one.k, "items": one.items, "pass@k": one.any_passes, "pass^k": one.all_pass, "at_least_k": share}
            for one, share in zip(column.together.drawn, column.at_least, strict=True)
        ]
        numbers = {name: value for name, value in asdict(column.together).items() if name != "drawn"}
        flaky = [{**asdict(item), "flakiness": item.flakiness} for item in column.flaky]
        noise = {key: asdict(one) for key, one in column.noise.items()}
        shown.append(
            {"column": column.name, **numbers, "flaky": column.together.flaky, "by_k": drawn}
            | {"flaky_items": flaky, "noise": noise}
        )
    return {"run": run.key, "passes": list(found.passes), "columns": shown, "notes": ways(run, found)}
