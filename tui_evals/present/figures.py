"""Numbers as people read them: costs, durations, tokens, scores, differences, moments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol

from tui_evals.compare.statistics import percent
from tui_evals.figures import Figure
from tui_evals.present.status import rateless
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.rows import EvaluatorMean
from tui_evals.text.measures import parse_measure


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


def duration(seconds: float) -> str:
    """A time span in at most seven cells."""
    if 0 < seconds < 0.0005:
        return "<1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours < 100 else f"{hours // 24} days"


def rough_duration(seconds: float) -> str:
    """A time span as one says it of what is still to come: in whole seconds, minutes or hours."""
    if seconds < 90:
        return f"{max(math.ceil(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{round(seconds / 3600)} h"


def age(seconds: float) -> str:
    """How long ago, in one unit."""
    for limit, size, unit in ((60, 1, "s"), (3_600, 60, "min"), (86_400, 3_600, "h"), (8_640_000, 86_400, "d")):
        if seconds < limit:
            return f"{max(int(seconds // size), 0)} {unit}"
    return f"{int(seconds // 31_557_600)} y" if seconds >= 31_557_600 else f"{int(seconds // 86_400)} d"


def per_second(rate: float) -> str:
    """How fast something goes."""
    return f"{rate:,.1f}/s"


def compact(count: int | None) -> str:
    """A count in at most four cells."""
    if count is None:
        return "?"
    if count < 1000:
        return str(count)
    for size, letter in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if count < 999.5 * size:
            return f"{count / size:.1f}{letter}" if count < 9.95 * size else f"{count / size:.0f}{letter}"
    return "many"


class Counts(Protocol):
    """What counts the tokens of a call, of an answer or of a whole run."""

    @property
    def input_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...
    @property
    def cached_tokens(self) -> int | None: ...
    @property
    def reasoning_tokens(self) -> int | None: ...


def tokens(counts: Counts) -> str:
    """The tokens of a call; empty where they were not counted."""
    return "" if counts.input_tokens is None and counts.output_tokens is None else token_counts(counts, " tokens")


def token_counts(counts: Counts, unit: str = "") -> str:
    """How many tokens were read and written, and how many of them were cached and thought."""
    cached = f" ({counts.cached_tokens:,} cached)" if counts.cached_tokens else ""
    thought = f" ({counts.reasoning_tokens:,} thinking)" if counts.reasoning_tokens else ""
    return f"{counts.input_tokens or 0:,}{unit} in{cached}, {counts.output_tokens or 0:,} out{thought}"


def counted(count: int, one: str, several: str = "") -> str:
    """A number of things."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {several or one + 's'}"


def number(score: float) -> str:
    """A score in at most four cells, a minus beside them: two decimals, fewer where it is large."""
    size = abs(score)
    if size < 9.995:
        return f"{score:.2f}"
    if size < 999.5:
        return f"{score:.1f}".removesuffix(".0") if size < 99.95 else f"{score:.0f}"
    return f"{'-' if score < 0 else ''}{compact(round(size))}" if math.isfinite(score) else str(score)


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
    """The measures of each prompt and target of a run with these totals."""
    by_column: dict[tuple[int, int], list[EvaluatorMean]] = {}
    for mean in reader.evaluator_means(run.id, columns=True) if totals.scored else ():
        if mean.prompt is not None and mean.target is not None:
            by_column.setdefault((mean.prompt, mean.target), []).append(mean)
    return {column: measure_phrases(means) for column, means in by_column.items()}
