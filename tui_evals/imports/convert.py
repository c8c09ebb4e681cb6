"""A dataset written in the format of another tool, with what that format cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui_evals.datasets import rows
from tui_evals.datasets.document import Document, as_document
from tui_evals.datasets.matrix import expanded
from tui_evals.datasets.paths import pretty_json
from tui_evals.datasets.prompts import load_prompt, prompt_of
from tui_evals.datasets.validate import runevals_refusal
from tui_evals.imports.base import Losses

from . import foundry, m365, promptfoo


def converted(
    source: Document, kind: str, own: tuple[str, ...] = (), *, raw_csv: bool = False
) -> tuple[str, list[str]]:
    """The text of a valid dataset in another format, and sentences about what became of its parts.

    `own` names the evaluators written in the project; `raw_csv` leaves formulas in cells as they are. What a matrix
    stands for is written out, because no other format means the same by one.
    """
    whole, _ = expanded(source)
    if whole is not source:
        count = len(whole.data["items"])
        text, said = converted(whole, kind, own, raw_csv=raw_csv)
        return text, [f"changed: matrix (written out as {count:,} items)", *said]
    match kind:
        case "m365":
            document, lost = m365.write(source.data, lambda key, options: runevals_refusal(key, options, own))
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
