"""Taking in finished runs from files: logs of Inspect, and results that tui-evals exported."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tui_evals.cli import project
from tui_evals.cli.output import Stop, warn
from tui_evals.cli.project import open_project
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.save import CannotSave
from tui_evals.imports import results
from tui_evals.imports.inspect import log
from tui_evals.imports.losses import Losses
from tui_evals.imports.recording import Recording, recorded_run, store_recording
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from .imported import DatasetIs, Imported, ImportOptions, keep_dataset, make_folder, shown

Read = Callable[[Path], tuple[Recording, Losses]]


def take_log(path: Path, wish: ImportOptions) -> Imported:
    """A log of Inspect as a finished run."""
    return _taken(log.read, path, wish)


def take_results(path: Path, wish: ImportOptions) -> Imported:
    """A results file as the finished run it was exported from."""
    return _taken(results.read, path, wish)


def run_in(path: Path) -> RunRow | None:
    """The run of a results file or log, imported now unless it is there; None for any other file."""
    if not path.name.lower().endswith((".eval", ".json", ".json.gz")):
        return None
    try:
        read = log.read if log.recognises(path) else results.read
    except OSError as problem:
        raise Stop(f"{path} cannot be read: {problem.strerror}") from None
    done = _taken(read, path, ImportOptions())
    was = "was imported before as" if done.run_is == "known" else "is now"
    warn(f"note: {path} {was} run {done.run}; `tui-evals import {shlex.quote(str(path))}` says what was left out")
    with project.reader() as reader:
        return project.run_named(reader, str(done.run))


def _taken(read: Read, path: Path, wish: ImportOptions) -> Imported:
    """Read everything, then write the dataset where one is wished for, then the run."""
    try:
        recording, losses = read(path)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    here = open_project(None, False)
    file = None if wish.into is None and wish.out is None else wish.file(path, path.name.split(".")[0] or "dataset")
    source = dataset_key(str(file or path), here.root)
    recording = replace(recording, source=source, name=wish.stem(recording.name) if wish.name else recording.name)
    with project.writer(here.environment) as writer, project.reader() as reader:
        dataset_is = _dataset(recording, file, reader)
        if file is not None:
            recording = replace(recording, source=dataset_key(str(file), here.root))
        run, run_is = store_recording(writer, reader, recording, here.settings, here.environment)
    return Imported(
        read=str(path),
        dataset=None if file is None else shown(file),
        dataset_is=dataset_is,
        items=len(recording.document["items"]),
        results=len(recording.answers),
        models=recording.targets,
        run=run.key,
        run_is=run_is,
        losses=tuple(losses.entries),
        next=f"tui-evals show {run.key}",
    )


def _dataset(recording: Recording, file: Path | None, reader: Reader) -> DatasetIs:
    if file is None:
        return ""
    make_folder(file.parent)
    try:
        return keep_dataset(recording.document, file, recorded_run(reader, recording.digest) is not None)
    except CannotSave as problem:
        raise Stop(str(problem)) from None
