"""What every protocol that an agent may speak is to the server: a way in, a way out, and the words of an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.store.records import AnswerRecord


class Unreadable(Exception):
    """A request that this server cannot answer; the message says what it does not know."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of an agent, in the form of the chat protocol."""

    model: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    streamed: bool = False
    previous: str = ""
    """The id of the response that this one continues from, where the server keeps the conversation."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One protocol."""

    read: Callable[[Mapping[str, Any], str], Asked]
    """From a body, and the model in its address, to what is asked; Unreadable."""
    write: Callable[[AnswerRecord, str, str], Mapping[str, Any]]
    """The body of an answer, given with the model that was asked for and an id of its own."""
    stream: Callable[[Mapping[str, Any]], Iterator[tuple[str, Any]]]
    """The events of a body, each with its name, which is empty where the protocol names none."""
    error: Callable[[int, str], Mapping[str, Any]]


def event_bytes(name: str, data: Any) -> bytes:
    """An event as a stream has it."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"event: {name}\ndata: {text}\n\n".encode() if name else f"data: {text}\n\n".encode()


def tool_call(number: int, id: object, name: object, arguments: object) -> dict[str, Any]:
    """A call in the form of the chat protocol."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": str(id or f"call_{number}"), "type": "function", "function": {"name": str(name), "arguments": text}}


def function_tool(name: str, description: object, parameters: object, **more: Any) -> dict[str, Any]:
    """The definition of a tool in the form of the chat protocol."""
    about = {"description": description} if description else {}
    return {"type": "function", "function": {"name": name, **about, "parameters": parameters or {}, **more}}


def arguments_of(call: Mapping[str, Any]) -> Any:
    """The arguments of a call as data; as text under `input` where they are no JSON object."""
    try:
        value = json.loads(call.get("arguments") or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"input": call.get("arguments")}


def renamed(data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Those settings of a request that have a name in the chat protocol, under that name."""
    return {ours: data[theirs] for theirs, ours in names.items() if data.get(theirs) is not None}


def demand_list(value: object, what: str) -> Sequence[Any]:
    """The value as a list; Unreadable where it is none."""
    if not isinstance(value, list):
        raise Unreadable(f"{what} must be a list")
    return value
