"""The options of a generation and the presets of effort; an option given explicitly always wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

Effort = Literal["min", "low", "medium", "high"]
_Positive = Annotated[int, Field(ge=1)]
_Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a generation, under the names PromptPex gives them, in our spelling."""

    effort: Effort = "low"
    max_rules: _Positive | None = None
    """How many output rules, and how many inverse rules, tests are made for; None is all."""
    split_rules: bool = True
    max_rules_per_test_generation: _Count = 3
    """Rules shown in one question for tests; 0 shows all at once."""
    test_generations: _Positive = 2
    tests_per_rule: _Positive = 3
    test_expansions: _Count = 0
    runs_per_test: _Positive = 2
    max_tests_to_run: _Positive | None = None
    groundtruth: bool = True
    compliance: bool = True
    baseline_tests: bool = False
    validity: bool = False
    groundedness: bool = False
    coverage: bool = False
    test_samples_count: _Count = 5
    test_samples_shuffle: bool = False
    intent_instructions: str = ""
    input_spec_instructions: str = ""
    output_rules_instructions: str = ""
    inverse_output_rules_instructions: str = ""
    test_expansion_instructions: str = ""

    def kept(self) -> dict[str, Any]:
        """The options as a file keeps them."""
        return asdict(self)


_DEFAULTS = {field.name: field.default for field in fields(Options)}

_ONE_EACH = {"test_generations": 1, "test_expansions": 0}
PRESETS: Mapping[Effort, Mapping[str, Any]] = {
    "min": {
        **_ONE_EACH,
        "max_rules": 6,
        "max_rules_per_test_generation": 100,
        "split_rules": False,
        "tests_per_rule": 1,
        "runs_per_test": 1,
        "max_tests_to_run": 10,
        "compliance": False,
    },
    "low": {**_ONE_EACH, "max_rules": 3, "max_rules_per_test_generation": 100, "max_tests_to_run": 10},
    "medium": {
        **_ONE_EACH,
        "max_rules": 20,
        "max_rules_per_test_generation": 5,
        "split_rules": True,
        "tests_per_rule": 3,
        "runs_per_test": 1,
    },
    "high": {
        "max_rules": 50,
        "max_rules_per_test_generation": 2,
        "split_rules": True,
        "test_generations": 2,
        "test_expansions": 1,
    },
}


def saved_options(saved: object) -> Mapping[str, Any]:
    """The options a file holds; ValueError says which of them cannot be."""
    if saved is None:
        return {}
    if not isinstance(saved, dict):
        raise ValueError("options must be an object, such as {...}")
    known = {name: value for name, value in saved.items() if name in _DEFAULTS}
    try:
        TypeAdapter(Options).validate_python(known)
    except ValidationError as errors:
        first = errors.errors(include_url=False)[0]
        raise ValueError(f"options, {first['loc'][0]}: {first['msg']}") from None
    return known


def effective_options(given: Mapping[str, Any], saved: Mapping[str, Any] | None = None) -> Options:
    """The options in force: those given, over the preset of a given effort, over what was saved, over the defaults.

    None stands for what was not given. An effort that is not given is the saved one, else low.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    before = {name: value for name, value in (saved or {}).items() if name in _DEFAULTS}
    if "effort" in chosen:
        return Options(**{**PRESETS[chosen["effort"]], **chosen})
    if before:
        return Options(**{**before, **chosen})
    return Options(**{**PRESETS["low"], **chosen})


def split_names(text: str) -> list[str]:
    """The names of a list separated by semicolons."""
    return [piece for part in text.split(";") if (piece := part.strip())]
