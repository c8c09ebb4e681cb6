"""Overlap of the answer with references: edit distance, ROUGE and BLEU."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from tui_evals.text.measures import Measure

from .base import (
    CannotJudge,
    Evaluator,
    Evidence,
    Misconfigured,
    Score,
    ValueOptions,
    is_installed,
    measured_score,
)
from .text import ValueTextOptions
from .values import quoted, response_texts, target_texts

MAX_COMPARED = 10_000_000_000
"""Characters of one text times those of the other, with which the time of counting edits grows: a fifth of a second."""


class LevenshteinOptions(ValueTextOptions):
    """Options of Levenshtein."""

    threshold: float | None = Field(
        None, ge=0, le=1, description="The similarity, of 0 to 1, from which it passes; 0.8 if no bound is given."
    )
    most_edits: int | None = Field(
        None, ge=0, validation_alias="mostEdits", description="The most edits it may take, instead of a threshold."
    )

    @model_validator(mode="after")
    def _one_bound(self) -> LevenshteinOptions:
        if self.threshold is not None and self.most_edits is not None:
            raise ValueError("threshold and most_edits are two ways to say how near is near enough; give one of them")
        return self


class Levenshtein(Evaluator):
    """Passes when few single-character edits (insert, delete, replace) turn the answer into a reference.

    The score is the similarity: 1 minus the edits as a share of the longer text, 1 for the same text. With
    `most_edits` the number of edits is bounded instead. With several references the nearest one counts. Texts of much
    more than 100,000 characters are an error.
    """

    name = "Levenshtein"
    family = "text"
    measure = Measure("at least")
    Options = LevenshteinOptions
    example: ClassVar = {"options": {"threshold": 0.8}, "response": "Montreal", "expected": "Montréal"}

    def score(self, evidence: Evidence) -> Score:
        """The similarity to the nearest reference."""
        from rapidfuzz.distance import Levenshtein as Distance  # imported when it is wanted: a run may not need it

        fold = str.casefold if self.options.ignore_case else str
        nearest: tuple[float, int, str] | None = None
        for text in map(fold, response_texts(evidence, self.options.json_path)):
            for reference in target_texts(evidence, self.options.value_list):
                other = fold(reference)
                if len(text) * len(other) > MAX_COMPARED:
                    reason = f"{len(text):,} and {len(other):,} characters are too many to count the edits between"
                    raise CannotJudge("responseTooLarge", reason)
                edits = Distance.distance(text, other)
                similarity = 1.0 - edits / max(len(text), len(other), 1)
                if nearest is None or similarity > nearest[0]:
                    nearest = similarity, edits, reference
        assert nearest is not None  # both sides have at least one text
        similarity, edits, reference = nearest
        reason = f"{edits:,} {'edit' if edits == 1 else 'edits'} from {quoted(reference)}, similarity {similarity:.3f}"
        if (most := self.options.most_edits) is not None:
            result: Literal["pass", "fail"] = "pass" if edits <= most else "fail"
            return Score(similarity, result, None, None, f"{reason}; at most {most:,} pass", {"edits": edits})
        threshold = 0.8 if self.options.threshold is None else self.options.threshold
        return measured_score(similarity, threshold, reason, edits=edits)


_WORD = re.compile(r"\w+")


def _ngrams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(size)), strict=False))


class RougeNOptions(ValueTextOptions):
    """Options of RougeN."""

    n: int = Field(1, ge=1, le=9, description="How many words in a row are compared.")
    part: Literal["f1", "precision", "recall"] = Field(
        "f1", description="What is scored: recall is the share of the reference's n-grams, precision of the answer's."
    )
    threshold: float | None = Field(
        0.75, ge=0, le=1, description="The score, of 0 to 1, from which it passes; null only shows the number."
    )


class RougeN(Evaluator):
    """Passes when the answer shares enough words, or runs of `n` words, with a reference (ROUGE-N).

    Words are runs of letters, digits and underscores of any script, in lower case and not stemmed; each n-gram counts
    as often as it stands in both. With several references the best one counts. On texts of ASCII letters and digits it
    is what the library rouge-score gives without its stemmer.
    """

    name = "RougeN"
    family = "text"
    measure = Measure("at least")
    Options = RougeNOptions
    example: ClassVar = {
        "options": {"threshold": 0.7},
        "response": "The shop closes at six.",
        "expected": "The shop closes at six today.",
    }

    def score(self, evidence: Evidence) -> Score:
        """The best overlap of any text of the answer with any reference."""
        size = self.options.n
        answers = [_ngrams(_words(text), size) for text in response_texts(evidence, self.options.json_path)]
        best: dict[str, Any] = {"f1": 0.0, "precision": 0.0, "recall": 0.0}
        for reference in target_texts(evidence, self.options.value_list):
            wanted = _ngrams(_words(reference), size)
            for answer in answers:
                figures = _overlap(answer, wanted)
                best = max(best, figures, key=lambda each: each[self.options.part])
        reason = f"ROUGE-{size} precision {best['precision']:.3f}, recall {best['recall']:.3f}, F1 {best['f1']:.3f}"
        return measured_score(best[self.options.part], self.options.threshold, reason, **best)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _overlap(answer: Counter[tuple[str, ...]], reference: Counter[tuple[str, ...]]) -> dict[str, Any]:
    shared = (answer & reference).total()
    precision, recall = (shared / max(side.total(), 1) for side in (answer, reference))
    f1 = 2 * precision * recall / (precision + recall) if shared else 0.0
    return {"f1": f1, "precision": precision, "recall": recall}


_MISSING = "BLEU is computed by the library sacrebleu, which is not installed: pip install 'tui-evals[bleu]'"
READ_CHARS = 100_000
"""How much of a text is compared; the library takes minutes over megabytes."""


@cache
def load_bleu() -> Any:
    """What computes BLEU, or None where the library is not installed."""
    try:
        return import_module("sacrebleu.metrics.bleu").BLEU(effective_order=True)
    except ImportError:
        return None


def best_bleu(
    evidence: Evidence, references: Sequence[str], json_path: str | None, fold: Callable[[str], str] = str
) -> float:
    """The best BLEU, of 0 to 100, of any text of the answer over all references; CannotJudge without the library."""
    bleu = load_bleu()
    if bleu is None:
        raise Misconfigured(_MISSING)
    compared = [fold(reference[:READ_CHARS]) for reference in references]
    texts = response_texts(evidence, json_path)
    return max(float(bleu.sentence_score(fold(text[:READ_CHARS]), compared).score) for text in texts)


class TranslateOptions(ValueOptions):
    """Options of Translate."""

    threshold: float = Field(30.0, ge=0, le=100, description="The BLEU above which it passes; exactly that fails.")


class Translate(Evaluator):
    """Passes when the answer is close enough to the reference translations: a sentence BLEU of more than 30.

    The score is BLEU from 0 to 100 over all references together, orders without any n-gram left out, as Translate of
    OpenAI Evals has it. Only the first 100,000 characters are compared. It needs the library sacrebleu, which does not
    come along: `pip install 'tui-evals[bleu]'`; without it the record is an error.
    """

    name = "Translate"
    family = "OpenAI basic"
    measure = Measure("at least")
    needs = ("response", "expected")
    Options = TranslateOptions
    example: ClassVar = {
        "response": "The cat sits on the mat.",
        "expected": "The cat sits on the mat.",
    }

    def obstacle(self) -> str | None:
        """The library that is not there."""
        return None if is_installed("sacrebleu") else _MISSING

    def score(self, evidence: Evidence) -> Score:
        """The best BLEU of any text of the answer."""
        best = best_bleu(evidence, evidence.references, self.options.json_path)
        passed = best > self.options.threshold
        reason = f"BLEU {best:.1f}, and it passes above {self.options.threshold:g}"
        return Score(best, "pass" if passed else "fail", self.options.threshold, None, reason, {"bleu": best})


class BleuOptions(ValueTextOptions):
    """Options of Bleu."""

    threshold: float | None = Field(
        0.5, ge=0, le=1, description="The BLEU, of 0 to 1, from which it passes; null only shows the number."
    )


class Bleu(Evaluator):
    """Passes when the answer shares enough runs of one to four words with the references (BLEU), from 0 to 1.

    It is sentence BLEU over all references together, orders without any n-gram left out, divided by 100 so that its
    threshold is one like those of other measures; Translate gives the same figure as OpenAI Evals writes it. Only the
    first 100,000 characters are compared. It needs the library sacrebleu: `pip install 'tui-evals[bleu]'`.
    """

    name = "Bleu"
    family = "text"
    measure = Measure("at least")
    Options = BleuOptions
    example: ClassVar = {
        "options": {"threshold": 0.5},
        "response": "The cat sits on the mat.",
        "expected": "The cat sits on the mat.",
    }

    def obstacle(self) -> str | None:
        """The library that is not there."""
        return None if is_installed("sacrebleu") else _MISSING

    def score(self, evidence: Evidence) -> Score:
        """The best BLEU of any text of the answer."""
        fold = str.casefold if self.options.ignore_case else str
        references = target_texts(evidence, self.options.value_list)
        best = best_bleu(evidence, references, self.options.json_path, fold) / 100
        return measured_score(best, self.options.threshold, f"BLEU {best:.3f}")
