"""Chats as text, and prompty files: their sections by role, and the parameters that a judge is asked with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.measures import counted
from tui_evals.text.templates import TemplateError, render_template
from tui_evals.text.yamls import YamlError, load_mapping

Messages = tuple[Mapping[str, Any], ...]

_PREFIXES = {"system": "", "example_user": "User: ", "example_assistant": "Assistant: "}
_ANSWERING = ("assistant", "tool", "function")
_MAX_URL = 200  # characters of an address that are shown; the rest is a file in letters


def is_chat(value: object) -> bool:
    """Whether a value is a list of chat messages."""
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(message, Mapping) and "role" in message for message in value)
    )


def content_text(content: object) -> str:
    """The text in a message's content: its text, or its parts one below the other, pictures by their address."""
    if not content:
        return ""
    if isinstance(content, list | tuple):
        return "\n".join(map(_part_text, content))
    return content if isinstance(content, str) else strictjson.dumps(content)


def _part_text(part: object) -> str:
    if not isinstance(part, Mapping):
        return content_text(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = str(part.get("type", "part"))
    if kind == "attachment" and "path" in part:
        return attachment_text(part)
    held = part.get(kind, {name: value for name, value in part.items() if name != "type"})
    address = held.get("url") if isinstance(held, Mapping) else held
    shown = address if isinstance(address, str) else strictjson.dumps(held)
    rest = len(shown) - _MAX_URL
    return f"[{kind}: {shown}]" if rest <= 0 else f"[{kind}: {shown[:_MAX_URL]}… and {counted(rest, 'more character')}]"


def attachment_text(about: object) -> str:
    """A file that goes along, in a line: its name, and where they are known its type and size."""
    known: Mapping[str, Any] = about if isinstance(about, Mapping) else {"path": about}
    size = known.get("size")
    length = "" if not isinstance(size, int) else f"{size:,} bytes" if size < 1000 else f"{size / 1000:,.0f} kB"
    return f"[{', '.join(filter(None, (str(known.get('path')), str(known.get('media_type') or ''), length)))}]"


def chat_to_text(messages: Sequence[Mapping[str, Any]], *, cue: bool = False) -> str:
    """A lone message as its content; several each on a line after the name or role of who speaks.

    System messages bear no prefix. `cue` ends the text with the word that asks an assistant to continue.
    """
    if len(messages) == 1:
        return _message_text(messages[0])
    lines = [f"{_speaker_prefix(message)}{_message_text(message)}\n" for message in messages]
    return "".join(lines) + ("Assistant:" if cue else "")


def _speaker_prefix(message: Mapping[str, Any]) -> str:
    speaker = str(message.get("name") or message.get("role") or "user")
    return _PREFIXES.get(speaker, f"{speaker.capitalize()}: ")


def _message_text(message: Mapping[str, Any]) -> str:
    """The text of a message, and its tool calls."""
    calls = message.get("tool_calls")
    return " ".join(filter(None, (content_text(message.get("content")), strictjson.dumps(calls) if calls else "")))


def split_at_question(chat: Sequence[Mapping[str, Any]]) -> tuple[Messages, Messages]:
    """The messages before the question, and the question with all that follows it; both together are the chat.

    The question begins at the last user message since the last answer or, without one, at the last system message.
    Later messages belong to it: a system message, an answer to continue, or calls and results of tools.
    """
    end = len(chat)
    while end and chat[end - 1].get("role") in _ANSWERING:
        end -= 1
    start = end
    while start and chat[start - 1].get("role") not in _ANSWERING:
        start -= 1
    users = [number for number in range(start, end) if chat[number].get("role") == "user"]
    begin = users[-1] if users else max(end - 1, 0)
    return tuple(chat[:begin]), tuple(chat[begin:])


def question_text(chat: Sequence[Mapping[str, Any]]) -> str:
    """The question of a chat, as text."""
    return chat_to_text(split_at_question(chat)[1])


_MARKER = re.compile(r"\s*(system|user|assistant)\s*:\s*", re.IGNORECASE)


class PromptyError(ValueError):
    """The file is not a prompty: the message says why, `line` where in it."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class Section:
    """One message before it is rendered; `line` is the start of its text in the file."""

    role: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Prompty:
    """A parsed file; `lines` has the line of each key in the front matter."""

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
            # The empty first line replaces the opening rule, so that line numbers are those of the file.
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


Form = Literal["json"] | Mapping[str, Any]
"""The form of a reply: any JSON object, or what fits a schema."""

_NUMBERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
_WHOLE = ("max_tokens", "max_completion_tokens", "seed")
_TEXTS = ("stop", "reasoning_effort", "verbosity")
_FORM = "response_format"
SENT = (*_NUMBERS, *_WHOLE, *_TEXTS, _FORM)
"""The parameters that a judge is sent; which of them its model takes, the target knows or learns."""


class WrongParameter(ValueError):
    """A parameter that has no such value; the message says which."""


@dataclass(frozen=True, slots=True)
class JudgeParameters:
    """The settings for asking a judge."""

    params: Mapping[str, Any] = field(default_factory=dict)
    form: Form | None = None
    unsent: tuple[str, ...] = ()
    """The names of those that no judge is sent."""

    def over(self, other: JudgeParameters) -> JudgeParameters:
        """These, and of others those that these say nothing of."""
        return JudgeParameters({**other.params, **self.params}, self.form or other.form, self.unsent)


def parameters_of(front: Mapping[str, Any]) -> JudgeParameters:
    """The parameters in the front matter of a `.prompty`."""
    model = front.get("model")
    given = model.get("parameters") if isinstance(model, Mapping) else None
    if given is None:
        return JudgeParameters()
    if not isinstance(given, Mapping):
        raise WrongParameter("model.parameters holds no names with values, such as temperature: 0.7")
    return judge_parameters(given)


def judge_parameters(given: Mapping[str, Any]) -> JudgeParameters:
    """Checked parameters by name; those with null are left out."""
    known = {name: value for name, value in given.items() if name in SENT and value is not None}
    form = _form(known.pop(_FORM, None))
    params = {name: _checked(name, value) for name, value in sorted(known.items())}
    return JudgeParameters(params, form, tuple(sorted(given.keys() - set(SENT))))


def _checked(name: str, value: Any) -> Any:
    if name in _TEXTS:
        texts = value if name == "stop" and isinstance(value, list) else [value]
        if not all(isinstance(text, str) and text for text in texts):
            raise WrongParameter(f"the parameter {name} is {strictjson.dumps(value)}, which is no text")
        return value
    whole = name in _WHOLE
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        wanted = "no whole number" if whole else "no number"
        raise WrongParameter(f"the parameter {name} is {strictjson.dumps(value)}, which is {wanted}")
    if name.startswith("max_") and value < 1:
        raise WrongParameter(f"the parameter {name} is {value}, and a reply takes 1 at least")
    return value


def _form(given: Any) -> Form | None:
    """The form that `response_format` asks for, as chat completions have it; None for text."""
    kind = given.get("type") if isinstance(given, Mapping) else given
    if kind in (None, "text"):
        return None
    if kind == "json_object":
        return "json"
    about = given.get("json_schema") if isinstance(given, Mapping) else None
    schema = about.get("schema") if isinstance(about, Mapping) else None
    if kind == "json_schema" and isinstance(schema, Mapping):
        return schema
    raise WrongParameter(
        "the parameter response_format is neither {type: text} nor {type: json_object} nor {type: json_schema, "
        "json_schema: {name: …, schema: …}}"
    )


def parameters_text(params: Mapping[str, Any], form: Form | None = None) -> str:
    """Parameters in a line: `temperature 0.7, max_tokens 200, response_format json`."""
    words = [f"{name} {value if isinstance(value, str) else strictjson.dumps(value)}" for name, value in params.items()]
    if form is not None:
        words.append(f"response_format {'json' if form == 'json' else 'of a schema'}")
    return ", ".join(words)
