"""What every source of tools shares: the definitions it gives to the model, and the outcome of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of a call, as the model is told: a result, or why there is none."""

    text: str
    failed: bool = False
    traceback: str | None = None
    """Where it was raised, for an exception of the user's own code."""


class ToolSource(Protocol):
    """Gives tools, and calls them, many at once."""

    name: str
    """What it is, for a person."""

    async def definitions(self) -> tuple[Mapping[str, Any], ...]:
        """Its tools as the model is told of them; ConfigurationError where it cannot give any.

        TargetError says that it gave some before and is gone.
        """
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """What a tool makes of some arguments; TargetError where the source itself is gone."""
        ...

    async def close(self) -> None:
        """Give back connections and processes."""
        ...


def function_definition(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as the chat protocol defines it."""
    about = {"description": description} if description else {}
    return {"type": "function", "function": {"name": name, **about, "parameters": dict(parameters)}}


def defined_name(definition: Mapping[str, Any]) -> str:
    """The name of a tool in its definition, in whichever protocol's form; empty where there is none."""
    function = definition.get("function", definition)
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else ""
