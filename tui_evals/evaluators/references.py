"""Answers compared with references: exact, partial, contained, chosen, cited."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from string import ascii_uppercase, punctuation
from typing import ClassVar, Literal

from pydantic import AliasChoices, Field

from tui_evals.text.measures import Measure

from .base import (
    Evaluator,
    Evidence,
    Misconfigured,
    ReferenceOptions,
    Score,
    TextOptions,
    ValueOptions,
    as_text,
    measured_score,
    verdict_score,
)
from .values import quoted, quoted_list, response_texts

_CHOICES = len(ascii_uppercase)


def starting_option(answer: str, options: Iterable[str], separator: Callable[[str], bool] | None = None) -> str | None:
    """The first option the answer starts with; the next character, if any, must satisfy the separator."""
    for option in options:
        after = answer[len(option) : len(option) + 1]
        if answer.startswith(option) and (separator is None or not after or separator(after)):
            return option
    return None


def _case_folding(options: TextOptions) -> Callable[[str], str]:
    return str.lower if options.ignore_case else str


class MatchOptions(TextOptions, ReferenceOptions):
    """Options of Match and Includes."""

    whole_word: bool = Field(
        False,
        description="Whether a reference counts only where no letter or digit of a longer word or number adjoins it.",
    )


class Match(Evaluator):
    """Passes when the answer starts with any reference.

    Nothing is trimmed: a leading space fails, whatever follows the reference does not matter, and an empty reference
    matches everything.
    """

    name = "Match"
    family = "OpenAI basic"
    needs = ("response", "expected")
    Options = MatchOptions
    example: ClassVar = {"response": "Paris, of course", "expected": "Paris"}

    def score(self, evidence: Evidence) -> Score:
        """Pick the first reference that fits."""
        fold = _case_folding(self.options)
        separator = _ends_a_word if self.options.whole_word else None
        texts = response_texts(evidence, self.options.json_path)
        for text in map(fold, texts):
            for reference in evidence.references:
                if starting_option(text, (fold(reference),), separator) is not None:
                    return verdict_score(True, f"the answer starts with {quoted(reference)}", picked=reference)
        return verdict_score(
            False, f"expected a start of {quoted_list(evidence.references)}, got {quoted_list(texts)}", picked=None
        )


class Includes(Evaluator):
    """Passes when any reference occurs in the answer.

    Case-sensitive unless ignore_case, which lower-cases both; an empty reference occurs everywhere.
    """

    name = "Includes"
    family = "OpenAI basic"
    needs = ("response", "expected")
    Options = MatchOptions
    example: ClassVar = {"response": "It is Paris.", "expected": "Paris"}

    def score(self, evidence: Evidence) -> Score:
        """Look for each reference."""
        fold = _case_folding(self.options)
        texts = [fold(text) for text in response_texts(evidence, self.options.json_path)]
        for reference in evidence.references:
            wanted = fold(reference)
            if any(_occurs(wanted, text) if self.options.whole_word else wanted in text for text in texts):
                return verdict_score(True, f"the answer includes {quoted(reference)}", picked=reference)
        return verdict_score(False, f"the answer includes none of {quoted_list(evidence.references)}", picked=None)


def _ends_a_word(character: str) -> bool:
    return not character.isalnum()


def _occurs(wanted: str, text: str) -> bool:
    """Whether a text holds a word or number that is not a part of a longer one; `1` is a part of `1.5`."""
    at = text.find(wanted)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(wanted) :]
        longer = after[:1].isalnum() or (after[:1] in (".", ",") and after[1:2].isdigit())
        if not wanted or not (before.isalnum() or longer):
            return True
        at = text.find(wanted, at + 1)
    return False


class MultipleChoiceOptions(TextOptions):
    """Options of MultipleChoice."""

    choices: list[str] | None = Field(
        None,
        max_length=_CHOICES,
        description="The texts behind the letters A, B, C ...; without them, the item's variable `choices`.",
    )


class MultipleChoice(Evaluator):
    """Passes when the answer starts with the letter of the right choice.

    The expected response is that letter, or the text of the choice where the choices are known: from the option
    `choices` or the item's variable of that name (a choice with that text wins over a letter). Nothing is trimmed;
    `B`, `B)` and `B is right` count as B, `Because` does not.
    """

    name = "MultipleChoice"
    family = "OpenAI basic"
    needs = ("response", "expected")
    Options = MultipleChoiceOptions
    example: ClassVar = {"options": {"choices": ["Rome", "Paris"]}, "response": "B) Paris", "expected": "Paris"}

    def score(self, evidence: Evidence) -> Score:
        """Compare the letter given with the letters that are right."""
        choices = _known_choices(evidence, self.options.choices)
        letters = ascii_uppercase[: len(choices) or None]
        fold = _case_folding(self.options)
        right = {_right_letter(reference, choices, letters, fold) for reference in evidence.references}
        options = {fold(letter): letter for letter in letters}
        answers = [
            starting_option(fold(text), options, _ends_a_letter)
            for text in response_texts(evidence, self.options.json_path)
        ]
        chosen = [options[answer] for answer in answers if answer is not None]
        picked = next((letter for letter in chosen if letter in right), chosen[0] if chosen else None)
        right_letters = " or ".join(sorted(right))
        choice_words = f"chose {picked}" if picked else "starts with no letter of a choice"
        return verdict_score(
            picked in right, f"the answer {choice_words}, right is {right_letters}", picked=picked, right=sorted(right)
        )


def _ends_a_letter(character: str) -> bool:
    return not (character.islower() or character.isupper() or character.isdigit())


def _known_choices(evidence: Evidence, choices: Sequence[str] | None) -> list[str]:
    values = evidence.variables.get("choices") if choices is None else choices
    if values is None:
        return []
    if not isinstance(values, list) or len(values) > _CHOICES:
        reason = f"the variable `choices` must be a list of at most {_CHOICES} choices"
        raise Misconfigured(reason)
    return [as_text(choice) for choice in values]


def _right_letter(reference: str, choices: Sequence[str], letters: str, fold: Callable[[str], str]) -> str:
    if reference in choices:
        return letters[choices.index(reference)]
    letter = next((letter for letter in letters if fold(letter) == fold(reference)), None)
    if letter is None:
        known = f"one of the choices {quoted_list(choices)}" if choices else "known: the item gives no choices"
        reason = f"the expected response {quoted(reference)} is neither a letter from A to {letters[-1]} nor {known}"
        raise Misconfigured(reason)
    return letter


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
    """F1 of two lists of tokens, each counted as often as it is in both; 0 without a shared one."""
    reference_counts = Counter(reference)
    shared = sum((reference_counts & Counter(filter(reference_counts.__contains__, answer))).values())
    return 2 * shared / (len(answer) + len(reference)) if shared else 0.0


def token_f1(answer: str, reference: str) -> float:
    """F1 of the words of two texts after `normalize`."""
    return overlap_f1(normalize(answer).split(), normalize(reference).split())


def _contains_either(left: str, right: str) -> bool:
    return left == right if not left or not right else left in right or right in left


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
        passed = any(_contains_either(answer, reference) for answer in answers for reference in references)
        f1 = max(overlap_f1(answer.split(), reference.split()) for answer in answers for reference in references)
        outcome = "fuzzily matches" if passed else "does not fuzzily match"
        return verdict_score(
            passed, f"the answer {outcome} {quoted_list(evidence.references)}, token F1 {f1:.3f}", f1=f1
        )


_WORD = re.compile(r"\w+")
_MAX_LISTED = 100


class CaseOptions(ValueOptions):
    """Options of evaluators that ignore case by default."""

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

    A token is a run of letters, digits and underscores; each counts as often as it is in both. Two texts without any
    token score 1. With several references the best one counts.
    """

    name = "PartialMatch"
    family = "M365"
    measure = Measure("at least")
    needs = ("response", "expected")
    compares = True
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

    The score is their count. A repeated marker counts once; the same number in two formats counts in
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
