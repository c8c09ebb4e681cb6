"""The eval document as runevals takes it: what it does not know moves under `extensions.tui_evals`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tui_evals.datasets.model import PORTABLE_TURNS, SUPERSET, Item, Turn
from tui_evals.datasets.paths import CURRENT_VERSION

_KEEP = "tui_evals"
_ADDED = "added"
"""Names the fields that were written only because runevals needs them."""
_MOVED = {Item: SUPERSET[Item] | {"name", "evaluators", "turns"}, Turn: SUPERSET[Turn] | {"evaluators"}}
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


def whole(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The dataset with what `write` moved back in its place; None where nothing was moved."""
    items = data.get("items")
    if not isinstance(items, list):
        return None
    back = {**data, "items": [_moved_back(item, Item) for item in items]}
    metadata, moved = _split_block(data.get("metadata"), {"default_evaluators"})
    if isinstance(defaults := moved.get("default_evaluators"), dict):
        back |= {"metadata": metadata, "default_evaluators": {**(data.get("default_evaluators") or {}), **defaults}}
        if not metadata:
            del back["metadata"]
    return back if back != data else None


def _moved_back(unit: Any, kind: type[Item | Turn]) -> Any:
    if not isinstance(unit, dict):
        return unit
    back, moved = _split_block(unit, _MOVED[kind] | {_ADDED})
    added, later = moved.pop(_ADDED, None), moved.pop("turns", None)
    back = {name: value for name, value in back.items() if not isinstance(added, list) or name not in added}
    if isinstance(turns := back.get("turns"), list):
        back["turns"] = [*(_moved_back(turn, Turn) for turn in turns), *(later if isinstance(later, list) else ())]
    own, evaluators = back.get("evaluators"), moved.get("evaluators")
    if isinstance(own, dict) and isinstance(evaluators, dict):
        moved["evaluators"] = {**own, **evaluators}
    return {**back, **moved}


def _split_block(unit: Any, names: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A mapping without some names of the block under its extensions, and what the block has of them."""
    rest = dict(unit) if isinstance(unit, dict) else {}
    extensions = rest.get("extensions")
    block = extensions.get(_KEEP) if isinstance(extensions, dict) else None
    if not isinstance(extensions, dict) or not isinstance(block, dict):
        return rest, {}
    stays = {name: value for name, value in block.items() if name not in names}
    others = {name: value for name, value in extensions.items() if name != _KEEP} | ({_KEEP: stays} if stays else {})
    rest = {name: value for name, value in rest.items() if name != "extensions"}
    moved = {name: value for name, value in block.items() if name in names}
    return {**rest, "extensions": others} if others else rest, moved


def _item(number: int, item: Mapping[str, Any], refusal: Refusal, lost: list[str]) -> dict[str, Any]:
    where = f"items[{number}]"
    single = "turns" not in item
    hidden = SUPERSET[Item] | ({"name"} if single else set())
    written = _unit(item, hidden, refusal, where, lost)
    if single and "prompt" not in written:
        written = {"prompt": _last_question(item.get("messages") or []), **written}
        written["extensions"][_KEEP].setdefault(_ADDED, []).append("prompt")
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
        moved[_ADDED] = ["expected_response"]
    if "evaluators" in unit:
        kept, gone = _split(unit["evaluators"], refusal, where, lost)
        written["evaluators"] = kept
        if gone:
            moved["evaluators"] = gone
    if moved:
        extensions = unit.get("extensions") or {}
        block = extensions.get(_KEEP)
        written["extensions"] = {**extensions, _KEEP: {**(block if isinstance(block, dict) else {}), **moved}}
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
