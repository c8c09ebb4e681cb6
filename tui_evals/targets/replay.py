"""Answers captured earlier: from an eval document, a table or JSON lines, matched by testId, else by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tui_evals.light_records import dataclass

from .answers import parse_tool_calls
from .base import ConfigurationError, Reply, Request, TargetConfig, TargetContext, TargetError, TargetKind


@dataclass(frozen=True, slots=True)
class CapturedTurn:
    """The answer of one turn; `text` is None where nothing was captured."""

    text: str | None
    tool_calls: tuple[Mapping[str, str], ...] = ()
    diagnostics: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CapturedItem:
    """The captured turns of one item."""

    name: str | None
    turns: tuple[CapturedTurn, ...]


def captured(items: Sequence[Mapping[str, Any]], source: str) -> tuple[CapturedItem, ...]:
    """The answers in the items of an eval document; `source` names the file in messages."""
    return tuple(_item(item, f"{source}, item {number}") for number, item in enumerate(items, 1))


def _item(item: object, where: str) -> CapturedItem:
    if not isinstance(item, Mapping):
        raise ConfigurationError(f"{where}, is not an object; name a dataset file whose items hold answers")
    turns: Any = [item]
    if "turns" in item:
        turns = item["turns"]
        if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
            raise ConfigurationError(f"{where}, has turns that are not a list of objects")
    name = item.get("testId")
    try:
        return CapturedItem(name if isinstance(name, str) else None, tuple(map(_turn, turns)))
    except ValueError as problem:
        raise ConfigurationError(f"{where}: {problem}") from None


def _turn(turn: Mapping[str, Any]) -> CapturedTurn:
    text, diagnostics = turn.get("response"), turn.get("diagnostics")
    diagnostics = diagnostics if isinstance(diagnostics, Mapping) else None
    calls = turn.get("tool_calls")
    if calls is None:
        return CapturedTurn(text if isinstance(text, str) else None, _executed_calls(diagnostics), diagnostics)
    # A model that calls tools says nothing else, so calls without words are a whole answer.
    return CapturedTurn(text if isinstance(text, str) else "", parse_tool_calls(calls), diagnostics)


def _executed_calls(diagnostics: Mapping[str, Any] | None) -> tuple[Mapping[str, str], ...]:
    """The executions among the diagnostics that say with which arguments a function was called."""
    if not diagnostics:
        return ()
    calls = diagnostics.get("tool_calls")
    rows = calls.get("executions") if isinstance(calls, Mapping) else calls
    shaped = [
        {**row, "name": row.get("name", row.get("function_name"))}
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, Mapping) and "arguments" in row
    ]
    return parse_tool_calls([row for row in shaped if isinstance(row["name"], str)])


class Replay:
    """Gives the captured answers; a testId that two items share is passed over and the position counts."""

    def __init__(self, items: Sequence[CapturedItem], source: str) -> None:
        self._items = items
        self._source = source
        uses = Counter(item.name for item in items)
        self._named = {item.name: item for item in items if uses[item.name] == 1}

    async def ask(self, request: Request) -> Reply:
        """The captured answer, or TargetError where there is none."""
        return self.stored_answer(request)

    def stored_answer(self, request: Request) -> Reply:
        """The answer of a question, without waiting."""
        turns = self._item_for(request).turns
        answer = turns[request.turn] if request.turn < len(turns) else CapturedTurn(None)
        if answer.text is None:
            turn = f", turn {request.turn + 1}," if request.turn or len(turns) > 1 else ""
            raise _no_response(f"item {request.item}{turn} has no response in {self._source}; write one there")
        return Reply(text=answer.text, tool_calls=answer.tool_calls, diagnostics=answer.diagnostics)

    def _item_for(self, request: Request) -> CapturedItem:
        if request.item in self._named:
            return self._named[request.item]
        place = request.position + 1
        if request.position >= len(self._items):
            raise _no_response(
                f"item {request.item} has no response in {self._source}, which ends with item {place - 1}"
            )
        item = self._items[request.position]
        # The answer to another question must not be judged, so a position counts only where no name speaks against it.
        if item.name not in (None, request.item) and request.item not in (f"#{place}", f"{item.name}#{place}"):
            raise _no_response(
                f"item {request.item} has no response in {self._source}: none has this testId once, and item {place} "
                f"is {item.name}"
            )
        return item

    async def close(self) -> None:
        """Nothing is held."""


def _no_response(message: str) -> TargetError:
    return TargetError("agentRequestFailed", message)


def _open(config: TargetConfig, context: TargetContext) -> Replay:
    named = config.model.removeprefix("replay:")
    return Replay(captured(context.load_items(_below(context.root, named)), named), named)


def _below(root: Path, named: str) -> Path:
    """The file, which must lie in the project, symbolic links followed."""
    try:
        file = (root / named).resolve()
    except (OSError, ValueError, RuntimeError):
        raise ConfigurationError(f"replay:{named!r} is no path of a file") from None
    if not file.is_relative_to(root.resolve()):
        raise ConfigurationError(f"replay:{named} is outside the project; copy the file below {root}")
    return file


KIND = TargetKind(form="replay:PATH", open=_open)
