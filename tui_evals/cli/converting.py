"""`tui-evals convert`: a dataset as another format, and what that format cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui_evals.datasets import save
from tui_evals.datasets.document import Document
from tui_evals.datasets.formats import foundry, m365, promptfoo, samples, table
from tui_evals.datasets.layout import pretty
from tui_evals.datasets.losses import Losses
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.prompts import load_prompt, prompt_of
from tui_evals.datasets.validate import dataset_of, refusal

from . import project
from .output import Stop, say, say_data, warn


def convert_file(file: Path, kind: str, output: Path | None, raw_csv: bool) -> None:
    """Write a dataset as another format, to a new file or to standard output."""
    source = project.read(file)
    try:
        known = project.evaluators(prompt=prompt_of(source))
        dataset_of(source, known.catalogue, known.own)
        text, lost = _written(source, kind, raw_csv)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    if output is None:
        say_data(text)
    else:
        _write_new(output, text)
    for line in lost:
        warn(f"note: {line}")


def _written(source: Document, kind: str, raw_csv: bool) -> tuple[str, list[str]]:
    """The dataset as text, and sentences about what became of its parts."""
    match kind:
        case "m365":
            own = project.evaluators().own
            document, lost = m365.write(source.data, lambda key, options: refusal(key, options, own))
            return pretty(document), lost
        case "csv":
            return table.write(source.data["items"], raw=raw_csv)
        case "jsonl":
            return samples.write(source.data["items"])
    data, said = _with_prompt(source)
    text, losses = promptfoo.write_config(data) if kind == "promptfoo" else foundry.write(data)
    said.extend(losses)
    return text, said.sentences()


def _with_prompt(source: Document) -> tuple[Mapping[str, Any], Losses]:
    """The dataset with the prompt of its prompt file as messages."""
    losses = Losses()
    prompt = prompt_of(source)
    if prompt is None:
        return source.data, losses
    sections = load_prompt(prompt).sections
    losses.changed(f"the prompt file {prompt.name}", "prompt_file", "its messages stand in the file itself")
    others = {name: value for name, value in source.data.items() if name != "prompt_file"}
    return {**others, "messages": [{"role": one.role, "content": one.text} for one in sections]}, losses


def _write_new(file: Path, text: str) -> None:
    if file.exists():
        raise Stop(f"{file} is already there; choose another name or remove it first")
    try:
        save.write_atomically(file, text.encode("utf-8"))
    except save.CannotSave as problem:
        raise Stop(str(problem)) from None
    say(f"wrote {file}", fg="green")
