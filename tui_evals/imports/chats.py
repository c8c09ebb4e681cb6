"""Conversations in OpenAI's format, read from logs and fine-tuning files and imported as items."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tui_evals.datasets.document import load
from tui_evals.datasets.fields import item_of_messages
from tui_evals.datasets.model import Message
from tui_evals.datasets.paths import CURRENT_VERSION, CannotEdit, Data, DatasetError, Layout, Path, Problem, with_field
from tui_evals.datasets.save import save
from tui_evals.datasets.validate import parse_dataset, problem_of, with_lines
from tui_evals.imports.base import CannotKeep, CannotRead, Importer, ImportRequest, ImportResult, Losses
from tui_evals.imports.keeping import json_in, keep_dataset, run_command, text_of
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson

_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name")
_ROLES = {"developer": "system", "function": "tool"}

Lines = Callable[[Path], int | None]


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class _Function(_Open):
    name: Annotated[str, Field(min_length=1)]
    arguments: str = ""


class _Call(_Open):
    function: _Function


class _Block(_Open):
    type: str


class _Given(_Open):
    tools: list[dict[str, Any]] | None = None
    functions: list[dict[str, Any]] | None = None
    response_format: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ChatWithTools:
    """Messages, and the tools and form that the model got with them."""

    messages: list[Data]
    tools: list[Data]
    response_format: Any = None


@dataclass(frozen=True, slots=True)
class _Source:
    """A conversation in a file: messages with their paths, and the request around them with its path."""

    path: Path
    messages: list[tuple[Path, Any]]
    request: Mapping[str, Any]


def read_messages(text: str, source: str) -> list[list[Data]]:
    """The messages of every conversation of a file."""
    return [conversation.messages for conversation in read_conversations(text, source)]


def read_conversations(text: str, source: str) -> list[ChatWithTools]:
    """Every conversation of a JSON or JSONL text; DatasetError holds every problem of one that cannot be read."""
    problems: list[Problem] = []
    conversations: list[ChatWithTools] = []
    for value, line_of in _documents(text, source):
        wrong: list[Problem] = []
        conversations += [_conversation(one, wrong) for one in _conversations(value, wrong)]
        problems += [Problem(problem.message, problem.path, line_of(problem.path)) for problem in wrong]
    if problems or not conversations:
        raise DatasetError(source, problems or [Problem("holds no conversation", line=1)])
    return conversations


def _documents(text: str, source: str) -> Iterator[tuple[Any, Lines]]:
    """The values of a text with the lines of their parts: one of JSON, or one for each line of JSONL."""
    try:
        yield strictjson.loads(text), Layout(text).line
        return
    except strictjson.JsonError as problem:
        refused = problem
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip("\ufeff \t\r")]
    values: list[tuple[int, Any]] = []
    for number, line in lines:
        try:
            values.append((number, strictjson.loads(line)))
        except strictjson.JsonError as problem:
            problem.line = number
            refused = problem if values else refused
            at = f" (column {refused.column})" if refused.column else ""
            raise DatasetError(source, [Problem(f"{refused}{at}", line=refused.line)]) from None
    if not values:
        raise DatasetError(source, [Problem("is empty", line=1)])
    if all(isinstance(value, dict) and "role" in value for _, value in values):
        numbers = [number for number, _ in values]
        yield [value for _, value in values], lambda path: numbers[int(path[0])] if path else 1
        return
    for number, value in values:
        yield value, partial(_always, number)


def _always(number: int, path: Path) -> int:
    return number


def _conversations(value: Any, problems: list[Problem]) -> Iterator[_Source]:
    """The conversations of one JSON value: itself, or those it lists."""
    if isinstance(value, list) and value and all(_holds_messages(part) for part in value):
        for number, part in enumerate(value):
            yield from _one(part, (number,), problems)
    else:
        yield from _one(value, (), problems)


def _holds_messages(part: object) -> bool:
    return isinstance(part, list) or (isinstance(part, dict) and "role" not in part)


def _one(value: Any, path: Path, problems: list[Problem]) -> Iterator[_Source]:
    if isinstance(value, list):
        yield _Source(path, [((*path, number), message) for number, message in enumerate(value)], {})
        return
    if not isinstance(value, dict):
        problems.append(Problem("must be a list of messages, or an object with messages", path))
        return
    if "role" in value:
        yield _Source(path, [(path, value)], {})
        return
    name = next((name for name in ("request", "body") if isinstance(value.get(name), dict)), None)
    request: Mapping[str, Any] = value[name] if name else value
    base = (*path, name) if name else path
    messages, answered = request.get("messages"), _answer(value, path, problems)
    if messages is not None and not isinstance(messages, list):
        problems.append(Problem("must be a list of messages", (*base, "messages")))
    elif messages is None and not answered:
        if not problems:
            problems.append(Problem("has no messages; it is no conversation in OpenAI's format", path))
    else:
        sent = [((*base, "messages", number), message) for number, message in enumerate(messages or ())]
        yield _Source(base, sent + answered, request)


def _answer(value: Mapping[str, Any], path: Path, problems: list[Problem]) -> list[tuple[Path, Any]]:
    """The message of the first choice of a response, where there is a response."""
    for name in ("response", "body"):
        inner = value.get(name)
        if isinstance(inner, dict) and ("choices" in inner or "body" in inner):
            return _answer(inner, (*path, name), problems)
    if "choices" not in value:
        return []
    choices = value["choices"]
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or "message" not in first:
        problems.append(Problem("has no message as its first choice", (*path, "choices")))
        return []
    return [((*path, "choices", 0, "message"), first["message"])]


def _conversation(source: _Source, problems: list[Problem]) -> ChatWithTools:
    before = len(problems)
    messages: list[Data] = []
    call = ""
    for number, (path, raw) in enumerate(source.messages):
        if not isinstance(raw, dict):
            problems.append(Problem("must be a message with a role", path))
            continue
        message = _modern(raw, call, number)
        call = message["tool_calls"][0]["id"] if "function_call" in raw and "tool_calls" in message else call
        _check(message, path, problems)
        messages.append({name: message[name] for name in _FIELDS if message.get(name) is not None})
    if not source.messages:
        problems.append(Problem("holds no message", source.path))
    elif len(problems) == before and all(message["role"] == "assistant" for message in messages):
        message_text = "holds an answer and nothing that was asked; put the messages of its request before it"
        problems.append(Problem(message_text, source.path))
    return ChatWithTools(messages, *_given(source, problems))


def _modern(raw: Mapping[str, Any], call: str, number: int) -> Data:
    """A message in the current form: tools instead of functions, system instead of developer, text content."""
    message = {name: raw[name] for name in _FIELDS if name in raw}
    role = raw.get("role")
    message["role"] = _ROLES.get(role, role) if isinstance(role, str) else role
    if isinstance(legacy := raw.get("function_call"), dict):
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": legacy}]
    if role == "function":
        del message["name"]
        message["tool_call_id"] = call or f"call_{number}"
    if role == "assistant" and message.get("content") is None:
        message["content"] = raw.get("refusal")
        if message["content"] is None and not message.get("tool_calls"):
            message["content"] = ""
    if not message.get("tool_calls"):
        message.pop("tool_calls", None)
    return message


def _check(message: Data, path: Path, problems: list[Problem]) -> None:
    """Add the errors of one message."""
    if message["role"] is None:
        problems.append(Problem("role is missing", path))
        return
    if not _fits(Message, message, path, problems):
        return
    for number, call in enumerate(message.get("tool_calls", ())):
        _fits(_Call, call, (*path, "tool_calls", number), problems)
    if message.get("tool_calls") and message["role"] != "assistant":
        problems.append(Problem("only an assistant calls tools", (*path, "tool_calls")))
    if message["role"] == "tool" and message.get("tool_call_id") is None:
        problems.append(Problem("tool_call_id is missing, which says what call is answered", path))
    content = message.get("content")
    if content is None and not message.get("tool_calls"):
        problems.append(Problem("content is missing", path))
    for number, block in enumerate(content if isinstance(content, list) else ()):
        place = (*path, "content", number)
        if _fits(_Block, block, place, problems) and block["type"] == "text" and not isinstance(block.get("text"), str):
            problems.append(Problem("a text block needs its text", place))


def _fits(model: type[BaseModel], value: Any, path: Path, problems: list[Problem]) -> bool:
    try:
        model.model_validate(value)
    except ValidationError as errors:
        problems += [problem_of(error, model, path) for error in errors.errors(include_url=False)]
        return False
    return True


def _given(source: _Source, problems: list[Problem]) -> tuple[list[Data], Any]:
    """The tools of a request, and the form its answers must have."""
    if not _fits(_Given, source.request, source.path, problems):
        return [], None
    legacy = [{"type": "function", "function": function} for function in source.request.get("functions") or ()]
    wanted = source.request.get("response_format") or {}
    schema = wanted.get("json_schema")
    form = "json" if wanted.get("type") == "json_object" else None
    if wanted.get("type") == "json_schema" and isinstance(schema, dict) and isinstance(schema.get("schema"), dict):
        form = schema["schema"]
    return [*(source.request.get("tools") or ()), *legacy], form


SUGGESTED = "suggested"
"""The key under a unit's extensions that holds checks not switched on yet."""
_QUESTION = {"role": "user", "content": "?"}


def item_from(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Data] = (), response_format: Any = None
) -> tuple[Data, dict[str, Data]]:
    """The item that asks a conversation again, and evaluators that fit its last answer, not yet enabled.

    A conversation with tool calls becomes history, so that only its last answer is asked again.
    """
    answers = list(takewhile(lambda message: message.get("role") == "assistant", reversed(messages)))[::-1]
    questions = list(messages[: len(messages) - len(answers)])
    if not questions:
        raise CannotEdit("the conversation holds nothing that was asked; give the messages before the answer")
    if any(message.get("role") == "tool" or message.get("tool_calls") for message in questions):
        item = _after(questions, answers)
    else:
        item = item_of_messages(messages)
    for name, value in (("tools", list(tools)), ("response_format", response_format)):
        if value:
            item = with_field(item, name, value)
    return item, _suggested(answers)


def _after(questions: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> Data:
    """The item that asks for the last answer only, with all before it as history."""
    *history, last = questions
    if last.get("role") == "user":
        item = item_of_messages([last, *answers])
        return with_field(item, "messages", [*map(dict, history), *item.get("messages", ())]) if history else item
    expected = item_of_messages([_QUESTION, *answers]).get("expected_response")
    whole: Data = {"messages": [dict(message) for message in questions]}
    return whole if expected is None else {**whole, "expected_response": expected}


def _suggested(answers: Sequence[Mapping[str, Any]]) -> dict[str, Data]:
    """The checks an answer suggests: the tools it called, or else its very text."""
    calls = (call for message in answers for call in message.get("tool_calls") or ())
    names = list(dict.fromkeys(str(call["function"]["name"]) for call in calls))
    if names:
        first, *others = names
        labels = {
            f"ToolCalled_{number}": {"type": "ToolCalled", "tool_name": name} for number, name in enumerate(others, 2)
        }
        return {"ToolCalled": {"tool_name": first}, **labels}
    has_text = "expected_response" in item_of_messages([_QUESTION, *answers])
    return {"ExactMatch": {"mode": "equals", "case_sensitive": True}} if has_text else {}


def with_suggestions(item: Data, suggested: Mapping[str, Data]) -> Data:
    """The item with the suggested checks noted next to its last answer, where they judge nothing."""
    if not suggested:
        return item
    if "turns" in item:
        *before, last = item["turns"]
        return {**item, "turns": [*before, with_suggestions(last, suggested)]}
    return with_field(item, "extensions", {**(item.get("extensions") or {}), SUGGESTED: dict(suggested)})


_OURS = frozenset(("items", "prompt", "turns", "testId", "evaluators", "expected_response", "input", "evaluations"))
_CARRIED = frozenset(("messages", "tools", "functions", "response_format"))
_THEIRS = frozenset(("messages", "choices", "request", "body", "response"))


def recognises(path: pathlib.Path) -> bool:
    """Whether a file contains chat messages, or requests and responses with them."""
    if path.suffix.lower() not in (".json", ".jsonl", ".ndjson"):
        return False
    return all(_is_conversation(part) for part in _parts(json_in(path)))


def _parts(value: object) -> list[object]:
    return value if isinstance(value, list) and value else [value]


def _is_conversation(part: object) -> bool:
    if isinstance(part, list):
        return bool(part) and all(isinstance(message, dict) and "role" in message for message in part)
    return isinstance(part, dict) and not _OURS & part.keys() and ("role" in part or bool(_THEIRS & part.keys()))


def _is_bare(part: object) -> bool:
    """Whether a part of a file contains only messages and imported fields."""
    return isinstance(part, list) or (isinstance(part, dict) and ("role" in part or part.keys() <= _CARRIED))


def add_conversations(request: ImportRequest, with_checks: bool) -> ImportResult:
    """Conversations as items; the checks that last answers suggest judge, or wait where they judge nothing."""
    losses = Losses()
    items = _items(request.path, with_checks, losses)
    result = _keep(request, items, losses)
    if with_checks or not any("extensions" in unit for item in items for unit in (item, *item.get("turns", ()))):
        return result
    note = "the checks that the last answers suggest wait under extensions.suggested; --with-checks uses them"
    return replace(result, notes=(*result.notes, note))


def _import(request: ImportRequest) -> ImportResult:
    losses = Losses()
    return _keep(request, _items(request.path, False, losses), losses)


def _keep(request: ImportRequest, items: list[Data], losses: Losses) -> ImportResult:
    """Keep items as a dataset of their own, or at the end of the one that the options name."""
    into = request.options.into
    if into is not None and into.exists():
        return _append(request, into, items, losses)
    file = request.dataset_file(request.path.name.partition(".")[0] or "conversations")
    return keep_dataset(request, file, {"schemaVersion": CURRENT_VERSION, "items": items}, losses)


def _items(path: pathlib.Path, with_checks: bool, losses: Losses) -> list[Data]:
    """The items of all conversations in a file; raises CannotRead."""
    try:
        conversations = read_conversations(text_of(path), str(path))
        items = [_item(conversation, with_checks) for conversation in conversations]
    except CannotEdit as problem:
        raise CannotRead(f"{path}: {problem}") from None
    count = len(items)
    losses.carried(f"{count} conversation{'' if count == 1 else 's'}", str(path))
    if not all(_is_bare(part) for part in _parts(json_in(path))):
        why = "a target has parameters, and a run has ids, times and usage"
        losses.left_out("fields other than messages, tools and response_format", str(path), why)
    return items


def _item(conversation: ChatWithTools, with_checks: bool) -> Data:
    item, suggested = item_from(conversation.messages, conversation.tools, conversation.response_format)
    return _judged(item, suggested) if with_checks else with_suggestions(item, suggested)


def _judged(item: Data, suggested: Mapping[str, Data]) -> Data:
    """The item with the suggested checks judging its last answer."""
    if not suggested:
        return item
    if "turns" in item:
        *before, last = item["turns"]
        return {**item, "turns": [*before, _judged(last, suggested)]}
    return {**item, "evaluators": dict(suggested)}


def _append(request: ImportRequest, file: pathlib.Path, items: list[Data], losses: Losses) -> ImportResult:
    """Put items at the end of a dataset, in the style of its file."""
    path = request.path
    if file.resolve() == path.resolve() or recognises(file):
        raise CannotKeep(f"{file} holds messages, so it is no dataset that items can be added to; name another file")
    document = load(file)
    data = {**document.data, "items": [*document.data.get("items", ()), *items]}
    dataset, problems = parse_dataset(data)
    if dataset is None:
        raise DatasetError(str(file), with_lines(problems, document))
    saved = save(document, data)
    return ImportResult(
        source=path,
        dataset=file,
        dataset_is="added to",
        items=len(items),
        losses=tuple(losses.entries),
        notes=() if saved.backup is None else (f"the original is kept as {saved.backup}",),
        next=run_command(file),
    )


IMPORTER = Importer(
    kind="messages",
    about="OpenAI messages (.json, .jsonl)",
    recognises=recognises,
    read=_import,
    order=80,
)
