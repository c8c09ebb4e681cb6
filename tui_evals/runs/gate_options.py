"""The options that set gates: how to read each, and what it requires."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.store.records import RunRow

LEVEL = 0.05
"""The level of `--fail-on-regression` without a number: a smaller p value is a regression."""


MAX_MISSING = 5.0
"""The percentage of answers that may be missing or unjudged before no gate is met."""


WORST = ("fail", "partial", "error")


def _percentage(value: Any) -> float:
    return _number(value, "a number from 0 to 100", lambda number: 0 <= number <= 100)


def _level(value: Any) -> float:
    return _number(value, "a number between 0 and 1", lambda number: 0 < number < 1)


def _count(value: Any) -> int:
    return int(_number(value, "a whole number from 1", lambda number: number >= 1 and number == int(number)))


def _number(value: Any, what: str, fits: Callable[[float], bool]) -> float:
    try:
        number = nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = nan
    if not isfinite(number) or not fits(number):
        raise ValueError(f"{value!r} is not {what}")
    return number


def _worst(value: Any) -> str:
    if value in WORST:
        return str(value)
    raise ValueError(f"{value!r} is not one of {', '.join(WORST)}")


def _items(value: Any) -> str:
    """The items that must pass, parted by commas; a list in an experiment comes to the same."""
    from tui_evals.runs.selection import items_named  # when it is given: few runs need it

    parts = [part for one in (value if isinstance(value, list | tuple) else [value]) for part in str(one).split(",")]
    text = ", ".join(filter(None, map(str.strip, parts)))
    if isinstance(value, bool) or not text:
        raise ValueError(f"{value!r} names no items, as in MT-1, tag:critical, category:billing")
    items_named(text, ())
    return text


def _run(value: Any) -> str:
    return str(value)


@dataclass(frozen=True, slots=True)
class GateOption:
    """An option that sets a gate, or what gates look at."""

    name: str
    """The field of `Gates`, and the parameter of the library's `gate`."""
    metavar: str
    help: str
    read: Callable[[Any], Any]
    """Returns the value of a text or a number; ValueError describes valid ones."""
    alone: str = ""
    """The value of the option without one; empty where it needs one."""

    @property
    def flag(self) -> str:
        """The option as typed, such as `--fail-under`."""
        return "--" + self.name.replace("_", "-")

    def text(self, value: Any) -> str:
        """The option with its value, such as `--fail-under 80`."""
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        return f"{self.flag}{'=' if self.alone else ' '}{shown}"


OPTIONS = (
    GateOption(
        "fail_under",
        "PERCENT",
        "Exit 1 when fewer of a column's answers pass. Missing and unjudged answers count as not passed.",
        _percentage,
    ),
    GateOption("fail_under_score", "SCORE", "Exit 1 when the mean score of a column, 0 to 100, is less.", _percentage),
    GateOption(
        "must_pass",
        "ITEMS",
        "Exit 1 unless these items pass, as in MT-1,tag:critical.",
        _items,
    ),
    GateOption("fail_on", f"[{'|'.join(WORST)}]", "Exit 1 when an answer is that bad or worse.", _worst),
    GateOption(
        "fail_on_broken",
        "[=N]",
        "Exit 1 when N items (1) that passed in the baseline fail now.",
        _count,
        alone="1",
    ),
    GateOption(
        "fail_on_regression",
        "[=P]",
        f"Exit 1 when the run is worse than the baseline and chance does as much in fewer than P ({LEVEL}) of cases.",
        _level,
        alone=str(LEVEL),
    ),
    GateOption(
        "max_missing",
        "PERCENT",
        f"How much may be unanswered, unjudged or not comparable before no gate is met ({MAX_MISSING:g}).",
        _percentage,
    ),
    GateOption(
        "fail_on_incomplete",
        "[=N]",
        "Exit 1 when N answers (1) have a verdict without an assertion that an import left out.",
        _count,
        alone="1",
    ),
    GateOption(
        "baseline",
        "RUN",
        "Compare with RUN or a results file instead of the baseline that was set.",
        _run,
    ),
)


_BY_NAME: Mapping[str, GateOption] = {option.name: option for option in OPTIONS}


def flags() -> str:
    """All options, for a sentence."""
    *first, last = (option.flag for option in OPTIONS)
    return f"{', '.join(first)} and {last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The gates of a run; None for those that are not set."""

    fail_under: float | None = None
    fail_under_score: float | None = None
    must_pass: str | None = None
    """The items whose answers all have to pass, in the syntax of `items_named`."""
    fail_on: str | None = None
    fail_on_broken: int | None = None
    fail_on_regression: float | None = None
    """The level: how often chance may make as large a difference."""
    max_missing: float | None = None
    fail_on_incomplete: int | None = None
    baseline: str | None = None
    """The run to measure against, as the user named it; otherwise it is the baseline of the dataset."""
    baseline_run: RunRow | None = None
    """The run to compare with, once it is found."""
    rules_of_0_2: bool = False
    """Whether the rules of 0.2 decide the gates whose meaning changed since."""

    @property
    def measuring(self) -> bool:
        """Whether the run is measured against another."""
        return any(one is not None for one in (self.baseline, self.fail_on_broken, self.fail_on_regression))

    @property
    def deciding(self) -> bool:
        """Whether a gate is set that the run may not meet."""
        return any(getattr(self, option.name) is not None for option in OPTIONS if option.name != "baseline")

    @property
    def has_checks(self) -> bool:
        """Whether a gate or a comparison is set."""
        return self.measuring or self.deciding

    @property
    def most_missing(self) -> float:
        """The percentage of answers that may be missing."""
        return MAX_MISSING if self.max_missing is None else self.max_missing

    def text(self, name: str) -> str:
        """The gate `name` with its value, as typed."""
        value = self.most_missing if name == "max_missing" else getattr(self, name)
        return _BY_NAME[name].text(value)


def gates_of(options: Mapping[str, Any]) -> Gates:
    """The gates among options, by name; ValueError names an option with an invalid value.

    True is an option without a value; False and None mean that it was not given.
    """
    given: dict[str, Any] = {}
    for option in OPTIONS:
        value = options.get(option.name)
        if value is None or value is False:
            continue
        try:
            given[option.name] = option.read(option.alone if value is True and option.alone else value)
        except ValueError as problem:
            raise ValueError(f"{option.name}: {problem}") from None
    return Gates(**given)
