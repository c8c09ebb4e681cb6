"""Imports files of PromptPex: its tests become a dataset, its recorded answers a finished run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tui_evals.datasets.discover import project_root
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.prompts import prompt_name
from tui_evals.evaluators.compliance import discover_metrics
from tui_evals.evaluators.registry import load_registry
from tui_evals.files import make_folder, write_atomically
from tui_evals.generate.folder import UnreadableFile, evaluator_key
from tui_evals.generate.work import Options, Subject, read_subject
from tui_evals.imports.base import CannotRead, Importer, ImportRequest, ImportResult, Losses, shown
from tui_evals.imports.keeping import json_in, verdict_counts, write_dataset
from tui_evals.imports.promptpex.artefacts import Artefacts, RecordedResult, gather, holds_artefacts, known_files
from tui_evals.imports.promptpex.runs import Items, document_of, written_tests
from tui_evals.imports.recording import Recording as FinishedRun
from tui_evals.imports.recording import recorded_run, store_recording
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.store.baselines import dataset_key

from .runs import (
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
    with_inverse,
)

Data = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tests:
    """The tests and their answers, read whole before anything of them is stored."""

    artefacts: Artefacts
    items: Sequence[Data]
    recording: Recording
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    evaluators: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _PromptFiles:
    """The prompt where the dataset can name it, and the files that had to be written for that."""

    prompt: Path | None
    new: tuple[Path, ...] = ()


def recognises(path: Path) -> bool:
    """Whether PromptPex wrote it; datasets may be named like files of PromptPex."""
    value = json_in(path) if path.suffix.lower() == ".json" else None
    return holds_artefacts(path) and not (isinstance(value, dict) and isinstance(value.get("items"), list))


def _import(request: ImportRequest) -> ImportResult:
    """Read everything, then write the dataset, then the run; unreadable files leave nothing behind."""
    path = request.path
    try:
        artefacts = gather(path)
        if not artefacts.pieces.keys() - {"overview", "prompt"}:
            if "overview" not in artefacts.pieces:
                raise CannotRead(
                    f"{path} holds nothing that PromptPex records; name a folder or file with {known_files()}"
                )
            return _only_totals(path, artefacts)
        stem = request.stem(artefacts.name)
        folder = request.folder(artefacts.folder)
        make_folder(folder)
        request.project.open_store()  # Which files are inside the project shows only once there is one.
        files = _prompt_files(artefacts, folder)
        try:
            return _keep(request, artefacts, folder / f"{stem}.json", files)
        except BaseException:
            for file in files.new:
                file.unlink(missing_ok=True)
            raise
    except UnreadableFile as problem:
        raise CannotRead(str(problem)) from None


def _recordings(request: ImportRequest) -> Sequence[FinishedRun]:
    """The run of a folder as it would be stored; a prompt that is in no file of its own is written for as long."""
    try:
        artefacts = gather(request.path)
        with TemporaryDirectory() as folder:
            prompt = artefacts.prompt or _prompt_files(artefacts, Path(folder)).prompt
            file = (prompt or request.path).with_suffix(".json")
            subject, _ = _subject(prompt)
            document, tests = _documented(request, artefacts, file, subject, prompt)
    except UnreadableFile as problem:
        raise CannotRead(str(problem)) from None
    origin = _origin(document, file, tests, subject, request.project.root)
    return (recorded(tests.recording, origin),) if tests.recording.answers else ()


def _only_totals(path: Path, artefacts: Artefacts) -> ImportResult:
    answers = artefacts.folder / "test_results.json"
    return ImportResult(
        source=path,
        overview=overview_of(artefacts),
        next=f"tui-evals import {shown(artefacts.folder)}" if answers.is_file() else "",
    )


def _prompt_files(artefacts: Artefacts, folder: Path) -> _PromptFiles:
    """The prompt for a dataset in a folder, copied with its metrics if it is outside the project."""
    if artefacts.prompt is None:
        text = artefacts.text("prompt")
        wanted = {folder / f"{artefacts.name}.prompty": f"{text}\n".encode()} if text else {}
    elif artefacts.prompt.resolve().is_relative_to(project_root(folder)):
        return _PromptFiles(artefacts.prompt.resolve())
    else:
        files = (artefacts.prompt, *discover_metrics(artefacts.prompt.parent).values())
        wanted = {folder / file.name: _bytes(file) for file in files}
    new = [file for file in wanted if not file.exists()]
    for file in new:
        write_atomically(file, wanted[file])
    return _PromptFiles(next(iter(wanted), None), tuple(new))


def _bytes(file: Path) -> bytes:
    try:
        return read_bytes(file, follow_out=True)
    except OSError as problem:
        raise UnreadableFile(f"{file} cannot be read: {problem.strerror}") from None


def _keep(request: ImportRequest, artefacts: Artefacts, file: Path, files: _PromptFiles) -> ImportResult:
    prompt = files.prompt
    subject, unusable = _subject(prompt)
    settings, variables = request.project.configuration()
    document, tests = _documented(request, artefacts, file, subject, prompt)
    recording = tests.recording
    result = ImportResult(
        source=request.path,
        dataset=file,
        prompts=files.new[:1],
        items=len(tests.items),
        results=len(recording.answers),
        models=recording.models,
        losses=tuple(_losses(tests).entries),
        notes=(*unusable, *tests.notes),
    )
    with request.project.writing(variables) as (writer, reader):
        if not recording.answers:
            dataset_is = write_dataset(document, file)
            return replace(result, dataset_is=dataset_is, next=f"tui-evals run {shown(file)} --target NAME")
        dataset_is = write_dataset(document, file, recorded_run(reader, recording.digest) is not None)
        origin = _origin(document, file, tests, subject, request.project.root)
        finished = recorded(recording, origin)
        run, run_is = store_recording(writer, reader, finished, settings, variables)
    kept = replace(result, dataset_is=dataset_is, run=run.key, run_is=run_is, next=f"tui-evals show {run.key}")
    count, repeatable = verdict_counts([finished], request.project.root)
    return replace(kept, recorded=count, repeatable=repeatable)


def _documented(
    request: ImportRequest, artefacts: Artefacts, file: Path, subject: Subject | None, prompt: Path | None
) -> tuple[Data, _Tests]:
    """The dataset for a file, and the tests that were read."""
    known = load_registry(request.project.root, prompt_folder=prompt.parent if prompt else None).by_name
    tests = _read(request.path, artefacts, subject, known, prompt)
    document = document_of(artefacts, file.stem, tests.items, subject, tests.evaluators)
    if subject is not None and prompt is not None:
        document["prompt_file"] = Path(os.path.relpath(prompt, file.parent)).as_posix()
    if tests.recording.repeats > 1:
        document["repeats"] = tests.recording.repeats
    return document, tests


def _origin(document: Data, file: Path, tests: _Tests, subject: Subject | None, root: Path) -> Origin:
    return Origin(
        document=document,
        source=dataset_key(str(file), root),
        name=file.stem,
        prompt=None if subject is None else PromptUnderTest(prompt_name(subject.file), subject.prompty),
        keys=keys_for(judged_by(tests.recording.rows)),
        metrics=None if subject is None else os.path.relpath(subject.file.resolve().parent, root),
        judges=tests.artefacts.judges,
    )


def _losses(tests: _Tests) -> Losses:
    losses = Losses()
    for what in (*tests.left_out, *tests.artefacts.left_out):
        losses.left_out(what)
    count, answers = len(tests.items), len(tests.recording.answers)
    losses.carried(f"{count} test{'' if count == 1 else 's'}", why="as items")
    if answers:
        losses.carried(f"{answers} result{'' if answers == 1 else 's'} with their verdicts", why="as answers")
    return losses


def _subject(prompt: Path | None) -> tuple[Subject | None, list[str]]:
    """The prompt under test, or a note that says why there is none."""
    if prompt is None:
        return None, ["there is no prompt next to the tests, so each item asks only its test's input"]
    try:
        return read_subject(prompt, Options()), []
    except DatasetError as problem:
        return None, [f"the prompt cannot be used, so each item asks its test's input alone: {problem}"]


def _read(
    path: Path, artefacts: Artefacts, subject: Subject | None, known: Mapping[str, object], prompt: Path | None
) -> _Tests:
    rows = with_inverse(artefacts.rows("test_results", RecordedResult), len(artefacts.lines("rules")))
    tests = written_tests(artefacts)
    written = len(tests.rows)
    recording = recording_of(rows, tests)
    if not tests.rows:
        raise CannotRead(f"{path} holds neither tests nor answers; name a folder with tests.json or test_results.json")
    truths = [*artefacts.rows("test_groundtruth", RecordedResult), *(row for row in rows if row.isGroundtruth)]
    making = Items(artefacts, subject, truths)
    items = [making.item(test, place) for place, test in enumerate(tests.rows)]
    left_out = list(recording.notes)
    averages = {key for row in recording.rows for key in row.metrics if metric_of(key)[1] == AVERAGE}
    left_out += [f"{key}, which is computed from the scores" for key in sorted(averages)]
    notes = making.notes
    if added := len(tests.rows) - written:
        notes.append(f"{added} of the tests are known from their answers only")
    notes += differences(overview_of(artefacts), rows, recording.rows) if rows else []
    evaluators, missing = _evaluators(artefacts, recording, known, prompt)
    return _Tests(
        artefacts=artefacts,
        items=items,
        recording=recording,
        left_out=tuple(left_out),
        notes=(*notes, *missing),
        evaluators=evaluators,
    )


def _evaluators(
    artefacts: Artefacts, recording: Recording, known: Mapping[str, object], prompt: Path | None
) -> tuple[Mapping[str, Any], list[str]]:
    """The evaluators for new runs, and which of those that judged are not known here."""
    keys = keys_for(judged_by(recording.rows))
    evaluators = evaluators_for(keys, known, bool(artefacts.text("rules")))
    metrics = {metric for metric, _ in keys}
    for name in discover_metrics(prompt.parent) if prompt is not None else ():
        if name not in metrics:
            evaluators.setdefault(evaluator_key(name), {} if evaluator_key(name) == name else {"type": name})
    missing = sorted(metrics - known.keys())
    place = "next to the prompt" if prompt is None else f"into {shown(prompt.parent)}"
    return evaluators, [
        f"new runs are not judged by the metric {name}, which is not known here; put {name}.metric.prompty {place}"
        for name in missing
    ]


IMPORTER = Importer(
    kind="promptpex",
    about=f"a folder of PromptPex, or a file of it: {known_files()}",
    recognises=recognises,
    read=_import,
    recordings=_recordings,
    order=10,
)
