"""The prompt that tests are made for: its text, inputs, scenarios and samples."""

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
_ONLY_INPUT_DESCRIPTION = "What the prompt is to work on."
_LITERALS: Mapping[type, str] = {bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}


@dataclass(frozen=True, slots=True)
class PromptInput:
    """One input of a prompt; `default` is None where it has none."""

    name: str
    type: str = "string"
    description: str = ""
    default: Any = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A prompt under test."""

    name: str
    file: Path
    prompty: Prompty
    body: str
    """Its text with the lines that say who speaks."""
    inputs: tuple[PromptInput, ...]
    scenarios: tuple[Scenario, ...]
    samples: tuple[Mapping[str, Any], ...]
    instructions: Mapping[str, str]
    declared: bool
    """Whether the prompt has inputs; one without is followed by the test's input."""

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

    def open_inputs(self, scenario: Scenario) -> tuple[PromptInput, ...]:
        """The inputs that a test gives a value: those without one yet, else those that no scenario fixes."""
        free = tuple(one for one in self.inputs if one.name not in self.fixed(scenario))
        return tuple(one for one in free if one.default is None) or free or self.inputs[:1]


UNNAMED = Scenario(name="")


def read_subject(file: Path, options: Options, seed: int | None = None) -> Subject:
    """Read a prompt under test; DatasetError says what is wrong, in which file and line."""
    prompt = load_prompt(file)
    if not prompt.sections:
        raise DatasetError(str(file), [Problem("holds no text below its front matter; write the prompt there")])
    front = FrontMatter.model_validate(prompt.front)
    declared = _prompt_inputs(prompt)
    body = prompt.body.strip()
    return Subject(
        name=prompt_name(file),
        file=file,
        prompty=prompt,
        body=body if declared else f"{body}\n{{{{{ONLY_INPUT}}}}}",
        inputs=declared or (PromptInput(ONLY_INPUT, description=_ONLY_INPUT_DESCRIPTION),),
        scenarios=tuple(front.scenarios or ()) or (UNNAMED,),
        samples=_samples(file, front.testSamples or (), prompt, options, seed),
        instructions=_instructions(front.instructions or {}, options),
        declared=bool(declared),
    )


def _prompt_inputs(prompt: Prompty) -> tuple[PromptInput, ...]:
    """The declared inputs, then those that only the text names."""
    declared = prompt.front.get("inputs")
    inputs: dict[str, PromptInput] = {}
    for name, about in declared.items() if isinstance(declared, dict) else ():
        if isinstance(about, dict):
            kind = about.get("type")
            described = str(about.get("description") or "")
            inputs[name] = PromptInput(
                name, kind if isinstance(kind, str) else "string", described, about.get("default")
            )
        else:
            inputs[name] = PromptInput(name, _LITERALS.get(type(about), "string"), "", about)
    for section in prompt.sections:
        for name in template_variables(section.text):
            inputs.setdefault(name, PromptInput(name))
    return tuple(inputs.values())


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
    file: Path, listed: Sequence[Mapping[str, Any] | str], prompt: Prompty, options: Options, seed: int | None
) -> tuple[Mapping[str, Any], ...]:
    samples: list[Mapping[str, Any]] = []
    for entry in listed:
        samples += _load_samples(file, entry, prompt) if isinstance(entry, str) else [entry]
    if options.test_samples_shuffle:
        random.Random(seed).shuffle(samples)
    return tuple(samples[: options.test_samples_count])


def _load_samples(file: Path, name: str, prompt: Prompty) -> list[Mapping[str, Any]]:
    """The samples of a file beside the prompt: a list of objects, or an object whose one value is such a list."""

    def refuse(fault: str) -> DatasetError:
        return DatasetError(str(file), [Problem(f"the test samples {name}: {fault}", line=prompt.lines["testSamples"])])

    try:
        value = strictjson.loads((file.parent / name).read_text(encoding="utf-8"))
    except OSError as problem:
        raise refuse(f"cannot be read: {problem.strerror}") from None
    except (UnicodeDecodeError, strictjson.JsonError) as problem:
        raise refuse(f"are not JSON: {problem}") from None
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise refuse("must be a list of objects, each with a value for the inputs")
    return value


def _parse_yaml(text: str) -> object:
    try:
        return load_yaml(text)
    except YamlError:
        return None


class Unbindable(ValueError):
    """A test's input does not fit the inputs of the prompt."""


def bind_inputs(subject: Subject, scenario: Scenario, testinput: str) -> dict[str, Any]:
    """The value of every input for one test: the scenario's, the defaults, and the test's for the rest."""
    values = {one.name: one.default for one in subject.inputs if one.default is not None} | subject.fixed(scenario)
    missing = [one.name for one in subject.inputs if one.name not in values]
    if not missing:
        # Everything has a value already, so the test's replaces it for the inputs that no scenario fixes.
        names = [one.name for one in subject.open_inputs(scenario)]
        fields = _parse_object(testinput)
        if fields is not None and fields.keys() & set(names):
            return values | {name: fields[name] for name in names if name in fields}
        return values | {names[0]: testinput}
    fields = _parse_object(testinput)
    if len(missing) == 1:
        name = missing[0]
        return values | {name: fields[name] if fields is not None and name in fields else testinput}
    if fields is None:
        raise Unbindable(f"Invalid test input format, expected JSON object: {testinput}")
    if absent := [name for name in missing if name not in fields]:
        raise Unbindable(f"the test gives no value for {', '.join(absent)}: {testinput}")
    return values | {name: fields[name] for name in missing}


def _parse_object(text: str) -> dict[str, Any] | None:
    """The object in a test's input: JSON, or what YAML allows besides, such as bare names."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = strictjson.loads(text)
    except strictjson.JsonError:
        value = _parse_yaml(text)
    return value if isinstance(value, dict) else None
