"""Comparing how many words an answer and its reference have."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from .base import Evaluator, Evidence, Score, ValueOptions, measured
from .readability import answer_text, word_count


def word_count_match(answer: int, reference: int) -> float:
    """1 for equally many words, less by the share of the reference's words that is missing or too many, at least 0."""
    if answer == reference:
        return 1.0
    return max(0.0, (reference - abs(reference - answer)) / reference) if reference else 0.0


class WordCountMatchOptions(ValueOptions):
    """The options of WordCountMatch."""

    threshold: float | None = Field(
        None, ge=0, le=1, description="The match from which the answer passes; without it the number is shown only."
    )


class WordCountMatch(Evaluator):
    """Measures how close the answer's number of words is to the reference's; passes only where you set a threshold.

    The score is (reference - difference) / reference, never below 0, so an answer of double length scores 0; two
    texts without any word match (1). Words are what white space separates once punctuation is deleted, so
    `state-of-the-art` is one word. With several references the closest one counts.
    """

    name = "WordCountMatch"
    aliases = ("word_count_match",)
    family = "Arthur Bench"
    needs = ("response", "expected")
    Options = WordCountMatchOptions
    example: ClassVar = {
        "response": "It leaves at nine in the evening.",
        "expected": "The last train is at nine.",
        "options": {"threshold": 0.8},
    }

    def score(self, evidence: Evidence) -> Score:
        """The match with the closest reference."""
        words = word_count(answer_text(evidence, self.options.json_path))
        closest = max(map(word_count, evidence.references), key=lambda count: word_count_match(words, count))
        return measured(
            word_count_match(words, closest),
            self.options.threshold,
            f"the answer has {words} words, the reference {closest}",
            words=words,
            reference_words=closest,
        )
