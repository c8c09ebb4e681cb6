"""Prompt files of GitHub Models (`.prompt.yml`): read as a prompty, and written."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tui_evals.text.prompty import Prompty, Section
from tui_evals.text.yamls import YamlError, load_mapping

from .problems import DatasetError, Problem
from .validate import problem_of
from .yaml_lines import Places, line_in, places_in

SUFFIXES = (".prompt.yml", ".prompt.yaml")
PROVIDER = "github:"
PARAMETERS = {"maxTokens": "max_tokens", "topP": "top_p"}
"""The parameters of a model that a prompty spells otherwise."""

_Role = Annotated[
    Literal["system", "user", "assistant"],
    BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value),
]


class Message(BaseModel):
    """One message of the prompt."""

    model_config = ConfigDict(strict=True)

    role: _Role
    content: str


class GitHubPrompt(BaseModel):
    """What is read of the file; other keys are kept as they are."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: str | None = None
    description: str | None = None
    model: str | None = None
    modelParameters: dict[str, Any] | None = None
    messages: list[Message] = Field(min_length=1)
    testData: list[dict[str, Any]] | None = None


def parse_github_prompt(text: str, source: str) -> Prompty:
    """The prompty that says the same; DatasetError holds every problem of the file."""
    try:
        data, lines = load_mapping(text)
    except YamlError as error:
        raise DatasetError(source, [Problem(f"the prompt cannot be read: {error.problem}", line=error.line)]) from None
    places = places_in(text)
    try:
        read = GitHubPrompt.model_validate(data)
    except ValidationError as errors:
        found = [(error["loc"], problem_of(error, GitHubPrompt)) for error in errors.errors(include_url=False)]
        raise DatasetError(
            source, [Problem(problem.message, problem.path, line_in(places, path)) for path, problem in found]
        ) from None
    sections = _sections(read.messages, places)
    body = "\n\n".join(f"{section.role}:\n{section.text}" for section in sections)
    return Prompty(_front(read), sections, body, _lines(read, lines))


def _front(read: GitHubPrompt) -> dict[str, object]:
    """The front matter a prompty would have."""
    model: dict[str, Any] = {}
    if read.model is not None:
        model["configuration"] = {"name": PROVIDER + read.model}
    if read.modelParameters is not None:
        model["parameters"] = {PARAMETERS.get(name, name): value for name, value in read.modelParameters.items()}
    front: dict[str, object] = {
        "name": read.name,
        "description": read.description,
        "model": model or None,
        "testSamples": read.testData,
        "imported": read.model_extra or None,
    }
    return {name: value for name, value in front.items() if value is not None}


def _lines(read: GitHubPrompt, lines: Mapping[str, int]) -> dict[str, int]:
    """On which line stands what each key of the front matter was made of."""
    made_of: dict[str, Sequence[str]] = {
        "name": ("name",),
        "description": ("description",),
        "model": ("model", "modelParameters"),
        "testSamples": ("testData",),
        "imported": tuple(read.model_extra or ()),
    }
    found = {name: [lines[key] for key in keys if key in lines] for name, keys in made_of.items()}
    return {name: min(where) for name, where in found.items() if where}


def _sections(messages: Sequence[Message], places: Places) -> tuple[Section, ...]:
    """A section for each message with text; a line in it such as "user:" is text as any other."""
    found = []
    for number, message in enumerate(messages):
        text = message.content.replace("\r\n", "\n").replace("\r", "\n")
        if text.strip():
            above = text[: len(text) - len(text.lstrip())].count("\n")
            place = places.get(("messages", number, "content"))
            first = place.text if place else line_in(places, ("messages", number))
            found.append(Section(message.role, text.strip(), first + above))
    return tuple(found)


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]*[A-Za-z0-9.])*")
_WORDS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_NOT_IN_BLOCKS = re.compile(r"[^\n\t -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def github_text(document: Mapping[str, Any]) -> str:
    """A document as YAML that every reader takes for the same: lines as blocks, what could be a number in quotes."""
    from ruamel.yaml import YAML

    writer = YAML()
    writer.width = 2**30  # what is one line stays one line
    out = io.StringIO()
    writer.dump(_styled(document), out)
    return out.getvalue()


def _styled(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_quoted(_encodable(str(key))): _styled(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_styled(part) for part in value]
    if not isinstance(value, str):
        return value
    from ruamel.yaml.scalarstring import LiteralScalarString

    value = _encodable(value)
    if "\n" in value and not _NOT_IN_BLOCKS.search(value):
        return LiteralScalarString(value)
    return _quoted(value)


def _encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _quoted(text: str) -> str:
    """A text in quotes, unless it is plainly words."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else DoubleQuotedScalarString(text)
