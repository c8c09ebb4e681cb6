"""The library's way to bring in what another tool wrote."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tui_evals.datasets.discover import project_root
from tui_evals.imports import registry
from tui_evals.imports.base import ImportOptions, ImportResult, project_at


def import_from(
    path: str | Path,
    kind: str | None = None,
    *,
    into: str | Path | None = None,
    out: str | Path | None = None,
    name: str | None = None,
    prompt: str | None = None,
    project: str | Path | None = None,
) -> ImportResult:
    """Import what another tool wrote: its tests as a dataset, its answers and verdicts as a finished run.

    `kind` says what the path holds and is guessed when absent; `into` is the file of the dataset, `out` the folder it
    is written to, `name` what dataset and run are called, `prompt` which prompt of a file that holds several. `project`
    is the folder whose `.evals/` is used. The result says what was carried, changed and left out.

    ImportFailed says what is wrong; no file is overwritten, and a run that was imported before is not made twice.
    """
    options = ImportOptions(into=_path(into), out=_path(out), name=name, prompt=prompt)
    here = project_at(project_root(Path(project) if project is not None else Path.cwd()))
    work = partial(registry.import_from, Path(path), kind, options, project=here)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as pool:  # a notebook has a loop of its own already
        return pool.submit(work).result()


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)
