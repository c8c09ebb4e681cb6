"""A dataset of our own, which needs no import and stays where it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tui_evals.datasets.discover import ENDINGS
from tui_evals.datasets.document import load
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.validate import parse_dataset, with_lines
from tui_evals.imports.base import Losses

from . import m365
from .base import CannotRead, Importer, ImportOptions, ImportRequest, ImportResult, WrongOptions, shown
from .keeping import keep_dataset, run_command

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
    whole = m365.whole(document.data)
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
