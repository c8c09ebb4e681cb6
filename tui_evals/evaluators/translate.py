"""Translate: how alike answer and reference translations are, by BLEU as the `sacrebleu` library computes it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from pydantic import Field

from tui_evals.text.measures import Measure

from .base import Evaluator, Evidence, Misconfigured, Score, ValueOptions, is_installed
from .values import response_texts

_MISSING = "BLEU is computed by the library sacrebleu, which is not installed: pip install sacrebleu"
READ_CHARS = 100_000
"""How much of a text is compared; the library takes minutes over megabytes."""


@cache
def load_bleu() -> Any:
    """What computes BLEU, or None where the library is not installed."""
    try:
        return import_module("sacrebleu.metrics.bleu").BLEU(effective_order=True)
    except ImportError:
        return None


class TranslateOptions(ValueOptions):
    """Options of Translate."""

    threshold: float = Field(30.0, ge=0, le=100, description="The BLEU above which it passes; exactly that fails.")


class Translate(Evaluator):
    """Passes when the answer is close enough to the reference translations: a sentence BLEU of more than 30.

    The score is BLEU from 0 to 100 over all references together, orders without any n-gram left out, as Translate of
    OpenAI Evals has it. Only the first 100,000 characters are compared. It needs the library sacrebleu, which does not
    come along: `pip install sacrebleu`; without it the record is an error.
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
        bleu = load_bleu()
        if bleu is None:
            raise Misconfigured(_MISSING)
        references = [reference[:READ_CHARS] for reference in evidence.references]
        texts = response_texts(evidence, self.options.json_path)
        best = max(float(bleu.sentence_score(text[:READ_CHARS], references).score) for text in texts)
        passed = best > self.options.threshold
        reason = f"BLEU {best:.1f}, and it passes above {self.options.threshold:g}"
        return Score(best, "pass" if passed else "fail", self.options.threshold, None, reason, {"bleu": best})
