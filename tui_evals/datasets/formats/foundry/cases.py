"""Evaluations and prompts as fields of items and datasets, and back; ids and the like are another matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui_evals.datasets.losses import Losses
from tui_evals.text import strictjson

from .assertions import DEFAULTS, Form, NoEqual, assertion_of
from .messages import chat_of, messages_of, tool_of, wire_tool
from .wire import Data

KEEP = "promptfoundry"
CASE_DEFAULTS: Mapping[str, object] = {"weight": 1, "threshold": 1}
ASKED = ("variables", "messages", "prompt", "weight", "threshold")
PROMPTED = ("messages", "tools", "response_format")


def item_of(evaluation: Mapping[str, Any], prompted: bool) -> Data:
    """What a checked evaluation asks; without a prompt of the file it may be nothing yet."""
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
    asked: Mapping[str, Any], chat: Sequence[Mapping[str, Any]], sparse: bool, losses: Losses, where: str
) -> Data:
    """The evaluation that asks the same; `sparse` leaves out what is so by default."""
    found: Data = {
        "appendedMessages": messages_of(chat, losses, f"{where}.messages"),
        "variables": {name: _text(value, name, losses, where) for name, value in asked.get("variables", {}).items()},
    }
    shares = {name: asked.get(name, 1) for name in CASE_DEFAULTS}
    return found | {name: share for name, share in shares.items() if not sparse or share != 1}


def _text(value: Any, name: str, losses: Losses, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    losses.changed(f"the variable {name}", where, "variables are text there; it is written as JSON")
    return strictjson.dumps(value)


def chat_in(unit: Mapping[str, Any]) -> list[Data]:
    """The messages one unit adds to a chat."""
    asked = [{"role": "user", "content": unit["prompt"]}] if unit.get("prompt") is not None else []
    return [*(unit.get("messages") or ()), *asked]


def fields_of(prompt: Mapping[str, Any]) -> Data:
    """What a checked prompt is in a dataset."""
    found: Data = {"messages": chat_of(prompt.get("messages", ()))}
    if tools := [tool_of(tool) for tool in prompt.get("tools", ())]:
        found["tools"] = tools
    if (prompt.get("parameters") or {}).get("responseFormat") == "JSON":
        found["response_format"] = "json"
    return found


def prompt_of(data: Mapping[str, Any], parameters: Mapping[str, Any], losses: Losses) -> Data:
    """The prompt of a dataset; `parameters` are those it was imported with."""
    wanted = data.get("response_format")
    if isinstance(wanted, dict):
        said = "all that is asked for there is valid JSON"
        losses.changed("the JSON Schema of the answers", "response_format", said)
    tools = [wire_tool(tool, losses, f"tools[{number}]") for number, tool in enumerate(data.get("tools") or ())]
    return {
        "messages": messages_of(data.get("messages") or (), losses, "messages"),
        "tools": [tool for tool in tools if tool is not None],
        "parameters": {**parameters, "responseFormat": "JSON" if form_of(data) == "json" else "TEXT"},
    }


def form_of(data: Mapping[str, Any]) -> Form:
    """What a dataset says that answers are."""
    return "json" if data.get("response_format") not in (None, "text") else "text"


def rebuilt(
    name: str, options: Mapping[str, Any], form: Form, references: Sequence[str], owner: str | None, sparse: bool
) -> Data:
    """The assertion for an evaluator of the evaluation `owner`; NoEqual where there is none."""
    found = assertion_of(name, options, form, references)
    if sparse:
        found = {key: value for key, value in found.items() if key not in DEFAULTS or value != DEFAULTS[key]}
    return found if owner is None else {**found, "evaluationId": owner}


def rebuilt_case(item: Mapping[str, Any], sparse: bool) -> Data:
    """The evaluation of an item that was just read, about which nothing needs to be said."""
    return evaluation_of(item, chat_in(item), sparse, Losses(), "")


def rebuilt_or_nothing(name: str, options: Mapping[str, Any], form: Form, owner: str | None, sparse: bool) -> Data:
    """The assertion of an evaluator that was just read; empty where it has to be remembered whole."""
    try:
        return rebuilt(name, options, form, (), owner, sparse)
    except NoEqual:
        return {}
