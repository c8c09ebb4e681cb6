"""Prompt files (`.prompty`): the front matter as PromptPex reads it, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tui_evals.text.box import TemplateError
from tui_evals.text.prompty import Prompty, PromptyError, parse_prompty
from tui_evals.text.templates import variables

from .discover import project_root
from .document import Document
from .problems import DatasetError, Problem
from .validate import placed, problem_of


class Scenario(BaseModel):
    """A way of using the prompt, with some inputs fixed."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    instructions: str | None = None
    parameters: dict[str, Any] | None = None


class FrontMatter(BaseModel):
    """What may stand in the front matter of a prompt file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    schema_: str | None = Field(None, alias="$schema")
    name: str | None = None
    description: str | None = None
    version: str | float | None = None
    source: str | None = None
    url: str | None = None
    model: dict[str, Any] | None = None
    tags: list[str] | None = None
    authors: list[str] | None = None
    sample: dict[str, Any] | str | None = None
    inputs: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None
    instructions: dict[str, str] | None = None
    scenarios: list[Scenario] | None = None
    testSamples: list[dict[str, Any] | str] | None = None
    imported: dict[str, Any] | None = None


def load_prompt(file: Path) -> Prompty:
    """Read a prompt file; DatasetError holds every problem it has."""
    try:
        prompt = parse_prompty(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise DatasetError(str(file), [Problem("is not UTF-8 text; save the file as UTF-8")]) from None
    except OSError as problem:
        raise DatasetError(str(file), [Problem(f"cannot be read: {problem.strerror}")]) from None
    except PromptyError as problem:
        raise DatasetError(str(file), [Problem(str(problem), line=problem.line)]) from None
    if problems := [*_front_problems(prompt), *_template_problems(prompt)]:
        raise DatasetError(str(file), problems)
    return prompt


def prompt_of(document: Document) -> Path | None:
    """The file of the prompt under test that a dataset names; it must be inside the dataset's project."""
    named = document.data.get("prompt_file")
    if not isinstance(named, str) or not named:
        return None
    root = project_root(document.file.absolute().parent)
    try:
        path = (document.file.absolute().parent / named).resolve()
        inside, there = path.is_relative_to(root), path.is_file()
    except (OSError, ValueError):
        inside = there = False
    if not inside or not there:
        said = "there is no such file" if not there else f"it lies outside the project {root}"
        problem = Problem(f"the prompt {named!r} cannot be used: {said}", ("prompt_file",))
        raise DatasetError(str(document.file), placed([problem], document))
    return path


def _front_problems(prompt: Prompty) -> list[Problem]:
    try:
        FrontMatter.model_validate(prompt.front)
    except ValidationError as errors:
        found = [(error, problem_of(error, FrontMatter)) for error in errors.errors(include_url=False)]
        return [
            Problem(problem.message, problem.path, prompt.lines.get(str(error["loc"][0])) if error["loc"] else None)
            for error, problem in found
        ]
    return []


def _template_problems(prompt: Prompty) -> list[Problem]:
    problems = []
    for section in prompt.sections:
        try:
            variables(section.text)
        except TemplateError as problem:
            line = section.line + (problem.line or 1) - 1
            problems.append(Problem(f"the {section.role} section {problem.problem}", line=line))
    return problems
