"""What exports to other tools share: tests with a value for every input, and templates spelled their way."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.generate.shapes import Test, Truth
from tui_evals.generate.subject import ONLY_INPUT, Subject, Unbindable, bound
from tui_evals.generate.truth import BAD
from tui_evals.text.box import TemplateError
from tui_evals.text.prompty import Prompty, PromptyError, Section, parse_prompty
from tui_evals.text.templates import render

JUDGE = "gpt-4o"
_NAME = re.compile(r"\{\{\s*([^\W\d]\w*)\s*\}\}")
_COMPUTED = re.compile(r"\{\{|\{%|\{#")
_MODEL = re.compile(r"([a-z_]+)[:/](.+)")

Spell = Callable[[str], str]
Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Facts:
    """The texts of the first steps."""

    intent: str = ""
    input_spec: str = ""
    rules: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """A file to write, and what could not be put in it: a sentence for each test or metric."""

    filename: str
    text: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A test with a value for every input."""

    test: Test
    values: Mapping[str, Any]
    computed: Mapping[str, str]
    expected: str


def model_of(model: str, *providers: str) -> str | None:
    """The model without its provider, when it is one of these."""
    found = _MODEL.fullmatch(model)
    return found[2] if found and found[1] in providers else None


def messages_of(subject: Subject, spell: Spell) -> tuple[Messages, dict[str, str]]:
    """The prompt's messages with its names spelled for a reader, and what must be rendered for each test before."""
    sections = subject.prompty.sections
    if not subject.declared:
        sections = (*sections, Section("user", f"{{{{{ONLY_INPUT}}}}}", 0))
    messages, computed = [], {}
    for number, section in enumerate(sections, 1):
        text = _spelled(section.text, spell)
        if text is None:
            key = free(f"message_{number}", subject)
            computed[key] = section.text
            text = spell(key)
        messages.append({"role": section.role, "content": text})
    return messages, computed


def _spelled(text: str, spell: Spell) -> str | None:
    """A template with its names spelled otherwise; None where it holds more than text and names."""
    if _COMPUTED.search(_NAME.sub(" ", text)):
        return None
    return _NAME.sub(lambda found: spell(found[1]), text)


def rows_of_tests(
    subject: Subject, tests: Sequence[Test], truths: Sequence[Truth], computed: Mapping[str, str]
) -> tuple[list[Row], tuple[str, ...]]:
    """The tests whose input fits the prompt, and a sentence for each other one."""
    known = {truth.testuid: truth for truth in truths}
    rows, left_out = [], []
    for place, test in enumerate(tests, 1):
        try:
            values = bound(subject, subject.scenario(test.scenario), test.testinput)
            values = {name: "" if value is None else value for name, value in values.items()}
            rendered = {key: render(template, values) for key, template in computed.items()}
        except (Unbindable, TemplateError) as problem:
            left_out.append(f"{test.testuid or f'test {place}'}: {problem}")
            continue
        rows.append(Row(test, values, rendered, _expected(test, known.get(test.testuid or ""))))
    return rows, tuple(left_out)


def _expected(test: Test, truth: Truth | None) -> str:
    """The groundtruth unless its judges found it poor or the test was changed since, else what the test expects."""
    if truth is None or truth.testinput != test.testinput:
        return test.expectedoutput or ""
    poor = truth.groundtruthScore is not None and truth.groundtruthScore < BAD
    return test.expectedoutput or "" if poor else truth.output


def readable(metrics: Mapping[str, Path], left_out: list[str], tag: str = "") -> list[tuple[str, Prompty]]:
    """The metrics that carry a tag, all without one; those that cannot be read are left out."""
    found = []
    for name, path in metrics.items():
        try:
            prompt = parse_prompty(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeError, PromptyError) as problem:
            left_out.append(f"the metric {name} cannot be read: {problem}")
            continue
        if not tag or tag in tags_of(prompt):
            found.append((name, prompt))
    return found


def judging(name: str, prompt: Prompty, spell: Spell, left_out: list[str]) -> Messages:
    """The messages of a metric, none when it computes what no reader of the export can."""
    texts = [(section.role, _spelled(section.text, spell)) for section in prompt.sections]
    if not texts or any(text is None for _, text in texts):
        left_out.append(f"the metric {name} is left out: it must hold text, and of {{{{ }}}} and {{% %}} only names")
        return []
    return [{"role": role, "content": text} for role, text in texts if text is not None]


def constants(subject: Subject, facts: Facts) -> dict[str, str]:
    """What metrics may name that is the same for every test."""
    prompt = "\n\n".join(section.text for section in subject.prompty.sections)
    return {"prompt": prompt, "intent": facts.intent, "inputSpec": facts.input_spec, "rules": facts.rules}


def free(name: str, subject: Subject) -> str:
    """The name, lengthened where an input of the prompt has it already."""
    while any(one.name == name for one in subject.inputs):
        name += "_"
    return name


def braced(name: str) -> str:
    """A name as a template has it."""
    return f"{{{{{name}}}}}"


def tags_of(prompt: Prompty) -> list[str]:
    """The tags of a metric."""
    tags = prompt.front.get("tags")
    return list(map(str, tags)) if isinstance(tags, list) else []
