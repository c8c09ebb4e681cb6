"""The prompt that tests are made for: its text, its inputs, its scenarios and samples."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.datasets.problems import DatasetError, Problem
from tui_evals.datasets.prompts import FrontMatter, Scenario, load_prompt, prompt_name
from tui_evals.text import strictjson
from tui_evals.text.prompty import Prompty
from tui_evals.text.templates import template_variables
from tui_evals.text.yamls import YamlError, load_yaml

from .options import Options
from .shapes import short_hash

ONLY_INPUT = "input_text"
_ABOUT_ONLY = "What the prompt is to work on."
_LITERALS: Mapping[type, str] = {bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a prompt; `default` is None where it has none."""

    name: str
    type: str = "string"
    description: str = ""
    default: Any = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A prompt under test, read."""

    name: str
    file: Path
    prompty: Prompty
    body: str
    """Its text with the lines that say who speaks."""
    inputs: tuple[Input, ...]
    scenarios: tuple[Scenario, ...]
    samples: tuple[Mapping[str, Any], ...]
    instructions: Mapping[str, str]
    declared: bool
    """Whether the prompt has inputs of its own; one without is followed by what it is to work on."""

    @property
    def id(self) -> str:
        """Seven hex digits that stand for the text."""
        return short_hash(self.body)

    def scenario(self, name: str | None) -> Scenario:
        """The scenario of a name; one that is gone fixes nothing."""
        return next((one for one in self.scenarios if one.name == (name or "")), UNNAMED)

    def fixed(self, scenario: Scenario) -> dict[str, Any]:
        """The inputs a scenario gives a value."""
        names = {one.name for one in self.inputs}
        return {name: value for name, value in (scenario.parameters or {}).items() if name in names}

    def open_inputs(self, scenario: Scenario) -> tuple[Input, ...]:
        """The inputs whose values a test brings: those that scenario and defaults leave; all, if they leave none."""
        free = tuple(one for one in self.inputs if one.name not in self.fixed(scenario))
        return tuple(one for one in free if one.default is None) or free or self.inputs[:1]


UNNAMED = Scenario(name="")


def subject_of(file: Path, options: Options, seed: int | None = None) -> Subject:
    """Read a prompt under test; DatasetError says what is wrong, in which file and line."""
    prompt = load_prompt(file)
    if not prompt.sections:
        raise DatasetError(str(file), [Problem("holds no text below its front matter; write the prompt there")])
    front = FrontMatter.model_validate(prompt.front)
    declared = _inputs(prompt)
    body = prompt.body.strip()
    return Subject(
        name=prompt_name(file),
        file=file,
        prompty=prompt,
        body=body if declared else f"{body}\n{{{{{ONLY_INPUT}}}}}",
        inputs=declared or (Input(ONLY_INPUT, description=_ABOUT_ONLY),),
        scenarios=tuple(front.scenarios or ()) or (UNNAMED,),
        samples=_samples(file, front.testSamples or (), prompt, options, seed),
        instructions=_instructions(front.instructions or {}, options),
        declared=bool(declared),
    )


def _inputs(prompt: Prompty) -> tuple[Input, ...]:
    """The inputs that are declared, then those that only stand in the text."""
    given = prompt.front.get("inputs")
    found: dict[str, Input] = {}
    for name, about in given.items() if isinstance(given, dict) else ():
        if isinstance(about, dict):
            kind = about.get("type")
            described = str(about.get("description") or "")
            found[name] = Input(name, kind if isinstance(kind, str) else "string", described, about.get("default"))
        else:
            found[name] = Input(name, _LITERALS.get(type(about), "string"), "", about)
    for section in prompt.sections:
        for name in template_variables(section.text):
            found.setdefault(name, Input(name))
    return tuple(found.values())


def _instructions(front: Mapping[str, str], options: Options) -> dict[str, str]:
    """What is added to the question of a step: an option, else what the front matter says."""
    return {
        "intent": options.intent_instructions or front.get("intent", ""),
        "inputspec": options.input_spec_instructions or front.get("inputSpec", ""),
        "rules": options.output_rules_instructions or front.get("outputRules", ""),
        "inverse": options.inverse_output_rules_instructions or front.get("inverseOutputRules", ""),
        "expansion": options.test_expansion_instructions or front.get("testExpansion", ""),
    }


def _samples(
    file: Path, given: Sequence[Mapping[str, Any] | str], prompt: Prompty, options: Options, seed: int | None
) -> tuple[Mapping[str, Any], ...]:
    found: list[Mapping[str, Any]] = []
    for one in given:
        found += _loaded(file, one, prompt) if isinstance(one, str) else [one]
    if options.test_samples_shuffle:
        random.Random(seed).shuffle(found)
    return tuple(found[: options.test_samples_count])


def _loaded(file: Path, named: str, prompt: Prompty) -> list[Mapping[str, Any]]:
    """The samples of a file beside the prompt: a list of objects, or an object whose one value is such a list."""

    def refuse(said: str) -> DatasetError:
        return DatasetError(str(file), [Problem(f"the test samples {named}: {said}", line=prompt.lines["testSamples"])])

    try:
        value = strictjson.loads((file.parent / named).read_text(encoding="utf-8"))
    except OSError as problem:
        raise refuse(f"cannot be read: {problem.strerror}") from None
    except (UnicodeDecodeError, strictjson.JsonError) as problem:
        raise refuse(f"are not JSON: {problem}") from None
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise refuse("must be a list of objects, each with a value for the inputs")
    return value


def _sloppy(text: str) -> object:
    try:
        return load_yaml(text)
    except YamlError:
        return None


class Unbindable(ValueError):
    """A test's input does not fit the inputs of the prompt."""


def bound(subject: Subject, scenario: Scenario, testinput: str) -> dict[str, Any]:
    """The value of every input for one test: the scenario's, the defaults, and the test's for the rest."""
    values = {one.name: one.default for one in subject.inputs if one.default is not None} | subject.fixed(scenario)
    missing = [one.name for one in subject.inputs if one.name not in values]
    if not missing:
        # Everything has a value already, so the test's replaces it for the inputs that no scenario fixes.
        names = [one.name for one in subject.open_inputs(scenario)]
        given = _object(testinput)
        if given is not None and given.keys() & set(names):
            return values | {name: given[name] for name in names if name in given}
        return values | {names[0]: testinput}
    given = _object(testinput)
    if len(missing) == 1:
        name = missing[0]
        return values | {name: given[name] if given is not None and name in given else testinput}
    if given is None:
        raise Unbindable(f"Invalid test input format, expected JSON object: {testinput}")
    if absent := [name for name in missing if name not in given]:
        raise Unbindable(f"the test gives no value for {', '.join(absent)}: {testinput}")
    return values | {name: given[name] for name in missing}


def _object(text: str) -> dict[str, Any] | None:
    """The object a test's input is: JSON, or what YAML and JSON5 allow besides, such as bare names."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = strictjson.loads(text)
    except strictjson.JsonError:
        value = _sloppy(text)
    return value if isinstance(value, dict) else None
