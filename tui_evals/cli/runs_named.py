"""The runs that a command line names, where a results file or a log stands for the run in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from . import project
from .imports.importing import run_in_file
from .output import Stop


def run_meant(reader: Reader, word: str) -> RunRow:
    """The run a person means; a results file or log stands for the run in it, which is imported first."""
    try:
        return reader.find_run(word)
    except LookupError as problem:
        if not os.path.isfile(word):
            raise Stop(str(problem.args[0])) from None
    key = run_in_file(Path(word))
    if key is None:
        raise Stop(f"{word} is a file, but no results of a run; name a run, a results file or a log of Inspect")
    with project.reader() as later:
        return project.run_named(later, key)


def runs_meant(reader: Reader, words: Sequence[str]) -> list[RunRow]:
    """The runs a person means by several words; beside files, `last` is the last run that is in none of them."""
    stored = {word: project.run_named(reader, word) for word in words if _is_known(reader, word)}
    in_files = {word: run_meant(reader, word) for word in words if word not in stored}
    ids = {run.id for run in in_files.values()}
    if "last" in stored and stored["last"].id in ids:
        stored["last"] = next((run for run in reader.runs(len(ids) + 1) if run.id not in ids), stored["last"])
    return [(stored | in_files)[word] for word in words]


def _is_known(reader: Reader, word: str) -> bool:
    try:
        reader.find_run(word)
    except LookupError:
        return False
    return True
