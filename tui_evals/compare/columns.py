"""Two columns of a run as the two sides of a comparison, with the statistics that two runs have."""

from __future__ import annotations

from dataclasses import replace

from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from .measures import Column
from .runs import Comparison, compare_runs
from .sides import ComparedRun, column_name


def read_columns(reader: Reader, number: int, columns: tuple[Column, Column]) -> Comparison:
    """Compare two columns of a run of a store by its id; LookupError if it is gone."""
    run = reader.run(number)
    document = reader.snapshot(run.snapshot)
    judged_by, judged, labels = reader.judged_by(run, document), reader.judged(run.id), _labels(reader, run)
    sides = []
    for prompt, target in columns:
        rows = [
            replace(row, prompt=0, target=0)
            for row in reader.all_rows(run.id)
            if (row.prompt, row.target) == (prompt, target)
        ]
        own = {row.id for row in rows}
        side = replace(
            run,
            name=column_name(run, prompt, target),
            prompts=(run.prompts[prompt],),
            targets=(run.targets[target],),
            total=len(rows),
        )
        scores = [score for score in judged if score.answer in own]
        sides.append(ComparedRun(side, rows, document, scores, judged_by, labels.get((prompt, target), {})))
    return compare_runs(sides, reader.differing)


def _labels(reader: Reader, run: RunRow) -> dict[Column, dict[str, dict[str, int]]]:
    """How often each evaluator gave each label that neither passes nor fails, in each column."""
    labels: dict[Column, dict[str, dict[str, int]]] = {}
    for mean in reader.evaluator_means(run.id, columns=True) if reader.label_counts(run.id) else ():
        if mean.labels and mean.prompt is not None and mean.target is not None:
            labels.setdefault((mean.prompt, mean.target), {})[mean.key] = dict(mean.labels)
    return labels
