"""How an answer is written: readability, length, specific words, language."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar

from pydantic import Field

from tui_evals.light_records import dataclass
from tui_evals.text.measures import Measure
from tui_evals.text.names import did_you_mean

from .base import (
    CannotJudge,
    Evaluator,
    Evidence,
    Misconfigured,
    Score,
    ValueOptions,
    is_installed,
    measured_score,
    skipped_score,
)
from .values import response_texts

MAX_LOOKED_UP = 150_000
"""How many characters of distinct words are looked up in a dictionary before an answer counts as too large."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The counts in a text that the formula needs."""

    words: int
    sentences: int
    syllables: int

    @property
    def words_per_sentence(self) -> float:
        """The average length of a sentence, rounded to one decimal."""
        return _rounded(self.words / self.sentences, 1)

    @property
    def syllables_per_word(self) -> float:
        """The average syllables of a word, rounded to one decimal; 0 without words."""
        return _rounded(self.syllables / self.words, 1) if self.words else 0.0

    @property
    def ease(self) -> float:
        """Flesch reading ease: about 100 is easy, below 10 very hard, without a bound either way."""
        return _rounded(206.835 - 1.015 * self.words_per_sentence - 84.6 * self.syllables_per_word, 2)


def flesch_reading_ease(text: str) -> float:
    """The reading ease of an English text; `CannotJudge` where it holds too many different words to look up."""
    return measure_reading(text).ease


def measure_reading(text: str) -> Reading:
    """The words, sentences and syllables of a text; one or two words before a period are not a sentence."""
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
    """The text with `w` for a word, a blank, and `.` for the end of a sentence; repeated ones are merged."""
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


_VAGUE = (  # "most" is there twice, as in the original, which counts it twice
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
    shape = map_characters(plain, _specific_kind)
    while "  " in shape:
        shape = shape.replace("  ", " ")
    numbers = len(re.findall(r"1[^ ]*", shape))
    names = len(re.findall(r"A(?<=[^. ] A)[^ 1]*+(?= |$)", shape))
    return min(1.0, 5.0 * (numbers + names) / words)


_NO_TAGGER = (
    "with compat it counts names and numbers by the tagger of Arthur Bench, which is not here: pip install nltk, then "
    "python -m nltk.downloader punkt_tab averaged_perceptron_tagger_eng"
)


@cache
def _load_tagger() -> Callable[[str], list[str]]:
    """A tagger for words; raises Misconfigured without nltk or its data."""
    try:
        nltk: Any = import_module("nltk")
        nltk.pos_tag(nltk.word_tokenize("One."))
    except (ImportError, LookupError):
        raise Misconfigured(_NO_TAGGER) from None
    return lambda text: [tag for _, tag in nltk.pos_tag(nltk.word_tokenize(text))]


def tagged_names_and_numbers(text: str, words: int) -> float:
    """The share of names and numbers as Arthur Bench counts them, by the tags NNP and CD."""
    return min(1.0, 5.0 * sum(tag in ("NNP", "CD") for tag in _load_tagger()(text)) / words)


def specificity_score(clarity: float, rarity: float, naming: float) -> float:
    """The score: a third of each part, 0.99 at most."""
    return 0.33 * clarity + 0.33 * rarity + 0.33 * naming


def _specific_kind(char: str) -> str | None:
    """`A` for upper case, `1` for digits, `a` for other word characters, a blank, or `.` for the end of a sentence."""
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
    compat: bool = Field(
        False,
        description="Count names and numbers as Arthur Bench does, by the tagger of nltk, which must be installed.",
    )


class Specificity(Evaluator):
    """Measures how specific the answer's wording is; passes only where you set a threshold.

    The score is a third each of: few vague words ("some", "about", "usually", also inside other words), words that
    are rare in English, and names and numbers (words that hold a digit, or begin upper-case elsewhere than at the
    start of a sentence or line, "I" aside; with `compat`, what nltk tags so). It reaches from 0 to 0.99; an answer
    without words scores 0. Rarity needs `pip install 'tui-evals[specificity]'`.
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
        if not is_installed("wordfreq"):
            return _MISSING
        return _NO_TAGGER if self.options.compat and not is_installed("nltk") else None

    def score(self, evidence: Evidence) -> Score:
        """A third of each part."""
        text = answer_text(evidence, self.options.json_path)
        words = word_count(text)
        if not words:
            return measured_score(0.0, self.options.threshold, "there is no word that could be specific", words=0)
        naming = (tagged_names_and_numbers if self.options.compat else names_and_numbers)(text, words)
        clarity, rare_words = not_vague(text, words), rarity(text)
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


READ_CHARS = 20_000
"""How much of an answer is looked at."""
_NO_LANGUAGES = (
    "detecting languages needs the library py3langid, which is not installed: pip install 'tui-evals[language]'"
)
_worker = ThreadPoolExecutor(1, "language")  # its model takes two seconds to load, and is loaded once

Code = Annotated[str, Field(pattern="^[a-z]{2,3}$")]


@cache
def load_identifier() -> Any:
    """The language identifier, or None if the library is not installed."""
    try:
        library = import_module("py3langid.langid")
    except ImportError:
        return None
    return library.LanguageIdentifier.from_model_file(library.MODEL_FILE, norm_probs=True)


def _probabilities(text: str) -> dict[str, float] | None:
    identifier = load_identifier()
    if identifier is None:
        return None
    return {str(code): float(share) for code, share in identifier.rank(text)}


class LanguageOptions(ValueOptions):
    """Options of Language."""

    languages: list[Code] = Field(
        min_length=1, description="The languages that are right, as ISO codes such as en, de, pt, zh."
    )
    among: list[Code] | None = Field(
        None, min_length=1, description="Tell between these and the right ones only, which helps with short answers."
    )
    least_letters: int = Field(
        20, ge=1, validation_alias="leastLetters", description="An answer of fewer letters is skipped."
    )
    threshold: float = Field(0.5, ge=0, le=1, description="The probability, of 0 to 1, from which it passes.")


class Language(Evaluator):
    """Passes when the answer is written in one of the languages.

    The score is the probability of the right languages together, as the library py3langid reckons it from the letters
    of the first 20,000 characters; code and names count like any letters. Short texts are often taken for another
    language: say with `among` which there can be. An answer with fewer letters than `least_letters` is skipped. It
    needs `pip install 'tui-evals[language]'`.
    """

    name = "Language"
    family = "text"
    measure = Measure("at least")
    Options = LanguageOptions
    example: ClassVar = {
        "options": {"languages": ["de"]},
        "response": "Guten Tag, wie kann ich Ihnen heute weiterhelfen?",
    }

    def obstacle(self) -> str | None:
        """The library that is not there."""
        return None if is_installed("py3langid") else _NO_LANGUAGES

    async def score(self, evidence: Evidence) -> Score:
        """How probable the right languages are."""
        text = "\n".join(response_texts(evidence, self.options.json_path))[:READ_CHARS]
        text = text.encode("utf-8", "replace").decode()
        letters = sum(map(str.isalpha, text))
        if letters < self.options.least_letters:
            return skipped_score(f"{letters} letters are too few to tell a language, of {self.options.least_letters}")
        known = await asyncio.get_running_loop().run_in_executor(_worker, _probabilities, text)
        if known is None:
            raise Misconfigured(_NO_LANGUAGES)
        wanted = dict.fromkeys(self.options.languages)
        candidates = dict.fromkeys((*wanted, *(known if self.options.among is None else self.options.among)))
        for code in candidates:
            if code not in known:
                raise Misconfigured(f"the language {code!r} is not known to py3langid{did_you_mean(code, known)}")
        whole = sum(known[code] for code in candidates)
        shares = {code: known[code] / whole if whole else 0.0 for code in candidates}
        share = min(sum(shares[code] for code in wanted), 1.0)
        likely = max(shares, key=lambda code: shares[code])
        reason = f"the answer reads like {likely} ({shares[likely]:.0%}), wanted {' or '.join(wanted)}"
        return measured_score(share, self.options.threshold, reason, label=likely)
