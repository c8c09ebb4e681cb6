"""Limits on time, cost, tokens and length, and the ways an answer may end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from tui_evals.text.measures import Direction, Measure, estimate_tokens
from tui_evals.text.model_output import ENDINGS, ending_word

from .base import (
    Evaluator,
    Evidence,
    Options,
    Score,
    ValueOptions,
    measured_score,
    skipped_score,
    verdict_score,
)
from .values import response_texts


class LimitOptions(Options):
    """Options of evaluators that compare a number with an upper limit."""

    threshold: float | None = Field(
        None,
        ge=0,
        validation_alias=AliasChoices("threshold", "targetThreshold", "target_threshold"),
        description="Passes below this number; without it the number is shown and nothing passes or fails.",
    )


def _limit_score(value: float, threshold: float | None, measure: Measure, note: str = "") -> Score:
    record = measured_score(value, None)
    if record.result == "error":
        return record
    if threshold is None:
        return replace(record, reason=measure.texts(value)[0] + note)
    below = value < threshold
    number, limit = measure.texts(value, threshold)
    reason = f"{number}{note}, {'below' if below else 'not below'} the limit of {limit}"
    return replace(record, result="pass" if below else "fail", threshold=threshold, reason=reason)


_CACHED = " (cached: the call that first gave this answer)"


class Latency(Evaluator):
    """Passes when the answer took less time than the threshold, in milliseconds.

    Exactly the threshold fails. An answer from the cache is judged by the time its call once took. Skipped where no
    time was measured (answers that were captured earlier).
    """

    name = "Latency"
    aliases = ("LATENCY",)
    family = "limits"
    measure = Measure("at most", "ms")
    Options = LimitOptions
    example: ClassVar = {"options": {"threshold": 2000}, "response": "Hello", "latency_ms": 350.0}

    def score(self, evidence: Evidence) -> Score:
        """Compare the time."""
        if evidence.latency_ms is None:
            return skipped_score(f"no time was measured for this {'cached ' if evidence.from_cache else ''}answer")
        note = _CACHED if evidence.from_cache else ""
        return _limit_score(evidence.latency_ms, self.options.threshold, self.measure, note)


class TimeToFirstToken(Evaluator):
    """Passes when the first piece of the answer came in less time than the threshold, in milliseconds.

    Exactly the threshold fails. An answer from the cache is judged by its call. Skipped where the answer did not come
    in pieces: give the target `stream = true`, or its `http` a `stream`.
    """

    name = "TimeToFirstToken"
    family = "limits"
    measure = Measure("at most", "ms")
    Options = LimitOptions
    example: ClassVar = {"options": {"threshold": 500}, "response": "Hello", "first_token_ms": 120.0}

    def score(self, evidence: Evidence) -> Score:
        """Compare the time."""
        if evidence.first_token_ms is None:
            return skipped_score("the answer did not come in pieces; give its target stream = true")
        note = _CACHED if evidence.from_cache else ""
        return _limit_score(evidence.first_token_ms, self.options.threshold, self.measure, note)


class PaceOptions(Options):
    """Options of evaluators that compare a number with a lower limit."""

    threshold: float | None = Field(
        None,
        ge=0,
        description="Passes from here up; without it the number is shown and nothing passes or fails.",
    )


class TokensPerSecond(Evaluator):
    """Passes when the answer came with at least `threshold` tokens per second, over the whole call.

    Skipped if the target reported no tokens, or no time was measured.
    """

    name = "TokensPerSecond"
    family = "limits"
    measure = Measure("at least", "tokens/s")
    Options = PaceOptions
    example: ClassVar = {"options": {"threshold": 20}, "response": "Hello", "tokens_per_second": 64.0}

    def score(self, evidence: Evidence) -> Score:
        """Compare the pace."""
        pace = evidence.tokens_per_second
        if pace is None:
            return skipped_score("the target reported no tokens, or no time was measured")
        threshold = self.options.threshold
        number, *limit = self.measure.texts(pace, *([] if threshold is None else [threshold]))
        wanted = f", wanted at least {limit[0]}" if limit else ""
        note = _CACHED if evidence.from_cache else ""
        return measured_score(pace, threshold, f"{number}{note}{wanted}")


class Cost(Evaluator):
    """Passes when the answer cost less than the threshold, in US dollars.

    Exactly the threshold fails. An answer from the cache is judged by what its call once cost. Skipped for a target
    without a known price: unpriced is not free. Give the target a `price` to have it judged.
    """

    name = "Cost"
    aliases = ("COST",)
    family = "limits"
    measure = Measure("at most", "USD")
    Options = LimitOptions
    example: ClassVar = {"options": {"threshold": 0.01}, "response": "Hello", "cost": 0.0004}

    def score(self, evidence: Evidence) -> Score:
        """Compare the cost."""
        if evidence.cost is None:
            return skipped_score("unpriced: no price is known for this answer; give its target a price")
        note = _CACHED if evidence.from_cache else ""
        return _limit_score(evidence.cost, self.options.threshold, self.measure, note)


class Tokens(Evaluator):
    """Passes when the answer has fewer tokens than the threshold.

    Exactly the threshold fails. Where the target reported no count it is estimated offline, one token for every four
    bytes of UTF-8, and the details say so.
    """

    name = "Tokens"
    family = "limits"
    measure = Measure("at most", "tokens")
    Options = LimitOptions
    example: ClassVar = {"options": {"threshold": 100}, "response": "Hello", "tokens": 2}

    def score(self, evidence: Evidence) -> Score:
        """Compare the count, or the estimate."""
        estimated = evidence.tokens is None
        count = estimate_tokens(evidence.response or "") if evidence.tokens is None else evidence.tokens
        record = _limit_score(count, self.options.threshold, self.measure)
        reason = f"about {record.reason}" if estimated else record.reason
        return replace(record, reason=reason, details={"estimated": estimated})


class LengthOptions(ValueOptions):
    """Options of Length."""

    unit: Literal["characters", "words", "tokens", "lines"] = Field(
        "characters",
        description="What is counted; words are what white space parts, tokens an estimate of four bytes each.",
    )
    at_least: int | None = Field(None, ge=0, validation_alias="atLeast", description="The smallest count that passes.")
    at_most: int | None = Field(None, ge=0, validation_alias="atMost", description="The largest count that passes.")

    @model_validator(mode="after")
    def _bounds_in_order(self) -> LengthOptions:
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least:,} is more than at_most {self.at_most:,}: nothing would pass")
        return self


_COUNTS: Mapping[str, Callable[[str], int]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "tokens": estimate_tokens,
    "lines": lambda text: len(text.splitlines()),
}


class Length(Evaluator):
    """Passes when the answer is not too long and not too short, in characters, words, tokens or lines.

    Both bounds are inclusive; without any the number is shown and nothing passes or fails. Tokens are estimated, one
    for every four bytes of UTF-8, and of the answer alone. With json_path every matching text must keep the bounds, and
    the first that does not is shown.
    """

    name = "Length"
    family = "limits"
    Options = LengthOptions
    example: ClassVar = {"options": {"unit": "words", "at_most": 50}, "response": "Hello, how can I help?"}

    def score(self, evidence: Evidence) -> Score:
        """Compare the count with the bounds."""
        unit, low, high = self.options.unit, self.options.at_least, self.options.at_most
        counts = [_COUNTS[unit](text) for text in response_texts(evidence, self.options.json_path)]
        breaches = [each for each in counts if not (low or 0) <= each <= (each if high is None else high)]
        count = (breaches or counts)[0]
        text = f"{count:,} {unit if count != 1 else unit[:-1]}"
        words: tuple[tuple[Direction, int | None], ...] = (("at least", low), ("at most", high))
        bounds = [(word, bound) for word, bound in words if bound is not None]
        if not bounds:
            return Score(float(count), reason=text, measure=unit)
        result: Literal["pass", "fail"] = "fail" if breaches else "pass"
        reason = f"{text}, wanted {' and '.join(f'{word} {bound:,}' for word, bound in bounds)}"
        if len(bounds) > 1:  # a score is shown with one threshold
            return Score(float(count), result, None, None, reason, {}, unit)
        measure = Measure(bounds[0][0], unit)
        shown = measure.negated() if self.options.negate else measure
        return Score(float(count), result, float(bounds[0][1]), None, reason, {}, str(shown))


class FinishReasonOptions(Options):
    """Options of FinishReason."""

    allowed: Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)] = Field(
        ["stop", "tool_calls"],
        min_length=1,
        validation_alias=AliasChoices("allowed", "expected"),
        description="stop, tool_calls, length, content_filter, refusal, or what the target calls it; one or a list.",
    )


class FinishReason(Evaluator):
    """Passes when the answer ended in one of the ways that are allowed: as usual, unless others are named.

    The words are the same for every provider: an answer that its filter withheld ended with content_filter, one that
    the model itself refused with refusal. Skipped where the target does not say how its answers end.
    """

    name = "FinishReason"
    family = "limits"
    Options = FinishReasonOptions
    example: ClassVar = {"options": {"allowed": ["stop"]}, "response": "Hello", "finish_reason": "end_turn"}

    def score(self, evidence: Evidence) -> Score:
        """Compare how it ended."""
        ending = ending_word(evidence.finish_reason, evidence.diagnostics)
        if not ending:
            return skipped_score("the target does not say how the answer ended")
        allowed = [ending_word(word) for word in self.options.allowed]
        passed = ending in allowed
        reason = f"it was {ENDINGS[ending]} ({ending})" if ending in ENDINGS else f"it ended with {ending}"
        return verdict_score(passed, reason if passed else f"{reason}; allowed is {', '.join(allowed)}")
