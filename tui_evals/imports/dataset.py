"""The eval document: one of ours needs no import, runevals takes a part of it, and others are written of it.

What runevals does not know moves under `extensions.tui_evals`, and comes back when such a document is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.datasets import rows
from tui_evals.datasets.discover import ENDINGS
from tui_evals.datasets.document import Document, as_document, load
from tui_evals.datasets.matrix import expanded
from tui_evals.datasets.model import PORTABLE_TURNS, SUPERSET, Item, Turn
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, pretty_json
from tui_evals.datasets.prompts import load_prompt, prompt_of
from tui_evals.datasets.validate import parse_dataset, runevals_refusal, with_lines
from tui_evals.imports.base import (
    CannotRead,
    Importer,
    ImportOptions,
    ImportRequest,
    ImportResult,
    Losses,
    WrongOptions,
    shown,
)
from tui_evals.imports.foundry import writing as foundry
from tui_evals.imports.keeping import keep_dataset, run_command
from tui_evals.imports.promptfoo import writing as promptfoo

_HELD = (
    "what extensions.tui_evals holds has no effect. This writes a dataset in which it has:\n"
    "    tui-evals import {path} --into NEW.json"
)


def recognises(path: Path) -> bool:
    """Whether a file is named as datasets are."""
    return path.name.lower().endswith(ENDINGS) and path.is_file()


def _import(request: ImportRequest) -> ImportResult:
    path = request.path
    try:
        document = load(path)
        dataset, problems = parse_dataset(document.data)
        if dataset is None:
            raise DatasetError(str(path), with_lines(problems, document))
    except DatasetError as problem:
        raise CannotRead(f"{problem}\n`--from KIND` says of what kind the file is, if it is no dataset") from None
    whole = with_moved_back(document.data)
    names_a_file = replace(request.options, into=None, out=None, name=None) == ImportOptions() != request.options
    if whole is not None and names_a_file:
        losses = Losses()
        losses.carried("what extensions.tui_evals holds", why="back in its place")
        return keep_dataset(request, request.dataset_file(path.stem), whole, losses)
    if request.options != ImportOptions():
        raise WrongOptions(
            f"{path} is a dataset already and needs no import; `tui-evals convert` writes it as another format"
        )
    return ImportResult(
        source=path,
        dataset=path,
        dataset_is="none needed",
        items=len(dataset.items),
        notes=() if whole is None else (_HELD.format(path=shown(path)),),
        next=run_command(path),
    )


IMPORTER = Importer(
    kind="dataset", about="a dataset, which needs no import", recognises=recognises, read=_import, order=90
)


_KEEP = "tui_evals"
_ADDED = "added"
"""Names the fields that were written only because runevals needs them."""
_MOVED = {Item: SUPERSET[Item] | {"name", "evaluators", "turns"}, Turn: SUPERSET[Turn] | {"evaluators"}}
Refusal = Callable[[str, Mapping[str, Any]], str | None]


def portable(data: Mapping[str, Any], refusal: Refusal) -> tuple[dict[str, Any], list[str]]:
    """The portable document and what runevals will not see; `refusal` says why it would refuse an evaluator."""
    lost: list[str] = []
    document = {"schemaVersion": CURRENT_VERSION, **data}
    document["items"] = [_portable_item(number, item, refusal, lost) for number, item in enumerate(data["items"])]
    if "default_evaluators" in data:
        kept, moved = _split(data["default_evaluators"], refusal, "default_evaluators", lost)
        document["default_evaluators"] = kept
        if moved:
            metadata = dict(data.get("metadata") or {})
            extensions = {**(metadata.get("extensions") or {}), _KEEP: {"default_evaluators": moved}}
            document["metadata"] = {**metadata, "extensions": extensions}
    return document, lost


def with_moved_back(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The dataset with the parts that `portable` moved restored; None if nothing was moved."""
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
    """A mapping without some names of the block under its extensions, and the values of these names."""
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


def _portable_item(number: int, item: Mapping[str, Any], refusal: Refusal, lost: list[str]) -> dict[str, Any]:
    where = f"items[{number}]"
    single = "turns" not in item
    hidden = SUPERSET[Item] | ({"name"} if single else set())
    written = _portable_unit(item, hidden, refusal, where, lost)
    if single and "prompt" not in written:
        written = {"prompt": _last_question(item.get("messages") or []), **written}
        written["extensions"][_KEEP].setdefault(_ADDED, []).append("prompt")
        lost.append(f"{where}: has no prompt of its own; the last user message is used")
    if not single:
        written["turns"] = [
            _portable_unit(turn, SUPERSET[Turn], refusal, f"{where}.turns[{place}]", lost)
            for place, turn in enumerate(item["turns"][:PORTABLE_TURNS])
        ]
        if later := item["turns"][PORTABLE_TURNS:]:
            extensions = written.get("extensions") or {}
            kept = {**(extensions.get(_KEEP) or {}), "turns": later}
            written["extensions"] = {**extensions, _KEEP: kept}
            lost.append(f"{where}: the turns from number {PORTABLE_TURNS + 1} on moved under extensions.{_KEEP}")
    return written


def _portable_unit(
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


def converted(
    source: Document, kind: str, own: tuple[str, ...] = (), *, raw_csv: bool = False
) -> tuple[str, list[str]]:
    """The text of a valid dataset in another format, and sentences about changed or lost parts.

    `own` names the evaluators of the project; `raw_csv` leaves formulas in cells unchanged. A matrix is expanded,
    because no other format has the same.
    """
    whole, _ = expanded(source)
    if whole is not source:
        count = len(whole.data["items"])
        text, said = converted(whole, kind, own, raw_csv=raw_csv)
        return text, [f"changed: matrix (written out as {count:,} items)", *said]
    match kind:
        case "m365":
            document, lost = portable(source.data, lambda key, options: runevals_refusal(key, options, own))
            return pretty_json(document), lost
        case "csv":
            text, lost = rows.write_csv(source.data["items"], raw=raw_csv)
            return text, [*_lost_of_dataset(source.data, "a table"), *lost]
        case "jsonl":
            text, lost = rows.write_jsonl(source.data["items"])
            return text, [*_lost_of_dataset(source.data, "a file of samples"), *lost]
    data, losses = _with_prompt(source)
    text, further = promptfoo.write_config(data) if kind == "promptfoo" else foundry.write(data)
    losses.extend(further)
    return text, losses.sentences()


def _lost_of_dataset(data: Mapping[str, Any], what: str) -> list[str]:
    """The sentence about fields of the dataset itself, which rows have no place for."""
    named = sorted(data.keys() - {"schemaVersion", "items"})
    return [f"left out: {', '.join(named)} of the dataset ({what} has no place for it)"] if named else []


def reads_back(source: Document, text: str, kind: str) -> bool:
    """Whether rows that were written of a dataset are the same dataset when they are read."""
    if kind not in ("csv", "jsonl"):
        return False
    items, _ = rows.read_csv(text) if kind == "csv" else rows.read_jsonl(text)
    return as_document(items, "array") == source.data


def _with_prompt(source: Document) -> tuple[Mapping[str, Any], Losses]:
    """The dataset with the prompt of its prompt file as messages."""
    losses = Losses()
    prompt = prompt_of(source)
    if prompt is None:
        return source.data, losses
    sections = load_prompt(prompt).sections
    losses.changed(f"the prompt file {prompt.name}", "prompt_file", "its messages are in the file itself")
    others = {name: value for name, value in source.data.items() if name != "prompt_file"}
    return {**others, "messages": [{"role": one.role, "content": one.text} for one in sections]}, losses
