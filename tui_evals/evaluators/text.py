"""Comparing text: equal, contained, starting with, matching a pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from pydantic import AliasChoices, Field, model_validator

from tui_evals.text import strictjson
from tui_evals.text.patterns import PatternError, PatternTimeout, compile_pattern

from .base import (
    CannotJudge,
    Evaluator,
    Evidence,
    Score,
    TextOptions,
    as_text,
    response_values,
    verdict_score,
)
from .values import PatternBudget, quoted, quoted_list, response_texts, same_json, target_texts

Fold = Callable[[str], str]


def _case_folding(options: TextOptions) -> Fold:
    return str.casefold if options.ignore_case else str


class ValueTextOptions(TextOptions):
    """Options of what compares with one value."""

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
    """Options of what compares with several values."""

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
        """What both sides go through before they are compared."""
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
        """Compare the whole text, then what it stands for where a path chose it."""
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
