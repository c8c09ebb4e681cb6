"""How specific an answer is: few vague words, rare words, names and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from pydantic import Field

from tui_evals.text.measures import Measure

from .base import Evaluator, Evidence, Misconfigured, Score, ValueOptions, is_installed, measured_score
from .readability import answer_text, count_distinct_words, is_word_character, map_characters, word_count

_VAGUE = (  # "most" stands twice, as in the original, which counts it twice
    "around about almost basically approximately nearly roughly some most least good bad nice great may could certain"
    " most might usually typically like sure"
)
_COMMON_FREQUENCY = 0.001
_MISSING = "Specificity needs the wordfreq library: pip install 'tui-evals[specificity]'"


def not_vague(text: str, words: int) -> float:
    """1 where no vague word occurs, 0 where they are a fifth of the words or more; parts of words count too."""
    lower = text.lower()
    vague = sum(map(lower.count, _VAGUE.split()))
    return max(0.0, (words - vague) / words / 0.2 - 4.0)


def rarity(text: str) -> float:
    """1 where the words are rare in English on average, 0 where they are very common."""
    frequency = _load_word_frequency()
    plain = map_characters(
        text.replace("/", " "), lambda char: char if is_word_character(char) or char.isspace() or char == "'" else None
    )
    tally = count_distinct_words(plain.split())
    total = tally.total()
    mean = (
        sum(times * min(frequency(word), _COMMON_FREQUENCY) for word, times in tally.items()) / total
        if total
        else _COMMON_FREQUENCY
    )
    return min(1.0, max(0.0, 2.0 - mean / 0.0004))


def names_and_numbers(text: str, words: int) -> float:
    """1 where a fifth of the words or more hold a digit or begin upper-case elsewhere than at a sentence's start."""
    plain = f". {text}".replace("\n", ". ").replace("’", "'").replace(" I'", " i'").replace(" I ", " i ")
    shape = map_characters(plain, _character_kind)
    while "  " in shape:
        shape = shape.replace("  ", " ")
    numbers = len(re.findall(r"1[^ ]*", shape))
    names = len(re.findall(r"A(?<=[^. ] A)[^ 1]*+(?= |$)", shape))
    return min(1.0, 5.0 * (numbers + names) / words)


def specificity_score(clarity: float, rarity: float, naming: float) -> float:
    """The score: a third of each part, 0.99 at most."""
    return 0.33 * clarity + 0.33 * rarity + 0.33 * naming


def _character_kind(char: str) -> str | None:
    """`A` for upper case, `1` for digits, `a` for what else is in words, a blank, or `.` for the end of a sentence."""
    if char.isspace():
        return " "
    if is_word_character(char):
        return "1" if char.isdigit() else "A" if char.isupper() else "a"
    return "." if char in ".!?" else None


@cache
def _load_word_frequency() -> Callable[[str], float]:
    try:
        wordfreq: Any = import_module("wordfreq")
    except ImportError:
        raise Misconfigured(_MISSING) from None
    return lambda word: float(wordfreq.word_frequency(word.encode("utf-8", "replace").decode(), "en"))


class SpecificityOptions(ValueOptions):
    """The options of Specificity."""

    threshold: float | None = Field(
        None, ge=0, le=1, description="The score from which the answer passes; without it the number is shown only."
    )


class Specificity(Evaluator):
    """Measures how specific the answer's wording is; passes only where you set a threshold.

    The score is a third each of: few vague words ("some", "about", "usually", also inside other words), words that
    are rare in English, and names and numbers (words that hold a digit, or begin upper-case elsewhere than at the
    start of a sentence or line, "I" aside). It reaches from 0 to 0.99; an answer without words scores 0. Rarity needs
    `pip install 'tui-evals[specificity]'`.
    """

    name = "Specificity"
    aliases = ("specificity",)
    family = "Arthur Bench"
    measure = Measure("at least")
    Options = SpecificityOptions
    example: ClassVar = {
        "response": "Marie Curie isolated 0.1 g of radium in Paris in 1902.",
        "options": {"threshold": 0.7},
    }

    def obstacle(self) -> str | None:
        """The library that is not there."""
        return None if is_installed("wordfreq") else _MISSING

    def score(self, evidence: Evidence) -> Score:
        """A third of each part."""
        text = answer_text(evidence, self.options.json_path)
        words = word_count(text)
        if not words:
            return measured_score(0.0, self.options.threshold, "there is no word that could be specific", words=0)
        clarity, rare_words, naming = not_vague(text, words), rarity(text), names_and_numbers(text, words)
        reason = f"not vague {clarity:.2f}, rare words {rare_words:.2f}, names and numbers {naming:.2f}"
        return measured_score(
            specificity_score(clarity, rare_words, naming),
            self.options.threshold,
            reason,
            words=words,
            not_vague=clarity,
            rarity=rare_words,
            names_and_numbers=naming,
        )
