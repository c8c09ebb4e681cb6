"""Grading prompts to the letter of OpenAI Evals, whose figures can then be compared with ours.

Nothing fences what is judged here, so an answer can speak to the judge, as it can there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any

from tui_evals.text.chats import chat_to_text
from tui_evals.text.yamls import load_mapping

from .base import Misconfigured, Question
from .choices import quoted_choices
from .grading_specs import Spec, require_fields
from .judging import check_shown_size


def shown_as_there(value: object) -> str:
    """A value as the original puts it into a prompt: a chat as a conversation, anything else as Python writes it."""
    if not isinstance(value, list | tuple) or not all(isinstance(part, Mapping) for part in value):
        return str(value)
    if not all("role" in message and "content" in message for message in value):
        raise Misconfigured("a list of objects in a grading prompt is a chat: each needs role and content")
    text = chat_to_text(value)
    return text if len(value) == 1 else text.lstrip()


def fields_as_there(
    spec: Spec, inputs: Mapping[str, str], answers: Mapping[str, Sequence[str]], variables: Mapping[str, Any]
) -> dict[str, str]:
    """The fields of a grading prompt: braces of what was asked stand twice there, and several answers are joined."""
    completions = {name: _joined(spec, name, texts) for name, texts in answers.items()}
    fields = {**inputs, **completions, **{name: shown_as_there(value) for name, value in variables.items()}}
    for name in spec.input_outputs:
        if name in fields:
            fields[name] = fields[name].replace("{", "{{").replace("}", "}}")
    return fields


def question_as_there(
    spec: Spec, fields: Mapping[str, str], choices: Sequence[str], eval_type: str | None, judge: str | None
) -> Question:
    """The question to the judge; the instruction follows where the eval, and not the spec, names the form."""
    messages = [{"role": message["role"], "content": message["content"]} for message in spec.messages]
    if eval_type:
        messages[-1]["content"] += f"\n\n{instructions()[eval_type].replace('{choices}', quoted_choices(choices))}"
    require_fields(spec, fields)
    check_shown_size(fields[name] for name in spec.fields if name in fields)
    for message in messages:
        message["content"] = _filled(spec, message["content"], fields)
    return Question(messages=tuple(messages), judge=judge)


@cache
def instructions() -> Mapping[str, str]:
    """What is appended to a grading prompt, by the form of the reply."""
    text = (files(__package__) / "oaieval_instructions.yaml").read_text(encoding="utf-8")
    return {name: str(words) for name, words in load_mapping(text)[0].items()}


def _joined(spec: Spec, name: str, texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    template = spec.template_for(name if name in spec.outputs else spec.outputs[0]) or ""
    pieces = (
        {
            "i": str(place),
            "i_abc": chr(ord("a") + (place - 1) % 26),
            "i_ABC": chr(ord("A") + (place - 1) % 26),
            "n": str(len(texts)),
            "output": text,
        }
        for place, text in enumerate(texts, 1)
    )
    return "".join(_filled(spec, template, piece) for piece in pieces).strip()


def _filled(spec: Spec, template: str, values: Mapping[str, str]) -> str:
    """The template filled as `str.format` fills it, without its reach into attributes and its widths."""
    pieces: list[str] = []
    try:
        for literal, name, form, conversion in Formatter().parse(template):
            pieces.append(literal)
            if name is None:
                continue
            if form or conversion or name not in values:
                shown = name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
                raise Misconfigured(f"the grading prompt of {spec.name} has the field {{{shown}}}, which has no value")
            pieces.append(values[name])
    except ValueError as problem:
        raise Misconfigured(f"the grading prompt of {spec.name} cannot be filled: {problem}") from None
    return "".join(pieces)
