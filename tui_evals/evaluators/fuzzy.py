"""Forgiving comparison: what is left after case, punctuation and articles are gone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from string import punctuation
from typing import ClassVar

from pydantic import Field

from .base import Evaluator, Evidence, Score, ValueOptions, verdict
from .values import listed, response_texts

_PUNCTUATION = re.compile(f"[{re.escape(punctuation)}]+")
_ARTICLES = re.compile(r"\b(?:an?|the)\b")


def normalize(text: str, *, compat: bool = False) -> str:
    """The text in lower case, without ASCII punctuation and the words a, an, the, single spaces between words.

    Punctuation goes first and leaves no space, so hyphenated words fuse and `A.I.` is `ai`. Accents, curly quotes
    and long dashes stay. `compat` keeps the first line only, as the first release of OpenAI Evals did.
    """
    if compat:
        text = text.partition("\n")[0]
    return " ".join(_ARTICLES.sub(" ", _PUNCTUATION.sub("", text.lower())).split())


def overlap_f1(answer: Sequence[str], reference: Sequence[str]) -> float:
    """F1 of two lists of tokens, each token counted as often as it stands in both; 0 when they share none."""
    wanted = Counter(reference)
    shared = sum((wanted & Counter(filter(wanted.__contains__, answer))).values())
    return 2 * shared / (len(answer) + len(reference)) if shared else 0.0


def token_f1(answer: str, reference: str) -> float:
    """F1 of the words of two texts after `normalize`."""
    return overlap_f1(normalize(answer).split(), normalize(reference).split())


def _contain(one: str, other: str) -> bool:
    return one == other if not one or not other else one in other or other in one


class FuzzyMatchOptions(ValueOptions):
    """Options of FuzzyMatch."""

    compat: bool = Field(False, description="Compare the first lines only, as the first release of OpenAI Evals did.")


class FuzzyMatch(Evaluator):
    """Passes when answer and any reference contain one another, either way round, once both are normalised.

    Normalising lower-cases, deletes ASCII punctuation and the words a, an, the, and collapses white space. The
    comparison knows no word limits: `3` matches `13`. Where one side is empty then, the other must be too. The
    details hold the best token F1 over the references.
    """

    name = "FuzzyMatch"
    family = "OpenAI basic"
    needs = ("response", "expected")
    Options = FuzzyMatchOptions
    example: ClassVar = {"response": "It is the Eiffel Tower!", "expected": "eiffel tower"}

    def score(self, evidence: Evidence) -> Score:
        """Compare every text of the answer with every reference."""
        compat = self.options.compat
        answers = [normalize(text, compat=compat) for text in response_texts(evidence, self.options.json_path)]
        references = [normalize(reference, compat=compat) for reference in evidence.references]
        passed = any(_contain(answer, reference) for answer in answers for reference in references)
        f1 = max(overlap_f1(answer.split(), reference.split()) for answer in answers for reference in references)
        outcome = "fuzzily matches" if passed else "does not fuzzily match"
        return verdict(passed, f"the answer {outcome} {listed(evidence.references)}, token F1 {f1:.3f}", f1=f1)
