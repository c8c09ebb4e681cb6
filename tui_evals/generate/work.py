"""Shared by all steps: the options, the prompt, the folder and the models."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.datasets.prompts import FrontMatter, Scenario, load_prompt, prompt_name
from tui_evals.generate.asking import CannotGenerate, Messages, ModelAsker, Prompts, is_refusal
from tui_evals.generate.folder import (
    GenerationFolder,
    Rule,
    Test,
    Truth,
    all_rules,
    number_rules,
    parse_rows,
    renumber_tests,
    rule_lines,
    short_hash,
)
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.runs.asking import PricedTarget
from tui_evals.store.records import AnswerRecord
from tui_evals.text import strictjson
from tui_evals.text.chats import Prompty
from tui_evals.text.safe import without_sequences
from tui_evals.text.templates import template_variables
from tui_evals.text.yamls import YamlError, load_yaml

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
    """The effective options: `given` over the preset of a given effort, over `saved`, over the defaults.

    None in `given` means not given. Without a given effort, the saved one applies, else low.
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


ONLY_INPUT = "input_text"
_ONLY_INPUT_DESCRIPTION = "What the prompt is to work on."
_LITERALS: Mapping[type, str] = {bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}


@dataclass(frozen=True, slots=True)
class PromptInput:
    """One input of a prompt; `default` is None without one."""

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
    """Its text with the lines that name the speaker."""
    inputs: tuple[PromptInput, ...]
    scenarios: tuple[Scenario, ...]
    samples: tuple[Mapping[str, Any], ...]
    instructions: Mapping[str, str]
    declared: bool
    """Whether the prompt has inputs; without any, the test's input follows the prompt."""

    @property
    def id(self) -> str:
        """Seven hex digits that identify the text."""
        return short_hash(self.body)

    def scenario(self, name: str | None) -> Scenario:
        """The scenario with this name; an unknown one sets nothing."""
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
    """Read a prompt under test; DatasetError names the error, the file and the line."""
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
    """The additions to the question of a step: an option, else the front matter."""
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
    """The samples of a file next to the prompt: a list of objects, or an object whose one value is such a list."""

    def refuse(fault: str) -> DatasetError:
        return DatasetError(str(file), [Problem(f"the test samples {name}: {fault}", line=prompt.lines["testSamples"])])

    try:
        value = strictjson.loads(read_text(file.parent / name))
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


PROMPT = "prompt"
"""The prompt under test, as a source of generated files."""
MAX_RULES = 100
"""A reply with more rules than this is faulty, and would cost thousands of questions."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models by role: writing, answering for the ground truth, or judging."""

    rules: PricedTarget
    baseline: PricedTarget
    groundtruth: PricedTarget
    judges: tuple[PricedTarget, ...] = ()
    groundtruth_judges: tuple[PricedTarget, ...] = ()

    @property
    def all(self) -> tuple[PricedTarget, ...]:
        """Each of them once."""
        return tuple({id(one): one for one in self._named()}.values())

    def _named(self) -> tuple[PricedTarget, ...]:
        return (self.rules, self.baseline, self.groundtruth, *self.judges, *self.groundtruth_judges)


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A generation: what its steps read, ask and write."""

    subject: Subject
    options: Options
    folder: GenerationFolder
    prompts: Prompts
    models: Models
    asker: ModelAsker | None = None
    """None if nothing is asked, because only the steps and their costs are needed."""
    groundtruth_metric: Path | None = None
    """The user's own metric for ground truth, in place of ours."""
    tell: Callable[[str], None] = lambda warning: None
    """Takes warnings for the user."""
    progress: Callable[[str, int, int], None] = lambda step, done, total: None
    gaps: dict[str, str] = field(default_factory=dict)
    """For each step with failed parts: how many are done, how many failed, and why."""
    under_test: tuple[str, ...] = ()
    """The models that exports are written for."""
    again: frozenset[int] = field(default_factory=frozenset)
    """The numbers of the rules whose tests are rewritten."""
    invert: frozenset[int] = field(default_factory=frozenset)
    """The positions of the output rules whose inverse is rewritten."""

    def note_failures(self, step: str, done: str, failures: Sequence[CannotGenerate]) -> None:
        """Report the failed parts of a step, now and at the end; `done` counts the others, as in `3 of 4 tests`."""
        reason = "Reason" if len(set(map(str, failures))) == 1 else "First reason"
        why = str(failures[0]).rstrip(".")
        self.gaps[step] = f"{done} done, {len(failures):,} failed. {reason}: {why}."
        self.tell(f"{step}: {self.gaps[step]} The same command retries the failed ones.")

    @property
    def body(self) -> str:
        """The prompt as the steps show it."""
        return self.subject.body

    @property
    def texts(self) -> dict[str, str]:
        """The sources of files that lie outside the folder."""
        return {PROMPT: self.subject.body}

    def text(self, name: str) -> str:
        """The text of a file in the folder."""
        return (self.folder.read(name) or "").strip()

    @property
    def rules(self) -> list[Rule]:
        """The rules that tests are made for, output rules first."""
        return number_rules(*self._lines(), self.options.max_rules)

    def _lines(self) -> tuple[list[str], list[str]]:
        return rule_lines(self.folder.read("rules.txt")), rule_lines(self.folder.read("inverse_rules.txt"))

    @property
    def tests(self) -> list[Test]:
        """The current tests, baseline tests included, with the current numbers of their rules."""
        tests = parse_rows(Test, self._place("tests.json"), self.folder.read("tests.json") or "[]")
        return renumber_tests(tests, all_rules(*self._lines(), self.options.max_rules))

    @property
    def truths(self) -> dict[str, Truth]:
        """The current ground truth, by test."""
        text = self.folder.read("test_groundtruth.json") or "[]"
        return {truth.testuid: truth for truth in parse_rows(Truth, self._place("test_groundtruth.json"), text)}

    def _place(self, name: str) -> str:
        return str(self.folder.path / name)

    async def ask(self, model: PricedTarget, messages: Sequence[Mapping[str, Any]], step: str, **more: Any) -> str:
        """The text of a model's answer."""
        return (await self.answer(model, messages, step, **more)).text or ""

    async def answer(
        self, model: PricedTarget, messages: Sequence[Mapping[str, Any]], step: str, **more: Any
    ) -> AnswerRecord:
        """A model's answer."""
        assert self.asker is not None
        return await self.asker.ask(model, messages, step, **more)

    async def write_text(self, file: str, messages: Messages, *, attempt: int = 0, tidy: Callable[[str], str]) -> str:
        """The model's text for a file, tidied; CannotGenerate if it declined."""
        reply = await self.ask(self.models.rules, messages, file, attempt=attempt, params=CREATIVE)
        if is_refusal(reply):
            raise CannotGenerate(
                f"{self.models.rules.config.name} declined: “{_first_words(reply)}”. {self._way_out(file)}"
            )
        # Users open these files with any program, and a terminal obeys control sequences in them.
        return tidy(_CONTROLS.sub("", without_sequences(reply)))

    def nothing_written(self, what: str, file: str) -> CannotGenerate:
        """The error where a model wrote nothing for a file."""
        return CannotGenerate(f"{self.models.rules.config.name} wrote no {what}. {self._way_out(file)}")

    def _way_out(self, file: str) -> str:
        return (
            f"Name another model with --target, say more about what you want in the prompt's `instructions`, or write "
            f"{self._place(file)} yourself; the same command then continues from there"
        )


CREATIVE: Mapping[str, float] = {"temperature": 1}


def _first_words(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


async def make_each(
    work: Generation, step: str, unit: str, things: Sequence[T], make: Callable[[T], Awaitable[R]]
) -> tuple[list[R], list[CannotGenerate], BaseException | None]:
    """Make a result of every thing, all at once: the results, the failures, and what ended it, if anything.

    Failures are told with their number and reason; `unit` is what the things are called.
    """
    done = 0

    async def make_one(thing: T) -> R | CannotGenerate:
        nonlocal done
        outcome: R | CannotGenerate
        try:
            outcome = await make(thing)
        except CannotGenerate as problem:
            outcome = problem
        done += 1
        work.progress(step, done, len(things))
        return outcome

    work.progress(step, 0, len(things))
    outcomes = await asyncio.gather(*map(make_one, things), return_exceptions=True)
    results = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    failures = [error for error in errors if isinstance(error, CannotGenerate)]
    if failures:
        work.note_failures(step, f"{len(results):,} of {len(things):,} {unit}", failures)
    return results, failures, next((error for error in errors if not isinstance(error, CannotGenerate)), None)
