"""The measures of evaluators: the unit of numbers, which of them pass, and how to write them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import floor, log10
from typing import Literal, Protocol, get_args

from tui_evals.light_records import dataclass

Direction = Literal["", "at least", "at most", "exactly", "other than"]

_OPPOSITE: Mapping[Direction, Direction] = {
    "": "at most",
    "at least": "at most",
    "at most": "at least",
    "exactly": "other than",
    "other than": "exactly",
}
_FIGURES, _MOST_FIGURES = 3, 12
_SECONDS_FROM = 100  # milliseconds


@dataclass(frozen=True, slots=True)
class Measure:
    """The unit of an evaluator's number, and which numbers pass.

    Its text, such as `at most ms` or `at least from 1 to 10`, is stored with a score.
    """

    direction: Direction = ""
    """Empty where only a threshold, which is passed from it upwards, can tell whether more is better."""
    unit: str = ""
    """`ms` is shown in seconds, `USD` in dollars; else the plural of what is counted, or empty."""
    bounds: tuple[float, float] | None = None
    """The lowest and the highest score there is, where the scale is declared."""
    normalised: bool = False
    """Whether scores of several scales were normalized to 0–1."""

    def __str__(self) -> str:
        bounds = f"from {self.bounds[0]:.12g} to {self.bounds[1]:.12g}" if self.bounds else ""
        return " ".join(filter(None, (self.direction, self.unit, bounds, "normalised" if self.normalised else "")))

    @property
    def range_text(self) -> str:
        """The scale after a score, such as `1–10`; empty if none is declared."""
        if self.bounds is None:
            return ""
        low, high = map(plain_number, self.bounds)
        joint = "–" if self.bounds[0] >= 0 else " to "
        return f"{low}{joint}{high}{', normalised' if self.normalised else ''}"

    @property
    def better(self) -> int:
        """1 when more is better, -1 when less is, 0 when it is not stated."""
        return {"": 0, "at least": 1, "exactly": 1}.get(self.direction, -1)

    def limits(self, values: Iterable[float]) -> tuple[float, float] | None:
        """The bounds of such numbers: of the scale, or 0 and 1 of shares without a unit; None if not stated."""
        if self.bounds is not None:
            return self.bounds
        return (0.0, 1.0) if not self.unit and all(0 <= value <= 1 for value in values) else None

    def largest_difference(self, values: Iterable[float]) -> float | None:
        """How far two such numbers can be apart; None where it is not stated."""
        limits = self.limits(values)
        return limits[1] - limits[0] if limits else None

    def negated(self) -> Measure:
        """The measure of an evaluator with an inverted verdict."""
        return replace(self, direction=_OPPOSITE[self.direction])

    def scale(self, values: Sequence[float]) -> tuple[float, str, str]:
        """The factor for numbers in a comparison, and the texts before and after each."""
        if self.unit == "USD":
            return 1.0, "$", ""
        if self.unit != "ms":
            return 1.0, "", f" {self.unit}" if self.unit else ""
        seconds = max(map(abs, values), default=0.0) >= _SECONDS_FROM
        return (0.001, "", " s") if seconds else (1.0, "", " ms")

    def texts(self, *values: float) -> tuple[str, ...]:
        """Numbers with their unit, with as many figures as it takes to tell them apart."""
        factor, before, after = self.scale(values)
        return tuple(
            f"{before}{text}{after.removesuffix('s') if text == '1' and len(after) > 3 else after}"
            for text in _told_apart([value * factor for value in values])
        )

    def limit(self, text: str, on_it: bool = False) -> str:
        """A threshold with its condition; `on_it` if a number failed that equals the threshold."""
        if on_it and self.direction == "at most":
            return f"below {text}"
        return f"{self.direction or 'at least'} {text}"


_BOUNDS = re.compile(r"(?:^| )from (-?[\d.e+-]+) to (-?[\d.e+-]+)( normalised)?$")


@lru_cache(maxsize=256)
def parse_measure(text: str) -> Measure:
    """A measure from its text."""
    found = _BOUNDS.search(text)
    rest, bounds = (text[: found.start()], (float(found[1]), float(found[2]))) if found else (text, None)
    normalised = found is not None and found[3] is not None
    for direction in get_args(Direction):
        if direction and (rest == direction or rest.startswith(f"{direction} ")):
            return Measure(direction, rest[len(direction) :].strip(), bounds, normalised)
    return Measure("", rest, bounds, normalised)


def common_measure(texts: Iterable[str]) -> str:
    """The common measure of scores; those of several scales have to be normalized first."""
    known = set(texts)
    bounded = {measure.bounds: measure for measure in map(parse_measure, sorted(known)) if measure.bounds}
    if len(bounded) < 2:
        return max(known, default="")
    measure = next(iter(bounded.values()))
    return str(replace(measure, bounds=(0.0, 1.0), normalised=True))


def on_common_scale(score: float, measure: str, common: str) -> float | None:
    """A score among others: where these are normalised its place between the ends of its scale, None without one."""
    if not parse_measure(common).normalised:
        return score
    bounds = parse_measure(measure).bounds
    return None if bounds is None else (score - bounds[0]) / (bounds[1] - bounds[0])


def score_figures(score: float | None, threshold: float | None, result: str | None, measure: str) -> str:
    """A score with its threshold: `1.64 s (at most 1.5 s)`; empty without a score."""
    if score is None:
        return ""
    known = parse_measure(measure)
    scale = f" of {known.range_text}" if known.bounds else ""
    if threshold is None:
        return known.texts(score)[0] + scale
    number, limit = known.texts(score, threshold)
    return f"{number}{scale} ({known.limit(limit, score == threshold and result == 'fail')})"


def _told_apart(numbers: Sequence[float]) -> list[str]:
    texts: list[str] = []
    for figures in range(_FIGURES, _MOST_FIGURES + 1):
        texts = [plain_number(number, figures) for number in numbers]
        if len(set(texts)) == len(set(numbers)):
            break
    return texts


def plain_number(number: float, figures: int = _FIGURES) -> str:
    """A number with this many significant figures, without an exponent unless it is huge or tiny."""
    if number == 0:
        return "0"
    size = floor(log10(abs(number)))
    if not -_MOST_FIGURES < size < _MOST_FIGURES:
        return f"{number:.{figures}g}"
    text = f"{number:,.{max(0, figures - 1 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def money(amount: float) -> str:
    """US dollars with as many decimals as tell something."""
    if amount == 0:
        return "$0"
    if amount < 0.00005:
        return "<$0.0001"
    return f"${amount:.4f}" if amount < 0.1 else f"${amount:.3f}" if amount < 1 else f"${amount:,.2f}"


BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """One token for every four bytes of UTF-8, rounded up: close for prose in any script, never exact."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def tokens_per_second(tokens: int | None, milliseconds: float | None) -> float | None:
    """The pace of an answer over the whole call; None where the one or the other is not known."""
    return 1000 * tokens / milliseconds if tokens and milliseconds else None


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
    """A remaining time in words: in whole seconds, minutes or hours."""
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
    """The token counts of a call, an answer or a whole run."""

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
    """A score in at most four cells, a minus not counted: two decimals, fewer where it is large."""
    size = abs(score)
    if size < 9.995:
        return f"{score:.2f}"
    if size < 999.5:
        return f"{score:.1f}".removesuffix(".0") if size < 99.95 else f"{score:.0f}"
    return f"{'-' if score < 0 else ''}{compact(round(size))}" if math.isfinite(score) else str(score)
