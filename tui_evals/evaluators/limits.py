"""Limits an answer must stay below: time, money, tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import AliasChoices, Field

from tui_evals.text.tokens import estimate_tokens

from .base import Evaluator, Evidence, Options, Score, measured_score, skipped_score


class LimitOptions(Options):
    """Options of what compares a number with a limit."""

    threshold: float | None = Field(
        None,
        ge=0,
        validation_alias=AliasChoices("threshold", "targetThreshold", "target_threshold"),
        description="Passes below this number; without it the number is shown and nothing passes or fails.",
    )


def _limit_score(value: float, threshold: float | None, value_text: str) -> Score:
    record = measured_score(value, None, value_text)
    if threshold is None or record.result == "error":
        return record
    below = value < threshold
    reason = f"{value_text}, {'below' if below else 'not below'} the limit of {threshold:g}"
    return replace(record, result="pass" if below else "fail", threshold=threshold, reason=reason)


def _of_first_call(text: str, evidence: Evidence) -> str:
    """A figure, with a word where it is that of an earlier call."""
    return f"{text} (cached: the call that first gave this answer)" if evidence.from_cache else text


class Latency(Evaluator):
    """Passes when the answer took less time than the threshold, in milliseconds.

    Exactly the threshold fails. An answer from the cache is judged by the time its call once took. Skipped where no
    time was measured (answers that were captured earlier).
    """

    name = "Latency"
    aliases = ("LATENCY",)
    family = "limits"
    Options = LimitOptions
    example: ClassVar = {"options": {"threshold": 2000}, "response": "Hello", "latency_ms": 350.0}

    def score(self, evidence: Evidence) -> Score:
        """Compare the time."""
        if evidence.latency_ms is None:
            return skipped_score(f"no time was measured for this {'cached ' if evidence.from_cache else ''}answer")
        text = _of_first_call(f"{evidence.latency_ms:.0f} ms", evidence)
        return _limit_score(evidence.latency_ms, self.options.threshold, text)


class Cost(Evaluator):
    """Passes when the answer cost less than the threshold, in US dollars.

    Exactly the threshold fails. An answer from the cache is judged by what its call once cost. Skipped for a target
    without a known price: unpriced is not free. Give the target a `price` to have it judged.
    """

    name = "Cost"
    aliases = ("COST",)
    family = "limits"
    Options = LimitOptions
    example: ClassVar = {"options": {"threshold": 0.01}, "response": "Hello", "cost": 0.0004}

    def score(self, evidence: Evidence) -> Score:
        """Compare the cost."""
        if evidence.cost is None:
            return skipped_score("unpriced: no price is known for this answer; give its target a price")
        return _limit_score(evidence.cost, self.options.threshold, _of_first_call(f"${evidence.cost:.6f}", evidence))


class Tokens(Evaluator):
    """Passes when the answer has fewer tokens than the threshold.

    Exactly the threshold fails. Where the target reported no count it is estimated offline, one token for every four
    bytes of UTF-8, and the details say so.
    """

    name = "Tokens"
    family = "limits"
    Options = LimitOptions
    example: ClassVar = {"options": {"threshold": 100}, "response": "Hello", "tokens": 2}

    def score(self, evidence: Evidence) -> Score:
        """Compare the count, or the estimate."""
        estimated = evidence.tokens is None
        count = estimate_tokens(evidence.response or "") if evidence.tokens is None else evidence.tokens
        count_text = f"{'about ' if estimated else ''}{count} tokens"
        return replace(_limit_score(count, self.options.threshold, count_text), details={"estimated": estimated})
