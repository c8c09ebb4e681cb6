"""Stores an import: the dataset's file, the prompts next to it, the run in the store; never over another file."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.discover import project_of
from tui_evals.datasets.document import load
from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import DatasetError, pretty_json, problem_with_place
from tui_evals.datasets.prompts import prompt_of
from tui_evals.datasets.resolve import resolve_evaluators
from tui_evals.datasets.validate import parse_dataset, validate
from tui_evals.evaluators.conditions import LEFT_OUT
from tui_evals.evaluators.registry import load_registry, with_prompt_metrics
from tui_evals.files import make_folder, write_atomically
from tui_evals.imports.base import Losses
from tui_evals.project_files import TooLarge, read_bytes
from tui_evals.runs.readiness import with_run_problems
from tui_evals.runs.scoring import FORMAT_KEY
from tui_evals.store.baselines import dataset_key
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import FILE, load_settings
from tui_evals.targets.config_file import write_setting
from tui_evals.text import strictjson

from .base import (
    CannotKeep,
    CannotRead,
    DatasetIs,
    ImportedRun,
    ImportRequest,
    ImportResult,
    WrongOptions,
    WrongSettings,
    shown,
)
from .recording import Recording, gives_verdict, recorded_run, store_recording

LARGEST = 2**30
"""The largest file that is imported."""


def text_of(path: Path) -> str:
    """The text of a file; CannotRead says why it has none."""
    try:
        raw = read_bytes(path, most=LARGEST, follow_out=True)
    except IsADirectoryError:
        raise CannotRead(f"{path} is a folder, not a file; name the file itself") from None
    except TooLarge:
        raise CannotRead(f"{path} is larger than {LARGEST // 2**20} MiB; split it into several files") from None
    except OSError as problem:
        raise CannotRead(f"{path} cannot be read: {problem.strerror}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise CannotRead(f"{path}:{line}: is not UTF-8 text; save the file as UTF-8") from None


def json_in(path: Path) -> object:
    """The value of a JSON file, of its first line where it holds one on each; None where there is neither."""
    if not path.is_file():
        return None
    text = text_of(path)
    for part in (text, text.lstrip().partition("\n")[0]):
        try:
            return strictjson.loads(part)
        except strictjson.JsonError:
            continue
    return None


def run_command(file: Path, *, prompts: str = "", targets: str = "--target NAME") -> str:
    """The command line that runs a dataset."""
    return f"tui-evals run {shlex.quote(shown(file))}{prompts} {targets}"


def keep_dataset(
    request: ImportRequest,
    file: Path,
    document: Mapping[str, Any],
    losses: Losses,
    *,
    prompts: Mapping[Path, str] | None = None,
    evaluators: Mapping[Path, str] | None = None,
    following: str = "",
) -> ImportResult:
    """Write an imported dataset with its prompt files and custom evaluators, all of them or none."""
    dataset, problems = parse_dataset(document)
    if dataset is None and document["items"]:  # without items there are still questions and evaluators
        raise DatasetError(str(request.path), problems)
    return ImportResult(
        source=request.path,
        dataset=file,
        dataset_is=write_files(document, file, {**(prompts or {}), **(evaluators or {})}),
        prompts=tuple(prompts or ()),
        evaluators=tuple(evaluators or ()),
        items=len(document["items"]),
        losses=tuple(losses.entries),
        assertions=len(losses.assertions),
        as_before=sum(losses.assertions.values()),
        next=following or run_command(file),
    )


def keep_targets(result: ImportResult, root: Path) -> ImportResult:
    """Write the settings of targets into the project's configuration; existing targets are not changed."""
    notes: list[str] = []
    try:
        there = _written_targets(root)
        for name, section in result.targets.items():
            if name in there and there[name] != section:
                notes.append(f"{FILE} has another target {name}, which stays as it is; the import has {dict(section)}")
            elif name not in there:
                write_setting(root, ("targets", name), dict(section))
    except ConfigurationError as problem:
        raise WrongSettings(str(problem)) from None
    written = tuple(name for name in result.targets if name not in there)
    return replace(
        result, notes=(*result.notes, *notes), targets_written=written, next=result.next_with_targets or result.next
    )


def _written_targets(root: Path) -> Mapping[str, Any]:
    """The sections of targets in the project's configuration, which must be valid."""
    load_settings(root)
    file = root / FILE
    targets: Mapping[str, Any] = tomllib.loads(text_of(file)).get("targets", {}) if file.exists() else {}
    return targets


def keep_run(request: ImportRequest, read: Callable[[Path], tuple[Recording, Losses]]) -> ImportResult:
    """Store what `read` finds at the path as a finished run, and its dataset as a file where the options name one."""
    recording, losses = read(request.path)
    options, project = request.options, request.project
    settings, variables = project.configuration()
    named = options.into is not None or options.out is not None
    file = request.dataset_file(request.path.name.split(".")[0] or "dataset") if named else None
    name = request.stem(recording.name) if options.name else recording.name
    recording = replace(recording, source=dataset_key(str(file or request.path), project.root), name=name)
    with project.writing(variables) as (writer, reader):
        dataset_is: DatasetIs = ""
        if file is not None:
            make_folder(file.parent)
            known = recorded_run(reader, recording.digest) is not None
            dataset_is = write_dataset(recording.document, file, known)
            # The name relative to the project's root is known only once the file exists.
            recording = replace(recording, source=dataset_key(str(file), project.root))
        run, run_is = store_recording(writer, reader, recording, settings, variables)
    recorded, repeatable = verdict_counts([recording], project.root)
    return ImportResult(
        source=request.path,
        dataset=file,
        dataset_is=dataset_is,
        items=len(recording.document["items"]),
        results=len(recording.answers),
        models=recording.targets,
        run=run.key,
        run_is=run_is,
        losses=tuple(losses.entries),
        recorded=recorded,
        repeatable=repeatable,
        next=f"tui-evals show {run.key}",
    )


def keep_runs(request: ImportRequest, recordings: Sequence[Recording], losses: Losses) -> ImportResult:
    """Store several finished runs that one file holds."""
    options = request.options
    if options.into is not None or options.out is not None:
        raise WrongOptions(f"{request.path} holds several runs, so it is no one dataset; leave --into and --out out")
    settings, variables = request.project.configuration()
    with request.project.writing(variables) as (writer, reader):
        stored = [store_recording(writer, reader, one, settings, variables) for one in recordings]
    recorded, repeatable = verdict_counts(recordings, request.project.root)
    runs = tuple(ImportedRun(run.key, run.name, run.source, run_is) for run, run_is in stored)
    return ImportResult(
        source=request.path,
        items=sum(len(one.document["items"]) for one in recordings),
        results=sum(len(one.answers) for one in recordings),
        models=tuple(dict.fromkeys(target for one in recordings for target in one.targets)),
        run=runs[-1].key,
        run_is=runs[-1].run_is,
        runs=runs,
        losses=tuple(losses.entries),
        recorded=recorded,
        repeatable=repeatable,
        next=f"tui-evals show {runs[-1].key}",
    )


def verdict_counts(recordings: Iterable[Recording], root: Path) -> tuple[int, int]:
    """How many verdicts are recorded, and how many of them an evaluator of the recording's dataset can give again."""
    recorded = repeatable = 0
    registry = load_registry(root)
    for one in recordings:
        known = with_prompt_metrics(registry, None if one.metrics is None else root / one.metrics).by_name
        dataset = Dataset.model_validate(one.document)
        keys: dict[tuple[int, int], set[str]] = {}
        for answer in one.answers:
            found = [score.key for score in answer.scores if gives_verdict(score)]
            place = (answer.item, answer.turn)
            if found and place not in keys:
                judging = resolve_evaluators(dataset, dataset.items[answer.item].units[answer.turn])
                keys[place] = {
                    FORMAT_KEY,
                    *(entry.key for entry in judging if entry.evaluator in known and entry.evaluator != LEFT_OUT),
                }
            recorded += len(found)
            repeatable += sum(key in keys[place] for key in found)
        recorded += len(one.together)
    return recorded, repeatable


def cannot_run(file: Path) -> tuple[str, ...]:
    """The problems that prevent a run of a dataset, each with its place; the same as `validate` finds."""
    try:
        document = load(file)
        prompt = prompt_of(document)
    except DatasetError as error:
        return tuple(problem_with_place(shown(file), problem) for problem in error.problems)
    registry = load_registry(project_of(file), prompt_folder=None if prompt is None else prompt.parent)
    report = with_run_problems(validate(document, registry.catalogue, registry.own), document, registry)
    return tuple(problem_with_place(shown(file), problem) for problem in report.problems if problem.severity == "error")


def write_dataset(document: Mapping[str, Any], file: Path, known: bool = False) -> DatasetIs:
    """Write a dataset, unless its file exists; a `known` one may have been changed since."""
    there = _state_of(file, document)
    if there == "":
        write_atomically(file, pretty_json(dict(document)).encode("utf-8", "backslashreplace"))
        return "written"
    if there == "kept" and not known:
        raise _taken(file)
    return there


def write_files(document: Mapping[str, Any], file: Path, beside: Mapping[Path, str]) -> DatasetIs:
    """Write a dataset and the files it is run with: all of them or none, and none over another file."""
    for other, text in beside.items():
        if other.exists() and text_of(other) != text:
            raise _taken(other)
    new = [other for other in beside if not other.exists()]
    try:
        make_folder(file.parent)
        for other in new:
            make_folder(other.parent)
            write_atomically(other, beside[other].encode())
        return write_dataset(document, file)
    except BaseException:
        for other in new:
            other.unlink(missing_ok=True)
        raise


def _state_of(file: Path, document: Mapping[str, Any]) -> DatasetIs:
    """The state of the path for a dataset: free, the same dataset, or another file."""
    if not os.path.lexists(file):
        return ""
    try:
        return "unchanged" if load(file).data == document else "kept"
    except DatasetError:
        return "kept"


def _taken(file: Path) -> CannotKeep:
    return CannotKeep(
        f"{shown(file)} is there already and holds something else; it is as it was. Name another folder with --out, "
        "or another name with --name"
    )
