"""Prompt files: prompty, GitHub Models (`.prompt.yml`) and plain text, all read as a prompty."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tui_evals.datasets.discover import project_of
from tui_evals.datasets.paths import DatasetError, Places, Problem, line_in, places_in
from tui_evals.datasets.paths import Path as Place
from tui_evals.project_files import read_text
from tui_evals.text.chats import Prompty, PromptyError, Section, parse_prompty
from tui_evals.text.names import did_you_mean
from tui_evals.text.templates import TemplateError, template_variables
from tui_evals.text.yamls import YamlError, load_mapping

from .document import Document
from .validate import problem_of, with_lines

GITHUB_SUFFIXES = (".prompt.yml", ".prompt.yaml")
PROVIDER = "github:"
PARAMETERS = {"maxTokens": "max_tokens", "topP": "top_p"}
"""The model parameters with another name in a prompty."""

_Role = Annotated[
    Literal["system", "user", "assistant"],
    BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value),
]


class Message(BaseModel):
    """One message of the prompt."""

    model_config = ConfigDict(strict=True, defer_build=True)

    role: _Role
    content: str


class GitHubPrompt(BaseModel):
    """The keys of a GitHub Models prompt file that are used; others are kept."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    name: str | None = None
    description: str | None = None
    model: str | None = None
    modelParameters: dict[str, Any] | None = None
    messages: list[Message] = Field(min_length=1)
    testData: list[dict[str, Any]] | None = None


def parse_github_prompt(text: str, source: str) -> Prompty:
    """A GitHub Models prompt as a prompty; DatasetError holds every problem of the file."""
    try:
        data, lines = load_mapping(text)
    except YamlError as error:
        raise DatasetError(source, [Problem(f"the prompt cannot be read: {error.problem}", line=error.line)]) from None
    lines_of_values = places_in(text)
    try:
        prompt = GitHubPrompt.model_validate(data)
    except ValidationError as errors:
        problems = [(error["loc"], problem_of(error, GitHubPrompt)) for error in errors.errors(include_url=False)]
        raise DatasetError(
            source,
            [Problem(problem.message, problem.path, line_in(lines_of_values, path)) for path, problem in problems],
        ) from None
    sections = _message_sections(prompt.messages, lines_of_values)
    body = "\n\n".join(f"{section.role}:\n{section.text}" for section in sections)
    return Prompty(_front_matter(prompt), sections, body, _key_lines(prompt, lines))


def _front_matter(prompt: GitHubPrompt) -> dict[str, object]:
    """The front matter of the equivalent prompty."""
    model: dict[str, Any] = {}
    if prompt.model is not None:
        model["configuration"] = {"name": PROVIDER + prompt.model}
    if prompt.modelParameters is not None:
        model["parameters"] = {PARAMETERS.get(name, name): value for name, value in prompt.modelParameters.items()}
    front: dict[str, object] = {
        "name": prompt.name,
        "description": prompt.description,
        "model": model or None,
        "testSamples": prompt.testData,
        "imported": prompt.model_extra or None,
    }
    return {name: value for name, value in front.items() if value is not None}


def _key_lines(prompt: GitHubPrompt, lines: Mapping[str, int]) -> dict[str, int]:
    """The line of each key of the front matter: the first line of its source."""
    sources: dict[str, Sequence[str]] = {
        "name": ("name",),
        "description": ("description",),
        "model": ("model", "modelParameters"),
        "testSamples": ("testData",),
        "imported": tuple(prompt.model_extra or ()),
    }
    candidates = {name: [lines[key] for key in keys if key in lines] for name, keys in sources.items()}
    return {name: min(numbers) for name, numbers in candidates.items() if numbers}


def _message_sections(messages: Sequence[Message], places: Places) -> tuple[Section, ...]:
    """A section for each message with text; a line in it such as "user:" is text as any other."""
    sections = []
    for number, message in enumerate(messages):
        text = message.content.replace("\r\n", "\n").replace("\r", "\n")
        if text.strip():
            blank_lines = text[: len(text) - len(text.lstrip())].count("\n")
            position = places.get(("messages", number, "content"))
            first = position.text if position else line_in(places, ("messages", number))
            sections.append(Section(message.role, text.strip(), first + blank_lines))
    return tuple(sections)


_PLAIN_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]*[A-Za-z0-9.])*")
_YAML_KEYWORDS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_NOT_IN_BLOCKS = r"[^\n\t -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"


def github_text(document: Mapping[str, Any]) -> str:
    """A document as YAML that all parsers read alike: several lines as a block, ambiguous words in quotes."""
    from ruamel.yaml import YAML

    writer = YAML()
    writer.width = 2**30  # keeps one line on one line
    out = io.StringIO()
    writer.dump(_yaml_styled(document), out)
    return out.getvalue()


def _yaml_styled(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_quote_unless_plain(_encodable(str(key))): _yaml_styled(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_yaml_styled(part) for part in value]
    if not isinstance(value, str):
        return value
    from ruamel.yaml.scalarstring import LiteralScalarString

    value = _encodable(value)
    if "\n" in value and not re.search(_NOT_IN_BLOCKS, value):
        return LiteralScalarString(value)
    return _quote_unless_plain(value)


def _encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _quote_unless_plain(text: str) -> str:
    """A text in quotes, unless it is plainly words."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    plain = _PLAIN_WORDS.fullmatch(text) and text.lower() not in _YAML_KEYWORDS
    return text if plain else DoubleQuotedScalarString(text)


OWN_SUFFIXES = (".prompty", *GITHUB_SUFFIXES)
"""Suffixes that only prompt files have."""
SUFFIXES = (*OWN_SUFFIXES, ".md", ".txt")
INSTRUCTIONS = ("intent", "inputSpec", "outputRules", "inverseOutputRules", "testExpansion")


class Scenario(BaseModel):
    """A way of using the prompt, with some inputs fixed."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    name: str
    instructions: str | None = None
    parameters: dict[str, Any] | None = None


def _one_of_types(wanted: str, *types: type) -> BeforeValidator:
    """A validator for several types that gives one sentence instead of one problem for each type."""

    def check(value: object) -> object:
        if not isinstance(value, types) or isinstance(value, bool):
            raise ValueError(f"must be {wanted}")
        return value

    return BeforeValidator(check)


_Sample = Annotated[dict[str, Any] | str, _one_of_types("an object, or the name of a file that holds it", dict, str)]
_Samples = Annotated[
    dict[str, Any] | str, _one_of_types("an object, or the name of a file with a list of them", dict, str)
]
_Version = Annotated[str | float, _one_of_types("text or a number", str, int, float)]


class FrontMatter(BaseModel):
    """The fields of a prompt file's front matter."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

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
    """The name of a prompt: its file name without the suffix."""
    suffix = next((suffix for suffix in SUFFIXES if file.name.lower().endswith(suffix)), "")
    return file.name[: len(file.name) - len(suffix)] or file.name


def load_prompt(file: Path) -> Prompty:
    """Read a prompt file: a prompty, one of GitHub Models, or plain text; DatasetError holds all its problems."""
    try:
        text = read_text(file)
    except UnicodeDecodeError:
        raise DatasetError(str(file), [Problem("is not UTF-8 text; save the file as UTF-8")]) from None
    except OSError as error:
        # A name without the ending of a prompt is most often the prompt itself.
        remedy = (
            ""
            if prompt_name(file) != file.name
            else ". A prompt is named by its file: save the text as one, such as brief.prompty"
        )
        raise DatasetError(str(file), [Problem(f"cannot be read: {error.strerror}{remedy}")]) from None
    github = file.name.lower().endswith(GITHUB_SUFFIXES)
    try:
        prompt = parse_github_prompt(text, str(file)) if github else parse_prompty(text)
    except PromptyError as error:
        raise DatasetError(str(file), [Problem(str(error), line=error.line)]) from None
    problems = [] if github else _front_matter_problems(prompt, text)
    if problems := [*problems, *_template_problems(prompt)]:
        raise DatasetError(str(file), problems)
    return prompt


def prompt_of(document: Document) -> Path | None:
    """The file of the prompt under test that a dataset names; it must be inside the dataset's project."""
    name = document.data.get("prompt_file")
    if not isinstance(name, str) or not name:
        return None
    root = project_of(document.file)
    try:
        path = (document.file.absolute().parent / name).resolve()
        inside, exists = path.is_relative_to(root), path.is_file()
    except (OSError, ValueError, RuntimeError):  # the last of links in a circle
        inside = exists = False
    if not inside or not exists:
        reason = "there is no such file" if not exists else f"it is outside the project {root}"
        problem = Problem(f"the prompt {name!r} cannot be used: {reason}", ("prompt_file",))
        raise DatasetError(str(document.file), with_lines([problem], document))
    return path


def _front_matter_problems(prompt: Prompty, text: str) -> list[Problem]:
    problems_at: list[tuple[Place, Problem]] = []
    try:
        FrontMatter.model_validate(prompt.front)
    except ValidationError as errors:
        for error in errors.errors(include_url=False):
            model = Scenario if error["loc"][:1] == ("scenarios",) else FrontMatter
            problems_at.append((error["loc"], problem_of(error, model)))
    instructions = prompt.front.get("instructions")
    for name in instructions.keys() - set(INSTRUCTIONS) if isinstance(instructions, dict) else ():
        message = f"unknown field '{name}'{did_you_mean(name, INSTRUCTIONS)}; there are {', '.join(INSTRUCTIONS)}"
        problems_at.append((("instructions", name), Problem(message, ("instructions",))))
    if not problems_at:
        return []
    places = places_in(_front_matter_text(text))
    problems = [Problem(problem.message, problem.path, line_in(places, place)) for place, problem in problems_at]
    return sorted(problems, key=lambda problem: problem.line or 0)


def _front_matter_text(text: str) -> str:
    """The front matter alone, on the lines where it is in the file."""
    lines = text.removeprefix("\ufeff").split("\n")
    end = next(number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    return "\n".join(["", *lines[1:end], ""])


def _template_problems(prompt: Prompty) -> list[Problem]:
    problems = []
    for section in prompt.sections:
        try:
            template_variables(section.text)
        except TemplateError as error:
            line = section.line + (error.line or 1) - 1
            problems.append(Problem(f"the {section.role} section {error.problem}", line=line))
    return problems
