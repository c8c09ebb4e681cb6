"""The events of a log of OpenAI Evals, and the final report that is made of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MISSING = "__missing_samples__"


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `series` names the figures it counts into where a run has more than one evaluator or column."""

    type: str
    sample: str
    data: Mapping[str, Any]
    time: float
    series: str = ""
    deviates: bool = False
    """Whether the original reports how far the accuracy may be off."""


@dataclass(slots=True)
class Series:
    """The figures of one evaluator in one column."""

    correct: list[bool] = field(default_factory=list)
    deviates: bool = False
    choices: Counter[str] = field(default_factory=Counter)
    measures: dict[str, list[float]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Count an event in."""
        if event.type == "match":
            self.correct.append(event.data["correct"])
            self.deviates = self.deviates or event.deviates
            return
        for name, value in event.data.items():
            if name == "choice":
                self.choices[str(value)] += 1
            elif value is not None and name != "accuracy":  # which the matches tell
                self.measures.setdefault(name, []).append(float(value))

    def figures(self) -> dict[str, float]:
        """The figures under their names: shares and means, and how often each choice was made."""
        found: dict[str, float] = {}
        if self.correct:
            accuracy = sum(self.correct) / len(self.correct)
            found["accuracy"] = accuracy
            if self.deviates:
                found["boostrap_std"] = math.sqrt(accuracy * (1 - accuracy) / len(self.correct))
        found |= {f"counts/{choice}": count for choice, count in self.choices.items()}
        return found | {name: sum(values) / len(values) for name, values in self.measures.items()}


def report(events: Iterable[Event]) -> dict[str, float]:
    """The final report: the figures of each series, the tokens that were used, and how much could not be judged."""
    series: dict[str, Series] = {}
    usage: Counter[str] = Counter()
    missing = 0
    for event in events:
        if event.type in ("match", "metrics"):
            series.setdefault(event.series, Series()).take(event)
        elif event.type == "sampling":
            usage.update(event.data.get("usage") or {})
        missing += event.type == "error"
    found: dict[str, float] = {}
    for name, one in series.items():
        found |= {_named(figure, name): value for figure, value in one.figures().items()}
    found |= {f"usage_{name}": count for name, count in usage.items()}
    return found | ({MISSING: missing} if missing else {})


def _named(figure: str, series: str) -> str:
    """`counts/Yes` of a series is `counts/SERIES/Yes`, every other figure `FIGURE/SERIES`."""
    head, slash, choice = figure.partition("/")
    return "/".join(filter(None, (head, series, choice if slash else "")))
