"""The table of importers, and the one function that imports a path with the importer that fits it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tui_evals.datasets.document import companion_of, read_companion
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.save import ChangedOnDisk
from tui_evals.files import CannotSave
from tui_evals.imports.base import Losses
from tui_evals.plugins import Plugins, declared, installed
from tui_evals.store.database import StoreError
from tui_evals.targets.base import ConfigurationError
from tui_evals.text.names import did_you_mean

from .base import (
    CannotKeep,
    CannotRead,
    Importer,
    ImportFailed,
    ImportOptions,
    ImportProject,
    ImportRequest,
    ImportResult,
    NoStore,
    UnknownSource,
    WrongOptions,
    WrongSettings,
)
from .keeping import cannot_run, keep_dataset, keep_run, keep_runs, text_of
from .recording import Recording
from .whole_run import WholeRuns, whole_runs_of

GROUP = "tui_evals.importers"
T = TypeVar("T")


@cache
def built_in() -> Mapping[str, Importer]:
    """The importers of this room, by their kinds."""
    several = (one for group in declared(__package__, "IMPORTERS") if isinstance(group, tuple) for one in group)
    importers = (one for one in (*declared(__package__, "IMPORTER"), *several) if isinstance(one, Importer))
    return {importer.kind: importer for importer in sorted(importers, key=lambda importer: importer.order)}


@cache
def added() -> Plugins[Importer]:
    """The importers of installed packages, by the names of their entry points, and which of them cannot be used."""
    return installed(GROUP, Importer, "importer", built_in())


def importers() -> Mapping[str, Importer]:
    """Every importer by its kind, in the order in which they are asked whether they recognise a path."""
    named = {name: replace(importer, kind=name) for name, importer in added().by_name.items()}
    return dict(sorted({**built_in(), **named}.items(), key=lambda entry: entry[1].order))


def import_from(
    path: Path, kind: str | None = None, options: ImportOptions | None = None, *, project: ImportProject
) -> ImportResult:
    """Import a path, as `kind` or with the first importer that recognizes it; raises ImportFailed.

    No file is overwritten, and a run that was imported before is not created twice. It waits for commits of the store,
    so it must not be called from an event loop.
    """
    options = options or ImportOptions()
    if options.into is not None and (options.out is not None or options.name is not None):
        raise WrongOptions("--into names the file of the dataset itself; leave --out and --name out")
    importer = _importer_for(path, kind)
    if options.prompt is not None and not importer.takes_prompt:
        raise WrongOptions(
            f"--prompt chooses among the prompts of a file of Prompt Foundry, and {path} is {importer.about}"
        )
    request = ImportRequest(path, options, project)
    whole = _written_here(path) if importer.kind in _CONVERTED else None
    if whole is None:
        result = run_importer(importer, request)
    else:
        result = _guarded(importer, lambda: _keep_whole(request, whole))
    result = replace(result, kind=importer.kind, notes=(*result.notes, *added().problems))
    return replace(result, cannot_run=cannot_run(result.dataset)) if result.dataset is not None else result


def preview(path: Path, kind: str | None = None) -> list[str]:
    """Lines about what an import of a path would contain; nothing is written. Raises ImportFailed."""
    importer = _importer_for(path, kind)
    if importer.preview is None:
        raise WrongOptions(f"--preview is for traces of agents, and {path} is {importer.about}")
    show = importer.preview
    return _guarded(importer, lambda: list(show(path)))


_CONVERTED = ("promptfoo", "foundry")
"""The kinds of importers that read what `convert` writes."""


def _written_here(path: Path) -> dict[str, Any] | None:
    """The dataset that a file was exported from, if it is unchanged and its companion is next to it."""
    if not companion_of(path).is_file():
        return None
    beside = read_companion(path, text_of(path))
    return beside.dataset if beside is not None and beside.is_whole else None


def _keep_whole(request: ImportRequest, dataset: dict[str, Any]) -> ImportResult:
    losses = Losses()
    losses.carried("the whole dataset", companion_of(request.path).name)
    return keep_dataset(request, request.dataset_file(request.path.stem), dataset, losses)


def import_run(path: Path, project: ImportProject) -> ImportResult:
    """The runs of recorded results, imported now unless they are there; UnknownSource where a path holds none."""
    holding = {kind: one for kind, one in importers().items() if one.recordings is not None}
    importer = _first_that_fits(holding.values(), path)
    if importer is None and path.name.lower().endswith((".json", ".json.gz")):
        importer = built_in()["results"]  # its error says what is missing
    if importer is None:
        raise UnknownSource(f"{path} holds no results of a run; name a run, or one of these:\n{_kinds(holding)}")
    result = run_importer(importer, ImportRequest(path, ImportOptions(), project))
    if result.run is None:
        raise UnknownSource(f"{path} is {importer.about}, and there are no answers in it; name a run, or results")
    return result


def _importer_for(path: Path, kind: str | None) -> Importer:
    table = importers()
    kind = next((name for name, one in table.items() if kind in one.also), kind)
    if kind is not None and kind not in table:
        *others, last = table
        broken = [problem for problem in added().problems if f"'{kind}'" in problem]
        raise UnknownSource(
            "; ".join(broken)
            or f"--from {kind!r} is no kind that can be read{did_you_mean(kind, table)}; "
            f"the kinds are {', '.join(others)} and {last}"
        )
    try:
        if not path.exists():
            raise UnknownSource(f"{path}: there is no such file or folder")
        if kind is not None:
            return table[kind]
    except OSError as problem:
        raise CannotRead(f"{path} cannot be read: {problem.strerror}") from None
    importer = _first_that_fits(table.values(), path)
    if importer is None:
        raise UnknownSource(f"{path} is of no kind that can be read; name a file or folder of these:\n{_kinds(table)}")
    return importer


def _first_that_fits(table: Collection[Importer], path: Path) -> Importer | None:
    """The importer whose a path is by its name, else the first that recognises it."""
    try:
        by_name = (one for one in table if one.named(path))
        return next(by_name, None) or next((one for one in table if _recognises(one, path)), None)
    except OSError as problem:
        raise CannotRead(f"{path} cannot be read: {problem.strerror}") from None


def _kinds(table: Mapping[str, Importer]) -> str:
    width = max(map(len, table))
    return "\n".join(f"  {one.kind:<{width}} {one.about}" for one in table.values())


def _recognises(importer: Importer, path: Path) -> bool:
    if importer.kind in built_in():
        return importer.recognises(path)
    try:
        return importer.recognises(path)
    except Exception as problem:  # a foreign importer may raise anything
        raise _broken(importer, problem) from problem


def run_importer(importer: Importer, request: ImportRequest) -> ImportResult:
    """The result of an importer for a path; every error of its contract becomes an ImportFailed.

    A run that was exported from tui-evals is restored completely if its companion is next to the file.
    """
    whole = whole_runs_of(request.path) if importer.recordings is not None else None
    match whole:
        case WholeRuns((one,), losses):
            return _guarded(importer, lambda: keep_run(request, lambda _: (one, losses)))
        case WholeRuns(several, losses):
            return _guarded(importer, lambda: keep_runs(request, several, losses))
    result = _guarded(importer, lambda: importer.read(request))
    return result if whole is None else replace(result, notes=(*result.notes, whole))


def recordings_in(path: Path, kind: str | None = None, *, project: ImportProject) -> Sequence[Recording]:
    """The finished runs in a path, with their recorded verdicts; nothing is stored.

    Raises ImportFailed, also for files of a kind that records no verdicts.
    """
    importer = _importer_for(path, kind)
    recordings = importer.recordings
    if recordings is None or not (importer.holds_answers or companion_of(path).is_file()):
        can = ", ".join(one.kind for one in importers().values() if one.recordings and one.holds_answers)
        raise WrongOptions(
            f"{path} is {importer.about}, and holds no verdicts to compare with; name results: --verify RESULTS. Those "
            f"of these kinds can be checked: {can}"
        )
    request = ImportRequest(path, ImportOptions(), project)
    whole = whole_runs_of(path)
    return whole.recordings if isinstance(whole, WholeRuns) else _guarded(importer, lambda: recordings(request))


def _guarded(importer: Importer, work: Callable[[], T]) -> T:
    try:
        return work()
    except ImportFailed:
        raise
    except DatasetError as problem:
        raise CannotRead(str(problem)) from None
    except (CannotSave, ChangedOnDisk) as problem:
        raise CannotKeep(str(problem)) from None
    except ConfigurationError as problem:
        raise WrongSettings(str(problem)) from None
    except StoreError as problem:
        raise NoStore(str(problem)) from None
    except Exception as problem:
        if importer.kind in built_in():
            raise
        raise _broken(importer, problem) from problem


def _broken(importer: Importer, problem: Exception) -> ImportFailed:
    reason = str(problem) or type(problem).__name__
    return ImportFailed(f"the installed importer '{importer.kind}' failed: {reason}; `--from KIND` names another one")
