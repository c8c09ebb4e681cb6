"""Messages and tools of Prompt Foundry as OpenAI-style ones, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tui_evals.datasets.paths import Path, Problem
from tui_evals.imports.base import Losses
from tui_evals.imports.foundry.assertions import Data, Name, Wire, check
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean

from .assertions import DEFAULTS, Form, NoEqual, assertion_of

_PLACE = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
_KEPT = frozenset(("role", "content", "tool_calls", "tool_call_id"))


class _Message(Wire):
    role: Literal["system", "user", "assistant", "tool"]
    content: list[dict[str, Any]]


class _Function(Wire):
    name: Name
    arguments: str


class _Call(Wire):
    toolCallId: str
    function: _Function


class _Text(Wire):
    text: str


class _Image(Wire):
    imageBase64: str
    mediaType: str


class _ToolCall(Wire):
    toolCall: _Call


class _ToolResult(Wire):
    toolCallId: str
    result: Any


_BLOCKS: Mapping[str, type[Wire]] = {
    "TEXT": _Text,
    "IMAGE_BASE64": _Image,
    "TOOL_CALL": _ToolCall,
    "TOOL_RESULT": _ToolResult,
}


def check_messages(messages: Any, path: Path, problems: list[Problem]) -> None:
    """Add the errors of some messages; the list itself was checked before."""
    for number, given in enumerate(messages):
        place = (*path, number)
        message = _modern(given)
        if not check(_Message, message, place, problems):
            continue
        for at, block in enumerate(message["content"]):
            _check_block(block, message["role"], (*place, "content", at), problems)
        if message["role"] == "tool" and not any(block.get("type") == "TOOL_RESULT" for block in message["content"]):
            message_text = "a message of the role tool needs a TOOL_RESULT block, which says what call it answers"
            problems.append(Problem(message_text, (*place, "content")))


def _check_block(block: Mapping[str, Any], role: str, path: Path, problems: list[Problem]) -> None:
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _BLOCKS:
        hint = did_you_mean(str(kind), _BLOCKS)
        message = f"'{kind}' is no type of block{hint}; known are {', '.join(_BLOCKS)}"
        problems.append(
            Problem("type is missing" if kind is None else message, path if kind is None else (*path, "type"))
        )
    elif check(_BLOCKS[kind], block, path, problems) and kind == "TOOL_CALL" and role != "assistant":
        problems.append(Problem(f"only an assistant calls tools, and this message is of the role {role}", path))


def _modern(message: Mapping[str, Any]) -> Data:
    """A message of the early API, with text content and tool calls as a field, in the current form."""
    modern = dict(message)
    content = modern.get("content")
    role = modern.get("role")
    if isinstance(role, str):
        modern["role"] = role = role.lower()
    if not isinstance(content, list) and (content is None or isinstance(content, str)):
        blocks: list[Data] = [] if content is None else [{"type": "TEXT", "text": content}]
        if role == "tool":
            blocks = [{"type": "TOOL_RESULT", "toolCallId": modern.get("toolCallId"), "result": content or ""}]
        calls = modern.get("toolCalls")
        blocks += [{"type": "TOOL_CALL", "toolCall": call} for call in (calls if isinstance(calls, list) else ())]
        modern["content"] = blocks
    return modern


def chat_of(messages: Sequence[Mapping[str, Any]], variables: Mapping[str, str | None] | None = None) -> list[Data]:
    """Checked messages as a chat; with variables their `{{places}}` are filled in, null as nothing."""
    chat: list[Data] = []
    for message in map(_modern, messages):
        blocks = message["content"]
        results = [block for block in blocks if block["type"] == "TOOL_RESULT"]
        calls = [_call(block["toolCall"]) for block in blocks if block["type"] == "TOOL_CALL"]
        parts = [_part(block, variables or {}) for block in blocks if block["type"] in ("TEXT", "IMAGE_BASE64")]
        chat += [
            {"role": "tool", "tool_call_id": block["toolCallId"], "content": _result(block["result"])}
            for block in results
        ]
        if parts or calls or not results:
            turn: Data = {"role": message["role"]}
            if len(parts) == 1 and "text" in parts[0]:
                turn["content"] = parts[0]["text"]
            elif parts or not calls:
                turn["content"] = parts or ""
            chat.append(turn | ({"tool_calls": calls} if calls else {}))
    return chat


def _call(call: Mapping[str, Any]) -> Data:
    function = call["function"]
    return {
        "id": call["toolCallId"],
        "type": "function",
        "function": {"name": function["name"], "arguments": function["arguments"]},
    }


def _result(value: Any) -> str:
    return value if isinstance(value, str) else strictjson.dumps(value)


def _part(block: Mapping[str, Any], variables: Mapping[str, str | None]) -> Data:
    if block["type"] == "TEXT":
        return {"type": "text", "text": filled(block["text"], variables)}
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{block['mediaType']};base64,{block['imageBase64']}"},
    }


def filled(text: str, variables: Mapping[str, str | None]) -> str:
    """The text with known variables filled in; unknown ones stay."""
    return _PLACE.sub(lambda place: (variables[place[1]] or "") if place[1] in variables else place[0], text)


def has_places(messages: Sequence[Mapping[str, Any]], variables: Iterable[str]) -> bool:
    """Whether the text of messages has places for any of the variables."""
    known = set(variables)
    texts = (block.get("text") for message in map(_modern, messages) for block in message["content"])
    return any(match[1] in known for text in texts if isinstance(text, str) for match in _PLACE.finditer(text))


def messages_of(chat: Sequence[Mapping[str, Any]], losses: Losses, where: str) -> list[Data]:
    """A chat as messages of Prompt Foundry; parts that they cannot hold are reported as losses."""
    written: list[Data] = []
    for number, message in enumerate(chat):
        place = f"{where}[{number}]"
        if extra := sorted(key for key, value in message.items() if key not in _KEPT and value is not None):
            losses.left_out(", ".join(extra), place, "a message there has no such field")
        blocks = _blocks(message.get("content"), losses, place)
        if message["role"] == "tool":
            text = "\n".join(block["text"] for block in blocks if block["type"] == "TEXT")
            answered = message.get("tool_call_id") or ""
            blocks = [{"type": "TOOL_RESULT", "toolCallId": answered, "result": text}]
        blocks += [{"type": "TOOL_CALL", "toolCall": _wire_call(call)} for call in message.get("tool_calls") or ()]
        written.append({"role": message["role"], "content": blocks})
    return written


def _blocks(content: Any, losses: Losses, where: str) -> list[Data]:
    if content is None or isinstance(content, str):
        return [] if content is None else [{"type": "TEXT", "text": content}]
    blocks: list[Data] = []
    for part in content:
        url = part.get("image_url")
        image = _DATA_URL.fullmatch(str(url.get("url"))) if isinstance(url, dict) else None
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            blocks.append({"type": "TEXT", "text": part["text"]})
        elif image:
            blocks.append({"type": "IMAGE_BASE64", "imageBase64": image[2], "mediaType": image[1]})
        else:
            losses.left_out(f"a content block of type {part.get('type')}", where, "only texts and images in base64 fit")
    return blocks


def _wire_call(call: Mapping[str, Any]) -> Data:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else strictjson.dumps({} if arguments is None else arguments)
    return {
        "toolCallId": str(call.get("id") or ""),
        "type": "function",
        "function": {"name": str(function.get("name") or ""), "arguments": text},
    }


def tool_of(tool: Mapping[str, Any]) -> Data:
    """A tool as the definition that is sent to a model."""
    fields = ("name", "description", "parameters")
    return {"type": "function", "function": {name: tool[name] for name in fields if tool.get(name) is not None}}


def wire_tool(tool: Mapping[str, Any], losses: Losses, where: str) -> Data | None:
    """A definition as a tool of Prompt Foundry, or None if it is not a function."""
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        losses.left_out(f"a tool of type {tool.get('type')}", where, "only functions fit")
        return None
    if extra := sorted(set(function) - {"name", "description", "parameters"}):
        losses.left_out(", ".join(extra), where, "a tool there has no such field")
    return {name: function[name] for name in ("name", "description", "parameters") if name in function}


KEEP = "promptfoundry"
CASE_DEFAULTS: Mapping[str, object] = {"weight": 1, "threshold": 1}
ASKED = ("variables", "messages", "prompt", "weight", "threshold")
PROMPTED = ("messages", "tools", "response_format")


def item_of(evaluation: Mapping[str, Any], prompted: bool) -> Data:
    """The item of a checked evaluation; it may be empty if the file has no prompt."""
    variables = evaluation.get("variables") or {}
    chat = chat_of(evaluation.get("appendedMessages", ()), variables)
    item: Data = {"variables": variables} if variables else {}
    last = chat[-1] if chat else {}
    if last.get("role") == "user" and isinstance(last["content"], str) and last["content"]:
        item |= {"messages": chat[:-1]} if len(chat) > 1 else {}
        item["prompt"] = last["content"]
    elif chat or not prompted:
        item["messages"] = chat
    shares = {name: evaluation.get(name) for name in CASE_DEFAULTS}
    return item | {name: share for name, share in shares.items() if share not in (None, 1)}


def evaluation_of(
    case: Mapping[str, Any], chat: Sequence[Mapping[str, Any]], sparse: bool, losses: Losses, where: str
) -> Data:
    """The evaluation with the same question; `sparse` leaves out default values."""
    evaluation: Data = {
        "appendedMessages": messages_of(chat, losses, f"{where}.messages"),
        "variables": {name: _text(value, name, losses, where) for name, value in case.get("variables", {}).items()},
    }
    shares = {name: case.get(name, 1) for name in CASE_DEFAULTS}
    return evaluation | {name: share for name, share in shares.items() if not sparse or share != 1}


def _text(value: Any, name: str, losses: Losses, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    losses.changed(f"the variable {name}", where, "variables are text there; it is written as JSON")
    return strictjson.dumps(value)


def chat_in(unit: Mapping[str, Any]) -> list[Data]:
    """The messages one unit adds to a chat."""
    chat = [{"role": "user", "content": unit["prompt"]}] if unit.get("prompt") is not None else []
    return [*(unit.get("messages") or ()), *chat]


def fields_of(prompt: Mapping[str, Any]) -> Data:
    """The fields of a dataset for a checked prompt."""
    fields: Data = {"messages": chat_of(prompt.get("messages", ()))}
    if tools := [tool_of(tool) for tool in prompt.get("tools", ())]:
        fields["tools"] = tools
    if (prompt.get("parameters") or {}).get("responseFormat") == "JSON":
        fields["response_format"] = "json"
    return fields


def prompt_of(data: Mapping[str, Any], parameters: Mapping[str, Any], losses: Losses) -> Data:
    """The prompt of a dataset; `parameters` are those it was imported with."""
    wanted = data.get("response_format")
    if isinstance(wanted, dict):
        why = "all that is asked for there is valid JSON"
        losses.changed("the JSON Schema of the answers", "response_format", why)
    tools = [wire_tool(tool, losses, f"tools[{number}]") for number, tool in enumerate(data.get("tools") or ())]
    return {
        "messages": messages_of(data.get("messages") or (), losses, "messages"),
        "tools": [tool for tool in tools if tool is not None],
        "parameters": {**parameters, "responseFormat": "JSON" if form_of(data) == "json" else "TEXT"},
    }


def form_of(data: Mapping[str, Any]) -> Form:
    """The form of answers in a dataset."""
    return "json" if data.get("response_format") not in (None, "text") else "text"


def rebuilt(
    name: str, options: Mapping[str, Any], form: Form, references: Sequence[str], owner: str | None, sparse: bool
) -> Data:
    """The assertion for an evaluator of the evaluation `owner`; NoEqual where there is none."""
    assertion = assertion_of(name, options, form, references)
    if sparse:
        assertion = {key: value for key, value in assertion.items() if key not in DEFAULTS or value != DEFAULTS[key]}
    return assertion if owner is None else {**assertion, "evaluationId": owner}


def rebuilt_case(item: Mapping[str, Any], sparse: bool) -> Data:
    """The evaluation of an item that was just read, about which nothing needs to be said."""
    return evaluation_of(item, chat_in(item), sparse, Losses(), "")


def rebuilt_or_nothing(name: str, options: Mapping[str, Any], form: Form, owner: str | None, sparse: bool) -> Data:
    """The assertion of an evaluator that was just read; empty where it has to be remembered whole."""
    try:
        return rebuilt(name, options, form, (), owner, sparse)
    except NoEqual:
        return {}
