"""The eval document as runevals takes it: what it does not know moves under `extensions.tui_evals`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tui_evals.datasets.model import PORTABLE_TURNS, SUPERSET, Item, Turn
from tui_evals.datasets.paths import CURRENT_VERSION

_KEEP = "tui_evals"
Refusal = Callable[[str, Mapping[str, Any]], str | None]


def write(data: Mapping[str, Any], refusal: Refusal) -> tuple[dict[str, Any], list[str]]:
    """The portable document and what runevals will not see; `refusal` says why it would refuse an evaluator."""
    lost: list[str] = []
    document = {"schemaVersion": CURRENT_VERSION, **data}
    document["items"] = [_item(number, item, refusal, lost) for number, item in enumerate(data["items"])]
    if "default_evaluators" in data:
        kept, moved = _split(data["default_evaluators"], refusal, "default_evaluators", lost)
        document["default_evaluators"] = kept
        if moved:
            metadata = dict(data.get("metadata") or {})
            extensions = {**(metadata.get("extensions") or {}), _KEEP: {"default_evaluators": moved}}
            document["metadata"] = {**metadata, "extensions": extensions}
    return document, lost


def _item(number: int, item: Mapping[str, Any], refusal: Refusal, lost: list[str]) -> dict[str, Any]:
    where = f"items[{number}]"
    single = "turns" not in item
    hidden = SUPERSET[Item] | ({"name"} if single else set())
    written = _unit(item, hidden, refusal, where, lost)
    if single and "prompt" not in written:
        written = {"prompt": _last_question(item.get("messages") or []), **written}
        lost.append(f"{where}: has no prompt of its own; the last user message is used")
    if not single:
        written["turns"] = [
            _unit(turn, SUPERSET[Turn], refusal, f"{where}.turns[{place}]", lost)
            for place, turn in enumerate(item["turns"][:PORTABLE_TURNS])
        ]
        if later := item["turns"][PORTABLE_TURNS:]:
            extensions = written.get("extensions") or {}
            kept = {**(extensions.get(_KEEP) or {}), "turns": later}
            written["extensions"] = {**extensions, _KEEP: kept}
            lost.append(f"{where}: the turns from number {PORTABLE_TURNS + 1} on moved under extensions.{_KEEP}")
    return written


def _unit(
    unit: Mapping[str, Any], hidden: Collection[str], refusal: Refusal, where: str, lost: list[str]
) -> dict[str, Any]:
    written = {name: value for name, value in unit.items() if name not in hidden}
    moved = {name: value for name, value in unit.items() if name in hidden}
    if moved:
        lost.append(f"{where}: {', '.join(moved)} moved under extensions.{_KEEP}")
    if unit.get("ideal") and "expected_response" not in unit:
        written["expected_response"] = unit["ideal"][0]
    if "evaluators" in unit:
        kept, gone = _split(unit["evaluators"], refusal, where, lost)
        written["evaluators"] = kept
        if gone:
            moved["evaluators"] = gone
    if moved:
        written["extensions"] = {**(unit.get("extensions") or {}), _KEEP: moved}
    return written


def _split(
    evaluators: Mapping[str, Any], refusal: Refusal, where: str, lost: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    kept: dict[str, Any] = {}
    gone: dict[str, Any] = {}
    for key, options in evaluators.items():
        reason = refusal(key, options)
        (gone if reason else kept)[key] = options
        if reason:
            lost.append(f"{where}: {key}: {reason}; kept under extensions.{_KEEP}")
    return kept, gone


def _last_question(messages: list[Mapping[str, Any]]) -> str:
    texts = [message["content"] for message in messages if isinstance(message.get("content"), str)]
    return next(reversed(texts), "") or "(see extensions)"
