"""How an answer may end."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AliasChoices, BeforeValidator, Field

from tui_evals.text.endings import ENDINGS, ending_word

from .base import Evaluator, Evidence, Options, Score, skipped_score, verdict_score


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
