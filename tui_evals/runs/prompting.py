"""Builds the messages of one turn: the prompt under test, the history of the item, the chat so far, the question.

Only the prompt under test is a template. It is filled with variables, and `{{ prompt }}` is the text of the item.
Braces in items and in values of variables are sent unchanged.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.attachments import PART, CannotAttach, digest, is_text_type, media_type, read_attachment
from tui_evals.datasets.document import Document
from tui_evals.datasets.model import Dataset, Item, Message, Turn
from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.datasets.prompts import load_prompt, prompt_name, prompt_of
from tui_evals.datasets.validate import with_lines
from tui_evals.light_records import dataclass
from tui_evals.store.records import AnswerRecord, answer_steps
from tui_evals.targets.base import AttachedFile, Request, TargetError
from tui_evals.text.chats import Prompty, Section, content_text, parse_prompty, render_messages
from tui_evals.text.names import did_you_mean
from tui_evals.text.templates import TemplateError, plain_variables, render_template, template_variables


def has_files(request: Request) -> bool:
    """Whether files go along with a question."""
    for message in request.messages:
        content = message.get("content")
        if not isinstance(content, str) and isinstance(content, list | tuple) and any(map(_is_file, content)):
            return True
    return False


def with_files(request: Request, folder: Path | None) -> Request:
    """The request with its files, also as chat messages; raises TargetError if a file is missing or changed."""
    files: list[AttachedFile] = []
    messages: list[Mapping[str, Any]] = []
    try:
        for message in request.messages:
            if message.get("role") == "assistant":
                files = []
            content = message.get("content")
            if isinstance(content, list | tuple) and any(map(_is_file, content)):
                read = {number: _read(part, folder) for number, part in enumerate(content) if _is_file(part)}
                parts = [_chat_part(read[number]) if number in read else part for number, part in enumerate(content)]
                message = {**message, "content": parts}
                files += read.values()
            messages.append(message)
    except CannotAttach as problem:
        raise TargetError("agentRequestFailed", f"a file cannot go along: {problem}", unbilled=True) from None
    return replace(request, messages=tuple(messages), attachments=tuple(files))


def _is_file(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == PART and "path" in part


def _read(part: Mapping[str, Any], folder: Path | None) -> AttachedFile:
    name = part["path"]
    if folder is None:
        raise CannotAttach(f"{name!r} belongs to a dataset, and goes along in its runs only")
    content = read_attachment(folder, name)
    if part.get("sha256") != digest(content):
        raise CannotAttach(f"{name!r} has changed since the run was planned; put it back as it was, or start a new run")
    return AttachedFile(Path(name).name, media_type(name, content), content)


def _chat_part(file: AttachedFile) -> dict[str, Any]:
    """A file as a part of a chat message: pictures and PDFs as data URLs, sounds by their bytes, texts as text."""
    kind = file.media_type
    if is_text_type(kind):
        return {"type": "text", "text": f"{file.name}:\n{file.content.decode('utf-8')}"}
    written = base64.b64encode(file.content).decode("ascii")
    if kind.startswith("audio/"):
        form = "mp3" if kind == "audio/mpeg" else "wav"
        return {"type": "input_audio", "input_audio": {"data": written, "format": form}}
    url = f"data:{kind};base64,{written}"
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": file.name, "file_data": url}}


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
        return "\n\n".join(content_text(message.get("content")) for message in self.messages) or None

    @property
    def templates(self) -> tuple[str, ...]:
        """Every text of it that is filled in, also those of content parts, addresses and tool calls."""
        if self.prompty is not None:
            return tuple(section.text for section in self.prompty.sections)
        return tuple(text for message in self.messages for text in _templates_in(message))

    @property
    def defaults(self) -> dict[str, Any]:
        """The values its variables have where an item gives none."""
        return _defaults(self.prompty) if self.prompty is not None else {}

    def rendered(self, values: Mapping[str, Any]) -> Chat:
        """Its messages with the item's variables filled in; TemplateError names a variable without a value."""
        if self.prompty is not None:
            return tuple(render_messages(self.prompty, {**self.defaults, **values}))
        return tuple(_filled(message, values) for message in self.messages)


def of_dataset(dataset: Dataset) -> PromptUnderTest:
    """The prompt under test that a dataset itself brings as messages."""
    return PromptUnderTest(messages=plain(dataset.messages or ()))


def prompts_from(given: Sequence[Path | PromptUnderTest]) -> tuple[PromptUnderTest, ...]:
    """The prompts under test from files and from `PromptUnderTest` objects; raises DatasetError."""
    return tuple(PromptUnderTest(prompt_name(one), load_prompt(one)) if isinstance(one, Path) else one for one in given)


def prompts_of(document: Document, dataset: Dataset) -> tuple[PromptUnderTest, ...]:
    """The prompts a run asks with where none is named: the file that the dataset names, else its own messages."""
    file = prompt_of(document)
    return prompts_from([file]) if file is not None else (of_dataset(dataset),)


def unfilled_items(
    document: Document,
    dataset: Dataset,
    prompts: Sequence[PromptUnderTest] | None = None,
    only: Collection[int] | None = None,
    origins: Sequence[int] | None = None,
) -> list[Problem]:
    """The items that cannot be asked, because a prompt under test needs a value that they do not have.

    `origins` are their positions in the file, where those are others.
    """
    try:
        found = prompts_of(document, dataset) if prompts is None else prompts
    except DatasetError as error:
        return [Problem(f"the prompt under test cannot be used: {error}", ("prompt_file",))]
    numbers = range(len(dataset.items)) if only is None else sorted(only)
    problems = [problem for prompt in found for problem in _unfilled(prompt, dataset, numbers)]
    if origins is not None:
        problems = [_in_file(problem, origins) for problem in problems]
    return with_lines(problems, document)


def _in_file(problem: Problem, origins: Sequence[int]) -> Problem:
    """A problem of an item that was expanded, at the item of the file."""
    match problem.path:
        case ("items", int(number)):
            return replace(problem, path=("items", origins[number]))
    return problem


def _unfilled(prompt: PromptUnderTest, dataset: Dataset, numbers: Iterable[int]) -> Iterator[Problem]:
    called = f"the prompt {prompt.name}" if prompt.name else "the prompt under test"
    try:
        needed = [plain_variables(text) for text in prompt.templates]
    except TemplateError as error:
        yield Problem(f"{called} cannot be filled in: {error}", ("messages",))
        return
    names = dict.fromkeys(name for text in needed for name in text or ())
    if not names and None not in needed:
        return
    common = prompt.defaults.keys() | (dataset.variables or {}).keys() | (dataset.matrix or {}).keys()
    for number in numbers:
        item = dataset.items[number]
        known = common | (item.variables or {}).keys() | (item.matrix or {}).keys()
        own = {} if item.units[0].prompt is None or QUESTION in known else {QUESTION: item.units[0].prompt}
        known |= own.keys()
        missing = [name for name in names if name not in known]
        reason = _missing_values(missing, known, called) if missing else None
        if reason is None and None in needed:
            firsts = {name: values[0] for name, values in {**(dataset.matrix or {}), **(item.matrix or {})}.items()}
            reason = _why_unrendered(prompt, {**firsts, **variables_of(dataset, item), **own}, called)
        if reason is not None:
            yield Problem(f"{item.testId or 'the item'} {reason}", ("items", number))


def _missing_values(missing: Sequence[str], known: Collection[str], called: str) -> str:
    listed = ", ".join(f"{{{{ {name} }}}}" for name in missing)
    hint = did_you_mean(missing[0], known) if len(missing) == 1 else ""
    return f"has no value for {listed} of {called}{hint}; give it one in the variables of the item or of the dataset"


def _why_unrendered(prompt: PromptUnderTest, values: Mapping[str, Any], called: str) -> str | None:
    try:
        prompt.rendered(values)
    except TemplateError as error:
        return f"cannot be asked with {called}: {error}"
    return None


def plain(messages: Sequence[Message]) -> Chat:
    """Messages of the dataset model as plain chat messages, without empty fields."""
    return tuple(message.model_dump(exclude_none=True) for message in messages)


def variables_of(dataset: Dataset, item: Item) -> dict[str, Any]:
    """The values for the template: the dataset's, and the item's over them; null leaves a place empty."""
    values = {**(dataset.variables or {}), **(item.variables or {})}
    return {name: "" if value is None else value for name, value in values.items()}


def chat_for(
    dataset: Dataset, item: Item, place: int, prompt: PromptUnderTest, answers: Sequence[Mapping[str, Any]]
) -> Chat:
    """The whole chat up to the question of a turn; `answers` are the assistant messages of the turns before it."""
    chat = [*opening_of(dataset, item, prompt)]
    for unit, answer in zip(item.units[1 : place + 1], answers, strict=False):
        chat += [answer, *question_of(unit)]
    return tuple(chat)


def opening_of(dataset: Dataset, item: Item, prompt: PromptUnderTest) -> Chat:
    """The messages of the first turn: the prompt under test, the history, and the question.

    A prompt under test that says `{{ prompt }}` has the question in itself.
    """
    unit, history = item.units[0], [] if item.turns is None else plain(item.messages or ())
    if prompt.prompty is None and not prompt.messages:  # as of most datasets
        return (*history, *question_of(unit))
    values = variables_of(dataset, item)
    if not _takes_question(prompt, unit, values):
        return (*prompt.rendered(values), *history, *question_of(unit))
    *before, last = prompt.rendered({**values, QUESTION: unit.prompt})
    if last["role"] == "system":  # a text without roles, which is the question itself
        last = {**last, "role": "user"}
    return (*before, *history, *question_of(unit.model_copy(update={"prompt": None})), last)


QUESTION = "prompt"
"""The variable for the text of an item in a prompt under test."""


def _takes_question(prompt: PromptUnderTest, unit: Item | Turn, values: Collection[str]) -> bool:
    if unit.prompt is None or QUESTION in values:
        return False
    return any(QUESTION in text and QUESTION in template_variables(text) for text in prompt.templates)


def question_of(unit: Item | Turn) -> list[Mapping[str, Any]]:
    """The messages one unit adds: its own history, then its prompt."""
    messages: list[Mapping[str, Any]] = [*plain(unit.messages or ())]
    if unit.attachments:
        told = [{"type": "text", "text": unit.prompt}] if unit.prompt is not None else []
        return [*messages, {"role": "user", "content": [*told, *map(_file_part, unit.attachments)]}]
    if unit.prompt is not None:
        messages.append({"role": "user", "content": unit.prompt})
    return messages


def _file_part(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """A file as a part of a message, which is filled in when it is sent."""
    return {"type": PART, **({"path": given} if isinstance(given, str) else given)}


def assistant(
    text: str | None, tool_calls: Sequence[Mapping[str, Any]], parts: Sequence[Mapping[str, Any]] = ()
) -> Mapping[str, Any]:
    """An answer as a chat message for the next question, with the parts that must be sent back unchanged."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    for part in parts:
        block = part.get("block")
        if isinstance(block, Mapping) and isinstance(block.get("message"), Mapping):
            message |= block["message"]
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


def messages_of_answer(record: AnswerRecord) -> list[Mapping[str, Any]]:
    """An answer as chat messages for the next question, including the steps if it took tools."""
    steps = answer_steps(record)
    if not steps:
        return [assistant(record.text, record.tool_calls)]
    return [message for step in steps for message in messages_of_step(step)]


def chat_up_to(record: AnswerRecord, sent: Chat) -> Chat:
    """The chat before an answer: `sent`, and in a conversation with a simulated user all but the last message."""
    is_conversation = bool(record.steps) and "asked" in record.steps[0]
    return (*sent, *messages_of_answer(record)[:-1]) if is_conversation else sent


def messages_of_step(step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages of a step with the results of its calls; calls that were not made are left out."""
    asked = [{"role": "user", "content": step["asked"]}] if "asked" in step else []
    made = [call for call in step["calls"] if "result" in call]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": call["result"]} for call in made]
    return [*asked, assistant(step["text"], made, step.get("parts", ()) if made else ()), *results]


_NO_TEMPLATES = ("role", "type", "id", "tool_call_id")


def _filled(part: Any, values: Mapping[str, Any]) -> Any:
    """A message, or a part of one, with every text in it rendered."""
    if isinstance(part, str):
        return render_template(part, values) if "{" in part else part
    if isinstance(part, list | tuple):
        return [_filled(one, values) for one in part]
    if isinstance(part, Mapping):
        return {name: one if name in _NO_TEMPLATES else _filled(one, values) for name, one in part.items()}
    return part


def _templates_in(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        if "{" in part:
            yield part
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _templates_in(one)
    elif isinstance(part, Mapping):
        yield from _templates_in([one for name, one in part.items() if name not in _NO_TEMPLATES])


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
