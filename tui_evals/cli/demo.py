"""`tui-evals demo`: the sample project, and a run in it on the scripted target."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tui_evals.cli.inputs import open_project, read
from tui_evals.cli.opening import Opening, need_terminal
from tui_evals.cli.output import Stop, say
from tui_evals.cli.run.execution import ExecutionOptions, refusals, run_here, start_apart
from tui_evals.datasets.discover import make_demo
from tui_evals.files import CannotSave
from tui_evals.runs.start import RunRequest, prepare
from tui_evals.targets.permissions import Approvals

from . import project

_AT_ONCE = 30
"""Concurrent calls with `--plain`."""


def demo(plain: bool, mouse: bool) -> int | Opening:
    """Make the sample project and run it: here, or in the background with the workbench on it."""
    if not plain:
        need_terminal("`tui-evals demo --plain` runs the sample project without one")
    folder, dataset = _made()
    os.environ.pop("TUI_EVALS_DB", None)
    os.chdir(folder)
    here = open_project(None, trusting=False)
    document = read(dataset.relative_to(folder))
    request = RunRequest(
        document=document,
        source=str(document.file),
        name=document.file.stem,
        concurrency=_AT_ONCE if plain else None,
    )
    with refusals():
        prepared = prepare(request, here)
    with here.writer() as writer:
        with refusals():
            job = prepared.store(writer, apart=not plain)
        if plain:
            say(f"the sample project is in {folder}")
            code = run_here(job, writer, ExecutionOptions())
            say(f"look around with `cd {folder}` and `tui-evals show last`; delete the folder when you are done")
            return code
    run = job.run
    start_apart(run, ("resume", run.key, "--quiet"))
    return Opening(folder, project.store_path(), document.file.absolute(), run.key, mouse, demo=True)


def _made() -> tuple[Path, Path]:
    """A new folder with the sample project, and its first dataset."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="tui-evals-demo-")).resolve()
        dataset = make_demo(folder)
        Approvals(folder).own()
        return folder, dataset
    except (OSError, CannotSave) as problem:
        raise Stop(f"the sample project cannot be made: {problem}", 1) from None
