"""The scorers of Inspect under their own names: compared, extracted and graded as Inspect does."""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections.abc import Collection, Sequence
from string import ascii_uppercase
from typing import ClassVar, Literal

from pydantic import AliasChoices, Field, model_validator

from tui_evals.text.measures import Measure
from tui_evals.text.patterns import PatternError, PatternTimeout, compile_pattern

from .base import (
    CannotJudge,
    Evaluator,
    Evidence,
    JudgedOptions,
    Misconfigured,
    Options,
    Score,
    as_text,
    error_score,
    measured_score,
    verdict_score,
)
from .judging import ask_once, judge_question
from .references import overlap_f1
from .values import quoted, quoted_list

FAMILY = "Inspect"


class IncludesOptions(Options):
    """Options of includes."""

    ignore_case: bool = Field(
        True, validation_alias="ignoreCase", description="Compare without regard to upper and lower case."
    )


class MatchOptions(IncludesOptions):
    """Options of match."""

    location: Literal["begin", "end", "any", "exact"] = Field(
        "end", description="Where in the answer a reference has to be."
    )
    numeric: bool = Field(
        False, description="Compare numbers: currency signs, thousands separators and formatting are left aside."
    )


class InspectMatch(Evaluator):
    """Passes when the answer ends with any reference, or begins with it, holds it or equals it.

    Space and punctuation around both are dropped, and upper and lower case are one unless ignore_case is false. With
    `numeric`, a reference that is a number is compared with the last (the first, any) number of the answer to five
    digits, so that 25 does not end with 5.
    """

    name = "match"
    family = FAMILY
    needs = ("response", "expected")
    Options = MatchOptions
    example: ClassVar = {"response": "The answer is 42.", "expected": "42"}

    def score(self, evidence: Evidence) -> Score:
        """Try each reference."""
        answer, options = evidence.response or "", self.options
        hit = next((one for one in evidence.references if _matches(answer, one, options)), None)
        place = {"begin": "begins with", "end": "ends with", "any": "holds", "exact": "is"}[options.location]
        if hit is not None:
            return verdict_score(True, f"the answer {place} {quoted(hit)}", picked=hit)
        return verdict_score(False, f"nothing of {quoted_list(evidence.references)} is what the answer {place}")


def _matches(answer: str, reference: str, options: MatchOptions) -> bool:
    said, wanted = answer.strip(), reference.strip()
    if options.ignore_case:
        said, wanted = said.casefold(), wanted.casefold()
    if options.numeric and (number := _number(wanted := _plain_number(wanted))) is not None:
        return _matches_number(_plain_number(said), number, options.location)
    said, wanted = _trimmed(said), _trimmed(wanted)
    match options.location:
        case "begin":
            return said.startswith(wanted)
        case "end":
            return said.endswith(wanted)
        case "exact":
            return said == wanted
        case _:
            return wanted in said


def _trimmed(text: str) -> str:
    return text.strip(string.whitespace + string.punctuation)


def _matches_number(said: str, wanted: float, location: str) -> bool:
    found: list[float | None]
    if location == "exact":
        found = [_number(said, trim=False)]
    else:
        words = said.split()
        numbers: list[float | None] = [number for word in words if (number := _number(word)) is not None]
        found = {"begin": numbers[:1], "end": numbers[-1:]}.get(location, numbers)
    return any(number is not None and f"{number:.5g}" == f"{wanted:.5g}" for number in found)


def _plain_number(text: str) -> str:
    """The text without currency signs, thousands separators, formatting marks, and full stops after words."""
    unescaped = re.sub(r"\\([$,£€*_])", r"\1", text)
    return re.sub(r"\.(?=\s|$|\D)", "", re.sub(r"[$,£€*_]", "", unescaped))


def _number(text: str, *, trim: bool = True) -> float | None:
    """The number a word is, also with a fraction such as ½ behind it; None for any other word."""
    word = text.strip("!?:;()[]{}'\"`") if trim else text
    word = word.replace("\N{MINUS SIGN}", "-")
    whole, fraction = (word[:-1], unicodedata.numeric(word[-1:], None)) if word[-1:].isnumeric() else (word, None)
    try:
        if fraction is None or word[-1].isdecimal():
            number = float(word)
        else:
            number = math.copysign(abs(float(whole)) + fraction, float(whole)) if whole else fraction
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class InspectIncludes(Evaluator):
    """Passes when any reference occurs in the answer; upper and lower case are one unless ignore_case is false."""

    name = "includes"
    family = FAMILY
    needs = ("response", "expected")
    Options = IncludesOptions
    example: ClassVar = {"response": "It is PARIS.", "expected": "Paris"}

    def score(self, evidence: Evidence) -> Score:
        """Look for each reference."""
        fold = str.casefold if self.options.ignore_case else str
        answer = fold(evidence.response or "")
        hit = next((one for one in evidence.references if fold(one) in answer), None)
        if hit is not None:
            return verdict_score(True, f"the answer includes {quoted(hit)}", picked=hit)
        return verdict_score(False, f"the answer includes none of {quoted_list(evidence.references)}")


class PatternOptions(IncludesOptions):
    """Options of pattern."""

    pattern: str = Field(description="A regular expression whose groups extract the text to compare.")
    match_all: bool = Field(False, description="Every group has to be one of the references, not one of them alone.")

    @model_validator(mode="after")
    def _readable(self) -> PatternOptions:
        try:
            compile_pattern(self.pattern, ignore_case=self.ignore_case)
        except PatternError as problem:
            raise ValueError(str(problem)) from None
        return self


class InspectPattern(Evaluator):
    """Passes when the groups of the pattern extract a reference from the answer.

    One group is enough unless match_all; a pattern without groups is compared as a whole.
    """

    name = "pattern"
    family = FAMILY
    needs = ("response", "expected")
    Options = PatternOptions
    example: ClassVar = {
        "options": {"pattern": r"ANSWER: (\w+)"},
        "response": "I think so. ANSWER: Paris",
        "expected": "Paris",
    }

    def score(self, evidence: Evidence) -> Score:
        """Extract, and compare the result."""
        options = self.options
        try:
            found = compile_pattern(options.pattern, ignore_case=options.ignore_case).groups(evidence.response or "")
        except PatternTimeout as problem:
            raise CannotJudge("patternTimeout", str(problem)) from None
        fold = str.lower if options.ignore_case else str
        wanted = {fold(reference) for reference in evidence.references}
        extracted = [group for group in found or () if group is not None]
        fits = [fold(group) in wanted for group in extracted]
        passed = bool(fits) and (all(fits) if options.match_all else any(fits))
        if not extracted:
            return verdict_score(False, f"the pattern {quoted(options.pattern)} finds nothing in the answer")
        return verdict_score(passed, f"extracted {quoted_list(extracted)}", extracted=extracted)


class ChoiceOptions(Options):
    """Options of choice."""

    choices: list[str] | None = Field(
        None, description="The texts behind the letters A, B, C ...; without them, the item's variable `choices`."
    )


_WRAPPED = re.compile(r"\$\s*([A-Za-z\d][A-Za-z\d ,]*?)\s*\$|\*\*\s*([A-Za-z\d][A-Za-z\d ,]*?)\s*\*\*")
_BRACKETED = re.compile(r"(^|[:,])(\s*)\(([A-Za-z\d])\)(?=\s*(?:,|\.|\n|\Z))")
_ANSWER_LINE = re.compile(r"^ANSWER\s*:\s*([A-Za-z\d ,]+)\s*(?:$|\n|\.)", re.IGNORECASE | re.MULTILINE)
_ANSWER = re.compile(r"ANSWER\s*:\s*([A-Za-z\d ,]+)(?:[^\w]|\n|$|\.)", re.IGNORECASE)


class InspectChoice(Evaluator):
    """Passes when the last `ANSWER: X` of the answer names exactly the right choices.

    The references are letters, all of which have to be chosen: `B`, or `A,C`. A reference that is the text of a choice
    means its letter.
    """

    name = "choice"
    family = FAMILY
    needs = ("response", "expected")
    Options = ChoiceOptions
    example: ClassVar = {"response": "It grows on trees.\nANSWER: B", "expected": "B"}

    def score(self, evidence: Evidence) -> Score:
        """Compare the letters given with those that are right."""
        choices = self.options.choices
        if choices is None:
            known = evidence.variables.get("choices")
            choices = [as_text(one) for one in known] if isinstance(known, list) else []
        letters = ascii_uppercase[: len(choices) or None]
        right = _letters_of(evidence.references, choices, letters)
        chosen = _chosen(evidence.response or "", letters, several=len(right) > 1)
        words = f"chose {', '.join(sorted(chosen))}" if chosen else "names no choice behind ANSWER:"
        reason = f"the answer {words}, right is {', '.join(sorted(right))}"
        return verdict_score(chosen == right, reason, picked=sorted(chosen), right=sorted(right))


def _letters_of(references: Sequence[str], choices: Sequence[str], letters: str) -> frozenset[str]:
    right: set[str] = set()
    for reference in references:
        if reference in choices[: len(letters)]:
            right.add(letters[choices.index(reference)])
        else:
            right.update(character.upper() for character in reference if character not in ", \t\n")
    if wrong := sorted(right - set(letters)):
        among = f"from A to {letters[-1]}"
        raise Misconfigured(f"the expected response names {quoted_list(wrong)}, which is no letter of a choice {among}")
    return frozenset(right)


def _chosen(answer: str, letters: Collection[str], *, several: bool) -> frozenset[str]:
    plain = _BRACKETED.sub(r"\1\2\3", _WRAPPED.sub(lambda wrapped: wrapped[1] or wrapped[2], answer))
    found = _ANSWER_LINE.findall(plain) or _ANSWER.findall(plain)
    said = found[-1].strip().rstrip(".").upper() if found else ""
    if several:
        given = frozenset(said.replace(" AND ", ",").replace(",", "").replace(" ", ""))
        return given if given <= set(letters) else frozenset()
    return frozenset((said,)) if said in letters and len(said) == 1 else frozenset()


class InspectExact(Evaluator):
    """Passes when the answer equals any reference once both are normalised.

    Normalising folds case, reads numbers as numbers, drops punctuation and the words a, an, the, and splits words at
    spaces and hyphens. A reference that is empty after that never matches.
    """

    name = "exact"
    family = FAMILY
    needs = ("response", "expected")
    example: ClassVar = {"response": "The Eiffel Tower!", "expected": "eiffel tower"}

    def score(self, evidence: Evidence) -> Score:
        """Compare with each reference."""
        said = _normalised(evidence.response or "")
        hit = next((one for one in evidence.references if (wanted := _normalised(one)) and wanted == said), None)
        if hit is not None:
            return verdict_score(True, f"the answer is {quoted(hit)}", picked=hit)
        return verdict_score(
            False, f"expected {quoted_list(evidence.references)}, got {quoted(evidence.response or '')}"
        )


class F1Options(Options):
    """Options of f1."""

    stop_words: list[str] | None = Field(None, description="Words that count on neither side.")
    threshold: float | None = Field(None, ge=0, le=1, description="The score from which it passes.")


class InspectF1(Evaluator):
    """Measures the best F1 of the words of the answer and of a reference, normalised as `exact` does, to two digits."""

    name = "f1"
    family = FAMILY
    needs = ("response", "expected")
    measure = Measure("at least")
    Options = F1Options
    example: ClassVar = {"response": "in the city of Paris", "expected": "Paris, the city"}

    def score(self, evidence: Evidence) -> Score:
        """Compare with each reference."""
        stop = self.options.stop_words or ()
        said = _normalised(evidence.response or "", stop).split()
        references = [words for one in evidence.references if (words := _normalised(one, stop).split())]
        best = round(max((overlap_f1(said, words) for words in references), default=0.0), 2)
        return measured_score(best, self.options.threshold, f"F1 of the words {best:g}")


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _normalised(text: str, stop_words: Sequence[str] = ()) -> str:
    stop = {_normalised_word(word) for word in stop_words}
    words = re.split(" |-", text)
    normal = {word: _normalised_word(word) for word in set(words)}  # a long text has few different ones
    return " ".join(normal[word] for word in words if normal[word] and normal[word] not in stop)


def _normalised_word(word: str) -> str:
    folded = word.casefold()
    for candidate in (folded, _trimmed(folded)):
        if (number := _finite(candidate)) is not None:
            return str(number)
    bare = folded.translate(_WITHOUT_PUNCTUATION)
    number = _finite(bare)
    return str(number) if number is not None else " ".join(_ARTICLES.sub(" ", bare).split())


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class GradedByModelOptions(JudgedOptions):
    """Options of model_graded_qa and model_graded_fact."""

    judge: str | None = Field(
        None,
        validation_alias=AliasChoices("judge", "model"),
        description="The target that judges here, instead of the run's judge.",
    )
    instructions: str | None = Field(
        None, description="The instructions for grading; ours asks for reasons and GRADE: C or I."
    )
    grade_pattern: str | None = Field(
        None, description="A regular expression whose one group is the grade in the reply: C, P or I."
    )
    partial_credit: bool = Field(False, description="The judge may give GRADE: P, which scores 0.5.")

    @model_validator(mode="after")
    def _readable(self) -> GradedByModelOptions:
        try:
            compile_pattern(self.grade_pattern or "")
        except PatternError as problem:
            raise ValueError(str(problem)) from None
        return self


_GRADE = r"(?is).*(?<!\w)GRADE(?!\w)\W*?:\W*(\w*)"
_GRADES = {"c": "C", "correct": "C", "p": "P", "partial": "P", "i": "I", "incorrect": "I"}
_SCORES = {"C": 1.0, "P": 0.5, "I": 0.0}


class ModelGradedQA(Evaluator):
    """Passes when a judge grades the answer C by the reference, read as a criterion; I fails, P (0.5) has no verdict.

    The question to the judge is ours, with everything foreign in it fenced; the grade is the last `GRADE:` of its
    reply, as in Inspect. A grade that was not offered is an error and no zero.
    """

    name = "model_graded_qa"
    family = FAMILY
    needs = ("response", "expected")
    judged = True
    Options = GradedByModelOptions
    example: ClassVar = {
        "prompt": "2+2?",
        "response": "It is 4.",
        "expected": "4",
        "judge_reply": "Both say 4.\nGRADE: C",
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask the judge and read its grade."""
        return await _graded(self, evidence, "has to meet the criterion")


class ModelGradedFact(Evaluator):
    """Passes when a judge finds the facts of the reference in the answer; graded like `model_graded_qa`."""

    name = "model_graded_fact"
    family = FAMILY
    needs = ("response", "expected")
    judged = True
    Options = GradedByModelOptions
    example: ClassVar = {
        "prompt": "Where is the Louvre?",
        "response": "In Paris, on the Seine.",
        "expected": "Paris",
        "judge_reply": "It names Paris.\nGRADE: C",
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask the judge and read its grade."""
        return await _graded(self, evidence, "has to contain the fact that the criterion states, in whatever words")


async def _graded(evaluator: Evaluator, evidence: Evidence, task: str) -> Score:
    options = evaluator.options
    offered = "CPI" if options.partial_credit else "CI"
    texts = {
        "question": evidence.prompt,
        "criterion": " or ".join(evidence.references),
        "submission": evidence.response or "",
    }
    trusted = {"task": task, "partial": options.partial_credit, "instructions": options.instructions}
    said, reply = await ask_once(evaluator.ask, judge_question("model_graded", texts, trusted, judge=options.judge))
    try:
        groups = compile_pattern(options.grade_pattern or _GRADE).groups(said)
    except PatternTimeout as problem:
        raise CannotJudge("patternTimeout", str(problem)) from None
    word = (groups[0] or "").strip() if groups else ""
    grade = _GRADES.get(word.lower(), "")
    if not options.instructions and not options.grade_pattern and grade not in offered:
        grade = ""
    if not grade:
        reason = f"the judge's reply gives no grade of {', '.join(offered)}: {quoted(said)}"
        return error_score("judgeOutputUnparseable", reason, reply=reply)
    result: Literal["pass", "fail"] | None = {"C": "pass", "I": "fail"}.get(grade)  # type: ignore[assignment]
    return Score(_SCORES[grade], result, None, grade, f"the judge graded it {grade}", {"reply": reply})
