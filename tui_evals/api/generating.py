"""Datasets from Python: generated for a prompt, or imported from other tools."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tui_evals.api.watching import wait_for
from tui_evals.datasets.discover import project_root
from tui_evals.generate.execution import GenerationExecution, GenerationResult, Silence
from tui_evals.generate.request import GenerationRequest, choose_steps, find_generation
from tui_evals.generate.work import saved_options
from tui_evals.imports import registry
from tui_evals.imports.base import ImportOptions, ImportResult, project_at
from tui_evals.runs.limits import Budget
from tui_evals.runs.project import load_project
from tui_evals.store.reader import Reader
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.permissions import NotApproved


@dataclass(frozen=True, slots=True)
class GeneratedTests:
    """The folder of a generation with its files."""

    folder: Path
    dataset: Path | None
    """The dataset to run; None where the steps end before it."""
    rules: int
    tests: int
    cost: float
    """The cost of this call in US dollars."""
    notes: tuple[str, ...] = ()
    """Remarks that did not stop anything."""


class GenerationStopped(Exception):
    """A generation ended early; `tests` has its results so far, and the same call continues it."""

    def __init__(self, message: str, tests: GeneratedTests) -> None:
        super().__init__(message)
        self.tests = tests


class _Notes(Silence):
    """Keeps the notes of a generation."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def tell(self, note: str) -> None:
        """Keep a note."""
        self.notes.append(note)


def generate_tests(
    prompt: str | Path,
    target: str | None = None,
    *,
    judge: str | Sequence[str] = (),
    baseline: str | None = None,
    groundtruth: str | None = None,
    groundtruth_judge: str | Sequence[str] = (),
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    until: str | None = None,
    start_from: str | None = None,
    concurrency: int | None = None,
    max_cost: float | None = None,
    use_cache: bool = True,
    trust: bool = False,
    project: str | Path | None = None,
) -> GeneratedTests:
    """Generate rules, tests for each rule, and a dataset for a prompt, like `tui-evals generate`.

    `prompt` is a prompt file, or the folder of an earlier generation to continue; existing files are kept. `target`
    writes the rules and tests, `baseline` tests without rules, `groundtruth` the reference answers; `judge` reviews and
    `groundtruth_judge` rates the answers. All are names from the configuration or models. `options` are those of the
    command, with underscores, as in `{"effort": "min", "tests_per_rule": 2}`. `until` is the last step; `start_from` is
    the first step to repeat, with all later ones.

    Raises CannotPlan, ConfigurationError, DatasetError, or GenerationStopped if it ended early.
    """
    here = load_project(project_root(Path(project) if project is not None else Path.cwd()), trusting=trust)
    request = GenerationRequest(
        prompt=Path(prompt),
        out=Path(out) if out is not None else None,
        options=_checked(options or {}),
        rules=target,
        baseline=baseline,
        groundtruth_by=groundtruth,
        judges=_names(judge),
        groundtruth_judges=_names(groundtruth_judge),
        until=until,
        from_step=start_from,
        concurrency=concurrency,
        max_cost=max_cost,
        use_cache=use_cache,
    )
    found = find_generation(request, here)
    if missing := found.permissions():
        raise NotApproved(missing, here.root)
    budget, listener = Budget(max_cost), _Notes()
    work, note = found.open(budget)
    if note:
        warnings.warn(note, stacklevel=2)
    with here.writer() as writer, Reader(here.store) as reader:
        chosen = choose_steps(request, work)
        execution = GenerationExecution(found, work, budget, reader, writer, listener=listener, chosen=chosen)
        result = wait_for(execution.run())
    made = _made(result, listener.notes)
    if not result.ended.finished or result.ended.stopped is not None:
        raise GenerationStopped(result.reason, made)
    return made


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _checked(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options; ConfigurationError for one that is not known, or a value that cannot be."""
    try:
        known = saved_options(dict(options))
    except ValueError as problem:
        raise ConfigurationError(str(problem)) from None
    if unknown := [name for name in options if name not in known]:
        raise ConfigurationError(f"options: there is no {unknown[0]}; `tui-evals generate --help` lists them")
    return known


def _made(result: GenerationResult, notes: Sequence[str]) -> GeneratedTests:
    work = result.work
    return GeneratedTests(
        folder=work.folder.path,
        dataset=result.dataset,
        rules=len([rule for rule in work.rules if not rule.inverse]),
        tests=len(work.tests),
        cost=result.spent,
        notes=(*notes, *result.notes),
    )


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
    """Import another tool's file: its tests as a dataset, its answers and scores as a finished run.

    `kind` is the format, guessed if absent; `into` is the dataset file, `out` its folder, `name` the name of dataset
    and run, `prompt` the prompt to import from a file with several. `project` is the folder with `.evals/`. The result
    lists what was imported, changed and omitted.

    Raises ImportFailed. Files are never overwritten, and a run that was imported before is not duplicated.
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
