"""Flesch reading ease, frozen as textstat 0.7.3 computes it, and the counts of words, sentences and syllables."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from pydantic import Field

from tui_evals.text.measures import Measure

from .base import CannotJudge, Evaluator, Evidence, Score, ValueOptions, measured_score
from .values import response_texts

MAX_LOOKED_UP = 150_000
"""How many characters of distinct words are looked up in a dictionary before an answer counts as too large."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the formula needs to know of a text."""

    words: int
    sentences: int
    syllables: int

    @property
    def words_per_sentence(self) -> float:
        """The average length of a sentence, rounded to one decimal."""
        return _rounded(self.words / self.sentences, 1)

    @property
    def syllables_per_word(self) -> float:
        """The average length of a word, rounded to one decimal; 0 where there is no word."""
        return _rounded(self.syllables / self.words, 1) if self.words else 0.0

    @property
    def ease(self) -> float:
        """Flesch reading ease: about 100 is easy, below 10 very hard, without a bound either way."""
        return _rounded(206.835 - 1.015 * self.words_per_sentence - 84.6 * self.syllables_per_word, 2)


def flesch_reading_ease(text: str) -> float:
    """The reading ease of an English text; `CannotJudge` where it holds too many different words to look up."""
    return measure_reading(text).ease


def measure_reading(text: str) -> Reading:
    """The words, sentences and syllables of a text; one or two words before a full stop are no sentence."""
    shape = _shape(text)
    sentences = len(re.findall(r"w w w[^.]*", shape))
    return Reading(_count_words(shape), max(1, sentences), syllable_count(text))


def word_count(text: str) -> int:
    """How many words a text has: what white space separates once all punctuation is deleted."""
    return _count_words(_shape(text))


def syllable_count(text: str) -> int:
    """How many syllables a text has: each word one more than the points where it can be hyphenated."""
    dictionary = _hyphenation()
    words = map_characters(
        text.lower(), lambda char: char if is_word_character(char) or char.isspace() else None
    ).split()
    syllables = sum(
        times * (len(dictionary.positions(word)) + 1) for word, times in count_distinct_words(words).items()
    )
    dictionary.hd.cache.clear()  # the library keeps every word it ever saw
    return syllables


def count_distinct_words(words: list[str]) -> Counter[str]:
    """How often each word occurs; `CannotJudge` where looking each of them up would take too long."""
    tally = Counter(words)
    if (size := sum(map(len, tally))) > MAX_LOOKED_UP:
        reason = f"the answer's different words are {size:,} characters together, too many to look each of them up"
        raise CannotJudge("responseTooLarge", reason)
    return tally


def is_word_character(char: str) -> bool:
    """Whether a character belongs to words: a letter, a digit or the underscore."""
    return char.isalnum() or char == "_"


def map_characters(text: str, kind: Callable[[str], str | None]) -> str:
    """The text with every character replaced by its kind, or dropped where that is None."""
    return text.translate(_CharacterKinds(kind))


class _CharacterKinds(dict[int, str | None]):
    """A translation table that asks for the kind of a character once."""

    def __init__(self, kind: Callable[[str], str | None]) -> None:
        super().__init__()
        self.kind = kind

    def __missing__(self, code: int) -> str | None:
        self[code] = kind = self.kind(chr(code))
        return kind


def _shape(text: str) -> str:
    """The text as `w` for a word, a blank and `.` for the end of a sentence, each run of one kind as one of it."""
    shape = map_characters(text, _character_kind)
    for run in ("ww", "  "):
        while run in shape:
            shape = shape.replace(run, run[0])
    return shape


def _character_kind(char: str) -> str | None:
    if is_word_character(char):
        return "w"
    if char.isspace():
        return " "
    return "." if char in ".!?" else None


def _count_words(shape: str) -> int:
    return f" {shape.replace('.', '')}".count(" w")


def _rounded(number: float, places: int) -> float:
    """Rounded half up by a floor, which moves negative numbers one step away from zero, as the frozen formula does."""
    scale = 10.0**places
    return math.floor(number * scale + math.copysign(0.5, number)) / scale


@cache
def _hyphenation() -> Any:
    import pyphen

    return pyphen.Pyphen(lang="en_US")


def answer_text(evidence: Evidence, json_path: str | None) -> str:
    """The text that is measured: the answer, or the values at the JSON path, one a line."""
    return "\n".join(response_texts(evidence, json_path))


class ReadabilityOptions(ValueOptions):
    """The options of Readability."""

    threshold: float | None = Field(
        None, description="The reading ease from which the answer passes; without it the number is shown only."
    )


class Readability(Evaluator):
    """Measures how easy the answer is to read (Flesch reading ease); passes only where you set a threshold.

    90 to 100 is about fifth-grade English, below 10 is extremely hard; very long words push it far below zero. The
    formula and its rounding are those of textstat 0.7.3, and syllables come from the hyphenation of American English,
    so the figure means little for other languages. An empty answer scores 206.84, as in the original.
    """

    name = "Readability"
    aliases = ("readability",)
    family = "Arthur Bench"
    Options = ReadabilityOptions
    example: ClassVar = {"response": "The cat sat on the mat.", "options": {"threshold": 90}}

    def score(self, evidence: Evidence) -> Score:
        """The reading ease of the answer."""
        reading = measure_reading(answer_text(evidence, self.options.json_path))
        return measured_score(
            reading.ease,
            self.options.threshold,
            f"reading ease {reading.ease:g}: {reading.words_per_sentence:g} words a sentence, "
            f"{reading.syllables_per_word:g} syllables a word",
            words=reading.words,
            sentences=reading.sentences,
            syllables=reading.syllables,
        )


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
    measure = Measure("at least")
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
        return measured_score(
            word_count_match(words, closest),
            self.options.threshold,
            f"the answer has {words} words, the reference {closest}",
            words=words,
            reference_words=closest,
        )
