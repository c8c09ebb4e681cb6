"""The string evaluators of Microsoft 365 agent evaluations: exact, partial, citations."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import AliasChoices, Field

from tui_evals.text.measures import Measure

from .base import Evaluator, Evidence, Score, ValueOptions, measured_score, verdict_score
from .references import overlap_f1
from .values import quoted_list, response_texts

_WORD = re.compile(r"\w+")
_MAX_LISTED = 100


class CaseOptions(ValueOptions):
    """Options of what ignores case unless told."""

    case_sensitive: bool = Field(
        False,
        validation_alias=AliasChoices("case_sensitive", "caseSensitive"),
        description="Tell upper from lower case.",
    )


class ExactMatchOptions(CaseOptions):
    """Options of ExactMatch."""

    mode: Literal["contains", "equals"] = Field(
        "contains", description="contains: the expected text occurs in the answer; equals: it is all of the answer."
    )


class ExactMatch(Evaluator):
    """Passes when the answer contains the expected response, or any other reference, word for word.

    Both are trimmed first, and case is ignored unless case_sensitive. `mode: equals` asks for the whole answer.
    """

    name = "ExactMatch"
    family = "M365"
    needs = ("response", "expected")
    Options = ExactMatchOptions
    example: ClassVar = {"response": "It is Kimberly King.", "expected": "kimberly king"}

    def score(self, evidence: Evidence) -> Score:
        """Compare every text of the answer with every reference."""
        fold = str if self.options.case_sensitive else str.casefold
        answers = [fold(text).strip() for text in response_texts(evidence, self.options.json_path)]
        references = [fold(reference).strip() for reference in evidence.references]
        if self.options.mode == "equals":
            match = any(answer in references for answer in answers)
        else:
            match = any(reference in answer for answer in answers for reference in references)
        reason = "Exact match found" if match else f"No exact match of {quoted_list(evidence.references)}"
        return verdict_score(match, reason, match=match)


class PartialMatchOptions(CaseOptions):
    """Options of PartialMatch."""

    threshold: float = Field(0.5, ge=0, le=1, description="The F1 from which it passes.")


class PartialMatch(Evaluator):
    """Passes when the words of the answer and of a reference overlap enough: token F1 of at least 0.5.

    A token is a run of letters, digits and underscores; each counts as often as it stands in both. Two texts without
    any token score 1. With several references the best one counts.
    """

    name = "PartialMatch"
    family = "M365"
    measure = Measure("at least")
    needs = ("response", "expected")
    Options = PartialMatchOptions
    example: ClassVar = {"response": "OAuth 2.0 or client credentials", "expected": "OAuth 2.0"}

    def score(self, evidence: Evidence) -> Score:
        """The best F1 of any text of the answer with any reference."""
        fold = str if self.options.case_sensitive else str.casefold
        answers = [_WORD.findall(fold(text)) for text in response_texts(evidence, self.options.json_path)]
        references = [_WORD.findall(fold(reference)) for reference in evidence.references]
        best = max(
            overlap_f1(answer, reference) if answer or reference else 1.0
            for answer in answers
            for reference in references
        )
        return measured_score(best, self.options.threshold, f"Match score: {best:.3f}")


_MARKERS = {
    "oai_unicode": re.compile("\ue200(?P<label>cite[^\ue200\ue201]*)(?P<source>)\ue201"),
    "bracket": re.compile(r"(?<!!)\[(?P<label>[1-9][0-9]{0,2})\](?P<source>)(?!\()"),
    "markdown": re.compile(r"(?<!!)\[(?P<label>[1-9][0-9]{0,2})\]\((?P<source>[^\s)\[]+)\)"),
}


class CitationsOptions(ValueOptions):
    """Options of Citations."""

    threshold: int = Field(1, ge=1, description="How many different citations it takes to pass.")
    citation_format: str = Field(
        "oai_unicode",
        validation_alias=AliasChoices("citation_format", "citationFormat"),
        description="oai_unicode (private-use marks around `cite...`), bracket `[1]`, markdown `[1](url#suffix)`, "
        "or mixed: all three. Any other word means mixed.",
    )


class Citations(Evaluator):
    """Passes when the answer holds at least as many different citations as the threshold asks, 1 unless given.

    The score is their count. A marker that stands there twice counts once; the same number in two formats counts in
    each. Images and numbers beyond 999 are no citations. The details list the first 100.
    """

    name = "Citations"
    family = "M365"
    measure = Measure("at least", "citations")
    Options = CitationsOptions
    example: ClassVar = {"options": {"citation_format": "bracket"}, "response": "Water boils at 100 °C [1]."}

    def score(self, evidence: Evidence) -> Score:
        """Count the markers."""
        chosen_format = self.options.citation_format
        formats = (chosen_format,) if chosen_format in _MARKERS else tuple(_MARKERS)
        citations = _find_citations("\n".join(response_texts(evidence, self.options.json_path)), formats)
        return measured_score(
            len(citations),
            self.options.threshold,
            f"citations found: {len(citations)}, needed: {self.options.threshold}",
            count=len(citations),
            format=chosen_format,
            citations=citations[:_MAX_LISTED],
        )


def _find_citations(text: str, formats: tuple[str, ...]) -> list[dict[str, object]]:
    """Each marker once, in the order of first appearance."""
    first_matches: dict[tuple[str, str], re.Match[str]] = {}
    for marker_format in formats:
        for match in _MARKERS[marker_format].finditer(text):
            first_matches.setdefault((marker_format, match["label"]), match)
    ordered = sorted(first_matches.values(), key=lambda match: match.start())
    return [
        {"index": int(label) if (label := match["label"]).isdecimal() else position, "text": label}
        | ({"source": match["source"]} if match["source"] else {})
        for position, match in enumerate(ordered, start=1)
    ]
