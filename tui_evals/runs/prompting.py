"""What a target is sent for one turn: the prompt under test, the item's history, what was said so far, the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.model import Dataset, Item, Message, Turn
from tui_evals.text.prompty import Prompty, Section, parse_prompty, render_messages
from tui_evals.text.templates import render_template

Chat = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class PromptUnderTest:
    """A prompt whose answers are compared: a `.prompty`, or the dataset's own messages; empty when items ask alone."""

    name: str = ""
    prompty: Prompty | None = None
    messages: Chat = ()

    @property
    def template(self) -> str | None:
        """Its text as judges see it, without roles."""
        if self.prompty is not None:
            return "\n\n".join(section.text for section in self.prompty.sections)
        texts = [str(message.get("content") or "") for message in self.messages]
        return "\n\n".join(texts) or None

    def rendered(self, values: Mapping[str, Any]) -> Chat:
        """Its messages with the item's variables filled in; TemplateError names a variable without a value."""
        if self.prompty is not None:
            return tuple(render_messages(self.prompty, {**_defaults(self.prompty), **values}))
        return tuple(_render_message(message, values) for message in self.messages)


def of_dataset(dataset: Dataset) -> PromptUnderTest:
    """The prompt under test that a dataset itself brings as messages."""
    return PromptUnderTest(messages=plain(dataset.messages or ()))


def plain(messages: Sequence[Message]) -> Chat:
    """Messages of the model as plain chat messages, without what is absent."""
    return tuple(message.model_dump(exclude_none=True) for message in messages)


def variables_of(dataset: Dataset, item: Item) -> dict[str, Any]:
    """The values for the template: the dataset's, and the item's over them; null leaves a place empty."""
    values = {**(dataset.variables or {}), **(item.variables or {})}
    return {name: "" if value is None else value for name, value in values.items()}


def chat_for(
    dataset: Dataset, item: Item, place: int, prompt: PromptUnderTest, answers: Sequence[Mapping[str, Any]]
) -> Chat:
    """The whole chat up to the question of a turn; `answers` are the assistant messages of the turns before it."""
    chat = [*prompt.rendered(variables_of(dataset, item))]
    if item.turns is not None:
        chat += plain(item.messages or ())
    for number, unit in enumerate(item.units[: place + 1]):
        chat += question_of(unit)
        if number < place:
            chat.append(answers[number])
    return tuple(chat)


def question_of(unit: Item | Turn) -> list[Mapping[str, Any]]:
    """The messages one unit adds: its own history, then its prompt."""
    messages: list[Mapping[str, Any]] = [*plain(unit.messages or ())]
    if unit.prompt is not None:
        messages.append({"role": "user", "content": unit.prompt})
    return messages


def assistant(text: str | None, tool_calls: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """An answer as the next question shows it to the target."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = [
            {
                "id": call.get("id"),
                "type": "function",
                "function": {"name": call.get("name"), "arguments": call.get("arguments")},
            }
            for call in tool_calls
        ]
    return message


def _render_message(message: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    return (
        {**message, "content": render_template(content, values)}
        if isinstance(content, str) and "{" in content
        else message
    )


def _defaults(prompt: Prompty) -> dict[str, Any]:
    inputs = prompt.front.get("inputs")
    values: dict[str, Any] = {}
    for name, about in inputs.items() if isinstance(inputs, dict) else ():
        if not isinstance(about, dict):
            values[name] = about
        elif "default" in about:
            values[name] = about["default"]
    return values


def kept_prompt(prompt: PromptUnderTest) -> dict[str, Any]:
    """A prompt under test as the config of a run keeps it: its sections, and the defaults of its inputs."""
    if prompt.prompty is None:
        return {"sections": [], "inputs": None}
    sections = [[section.role, section.text] for section in prompt.prompty.sections]
    return {"sections": sections, "inputs": prompt.prompty.front.get("inputs")}


def prompt_kept(kept: Mapping[str, Any]) -> PromptUnderTest:
    """The prompt under test of a run; earlier runs kept its text alone."""
    if "sections" not in kept:
        return PromptUnderTest(kept["name"], parse_prompty(kept["text"]))
    sections = tuple(Section(role, text, 1) for role, text in kept["sections"])
    return PromptUnderTest(kept["name"], Prompty({"inputs": kept["inputs"]}, sections, ""))
