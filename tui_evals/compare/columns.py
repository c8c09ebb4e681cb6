"""Two columns of a run as the two sides of a comparison, with the statistics that two runs have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tui_evals.garbage import garbage_collection_paused
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.rows import JudgedBy

from .measures import Column
from .runs import Comparison, compare_runs
from .sides import ComparedRun, column_name


def read_columns(reader: Reader, number: int, columns: tuple[Column, Column]) -> Comparison:
    """Compare two columns of a run of a store by its id; LookupError if it is gone."""
    run = reader.run(number)
    with garbage_collection_paused():
        document = reader.snapshot(run.snapshot)
        judged_by, labels = reader.judged_by(run, document), _labels(reader, run)
        sides = [_side(reader, run, column, document, judged_by, labels.get(column, {})) for column in columns]
        return compare_runs(sides, reader.differing)


def _side(
    reader: Reader,
    run: RunRow,
    column: Column,
    document: Mapping[str, Any],
    judged_by: JudgedBy,
    labels: Mapping[str, Mapping[str, int]],
) -> ComparedRun:
    """A column as a run that has no other."""
    prompt, target = column
    compared = (row for row in reader.compared(run.id) if (row.prompt, row.target) == column)
    rows = [row._replace(prompt=0, target=0) for row in compared]
    ids = {row.id for row in rows}
    name = column_name(run, prompt, target)
    alone = replace(run, name=name, prompts=(run.prompts[prompt],), targets=(run.targets[target],), total=len(rows))
    judged = (score for score in reader.judged(run.id) if score.answer in ids)
    return ComparedRun(alone, rows, document, judged, judged_by, labels)


def _labels(reader: Reader, run: RunRow) -> dict[Column, dict[str, dict[str, int]]]:
    """How often each evaluator gave each label that neither passes nor fails, in each column."""
    labels: dict[Column, dict[str, dict[str, int]]] = {}
    for mean in reader.evaluator_means(run.id, columns=True) if reader.label_counts(run.id) else ():
        if mean.labels and mean.prompt is not None and mean.target is not None:
            labels.setdefault((mean.prompt, mean.target), {})[mean.key] = dict(mean.labels)
    return labels
