"""Numbers for people: costs, durations, tokens, scores, differences, times, and the estimate of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tui_evals.figures import Figure, percent
from tui_evals.present.status import rateless
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.rows import EvaluatorMean
from tui_evals.text.measures import counted, money, parse_measure, rough_duration

if TYPE_CHECKING:  # avoids a slow import
    from tui_evals.runs.estimating import Estimate


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
    """A time in UTC; empty for None."""
    return "" if time is None else f"{datetime.fromtimestamp(time, UTC):%-d %b %Y, %H:%M} UTC"


def file_size(count: int) -> str:
    """How large a file is."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= 0.99995 * size:  # less would be rounded to 1000.0 of the smaller unit
            return f"{count / size:.1f} {unit}"
    return counted(count, "byte")


_MOST_LABELS = 8


def label_counts(labels: Mapping[str, int]) -> str:
    """How often each label was given, the most frequent first; empty without labels."""
    ranked = sorted(labels.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = [f"{label} {count:,}" for label, count in ranked[:_MOST_LABELS]]
    left = len(ranked) - len(shown)
    return ", ".join([*shown, *([counted(left, "more label")] if left else [])])


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
    """The values of an evaluator without verdicts: mean, labels, or both; empty if it has verdicts."""
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
    """The measures that replace the pass rate if nothing in a run can fail; empty if there is a rate."""
    return measure_phrases(run_figures.evaluator_means(reader, run.id)) if rateless(totals) else ()


def column_measures(reader: Reader, run: RunRow, totals: Totals) -> dict[tuple[int, int], tuple[str, ...]]:
    """The measures of each prompt and target of a run with these totals."""
    by_column: dict[tuple[int, int], list[EvaluatorMean]] = {}
    for mean in run_figures.evaluator_means(reader, run.id, columns=True) if totals.scored else ():
        if mean.prompt is not None and mean.target is not None:
            by_column.setdefault((mean.prompt, mean.target), []).append(mean)
    return {column: measure_phrases(means) for column, means in by_column.items()}


_SHORT = 5.0
"""Seconds that are not worth saying."""


def estimated_cost(cost: float | None, unpriced: Sequence[str] = ()) -> str:
    """An expected cost, and the targets without a known price; None if it is unknown."""
    if unpriced:
        names = ", ".join(unpriced)
        known = f"about {money(cost)} without {names}, whose price" if cost else f"cost unknown: the price of {names}"
        return f"{known} is not known"
    if cost is None:
        return "cost unknown: a price is missing"
    return f"about {money(cost)}" if cost else "free"


def estimate_sentence(estimate: Estimate) -> str:
    """The estimate of a run: calls of targets and judges, how many are cached, cost, time, and the last run."""
    answers, judge_calls = estimate.answers, estimate.judge_calls
    judged = judge_calls or estimate.kept or estimate.known_verdicts
    calls = [f"{counted(answers, 'call')}{_known(estimate)}{_further(estimate)}"] if answers or not judged else []
    if estimate.played:
        calls.append(f"up to {estimate.played:,} to play users")
    if judged:
        most = "" if estimate.all_tried else "at most "
        count = f"{judge_calls:,}" if calls else counted(judge_calls, "call")
        calls.append(f"{most}{count} of the judge{_spared(estimate)}")
    cost = estimated_cost(estimate.known_cost, estimate.unpriced)
    return f"{' and '.join(calls)}, {cost}{_uncounted(estimate)}{_time(estimate)}{_last_time(estimate)}"


def kept_sentence(kept: int, judged: int) -> str:
    """How many scores rescoring kept."""
    were = counted(kept, "score was", "scores were")
    return f"{were} kept from earlier judgings; {judged:,} made now" if judged else f"{were} kept from earlier judgings"


def _spared(estimate: Estimate) -> str:
    """What need not be judged, because it was judged before."""
    scores = f"{counted(estimate.kept, 'score is', 'scores are')} kept" if estimate.kept else ""
    verdicts = f"{counted(estimate.known_verdicts, 'verdict')} known" if estimate.known_verdicts else ""
    spared = ", ".join(filter(None, (scores, verdicts)))
    return f" ({spared})" if spared else ""


def _time(estimate: Estimate) -> str:
    """How long it takes, where that is long enough to say."""
    seconds = estimate.seconds
    return "" if seconds is None or seconds < _SHORT else f", about {rough_duration(seconds)}"


def _last_time(estimate: Estimate) -> str:
    """The cost and time of a similar run."""
    last = estimate.last
    if last is None or not last.cost or not estimate.calls:
        return ""
    took = "" if last.seconds is None or last.seconds < _SHORT else f" in {rough_duration(last.seconds)}"
    return f" (last time: {money(last.cost)}{took})"


def _uncounted(estimate: Estimate) -> str:
    """Says that the cost leaves out attached files, which each provider counts differently."""
    if not estimate.with_files:
        return ""
    return f", without the pictures, sounds and PDFs in {counted(estimate.with_files, 'call')}, which are not counted"


def _further(estimate: Estimate) -> str:
    after = "after tools or users" if estimate.played else "after tools"
    return f" and up to {estimate.further:,} more {after}" if estimate.further else ""


def _known(estimate: Estimate) -> str:
    if not estimate.cached:
        return ""
    least = "" if estimate.all_looked_up else "at least "
    return f" ({least}{estimate.cached:,} of {estimate.answers:,} known)"


def why_think_twice(estimate: Estimate, most_cost: float, most_calls: int) -> str:
    """Why a run is not to be started by a key that was pressed in passing; empty where it may."""
    if estimate.unpriced:
        return "what it costs is not known"
    if estimate.with_files:
        return "what its pictures, sounds and PDFs cost is not counted"
    if estimate.known_cost > most_cost:
        return f"this costs more than {money(most_cost)}"
    if estimate.calls > most_calls:
        return f"this takes more than {counted(most_calls, 'call')}"
    return ""
