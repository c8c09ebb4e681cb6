"""Comparing text: equal, contained, starting with, matching a pattern, and overlapping word by word."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, model_validator

from tui_evals.evaluators.base import (
    CannotJudge,
    Evaluator,
    Evidence,
    Misconfigured,
    Score,
    TextOptions,
    ValueOptions,
    as_text,
    is_installed,
    measured_score,
    response_values,
    verdict_score,
)
from tui_evals.evaluators.values import PatternBudget, quoted, quoted_list, response_texts, same_json, target_texts
from tui_evals.text import strictjson
from tui_evals.text.measures import Measure
from tui_evals.text.patterns import PatternError, PatternTimeout, compile_pattern

Fold = Callable[[str], str]


def _case_folding(options: TextOptions) -> Fold:
    return str.casefold if options.ignore_case else str


class ValueTextOptions(TextOptions):
    """Options of evaluators that compare with one value."""

    value: str | None = Field(
        None,
        validation_alias=AliasChoices("value", "targetValue", "target_value"),
        description="The text to compare with; without it, any reference of the item.",
    )

    @property
    def value_list(self) -> tuple[str, ...] | None:
        """The value as a list, like the references."""
        return None if self.value is None else (self.value,)


class ValuesTextOptions(TextOptions):
    """Options of evaluators that compare with several values."""

    values: list[str] | None = Field(
        None,
        validation_alias=AliasChoices("values", "targetValues", "target_values"),
        description="The texts to look for; without them, the references of the item.",
    )


class EqualsOptions(ValueTextOptions):
    """Options of Equals."""

    case_sensitive: bool | None = Field(
        None,
        validation_alias=AliasChoices("case_sensitive", "caseSensitive"),
        description="The other way to say ignore_case; true unless given.",
    )
    compat: bool = Field(
        False,
        description="Read case_sensitive the wrong way round, as Arthur Bench does: true lower-cases both sides.",
    )

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> EqualsOptions:
        if self.ignore_case and (self.case_sensitive or self.compat):
            raise ValueError("ignore_case contradicts case_sensitive or compat; give one of them")
        return self

    @property
    def fold(self) -> Fold:
        """The normalization of both sides before the comparison."""
        if self.compat:
            return str if self.case_sensitive is False else str.lower
        return str.casefold if self.ignore_case or self.case_sensitive is False else str


class Equals(Evaluator):
    """Passes when the answer equals the value, or any reference of the item, to the letter.

    Nothing is trimmed. With json_path any matching value may equal it, and a target that is JSON is also compared
    as a value, so `{"a": 1}` equals `{"a":1.0}`. As `exact_match` it takes `case_sensitive`; `compat` gives the
    inverted reading of Arthur Bench.
    """

    name = "Equals"
    aliases = ("EXACT_MATCH", "exact_match")
    family = "text"
    Options = EqualsOptions
    example: ClassVar = {"options": {"value": "42"}, "response": "42"}

    def score(self, evidence: Evidence) -> Score:
        """Compare the whole text, then the value if a path selected it."""
        fold = self.options.fold
        targets = target_texts(evidence, self.options.value_list, "value")
        values = response_values(evidence, self.options.json_path)
        folded = {fold(target) for target in targets}
        texts = [as_text(value) for value in values]
        passed = any(fold(text) in folded for text in texts) or (
            self.options.json_path is not None and _any_same_value(values, targets, fold)
        )
        if passed:
            return verdict_score(True, f"the answer equals {quoted_list(targets)}")
        return verdict_score(False, f"expected {quoted_list(targets)}, got {quoted_list(texts)}")


def _any_same_value(values: Sequence[object], targets: Sequence[str], fold: Fold) -> bool:
    parsed = []
    for target in targets:
        try:
            parsed.append(_fold_value(strictjson.loads(target, duplicates=True), fold))
        except strictjson.JsonError:
            continue
    return bool(parsed) and any(
        same_json(value, target) for value in (_fold_value(value, fold) for value in values) for target in parsed
    )


def _fold_value(value: object, fold: Fold) -> object:
    return value if fold is str else strictjson.loads(fold(strictjson.dumps(value)), duplicates=True)


class StartsWith(Evaluator):
    """Passes when the answer starts with the value, or with any reference of the item.

    Nothing is trimmed. With json_path any matching value may start with it.
    """

    name = "StartsWith"
    aliases = ("STARTS_WITH",)
    family = "text"
    Options = ValueTextOptions
    example: ClassVar = {"options": {"value": "Dear "}, "response": "Dear Ada, ..."}

    def score(self, evidence: Evidence) -> Score:
        """Compare the beginning."""
        fold = _case_folding(self.options)
        targets = target_texts(evidence, self.options.value_list, "value")
        starts = tuple(map(fold, targets))
        texts = response_texts(evidence, self.options.json_path)
        if any(fold(text).startswith(starts) for text in texts):
            return verdict_score(True, f"the answer starts with {quoted_list(targets)}")
        return verdict_score(False, f"expected a start of {quoted_list(targets)}, got {quoted_list(texts)}")


def _split_by_occurrence(evidence: Evidence, options: ValuesTextOptions) -> tuple[list[str], list[str]]:
    """The targets that occur in the answer, and those that do not."""
    fold = _case_folding(options)
    targets = target_texts(evidence, options.values, "values")
    texts = [fold(text) for text in response_texts(evidence, options.json_path)]
    occurs = {target: any(fold(target) in text for text in texts) for target in targets}
    return [target for target in occurs if occurs[target]], [target for target in occurs if not occurs[target]]


class ContainsAll(Evaluator):
    """Passes when every one of the values occurs in the answer.

    Without values every reference of the item must occur; an empty list passes. With json_path each value must
    occur in one of the matching values, not all in the same one.
    """

    name = "ContainsAll"
    aliases = ("CONTAINS_ALL",)
    family = "text"
    Options = ValuesTextOptions
    example: ClassVar = {"options": {"values": ["red", "blue"]}, "response": "blue and red"}

    def score(self, evidence: Evidence) -> Score:
        """Look for each."""
        present, missing = _split_by_occurrence(evidence, self.options)
        reason = (
            f"not in the answer: {quoted_list(missing)}"
            if missing
            else f"the answer contains all {len(present)} values"
        )
        return verdict_score(not missing, reason, missing=missing)


class ContainsAny(Evaluator):
    """Passes when at least one of the values occurs in the answer.

    Without values one reference of the item must occur; an empty list fails.
    """

    name = "ContainsAny"
    aliases = ("CONTAINS_ANY",)
    family = "text"
    Options = ValuesTextOptions
    example: ClassVar = {"options": {"values": ["red", "blue"]}, "response": "a blue door"}

    def score(self, evidence: Evidence) -> Score:
        """Look for each."""
        present, missing = _split_by_occurrence(evidence, self.options)
        if present:
            return verdict_score(True, f"the answer contains {quoted_list(present)}", found=present)
        return verdict_score(
            False, f"none of them is in the answer: {quoted_list(missing) or '(no values)'}", found=present
        )


class RegexOptions(TextOptions):
    """Options of Regex."""

    pattern: str = Field(description="A regular expression.")
    mode: Literal["search", "fullmatch"] = Field(
        "search", description="search: it matches somewhere; fullmatch: it matches the whole text."
    )

    @model_validator(mode="after")
    def _readable(self) -> RegexOptions:
        try:
            compile_pattern(self.pattern, ignore_case=self.ignore_case)
        except PatternError as problem:
            raise ValueError(str(problem)) from None
        return self


class Regex(Evaluator):
    """Passes when the pattern matches the answer.

    With json_path any matching value may match. A pattern that takes too long on an answer is an error, not a fail.
    """

    name = "Regex"
    family = "text"
    Options = RegexOptions
    example: ClassVar = {"options": {"pattern": r"\b\d{4}-\d{2}-\d{2}\b"}, "response": "due 2031-05-01"}

    def score(self, evidence: Evidence) -> Score:
        """Try each text."""
        pattern = compile_pattern(self.options.pattern, ignore_case=self.options.ignore_case)
        matches = pattern.fullmatch if self.options.mode == "fullmatch" else pattern.search
        pattern_budget = PatternBudget()
        try:
            texts = response_texts(evidence, self.options.json_path)
            passed = any(pattern_budget.search(matches, text) for text in texts)
        except PatternTimeout as problem:
            raise CannotJudge("patternTimeout", str(problem)) from None
        outcome = "matches" if passed else "does not match"
        return verdict_score(passed, f"the answer {outcome} the pattern {quoted(self.options.pattern)}")


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
        from rapidfuzz.distance import Levenshtein as Distance  # imported when needed: a run may not need it

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
    as often as both have it. With several references the best one counts. For texts of ASCII letters and digits it
    equals the library rouge-score without its stemmer.
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
    """The BLEU implementation, or None if the library is not installed."""
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


class BleuOptions(ValuesTextOptions):
    """Options of Bleu."""

    value: str | None = Field(None, description="The one text to compare with, instead of values.")
    compat: bool = Field(
        False,
        description="Count as promptfoo does: lower case, words between blanks, the best reference for each length of "
        "runs, 1e-7 for a length without a common run.",
    )

    threshold: float | None = Field(
        0.5, ge=0, le=1, description="The BLEU, of 0 to 1, from which it passes; null only shows the number."
    )


class Bleu(Evaluator):
    """Passes when the answer shares enough runs of one to four words with the references (BLEU), from 0 to 1.

    With `compat` it is the figure of promptfoo, which needs no library. Else it is sentence BLEU over all references
    together, orders without any n-gram left out, divided by 100 so that its
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
        return None if self.options.compat or is_installed("sacrebleu") else _MISSING

    def score(self, evidence: Evidence) -> Score:
        """The best BLEU of any text of the answer."""
        fold = str.casefold if self.options.ignore_case else str
        given = self.options.values if self.options.value is None else [self.options.value]
        references = target_texts(evidence, given)
        if self.options.compat:
            texts = response_texts(evidence, self.options.json_path)
            best = max(_bleu_of_promptfoo(text, references) for text in texts)
            return measured_score(best, self.options.threshold, f"BLEU {best:.4f}")
        best = best_bleu(evidence, references, self.options.json_path, fold) / 100
        return measured_score(best, self.options.threshold, f"BLEU {best:.3f}")


def _lower_words(text: str) -> list[str]:
    return text.lower().split()


def _bleu_of_promptfoo(text: str, references: Sequence[str]) -> float:
    words, others = _lower_words(text), [_lower_words(reference) for reference in references]
    if not words:
        return 0.0
    logarithm = 0.0
    for size in range(1, 5):
        runs = _ngrams(words, size)
        common = max((runs & _ngrams(other, size)).total() for other in others)
        logarithm += math.log(common / runs.total() if common else 1e-7) / 4
    nearest = min((len(other) for other in others), key=lambda length: abs(length - len(words)))
    brevity = 1.0 if len(words) > nearest else math.exp(1 - nearest / len(words))
    return brevity * math.exp(logarithm)


class GleuOptions(ValuesTextOptions):
    """Options of Gleu."""

    threshold: float | None = Field(
        0.5, ge=0, le=1, description="The GLEU, of 0 to 1, from which it passes; null only shows the number."
    )


class Gleu(Evaluator):
    """Passes when the answer shares enough runs of one to four words with a reference (Google BLEU), from 0 to 1.

    The score is the smaller of precision and recall over all runs together, of the nearest reference. Case does not
    count, nor do points at the end of a word.
    """

    name = "Gleu"
    family = "text"
    measure = Measure("at least")
    Options = GleuOptions
    example: ClassVar = {
        "options": {"threshold": 0.5},
        "response": "The cat sits on the mat.",
        "expected": "The cat sits on the mat",
    }

    def score(self, evidence: Evidence) -> Score:
        """The best GLEU of any text of the answer with any reference."""
        references = target_texts(evidence, self.options.values, "values")
        texts = response_texts(evidence, self.options.json_path)
        best = max(_gleu(text, reference) for text in texts for reference in references)
        return measured_score(best, self.options.threshold, f"GLEU {best:.4f}")


def _gleu(text: str, reference: str) -> float:
    words, others = ([word.rstrip(".") for word in _lower_words(one)] for one in (text, reference))
    if not words:
        return 0.0
    if words == others:
        return 1.0
    pairs = [(_ngrams(words, size), _ngrams(others, size)) for size in range(1, 5)]
    common = sum((mine & theirs).total() for mine, theirs in pairs)
    longest = max(sum(mine.total() for mine, _ in pairs), sum(theirs.total() for _, theirs in pairs))
    return common / longest if longest else 0.0
