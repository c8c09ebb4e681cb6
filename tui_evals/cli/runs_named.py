"""The runs that a command line names; recorded results of any tool are imported as runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tui_evals.cli.output import Stop
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from . import project


def run_meant(reader: Reader, word: str) -> RunRow:
    """The run that a word names; if it is a file of results, that is imported first."""
    try:
        return reader.find_run(word)
    except LookupError as problem:
        if not os.path.exists(word):
            raise Stop(str(problem.args[0])) from None
    # Not before there is a file to import: stored runs do not need the importers of other tools.
    from tui_evals.cli.write.importing import run_in_file

    key = run_in_file(Path(word))
    with project.reader() as later:
        return project.run_named(later, key)


def runs_meant(reader: Reader, words: Sequence[str]) -> list[RunRow]:
    """The runs that several words name; next to files, `last` is the last run that is in none of them."""
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
