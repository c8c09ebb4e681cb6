"""A run as a grid in words, its columns and cells, and its answers in groups by a field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tui_evals.figures import Figure, percent
from tui_evals.light_records import dataclass
from tui_evals.present.columns import short_names, table
from tui_evals.present.figures import column_measures, interval_text
from tui_evals.present.runs import Column, Cost, column_names, run_cost
from tui_evals.present.status import ANSWER_LOOKS, WORST_FIRST, Look
from tui_evals.store import grid, run_figures
from tui_evals.store.grid import GridCell, GridLine
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.run_figures import GROUPINGS, AnswerGroup
from tui_evals.text.measures import counted, duration, money
from tui_evals.text.names import did_you_mean, numbered
from tui_evals.text.safe import safe_line

_TROUBLE = ("error", "partial", "running", "pending", "answered")
"""Statuses that are shown even if other repeats have a verdict."""


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A prompt and target of a run, with the figures above its cells."""

    place: Column
    name: str
    short: str
    """The name without what all columns of the run share."""
    rate: Figure | None
    cost: Cost
    latency: float | None
    """The median time to an answer in seconds; None where every one came from the cache, or where there is none."""
    measures: tuple[str, ...] = ()
    """Shown instead of a rate if nothing in the run can fail."""
    parts: tuple[str, ...] = ()
    """The target and the prompt as `short` says them, where the run has several of both."""
    untimed: str = "cached"
    """The reason if there is no median time."""

    @property
    def rate_text(self) -> str:
        """The share of passes among the judged answers; if none can fail, their measures."""
        if self.rate is None:
            return ", ".join(self.measures) or "n/a"
        items = "" if self.rate.items == self.rate.answers else f" to {counted(self.rate.items, 'item')}"
        return f"{percent(self.rate.value)} of {self.rate.answers:,}{items}"

    @property
    def interval_text(self) -> str:
        """The confidence interval of the rate."""
        ends = interval_text(self.rate)
        return f"{ends} %" if ends else ""

    @property
    def spent_text(self) -> str:
        """The cost of the answers and the median time."""
        return f"{self.cost.short} · {self.untimed if self.latency is None else duration(self.latency)}"


def _untimed(totals: Totals) -> str:
    if totals.total <= totals.pending + totals.running + totals.errored:
        return "no answers"
    return "cached" if totals.cached else "no times"


def grid_columns(reader: Reader, run: RunRow) -> tuple[GridColumn, ...]:
    """The columns of a run that has any answers in them, with their numbers."""
    totals, latencies = reader.totals_by(run.id, "column"), grid.column_latencies(reader, run.id)
    most_scored = max(totals.values(), key=lambda one: one.scored, default=None)
    measures = column_measures(reader, run, most_scored) if most_scored else {}
    return tuple(
        GridColumn(
            column.place,
            column.name,
            column.short,
            totals[column.place].pass_rate,
            run_cost(totals[column.place]),
            None if (median := latencies.get(column.place)) is None else median / 1000,
            measures.get(column.place, ()),
            column.parts,
            _untimed(totals[column.place]),
        )
        for column in named_columns(run)
        if column.place in totals
    )


def named_columns(run: RunRow) -> tuple[GridColumn, ...]:
    """The columns of a run before anything has been counted."""
    targets, prompts = short_names(numbered(run.targets)), short_names(run.prompts)
    columns = []
    for (prompt, target), name in column_names(run).items():
        parts = [targets[target]] if len(targets) > 1 or not prompts[prompt] else []
        parts += [prompts[prompt] or "no prompt"] if len(prompts) > 1 else []
        short = " · ".join(parts) or name
        both = tuple(parts) if len(parts) > 1 else ()
        columns.append(GridColumn((prompt, target), name, short, None, Cost(0.0), None, parts=both))
    return tuple(columns)


def cell_look(cell: GridCell) -> Look:
    """The look of a cell; several repeats as the number that pass."""
    worst = next(status for status in WORST_FIRST if status in cell.statuses)
    if cell.answers == 1 or not cell.passed + cell.failed:
        return ANSWER_LOOKS[worst]
    count = f"{cell.passed}/{cell.answers}"
    if worst in _TROUBLE:
        return ANSWER_LOOKS[worst]._replace(word=count)
    if cell.passed and cell.failed:
        return Look("~", count, "warn")
    return ANSWER_LOOKS["pass" if cell.passed else "fail"]._replace(word=count)


def cell_score(cell: GridCell) -> str:
    """The score of a cell, the mean of its repeats; empty without one."""
    return "" if cell.score is None else f"{cell.score:.1f}".removesuffix(".0")


def cell_text(cell: GridCell | None) -> str:
    """Verdict and score; nothing where the column was not asked."""
    return "" if cell is None else f"{cell_look(cell).text} {cell_score(cell)}".rstrip()


def line_name(line: GridLine) -> str:
    """The item of a row, with the turn unless it is the first."""
    return f"{line.name}.{line.turn + 1}" if line.turn else line.name


def grid_data(columns: Sequence[GridColumn], lines: Sequence[GridLine]) -> dict[str, Any]:
    """A grid as plain data."""
    return {
        "columns": [
            {
                "name": column.name,
                "shown_as": column.short,
                "passed": round(column.rate.value * column.rate.answers) if column.rate else 0,
                "judged": column.rate.answers if column.rate else 0,
                "pass_rate": column.rate.value if column.rate else None,
                "measures": list(column.measures),
                "interval": [ends.low, ends.high] if column.rate and (ends := column.rate.interval) else None,
                "items": column.rate.items if column.rate else 0,
                "cost": column.cost.amount,
                "unpriced": column.cost.unpriced,
                "median_seconds": column.latency,
            }
            for column in columns
        ],
        "rows": [
            {
                "item": line.name,
                "turn": line.turn + 1,
                "category": line.category,
                "cells": [_cell_data(line.cells.get(column.place)) for column in columns],
            }
            for line in lines
        ],
    }


def _cell_data(cell: GridCell | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    statuses = sorted(cell.statuses, key=WORST_FIRST.index)
    return {"statuses": statuses, "answers": cell.answers, "passed": cell.passed, "score": cell.score}


class NoColumn(ValueError):
    """No column, or more than one, is called so; the message says which there are."""


def columns_meant(run: RunRow, text: str) -> tuple[Column, Column]:
    """The two columns in a text with a comma between their names; NoColumn if a name is ambiguous."""
    first, second = regions_meant(run, text)
    if len(first) > 1 or len(second) > 1:
        raise NoColumn(f"{text!r} names more than one column on a side; name two columns: {_listed(run)}")
    return first[0], second[0]


def regions_meant(run: RunRow, text: str) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """The two regions in a text with a comma between their names, which may contain commas themselves.

    A name is that of a column, or of a prompt or target, which means all its columns.
    """
    from tui_evals.compare.runs import regions_faced  # delays the first frame

    parts = text.split(",")
    splits = [(",".join(parts[:at]).strip(), ",".join(parts[at:]).strip()) for at in range(1, len(parts))]
    if not splits:
        raise NoColumn(f"{text!r} names one column; give two with a comma between them: {_listed(run)}")
    problem: NoColumn | None = None
    for names in splits:
        try:
            first, second = (_region_meant(run, name) for name in names)
        except NoColumn as found:
            problem = problem or found
            continue
        if first == second:
            raise NoColumn(f"{text!r} names the same column of {run.key} twice; its columns are {_listed(run)}")
        if isinstance(faced := regions_faced(first, second), str):
            raise NoColumn(f"{text!r} cannot be compared: {faced}. The columns of {run.key} are {_listed(run)}")
        return first, second
    assert problem is not None
    raise problem


def _plain_separator(name: str) -> str:
    """A name of a column with one separator of ASCII, whichever was typed."""
    return re.sub(r"\s*·\s*|\s+/\s+|\s*\|\s*", "|", name)


def _region_meant(run: RunRow, name: str) -> tuple[Column, ...]:
    """The column with this name, short name or #NUMBER; else the columns of a prompt or target.

    A slash or bar may replace the dot between parts.
    """
    columns = named_columns(run)
    meant = [column.place for column in columns if name in (column.name, column.short)]
    typed = _plain_separator(name)
    meant = meant or [one.place for one in columns if typed in map(_plain_separator, (one.name, one.short))]
    meant += [column.place for number, column in enumerate(columns, 1) if name == f"#{number}" and not meant]
    if len(meant) == 1:
        return (meant[0],)
    if not meant:
        targets = numbered(run.targets)
        own = {place: (run.prompts[place[0]], targets[place[1]]) for place in column_names(run)}
        if parts := tuple(column.place for column in columns if name in (*column.parts, *own[column.place])):
            return parts
    if meant:
        raise NoColumn(f"{len(meant)} columns of {run.key} are called {name!r}; say which by number: {_listed(run)}")
    known = [column.short for column in columns]
    raise NoColumn(f"{run.key} has no column {name!r}{did_you_mean(name, known)}; its columns are {_listed(run)}")


def _listed(run: RunRow) -> str:
    return ", ".join(f"#{number} {column.short}" for number, column in enumerate(named_columns(run), 1))


_NONE = "(none)"


@dataclass(frozen=True, slots=True)
class FilteredGroup:
    """A group, and the filter that shows its answers."""

    group: AnswerGroup
    filter: str
    """Empty where no filter finds answers without a value."""


def grouping_names(database: Path, run: RunRow) -> list[str]:
    """The groupings of a run's answers: fields that differ, and each variable."""
    with Reader(database) as reader:
        fields = [by for by in GROUPINGS if by != "variable" and len(run_figures.grouped(reader, run, by)) > 1]
        return [*fields, *(f"variable {name}" for name in run_figures.variables(reader, run))]


def read_groups(database: Path, run: RunRow, by: str) -> list[FilteredGroup]:
    """The groups of a run by one of `grouping_names`."""
    field, _, name = by.partition(" ")
    with Reader(database) as reader:
        groups = run_figures.grouped(reader, run, field, name)
    return [FilteredGroup(group, _filter(field, name, group.value)) for group in groups]


def _filter(field: str, name: str, value: str) -> str:
    if not value:
        return "!error" if field == "cause" else ""
    wanted = f"{name}={value}" if name else value
    quoted = '"' + wanted.replace('"', "*") + '"' if any(sign.isspace() or sign == '"' for sign in wanted) else wanted
    return f"{field}:{quoted}"


def group_lines(groups: Sequence[FilteredGroup]) -> Iterator[tuple[FilteredGroup, str, str]]:
    """Each group with its name and its sums, the sums of all below each other."""
    sums = table([_sums(one.group) for one in groups], right=range(6), elastic=(), room=None)
    for one, line in zip(groups, sums, strict=True):
        yield one, safe_line(one.group.value, 60) or _NONE, line


def _sums(group: AnswerGroup) -> tuple[str, ...]:
    judged = group.passed + group.failed
    return (
        f"{percent(group.passed / judged)} pass" if judged else "",
        f"{group.passed:,} of {judged:,} judged" if judged else "",
        counted(group.errored, "error") if group.errored else "",
        counted(group.answers, "answer"),
        money(group.cost) if group.cost else "",
        duration(group.latency_ms / 1000) if group.latency_ms is not None else "",
    )
