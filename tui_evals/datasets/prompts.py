"""Prompt files of every kind: the front matter as PromptPex reads it, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tui_evals.text.box import TemplateError
from tui_evals.text.nearest import did_you_mean
from tui_evals.text.prompty import Prompty, PromptyError, parse_prompty
from tui_evals.text.templates import variables

from .discover import project_of
from .document import Document
from .github_prompt import SUFFIXES as GITHUB
from .github_prompt import parse_github_prompt
from .layout import Path as Place
from .problems import DatasetError, Problem
from .validate import placed, problem_of
from .yaml_lines import line_in, places_in

OWN_SUFFIXES = (".prompty", *GITHUB)
"""What only prompt files are named like."""
SUFFIXES = (*OWN_SUFFIXES, ".md", ".txt")
INSTRUCTIONS = ("intent", "inputSpec", "outputRules", "inverseOutputRules", "testExpansion")


class Scenario(BaseModel):
    """A way of using the prompt, with some inputs fixed."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    instructions: str | None = None
    parameters: dict[str, Any] | None = None


def _either(said: str, *kinds: type) -> BeforeValidator:
    """What may be of several kinds, so that a sentence names them instead of one problem for each."""

    def check(value: object) -> object:
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"must be {said}")
        return value

    return BeforeValidator(check)


_Sample = Annotated[dict[str, Any] | str, _either("an object, or the name of a file that holds it", dict, str)]
_Samples = Annotated[dict[str, Any] | str, _either("an object, or the name of a file with a list of them", dict, str)]
_Version = Annotated[str | float, _either("text or a number", str, int, float)]


class FrontMatter(BaseModel):
    """What may stand in the front matter of a prompt file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    schema_: str | None = Field(None, alias="$schema")
    name: str | None = None
    description: str | None = None
    version: _Version | None = None
    source: str | None = None
    url: str | None = None
    model: dict[str, Any] | None = None
    tags: list[str] | None = None
    authors: list[str] | None = None
    sample: _Sample | None = None
    inputs: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None
    instructions: dict[str, str] | None = None
    scenarios: list[Scenario] | None = None
    testSamples: list[_Samples] | None = None
    imported: dict[str, Any] | None = None


def is_prompt(file: Path) -> bool:
    """Whether a file is named as prompt files are."""
    return file.name.lower().endswith(SUFFIXES)


def prompt_name(file: Path) -> str:
    """What a prompt is called: its file's name without what says of which kind it is."""
    suffix = next((suffix for suffix in SUFFIXES if file.name.lower().endswith(suffix)), "")
    return file.name[: len(file.name) - len(suffix)] or file.name


def load_prompt(file: Path) -> Prompty:
    """Read a prompt file: a prompty, one of GitHub Models, or plain text; DatasetError holds all its problems."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DatasetError(str(file), [Problem("is not UTF-8 text; save the file as UTF-8")]) from None
    except OSError as problem:
        raise DatasetError(str(file), [Problem(f"cannot be read: {problem.strerror}")]) from None
    github = file.name.lower().endswith(GITHUB)
    try:
        prompt = parse_github_prompt(text, str(file)) if github else parse_prompty(text)
    except PromptyError as problem:
        raise DatasetError(str(file), [Problem(str(problem), line=problem.line)]) from None
    problems = [] if github else _front_problems(prompt, text)
    if problems := [*problems, *_template_problems(prompt)]:
        raise DatasetError(str(file), problems)
    return prompt


def prompt_of(document: Document) -> Path | None:
    """The file of the prompt under test that a dataset names; it must be inside the dataset's project."""
    named = document.data.get("prompt_file")
    if not isinstance(named, str) or not named:
        return None
    root = project_of(document.file)
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


def _front_problems(prompt: Prompty, text: str) -> list[Problem]:
    found: list[tuple[Place, Problem]] = []
    try:
        FrontMatter.model_validate(prompt.front)
    except ValidationError as errors:
        for error in errors.errors(include_url=False):
            model = Scenario if error["loc"][:1] == ("scenarios",) else FrontMatter
            found.append((error["loc"], problem_of(error, model)))
    given = prompt.front.get("instructions")
    for name in given.keys() - set(INSTRUCTIONS) if isinstance(given, dict) else ():
        said = f"unknown field '{name}'{did_you_mean(name, INSTRUCTIONS)}; there are {', '.join(INSTRUCTIONS)}"
        found.append((("instructions", name), Problem(said, ("instructions",))))
    if not found:
        return []
    places = places_in(_front_text(text))
    problems = [Problem(problem.message, problem.path, line_in(places, place)) for place, problem in found]
    return sorted(problems, key=lambda problem: problem.line or 0)


def _front_text(text: str) -> str:
    """The front matter alone, on the lines where it stands in the file."""
    lines = text.removeprefix("\ufeff").split("\n")
    end = next(number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    return "\n".join(["", *lines[1:end], ""])


def _template_problems(prompt: Prompty) -> list[Problem]:
    problems = []
    for section in prompt.sections:
        try:
            variables(section.text)
        except TemplateError as problem:
            line = section.line + (problem.line or 1) - 1
            problems.append(Problem(f"the {section.role} section {problem.problem}", line=line))
    return problems
