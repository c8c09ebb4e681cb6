"""Evaluations of Prompt Foundry imported as a dataset with their prompt in it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tui_evals.datasets.paths import DatasetError, Layout
from tui_evals.imports.base import CannotRead, Importer, ImportRequest, ImportResult
from tui_evals.imports.keeping import json_in, keep_dataset, text_of
from tui_evals.imports.losses import Loss, Losses

from .file import is_foundry
from .reading import read

_PLACE = re.compile(r"(?:evaluations|assertions|prompts)?(?:\[\d+\]|\.\w+)+|prompt")
_PART = re.compile(r"\[(\d+)\]|(\w+)")


def recognises(path: Path) -> bool:
    """Whether a file holds evaluations of Prompt Foundry."""
    return path.suffix.lower() == ".json" and is_foundry(json_in(path))


def _import(request: ImportRequest) -> ImportResult:
    path = request.path
    text = text_of(path)
    try:
        document, losses = read(text, str(path), request.options.prompt)
    except DatasetError as problem:
        hint = "; `--prompt NAME` chooses one" if "say which to import" in str(problem) else ""
        raise CannotRead(f"{problem}{hint}") from None
    file = request.dataset_file(path.name.removesuffix(".json"))
    layout = Layout(text)
    placed = Losses([_with_line(loss, layout, path) for loss in losses.entries], losses.assertions)
    return keep_dataset(request, file, document, placed)


def _with_line(loss: Loss, layout: Layout, path: Path) -> Loss:
    """The loss with its line, where its place is named as it is in the file."""
    if not _PLACE.fullmatch(loss.where):
        return loss
    parts = [int(number) if number else name for number, name in _PART.findall(loss.where)]
    return replace(loss, where=f"{path}:{layout.line(tuple(parts))}: {loss.where}")


IMPORTER = Importer(
    kind="foundry",
    about="evaluations of Prompt Foundry (.json)",
    recognises=recognises,
    read=_import,
    order=40,
    takes_prompt=True,
)
