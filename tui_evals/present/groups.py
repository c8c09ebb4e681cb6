"""The answers of a run in groups by a field, with the sums of each group in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tui_evals.compare.statistics import percent
from tui_evals.light_records import dataclass
from tui_evals.present.columns import table
from tui_evals.store.figures import GROUPINGS, AnswerGroup
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.measures import counted, duration, money
from tui_evals.text.safe import safe_line

_NONE = "(none)"


@dataclass(frozen=True, slots=True)
class FilteredGroup:
    """A group, and the filter that shows its answers."""

    group: AnswerGroup
    filter: str
    """Empty where no filter finds answers without a value."""


def grouping_names(database: Path, run: RunRow) -> list[str]:
    """By what the answers of a run can be grouped: its fields that differ, and each variable."""
    with Reader(database) as reader:
        fields = [by for by in GROUPINGS if by != "variable" and len(reader.grouped(run, by)) > 1]
        return [*fields, *(f"variable {name}" for name in reader.variables(run))]


def read_groups(database: Path, run: RunRow, by: str) -> list[FilteredGroup]:
    """The groups of a run by one of `grouping_names`."""
    field, _, name = by.partition(" ")
    with Reader(database) as reader:
        groups = reader.grouped(run, field, name)
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
