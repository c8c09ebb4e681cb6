"""Numbers as people read them: costs, durations, tokens, scores, differences, moments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from tui_evals.figures import Figure, percent
from tui_evals.present.status import rateless
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.rows import EvaluatorMean
from tui_evals.text.measures import counted, parse_measure


def rate_text(figure: Figure) -> str:
    """A rate with its items where they have several answers each, and its interval."""
    parts = [percent(figure.value)]
    if figure.answers != figure.items:
        each, rest = divmod(figure.answers, figure.items)
        many = f"{each:,} answers each" if not rest else counted(figure.answers, "answer")
        parts = [f"{parts[0]} of {counted(figure.items, 'item')}", many]
    return ", ".join([*parts, f"95 % interval {ends}"] if (ends := interval_text(figure)) else parts)


def interval_text(figure: Figure | None) -> str:
    """The interval of a rate in percent, without the sign; empty without one."""
    ends = figure.interval if figure else None
    return "" if ends is None else f"{100 * ends.low:.1f} to {100 * ends.high:.1f}"


def figure_data(figure: Figure | None) -> dict[str, Any] | None:
    """A figure as plain data."""
    if figure is None:
        return None
    ends = figure.interval
    return {**asdict(figure), "interval": None if ends is None else [ends.low, ends.high]}


def short_number(value: float | None) -> str:
    """A score with at most two decimals; empty for none."""
    if value is None:
        return ""
    text = f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def mean_text(value: float | None, measure: str = "") -> str:
    """The mean of scores, with their unit or scale."""
    if value is None:
        return "n/a"
    known = parse_measure(measure)
    if known.unit:
        return known.texts(value)[0]
    scale = f" of {known.range_text}" if known.bounds else ""
    return (f"{value:.3f}" if abs(value) < 10 else short_number(value)) + scale


def local_time(time: float) -> str:
    """A moment in the time of this machine, to the minute."""
    return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M")


def exact_time(time: float) -> str:
    """A moment in the time of this machine, to the second."""
    return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M:%S")


def universal_time(time: float | None) -> str:
    """A moment, the same wherever it is read; empty where there is none."""
    return "" if time is None else f"{datetime.fromtimestamp(time, UTC):%-d %b %Y, %H:%M} UTC"


def file_size(count: int) -> str:
    """How large a file is."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return counted(count, "byte")


_MOST_LABELS = 8


def label_counts(labels: Mapping[str, int]) -> str:
    """How often each label was given, the most frequent first; empty without labels."""
    ranked = sorted(labels.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = [f"{label} {count:,}" for label, count in ranked[:_MOST_LABELS]]
    return ", ".join([*shown, *([f"{len(ranked) - _MOST_LABELS} more labels"] if len(ranked) > _MOST_LABELS else [])])


def mean_with_interval(mean: EvaluatorMean) -> str:
    """The mean of the numbers an evaluator gave, with its interval by items; empty where it gave none."""
    if mean.mean is None:
        return ""
    figure = mean.mean_figure
    ends = figure.interval if figure else None
    unit = mean.measure if parse_measure(mean.measure).unit else ""
    interval = f" (95 % interval {mean_text(ends.low, unit)} to {mean_text(ends.high, unit)})" if ends else ""
    return f"mean {mean_text(mean.mean, mean.measure)}{interval}"


def distribution(mean: EvaluatorMean) -> str:
    """What an evaluator gave where it judged nothing to pass or fail: mean, labels, or both; else empty."""
    if mean.passed + mean.failed:
        return ""
    return ", ".join(part for part in (mean_with_interval(mean), label_counts(mean.labels)) if part)


def skipped_sentence(skipped: Mapping[str, int], left_out: Mapping[str, int]) -> str:
    """How often each evaluator was skipped or left out by an import, and what that means for the figures; or empty."""
    told = [f"{key} {counted(count, 'time')}" for key, count in skipped.items() if key not in left_out]
    lacking = [f"{counted(count, 'verdict')} without {key}" for key, count in left_out.items()]
    sentences = (
        f"incomplete, because an import left assertions out: {', '.join(lacking)}" if lacking else "",
        f"skipped, and in no rate or mean: {', '.join(told)}" if told else "",
    )
    return "; ".join(filter(None, sentences))


def measure_phrases(means: Iterable[EvaluatorMean]) -> tuple[str, ...]:
    """A phrase for each evaluator that gave values or labels and no verdict."""
    return tuple(f"{mean.key}: {given}" for mean in means if (given := distribution(mean)))


def run_measures(reader: Reader, run: RunRow, totals: Totals) -> tuple[str, ...]:
    """What is in the place of a pass rate where nothing in a run can fail; empty where there is a rate."""
    return measure_phrases(reader.evaluator_means(run.id)) if rateless(totals) else ()


def column_measures(reader: Reader, run: RunRow, totals: Totals) -> dict[tuple[int, int], tuple[str, ...]]:
    """The measures of each prompt and target of a run with these totals."""
    by_column: dict[tuple[int, int], list[EvaluatorMean]] = {}
    for mean in reader.evaluator_means(run.id, columns=True) if totals.scored else ():
        if mean.prompt is not None and mean.target is not None:
            by_column.setdefault((mean.prompt, mean.target), []).append(mean)
    return {column: measure_phrases(means) for column, means in by_column.items()}
