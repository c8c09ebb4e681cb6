"""Conversations in OpenAI's format, read from logs, requests, responses and fine-tuning files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tui_evals.datasets.model import Message
from tui_evals.datasets.parts import item_of_messages
from tui_evals.datasets.paths import CannotEdit, Data, DatasetError, Layout, Path, Problem, with_field
from tui_evals.datasets.validate import problem_of
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
    """Messages, and what the model got with them."""

    messages: list[Data]
    tools: list[Data]
    response_format: Any = None


@dataclass(frozen=True, slots=True)
class _Source:
    """A conversation as it is in a file: messages with their places, and the request around them with its own."""

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
    """A message as it is written today: no functions but tools, no developer but the system, no content but text."""
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
    """Find what is wrong with one message."""
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
    """The item that asks a conversation again, and the evaluators its last answer suggests, not switched on.

    A conversation with tool calls keeps them as history, so that only its last answer is asked for again.
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
