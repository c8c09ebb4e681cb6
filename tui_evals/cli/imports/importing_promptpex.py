"""Bringing in what PromptPex wrote: its tests become a dataset, its recorded answers a finished run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.output import Stop
from tui_evals.cli.project import open_project
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.prompts import prompt_name
from tui_evals.datasets.save import CannotSave, write_atomically
from tui_evals.evaluators.compliance import discover_metrics
from tui_evals.generate.options import Options
from tui_evals.generate.shapes import UnreadableFile, evaluator_key
from tui_evals.generate.subject import Subject, read_subject
from tui_evals.imports.losses import Losses
from tui_evals.imports.promptpex.artefacts import Artefacts, gather, known_files
from tui_evals.imports.promptpex.items import Items, document_of, written_tests
from tui_evals.imports.promptpex.rows import RecordedResult
from tui_evals.imports.promptpex.runs import (
    AVERAGE,
    Origin,
    Recording,
    differences,
    evaluators_for,
    judged_by,
    keys_for,
    metric_of,
    overview_of,
    recorded,
    recording_of,
)
from tui_evals.imports.recording import recorded_run, store_recording
from tui_evals.runs.project import Project
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.store.baselines import dataset_key

from .imported import DatasetIs, Imported, ImportOptions, RunIs, keep_dataset, make_folder, shown

Data = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A recording read whole, before anything of it is stored."""

    found: Artefacts
    items: Sequence[Data]
    recording: Recording
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    evaluators: Mapping[str, Any]


def take(path: Path, wish: ImportOptions) -> Imported:
    """Read everything, then write the dataset, then the run; what cannot be read leaves nothing behind."""
    try:
        found = gather(path)
        if not found.pieces.keys() - {"overview", "prompt"}:
            if "overview" not in found.pieces:
                raise Stop(f"{path} holds nothing that PromptPex records; name a folder or file with {known_files()}")
            return _only_totals(path, found)
        wanted = wish.stem(found.name)
        folder = wish.folder(found.folder)
        make_folder(folder)
        project.store_path()  # Which files are inside the project shows only once there is one.
        prompt, made = _prompt_in(found, folder)
        try:
            return _taken(path, found, folder / f"{wanted}.json", prompt, made)
        except BaseException:
            for file in made:
                file.unlink(missing_ok=True)
            raise
    except (UnreadableFile, CannotSave) as problem:
        raise Stop(str(problem)) from None


def _only_totals(path: Path, found: Artefacts) -> Imported:
    beside = found.folder / "test_results.json"
    return Imported(
        read=str(path),
        overview=overview_of(found),
        next=f"tui-evals import {shown(found.folder)}" if beside.is_file() else "",
    )


def _prompt_in(found: Artefacts, folder: Path) -> tuple[Path | None, list[Path]]:
    """The prompt, where a dataset in the folder can name it, and the files that had to be written for that."""
    if found.prompt is None:
        text = found.text("prompt")
        wanted = {folder / f"{found.name}.prompty": f"{text}\n".encode()} if text else {}
    elif found.prompt.resolve().is_relative_to(project_root(folder)):
        return found.prompt.resolve(), []
    else:
        files = (found.prompt, *discover_metrics(found.prompt.parent).values())
        wanted = {folder / file.name: _bytes(file) for file in files}
    made = [file for file in wanted if not file.exists()]
    for file in made:
        write_atomically(file, wanted[file])
    return next(iter(wanted), None), made


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise UnreadableFile(f"{file} cannot be read: {problem.strerror}") from None


def _taken(path: Path, found: Artefacts, file: Path, prompt: Path | None, made: Sequence[Path]) -> Imported:
    subject, unusable = _subject(prompt)
    here = open_project(None, False, prompt)
    read = _read(path, found, subject, here, prompt)
    document = document_of(found, file.stem, read.items, subject, read.evaluators)
    if subject is not None and prompt is not None:
        document["prompt_file"] = Path(os.path.relpath(prompt, file.parent)).as_posix()
    if read.recording.repeats > 1:
        document["repeats"] = read.recording.repeats
    run, dataset_is, run_is = _stored(read, document, file, subject, here)
    following = f"tui-evals show {run}" if run else f"tui-evals run {shown(file)} --target NAME"
    return Imported(
        read=str(path),
        dataset=shown(file),
        dataset_is=dataset_is,
        prompts=tuple(shown(one) for one in made[:1]),
        items=len(read.items),
        results=len(read.recording.answers),
        models=read.recording.models,
        run=run,
        run_is=run_is,
        losses=tuple(_losses(read).entries),
        notes=(*unusable, *read.notes),
        next=following,
    )


def _losses(read: _Read) -> Losses:
    losses = Losses()
    for what in read.left_out:
        losses.left_out(what)
    tests, answers = len(read.items), len(read.recording.answers)
    losses.carried(f"{tests} test{'' if tests == 1 else 's'}", why="as items")
    if answers:
        losses.carried(f"{answers} result{'' if answers == 1 else 's'} with their verdicts", why="as answers")
    return losses


def _subject(prompt: Path | None) -> tuple[Subject | None, list[str]]:
    if prompt is None:
        return None, ["there is no prompt beside the tests, so each item asks its test's input alone"]
    try:
        return read_subject(prompt, Options()), []
    except DatasetError as problem:
        return None, [f"the prompt cannot be used, so each item asks its test's input alone: {problem}"]


def _read(path: Path, found: Artefacts, subject: Subject | None, here: Project, prompt: Path | None) -> _Read:
    rows = found.rows("test_results", RecordedResult)
    tests = written_tests(found)
    written = len(tests.rows)
    recording = recording_of(rows, tests)
    if not tests.rows:
        raise Stop(f"{path} holds neither tests nor answers; name a folder with tests.json or test_results.json")
    truths = [*found.rows("test_groundtruth", RecordedResult), *(row for row in rows if row.isGroundtruth)]
    making = Items(found, subject, truths)
    items = [making.item(test, place) for place, test in enumerate(tests.rows)]
    left_out = list(recording.notes)
    averages = {key for row in recording.rows for key in row.metrics if metric_of(key)[1] == AVERAGE}
    left_out += [f"{key}, which is computed from the scores" for key in sorted(averages)]
    notes = making.notes
    if added := len(tests.rows) - written:
        notes.append(f"{added} of the tests are known from their answers only")
    notes += differences(overview_of(found), rows, recording.rows) if rows else []
    evaluators, missing = _evaluators(found, recording, here, prompt)
    return _Read(
        found=found,
        items=items,
        recording=recording,
        left_out=tuple(left_out),
        notes=(*notes, *missing),
        evaluators=evaluators,
    )


def _evaluators(
    found: Artefacts, recording: Recording, here: Project, prompt: Path | None
) -> tuple[Mapping[str, Any], list[str]]:
    """The evaluators for new runs, and which of those that judged are not known here."""
    keys = keys_for(judged_by(recording.rows))
    evaluators = evaluators_for(keys, here.registry.by_name, bool(found.text("rules")))
    metrics = {metric for metric, _ in keys}
    for name in discover_metrics(prompt.parent) if prompt is not None else ():
        if name not in metrics:
            evaluators.setdefault(evaluator_key(name), {} if evaluator_key(name) == name else {"type": name})
    missing = sorted(metrics - here.registry.by_name.keys())
    place = "beside the prompt" if prompt is None else f"into {shown(prompt.parent)}"
    return evaluators, [
        f"new runs are not judged by the metric {name}, which is not known here; put {name}.metric.prompty {place}"
        for name in missing
    ]


def _stored(
    read: _Read, document: Data, file: Path, subject: Subject | None, here: Project
) -> tuple[str | None, DatasetIs, RunIs]:
    recording = read.recording
    with project.writer(here.environment) as writer, project.reader() as reader:
        known = recorded_run(reader, recording.digest) if recording.answers else None
        dataset_is = keep_dataset(document, file, known is not None)
        if not recording.answers:
            return None, dataset_is, ""
        origin = Origin(
            document=document,
            source=dataset_key(str(file), here.root),
            name=file.stem,
            prompt=None if subject is None else PromptUnderTest(prompt_name(subject.file), subject.prompty),
            keys=keys_for(judged_by(recording.rows)),
            metrics=None if subject is None else os.path.relpath(subject.file.resolve().parent, here.root),
            judges=read.found.judges,
        )
        run, run_is = store_recording(writer, reader, recorded(recording, origin), here.settings, here.environment)
        return run.key, dataset_is, run_is
