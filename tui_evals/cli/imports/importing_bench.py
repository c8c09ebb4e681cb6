"""Taking in what Arthur Bench keeps: its suites as suites of the project, its runs as finished runs of them."""

from __future__ import annotations

from pathlib import Path

from tui_evals.cli import project
from tui_evals.cli.output import Stop
from tui_evals.cli.project import open_project
from tui_evals.datasets.problems import DatasetError
from tui_evals.imports import bench
from tui_evals.imports.bench import take_in
from tui_evals.runs.suites.cases import ArthurError

from .imported import Imported, ImportedRun, ImportOptions


def take(path: Path, wish: ImportOptions) -> Imported:
    """Read every suite and run of a folder, then keep them all."""
    if wish != ImportOptions():
        raise Stop("suites are kept in the project under their own names; leave --into, --out and --name out")
    try:
        suites, recordings, losses = bench.read(path)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    except OSError as problem:
        raise Stop(f"{path} is no folder of Arthur Bench that can be read: {problem.strerror}") from None
    if not suites:
        raise Stop(f"{path} holds no suite of Arthur Bench; name the folder bench_runs, or a suite in it")
    here = open_project(None, False)
    with project.writer(here.environment) as writer, project.reader() as reader:
        try:
            done = take_in(here.root, writer, reader, suites, recordings, here.settings, here.environment)
        except ArthurError as problem:
            raise Stop(str(problem)) from None
    runs = tuple(ImportedRun(run.key, run.name, run.suite, outcome) for run, outcome in done)
    names = tuple(str(suite["metadata"]["name"]) for suite in suites)
    return Imported(
        read=str(path),
        suites=names,
        items=sum(len(suite["items"]) for suite in suites),
        results=sum(len(one.answers) for one in recordings),
        models=tuple(dict.fromkeys(target for one in recordings for target in one.targets)),
        run=runs[-1].key if runs else None,
        run_is=runs[-1].run_is if runs else "",
        runs=runs,
        losses=tuple(losses.entries),
        next=f"tui-evals show {runs[-1].key}" if runs else "",
    )
