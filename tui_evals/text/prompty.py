"""Prompty files: optional YAML front matter, then text in sections by role, each a template of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tui_evals.text.templates import TemplateError, render_template
from tui_evals.text.yamls import YamlError, load_mapping

_MARKER = re.compile(r"\s*(system|user|assistant)\s*:\s*", re.IGNORECASE)


class PromptyError(ValueError):
    """The file is not a prompty: the message says why, `line` where in it."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class Section:
    """One message before it is rendered; `line` is where its text starts in the file."""

    role: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Prompty:
    """A parsed file; `lines` tells on which line each key of the front matter stands."""

    front: dict[str, object]
    sections: tuple[Section, ...]
    body: str
    lines: Mapping[str, int] = field(default_factory=dict)


def parse_prompty(text: str) -> Prompty:
    """The front matter and sections of a prompty file; which keys make sense is for the caller to say."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    start = _front_matter_end(lines)
    front: dict[str, object] = {}
    key_lines: dict[str, int] = {}
    if start:
        try:
            # The empty first line stands for the opening rule, so that line numbers are those of the file.
            front, key_lines = load_mapping("\n".join(["", *lines[1 : start - 1], ""]))
        except YamlError as error:
            raise PromptyError(f"the front matter cannot be read: {error.problem}", error.line) from None
    return Prompty(front, _sections(lines, start), "\n".join(lines[start:]), key_lines)


def _front_matter_end(lines: list[str]) -> int:
    """How many lines the front matter takes, its two rules included; 0 if there is none."""
    if lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() == "---":
            return number
    raise PromptyError("the front matter that starts here has no closing line `---`", 1)


def _sections(lines: list[str], start: int) -> tuple[Section, ...]:
    sections: list[Section] = []
    role, first = "system", start
    for number in range(start, len(lines) + 1):
        marker = _MARKER.fullmatch(lines[number]) if number < len(lines) else None
        if marker or number == len(lines):
            while first < number and not lines[first].strip():
                first += 1
            if first < number:
                sections.append(Section(role, "\n".join(lines[first:number]).strip(), first + 1))
        if marker:
            role, first = marker[1].lower(), number + 1
    return tuple(sections)


def render_messages(prompty: Prompty, values: Mapping[str, object]) -> list[dict[str, str]]:
    """The chat messages: every section rendered by itself, so that no value can start a message of its own."""
    messages = []
    for section in prompty.sections:
        try:
            messages.append({"role": section.role, "content": render_template(section.text, values)})
        except TemplateError as error:
            line = error.line and section.line + error.line - 1
            raise TemplateError(error.problem, line or section.line) from None
    return messages
