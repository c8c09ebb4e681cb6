"""Find answers that hide behind being a machine, by their phrases or by likeness to a disclaimer sentence."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

import re2
from pydantic import AliasChoices, Field

from tui_evals.text.measures import Measure

from .base import Evaluator, Evidence, Misconfigured, ModelOptions, Score
from .similarity import bert_similarity, missing_library
from .style import answer_text

DISCLAIMER = "As an AI language model, I don't have personal opinions, emotions, or beliefs."

_SPEAKER = r"(?:^|\W)i"
_CANNOT = r"(?: cannot| can't| can not| (?:do not|don't) have the ability to|(?: am|'m) (?:unable|not able) to)"
_MACHINE = (
    r"(?:(?:ai|artificial intelligence|llm|chatbot)(?: language)?(?: (?:model|assistant|system|program|chatbot|bot))?"
    r"|(?:large )?language model|(?:virtual|digital|computer) (?:assistant|program)|machine learning model)"
)
_NAME_ENDS = (  # so that an "AI researcher" is no machine
    r"(?:[^\w -]| ?$| -| (?:it|and|or|that|which|who|here|so|with|without|developed|trained|created|made|by)\b)"
)
_MIND = r"(?:opinions?|emotions?|feelings?|beliefs?|views?|preferences?|experiences?|desires?|consciousness)"
_TRAIT = (
    rf"(?:(?:personal|human|subjective|my own)(?:,| or| and)? (?:\w+,? (?:or |and )?){{0,3}}{_MIND}"
    rf"|{_MIND},? (?:or |and )?(?:personal |human )?{_MIND}"
    r"|emotions|consciousness|sentience|self-awareness|a physical (?:body|form|presence))\b"
)
_DISCLAIMERS = {
    "speaks as a machine": (
        r"(?:^|[^\w\s] ?|\b(?:but|and|that|since|being|speaking) )as (?:an?|your) (?:(?:mere|simple|helpful) )?"
        rf"{_MACHINE}(?: |{_NAME_ENDS}[^.!?]*\b)(?:i|me|my|myself)\b"
        rf"|{_SPEAKER}, as an? {_MACHINE}{_NAME_ENDS}"
    ),
    "is only a machine": (
        rf"{_SPEAKER}(?: am|'m) (?:(?:just|only|merely|simply) an? {_MACHINE}{_NAME_ENDS}"
        rf"|an? {_MACHINE}(?: |{_NAME_ENDS}[^.!?]*\b)(?:not|cannot|can't|don't|unable|without|lack|no)\b)"
    ),
    "denies a mind": (
        rf"{_SPEAKER}(?:(?:{_CANNOT}| do not| don't|(?: am|'m) (?:not capable|incapable) of) (?:[\w'-]+ ){{0,5}}"
        r"(?:have|having|possess|hold|experienc(?:e|ing)|form|feel|share|offer|give|express)| lack| have no)"
        rf" (?:(?:an?|any|real|true|genuine) )?{_TRAIT}"
    ),
    "names the end of its training": (
        r"\bmy (?:knowledge|training)(?: data)? (?:cut[- ]?off|(?:only )?(?:goes|extends|reaches|ends)|is limited)\b"
        r"|\b(?:as of|until|up to) my (?:last|latest|most recent) (?:(?:knowledge|training) )?(?:update|cut-?off)\b"
    ),
    "cannot look things up": (
        rf"{_SPEAKER}(?:{_CANNOT} (?:\w+ ){{0,2}}(?:browse|access|search|retrieve|provide|give|check)"
        r"|(?: do not| don't) (?:\w+ )?have (?:\w+ )?access to)"
        r" (?:\w+ ){0,3}(?:the internet|the web|real[- ]time|live (?:data|information)|up-to-date)\b"
    ),
    "is no professional": (
        rf"{_SPEAKER}(?:(?: am|'m) not (?:an?|your) (?:(?:licensed|qualified|medical|real) )?(?:doctor|physician|lawyer"
        r"|attorney|therapist|(?:medical|legal|financial|tax|health|healthcare) (?:professional|advis[eo]r|expert))"
        rf"|{_CANNOT} (?:provide|give|offer) (?:[\w,]+ ){{0,4}}(?:medical|legal|financial|investment|tax)"
        r" (?:advice|opinions?|diagnos[ei]s))\b"
    ),
}
_QUOTATION = re.compile(rb'"[^" ]+(?: [^" ]+){3,60}"')


def find_disclaimers(text: str) -> dict[str, str]:
    """The first phrase of every kind in which the speaker of a text hides behind being a machine."""
    normalized = _normalized_bytes(text)
    unquoted = _QUOTATION.sub(b" ", normalized).translate(None, b'"*_`')
    if not re.search(rb"\w", unquoted):  # all of it is one quotation
        unquoted = normalized
    matches = {kind: pattern.search(unquoted) for kind, pattern in _compiled_disclaimers().items()}
    return {kind: match.group().decode("utf-8", "replace")[:120].strip() for kind, match in matches.items() if match}


@cache
def _compiled_disclaimers() -> dict[str, Any]:
    """The phrases as patterns that take linear time on any text."""
    options = re2.Options()
    options.log_errors = False
    return {kind: re2.compile(pattern, options) for kind, pattern in _DISCLAIMERS.items()}


def _normalized_bytes(text: str) -> bytes:
    """Lower case, plain quotes and apostrophes, single blanks, and a stop where a paragraph ends."""
    normalized = text.lower().encode("utf-8", "replace").replace(b"\r", b"").replace(b"\n\n", b" . ")
    for variant, replacement in (
        ("\t", " "),
        ("\n", " "),
        ("\u00a0", " "),
        ("’", "'"),
        ("‘", "'"),
        ("“", '"'),
        ("”", '"'),
    ):
        normalized = normalized.replace(variant.encode(), replacement.encode())
    while b"  " in normalized:
        normalized = normalized.replace(b"  ", b" ")
    return normalized


class HedgingLanguageOptions(ModelOptions):
    """The options of HedgingLanguage."""

    method: Literal["auto", "lexical", "bertscore"] = Field(
        "auto",
        description="How hedging is found: by its phrases (lexical), by likeness to the disclaimer (bertscore), "
        "or by the second where the bertscore extra is installed and its model can be loaded (auto).",
    )
    disclaimer: str = Field(
        DISCLAIMER,
        min_length=1,
        validation_alias=AliasChoices("disclaimer", "hedging_language", "hedgingLanguage"),
        description="The sentence an answer is likened to by the method bertscore.",
    )
    threshold: float = Field(0.5, ge=0, lt=1, description="Above this score the answer counts as hedging.")


class HedgingLanguage(Evaluator):
    """Passes when the answer does not hide behind being a machine, as in "As an AI, I cannot have opinions".

    The score says how much hedging there is, so here less is better: with the method bertscore it is the likeness
    (F1) to a disclaimer sentence, with the lexical one 1 where a phrase of disclaiming was found and 0 where none
    was: speaking as a machine, denying opinions or feelings, naming the end of its training, not being able to look
    things up, not being a doctor or lawyer. Quoted disclaimers of others do not count. The details say which
    method ran.
    """

    name = "HedgingLanguage"
    aliases = ("hedging_language",)
    family = "Arthur Bench"
    measure = Measure("at most")
    Options = HedgingLanguageOptions
    example: ClassVar = {"response": "Rye bread keeps longer than wheat bread.", "options": {"method": "lexical"}}

    def obstacle(self) -> str | None:
        """The library that the method bertscore lacks."""
        return missing_library(self.options.model) if self.options.method == "bertscore" else None

    async def score(self, evidence: Evidence) -> Score:
        """How much the answer hedges, by the method chosen or at hand."""
        text = answer_text(evidence, self.options.json_path)
        method = self.options.method
        if method == "lexical" or (method == "auto" and not find_spec("bert_score")):
            return self._by_phrases(text)
        try:
            (similarity,) = await bert_similarity(self.options, text, (self.options.disclaimer,))
        except Misconfigured as why:
            if method == "auto":
                return self._by_phrases(text, f"; judged by phrases, because {why}")
            raise
        return self._record(
            similarity.f1, f"likeness to the disclaimer {similarity.f1:.2f}", "bertscore", model=self.options.model
        )

    def _by_phrases(self, text: str, note: str = "") -> Score:
        phrases = find_disclaimers(text)
        listed = "; ".join(f"{kind} ({phrase!r})" for kind, phrase in phrases.items())
        reason = (listed or "no phrase of disclaiming found") + note
        return self._record(float(bool(phrases)), reason, "lexical", phrases=phrases)

    def _record(self, hedging: float, reason: str, method: str, **details: object) -> Score:
        """The record of an amount of hedging; up to the threshold passes, so `measured` does not fit."""
        threshold = self.options.threshold
        hedges = hedging > threshold
        label = "hedging" if hedges else "no hedging"
        return Score(hedging, "fail" if hedges else "pass", threshold, label, reason, {"method": method, **details})
