"""Numbers as people read them: costs, durations, tokens, scores, differences, moments."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Protocol

from tui_evals.text.measures import parse_measure


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
    def input_tokens(self) -> int | None: ...  # noqa: D102
    @property
    def output_tokens(self) -> int | None: ...  # noqa: D102
    @property
    def cached_tokens(self) -> int | None: ...  # noqa: D102
    @property
    def reasoning_tokens(self) -> int | None: ...  # noqa: D102


def tokens(counts: Counts) -> str:
    """The tokens of a call; empty where nobody counted them."""
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
