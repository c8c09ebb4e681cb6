"""Translate and Bleu: how alike answer and references are, by BLEU as the `sacrebleu` library computes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from pydantic import Field

from tui_evals.text.measures import Measure

from .base import Evaluator, Evidence, Misconfigured, Score, ValueOptions, is_installed, measured_score
from .text import ValueTextOptions
from .values import response_texts, target_texts

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
