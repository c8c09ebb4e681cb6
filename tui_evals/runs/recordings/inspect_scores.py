"""What Inspect's scorers made of a sample, as records of evaluators under keys that a dataset may hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui_evals.datasets.losses import Losses
from tui_evals.store.records import ScoreRecord

from .inspect_shapes import Sample, Score, Scorer

Scored = tuple[str, str]
"""A scorer, and the part of its value where that has several."""

_LETTERS: Mapping[str, tuple[float, str | None]] = {
    "C": (1.0, "pass"),
    "I": (0.0, "fail"),
    "N": (0.0, "fail"),
    "P": (0.5, None),
}
"""Correct, incorrect, no answer, partly correct: as Inspect's accuracy counts them."""


def keys_for(samples: Sequence[Sample]) -> dict[Scored, str]:
    """The key of each scorer and part in the order they are met, no two the same."""
    found: dict[Scored, str] = {}
    for sample in samples:
        for name, score in (sample.scores or {}).items():
            for part, _ in _parts(score.value):
                if (name, part) not in found:
                    found[name, part] = _free(_plain(f"{name}_{part}" if part else name), set(found.values()))
    return found


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return plain if plain[:1].isalpha() and plain.isascii() else f"s_{plain}"


def _free(wanted: str, taken: set[str]) -> str:
    key, number = wanted, 2
    while key in taken:
        key, number = f"{wanted}_{number}", number + 1
    return key


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a value: those of an object by name, of a list by number, else the value itself."""
    match value:
        case dict():
            yield from ((str(name), part) for name, part in value.items())
        case list():
            yield from ((str(number), part) for number, part in enumerate(value, 1))
        case _:
            yield "", value


def records_of(sample: Sample, keys: Mapping[Scored, str], losses: Losses) -> tuple[ScoreRecord, ...]:
    """The records of a sample, one for each scorer and each part of its value."""
    return tuple(
        _record(keys[name, part], name, value, score, losses)
        for name, score in (sample.scores or {}).items()
        for part, value in _parts(score.value)
    )


def _record(key: str, scorer: str, value: Any, score: Score, losses: Losses) -> ScoreRecord:
    number, result, label = _read(value)
    reason = score.explanation or ""
    if result == "skipped":
        reason = reason or "the scorer gave no number"
        losses.changed(f"scores of {scorer} without a number", why="they count as not measured")
    elif label == "P":
        losses.changed(f"scores P of {scorer}", why="a half counts in the mean and has no verdict")
    elif number is None:
        losses.changed(f"words as scores of {scorer}", why="a word is kept as a label and has no number")
    details = {"answer": score.answer, "reason": score.reason, **(score.metadata or {})}
    return ScoreRecord(
        key=key,
        evaluator=scorer,
        score=number,
        result=result,
        label=label,
        reason=reason,
        details={name: finite(one) for name, one in details.items() if one is not None},
    )


def _read(value: Any) -> tuple[float | None, str | None, str | None]:
    """Number, verdict and label of a value; numbers are no verdicts, and what is no number was not measured."""
    if isinstance(value, bool):
        return float(value), "pass" if value else "fail", None
    if isinstance(value, str):
        number, result = _LETTERS.get(value, (None, None))
        return number, result, value
    if value is None or not math.isfinite(value) or abs(value) > 1e300:
        return None, "skipped", None
    return float(value), None, None


def finite(value: Any) -> Any:
    """Plain data in which NaN and the infinities are words, since JSON has no such numbers."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {name: finite(one) for name, one in value.items()}
        case list():
            return [finite(one) for one in value]
        case _:
            return value


def evaluators_for(keys: Mapping[Scored, str], scorers: Sequence[Scorer], losses: Losses) -> dict[str, dict[str, Any]]:
    """The evaluators of new runs of the dataset: those scorers that have an equal here."""
    options = {scorer.name: scorer.options or {} for scorer in scorers}
    found: dict[str, dict[str, Any]] = {}
    for (name, part), key in keys.items():
        if name in ("includes", "inspect_ai/includes") and not part:
            found[key] = {
                "type": "Includes",
                "ignore_case": options.get(name, {}).get("ignore_case", True) is not False,
            }
        else:
            why = "no evaluator here judges in the same way; its recorded scores are kept"
            losses.left_out(f"the scorer {name} for new runs of the dataset", why=why)
    return found
