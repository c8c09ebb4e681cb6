"""What evaluators gave that can neither pass nor fail: how often each label, or the mean with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tui_evals.compare.statistics import mean_interval
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.rows import EvaluatorMean
from tui_evals.text.measures import parse_measure

from .figures import counted, mean_text
from .status import rateless

_MOST_LABELS = 8


def label_counts(labels: Mapping[str, int]) -> str:
    """How often each label was given, the most frequent first; empty without labels."""
    ranked = sorted(labels.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = [f"{label} {count:,}" for label, count in ranked[:_MOST_LABELS]]
    return ", ".join([*shown, *([f"{len(ranked) - _MOST_LABELS} more labels"] if len(ranked) > _MOST_LABELS else [])])


def mean_with_interval(mean: EvaluatorMean) -> str:
    """The mean of the numbers an evaluator gave, with the interval it lies in; empty where it gave none."""
    if mean.mean is None:
        return ""
    ends = mean_interval(mean.scored, mean.mean, mean.squares or 0.0)
    unit = mean.measure if parse_measure(mean.measure).unit else ""
    interval = f" (95 % interval {mean_text(ends.low, unit)} to {mean_text(ends.high, unit)})" if ends else ""
    return f"mean {mean_text(mean.mean, mean.measure)}{interval}"


def distribution(mean: EvaluatorMean) -> str:
    """What an evaluator gave where it judged nothing to pass or fail: mean, labels, or both; else empty."""
    if mean.passed + mean.failed:
        return ""
    return ", ".join(part for part in (mean_with_interval(mean), label_counts(mean.labels)) if part)


def skipped_sentence(skipped: Mapping[str, int]) -> str:
    """How often each evaluator was skipped, and that it is in no figure; empty where none was."""
    told = [f"{key} {counted(count, 'time')}" for key, count in skipped.items()]
    return f"skipped, and in no rate or mean: {', '.join(told)}" if told else ""


def measure_phrases(means: Iterable[EvaluatorMean]) -> tuple[str, ...]:
    """A phrase for each evaluator that gave values or labels and no verdict."""
    return tuple(f"{mean.key}: {given}" for mean in means if (given := distribution(mean)))


def run_measures(reader: Reader, run: RunRow, totals: Totals) -> tuple[str, ...]:
    """What stands in the place of a pass rate where nothing in a run can fail; empty where there is a rate."""
    return measure_phrases(reader.evaluator_means(run.id)) if rateless(totals) else ()


def column_measures(reader: Reader, run: RunRow, totals: Totals) -> dict[tuple[int, int], tuple[str, ...]]:
    """The same for each prompt and target of a run with these totals."""
    by_column: dict[tuple[int, int], list[EvaluatorMean]] = {}
    for mean in reader.evaluator_means(run.id, columns=True) if totals.scored else ():
        if mean.prompt is not None and mean.target is not None:
            by_column.setdefault((mean.prompt, mean.target), []).append(mean)
    return {column: measure_phrases(means) for column, means in by_column.items()}


def target_measures(reader: Reader, run: RunRow, totals: Totals) -> dict[int, tuple[str, ...]]:
    """The same for each target, its prompts one after the other."""
    by_target: dict[int, tuple[str, ...]] = {}
    for (prompt, target), phrases in sorted(column_measures(reader, run, totals).items()):
        name = f"{run.prompts[prompt]} " if len(run.prompts) > 1 else ""
        by_target[target] = (*by_target.get(target, ()), *(f"{name}{phrase}" for phrase in phrases))
    return by_target
