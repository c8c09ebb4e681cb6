"""A folder `bench_runs` of Arthur Bench imported as suites and finished runs; an error names file, line and field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import DatasetError, Layout, Problem
from tui_evals.evaluators.registry import Registry, built_in
from tui_evals.imports.base import Losses
from tui_evals.project_files import read_text
from tui_evals.runs import suite_runs
from tui_evals.runs import suites as suite
from tui_evals.runs.prompting import of_dataset
from tui_evals.runs.suites import (
    CATEGORIES,
    MARK,
    METADATA,
    PASSING,
    ArthurError,
    Cases,
    Method,
    UserValueError,
    checked_name,
    document_of,
    method_named,
    suite_file,
)
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, RunRow, ScoreRecord
from tui_evals.store.writer import Writer
from tui_evals.targets.config import Settings
from tui_evals.text import strictjson

from .base import (
    CannotKeep,
    CannotRead,
    ImportedRun,
    Importer,
    ImportOptions,
    ImportRequest,
    ImportResult,
    WrongOptions,
)
from .keeping import verdict_counts
from .recording import (
    RecordedAnswer,
    Recording,
    Stored,
    chat_before,
    digest_of,
    recorded_run,
    store_recording,
)

Data = Mapping[str, Any]
_LARGEST = 2**30
_UNFIT = re.compile(r"[\x00-\x1f\x7f]+")
_CALLED: Mapping[type, str] = {str: "text", list: "a list", dict: "an object"}


class BenchFile:
    """A JSON object of the folder, and the places in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = ""
        try:
            self._text = read_text(path, most=_LARGEST, follow_out=True)
            data = strictjson.loads(self._text)
        except strictjson.JsonError as problem:
            raise DatasetError(str(path), [Problem(str(problem), line=problem.line)]) from None
        except UnicodeDecodeError:
            self.refuse("is not UTF-8 text")
        except OSError as problem:
            self.refuse(f"cannot be read: {problem.strerror}")
        if not isinstance(data, dict):
            self.refuse("must hold an object")
        self.data: Data = data

    def refuse(self, message: str, *place: str | int) -> NoReturn:
        """DatasetError with the line of a place."""
        raise DatasetError(str(self.path), [Problem(message, place, Layout(self._text).line(place) if place else None)])

    def get(self, place: Sequence[str | int], kind: type, *, optional: bool = False) -> Any:
        """The value at a place, which must be of a kind; None where it may be absent and is."""
        value: Any = self.data
        for number, step in enumerate(place):
            if isinstance(step, str) and not isinstance(value, dict):
                self.refuse("must be an object", *place[:number])
            value = value.get(step) if isinstance(step, str) else value[step]
        if value is None and optional:
            return None
        if not isinstance(value, kind):
            says = "is missing" if value is None else f"must be {_CALLED[kind]}, not {_shown(value)}"
            self.refuse(f"{says}", *place)
        return value

    def number(self, *place: str | int) -> float | None:
        """The number at a place, or None."""
        value = self.get(place, object, optional=True)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(f"must be a number, not {_shown(value)}", *place)
        return float(value)

    def time(self, *place: str | int) -> float | None:
        """The time at a path in seconds; without a zone it is local."""
        text = self.get(place, str, optional=True)
        try:
            return None if text is None else datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            self.refuse(f"must be a time such as 2024-01-31T12:00:00, not {_shown(text)}", *place)


def named_in(file: BenchFile, what: str, losses: Losses) -> str:
    """The name in a file, made one that a file can have here."""
    given = file.get(("name",), str)
    name = _UNFIT.sub("_", given).strip()[:1_000].strip()
    try:
        checked_name(name, what)
    except UserValueError as problem:
        file.refuse(str(problem), "name")
    if name != given:
        losses.changed(f"the name of a {what}, {given!r}, is now {name!r}", str(file.path), "it is one line of text")
    return name


def _shown(value: object) -> str:
    text = strictjson.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


BY = "Arthur Bench"
UNKNOWN_MODEL = "unknown model"


def recording_of(
    file: BenchFile,
    suite: BenchFile,
    document: Mapping[str, Any],
    method: Method,
    numbers: Mapping[str, int],
    losses: Losses,
) -> Recording:
    """The run of a file, next to the file and the document of its suite; `numbers` are the places of cases by id."""
    name = named_in(file, "run", losses)
    belongs = file.get(("test_suite_id",), str, optional=True)
    if belongs is not None and belongs != suite.data.get("id"):
        file.refuse(f"is {belongs}, and the suite next to it is {suite.data.get('id')}", "test_suite_id")
    noted = {key: value for key in METADATA if (value := file.get((key,), str, optional=True))}
    if not noted:
        losses.left_out("model and prompt of runs", why="Arthur Bench does not keep them in its files")
    mark = {**document["extensions"][MARK], "run": noted}
    marked = {**document, "extensions": {**document["extensions"], MARK: mark}}
    key = "test_cases" if "test_cases" in file.data else "test_case_outputs"
    if len(file.get((key,), list)) != len(numbers):
        file.refuse(f"holds {len(file.data[key])} outputs, and the suite has {len(numbers)} cases", key)
    answers = _answers(file, key, Dataset.model_validate(marked), method, numbers, losses)
    when = file.time("created_at")
    return Recording(
        by=BY,
        digest=digest_of(marked, answers, name, when),
        document=marked,
        source=suite_file(Path(), document["metadata"]["name"]).as_posix(),
        name=name,
        targets=(noted.get("model_name", UNKNOWN_MODEL),),
        answers=answers,
        suite=document["metadata"]["name"],
        started=when,
        finished=when,
    )


def _answers(
    file: BenchFile, key: str, dataset: Dataset, method: Method, numbers: Mapping[str, int], losses: Losses
) -> tuple[RecordedAnswer, ...]:
    by_case: dict[int, RecordedAnswer] = {}
    categorical: set[bool] = set()
    for number, _ in enumerate(file.data[key]):
        place = (key, number)
        identity = file.get((*place, "id"), str)
        item = numbers.get(identity)
        if item is None or item in by_case:
            says = "is of no case of the suite" if item is None else "was answered before"
            file.refuse(f"{identity} {says}", *place, "id")
        text = file.get((*place, "output"), str)
        score, category = _result(file, place)
        categorical.add(category is not None)
        if len(categorical) > 1:
            file.refuse("some results have a category and some have none", *place, "score_result", "category")
        chat = chat_before(dataset, dataset.items[item], 0, of_dataset(dataset))
        answer = AnswerRecord(text=text, request={"messages": list(chat)})
        record = _score(method, score, category)
        if record.result == "error":
            losses.changed("scores of -1 for what the judge could not tell are now errors, which count in no mean")
        by_case[item] = RecordedAnswer(item=item, answer=answer, scores=(record,))
    return tuple(by_case[item] for item in sorted(by_case))


def _result(file: BenchFile, place: Sequence[str | int]) -> tuple[float | None, str | None]:
    """Score and category of a case; earlier files have the score alone."""
    category = None
    if file.get((*place, "score_result"), dict, optional=True) is None:
        score = file.number(*place, "score")
    else:
        score = file.number(*place, "score_result", "score")
        if file.get((*place, "score_result", "category"), dict, optional=True) is not None:
            category = file.get((*place, "score_result", "category", "name"), str)
    if score is None and category is None:
        file.refuse("has neither a score nor a category", *place, "score_result")
    return score, category


def _score(method: Method, score: float | None, category: str | None) -> ScoreRecord:
    (key, *_) = method.evaluators
    kind = None if method.custom else built_in()[method.name]
    record = ScoreRecord(
        key=key, evaluator=kind.name if kind else method.name, score=score, result=None, label=category
    )
    if kind is None or not method.categories:
        return record
    if category == "invalid":
        return replace(record, score=None, result="error", reason="the judge gave no verdict")
    good = category in PASSING if category is not None else score == 1
    return replace(record, result="pass" if good else "fail")


_SUITE, _RUN = "suite.json", "run.json"
_TOLD_APART: Mapping[str, Mapping[str, Any]] = {
    "exact_match": {"compat": True},  # its option means the opposite of its name
    "hedging_language": {"method": "bertscore"},
}


def recognises(path: Path) -> bool:
    """Whether a path is a folder in which Arthur Bench keeps suites, one suite of it, or one run of that."""
    try:
        if (run := _run_folder(path)) is not None:
            return _is_suite(run.parent)
        return path.is_dir() and any(map(_is_suite, (path, *sorted(path.iterdir()))))
    except OSError:
        return False


def _is_suite(folder: Path) -> bool:
    try:
        return (folder / _SUITE).is_file() and {"scoring_method", "test_cases"} <= BenchFile(
            folder / _SUITE
        ).data.keys()
    except DatasetError:
        return (folder.parent / "suite_id_to_name.json").is_file()


def _run_folder(path: Path) -> Path | None:
    """The folder of the one run that a path names; None where it names more."""
    folder = path.parent if path.name == _RUN else path
    return folder if (folder / _RUN).is_file() else None


def read(path: Path) -> tuple[list[dict[str, Any]], list[Recording], Losses]:
    """The suites and runs of a folder, and the losses; raises DatasetError."""
    if not recognises(path):
        raise DatasetError(str(path), [Problem(f"holds no suite: no folder in it has a {_SUITE}")])
    run = _run_folder(path)
    if run is not None:
        folders = [run.parent]
    else:
        folders = [path] if (path / _SUITE).is_file() else sorted(one for one in path.iterdir() if one.is_dir())
    suites: list[dict[str, Any]] = []
    recordings: list[Recording] = []
    losses = Losses()
    for folder in folders:
        if not (folder / _SUITE).is_file():
            losses.left_out(f"the folder {folder.name}", str(folder), f"it holds no {_SUITE}")
            continue
        suite, runs = _suite(folder, losses, run)
        name = suite["metadata"]["name"]
        if name in [one["metadata"]["name"] for one in suites]:
            BenchFile(folder / _SUITE).refuse(f"there is another suite {name!r} in {path}", "name")
        suites.append(suite)
        recordings += runs
        losses.carried(f"the suite {name!r} with {len(suite['items']):,} cases and {len(runs):,} runs")
    losses.left_out("contexts of runs", why="Arthur Bench keeps none")
    return suites, recordings, losses


def _suite(folder: Path, losses: Losses, run: Path | None) -> tuple[dict[str, Any], list[Recording]]:
    """A suite with its runs, or with only the given one."""
    file = BenchFile(folder / _SUITE)
    name = named_in(file, "suite", losses)
    cases, numbers = _cases(file, losses)
    method = _method(file, cases, losses)
    try:
        document = document_of(name, cases, method, file.get(("description",), str, optional=True))
    except UserValueError as problem:
        file.refuse(str(problem), "scoring_method", "config")
    about = document["extensions"][MARK]
    del about["created"]  # reading again must give the same result
    for key, field in (("id", "id"), ("created", "created_at"), ("last_run", "last_run_time")):
        if (value := file.get((field,), str, optional=True)) is not None:
            about[key] = value
    file.time("created_at")
    recordings: list[Recording] = []
    for inner in [run] if run is not None else sorted(one for one in folder.iterdir() if one.is_dir()):
        if not (inner / _RUN).is_file():
            losses.left_out(f"the folder {inner.name}", str(inner), f"it holds no {_RUN}")
            continue
        one = recording_of(BenchFile(inner / _RUN), file, document, method, numbers, losses)
        if one.name in [before.name for before in recordings]:
            BenchFile(inner / _RUN).refuse(f"the suite has another run {one.name!r}", "name")
        recordings.append(one)
    return document, sorted(recordings, key=lambda one: one.finished or 0.0)


def _cases(file: BenchFile, losses: Losses) -> tuple[Cases, dict[str, int]]:
    """The cases, and the place of each by its id."""
    numbers: dict[str, int] = {}
    inputs: list[str] = []
    references: list[str | None] = []
    for number, _ in enumerate(file.get(("test_cases",), list)):
        place = ("test_cases", number)
        identity = file.get((*place, "id"), str)
        if identity in numbers:
            file.refuse(f"the id {identity} is also that of test_cases[{numbers[identity]}]", *place, "id")
        numbers[identity] = number
        text = file.get((*place, "input"), str)
        if not text:
            losses.changed("a blank input became one space", f"{file.path}: test_cases[{number}].input")
        inputs.append(text or " ")
        references.append(file.get((*place, "reference_output"), str, optional=True))
        if (references[-1] is None) != (references[0] is None):
            file.refuse("is null in some cases and not in others", *place, "reference_output")
    if not inputs:
        file.refuse("holds no case", "test_cases")
    known = tuple(text for text in references if text is not None)
    return Cases(tuple(inputs), known or None), numbers


def _method(file: BenchFile, cases: Cases, losses: Losses) -> Method:
    """The scoring method; one that is only a name is built in."""
    place = ("scoring_method",)
    if isinstance(file.data.get("scoring_method"), str):
        return _built_in(file, file.data["scoring_method"], {}, losses)
    file.get(place, dict)
    name = file.get((*place, "name"), str)
    kind = file.get((*place, "type"), str, optional=True) or "built_in"
    config = file.get((*place, "config"), dict, optional=True) or {}
    if kind not in ("built_in", "custom"):
        file.refuse(f"must be built_in or custom, not {kind!r}", *place, "type")
    output = file.get((*place, "output_type"), str, optional=True) or "continuous"
    named = file.get((*place, "categories"), list, optional=True)
    if output not in ("continuous", "categorical"):
        file.refuse(f"must be continuous or categorical, not {output!r}", *place, "output_type")
    if (output == "categorical") != bool(named):
        wrong = "names no category, and the scores are categorical" if not named else "but the scores are continuous"
        file.refuse(wrong, *place, "categories")
    for number, _ in enumerate(named or ()):
        file.get((*place, "categories", number, "name"), str)
    if kind == "built_in":
        return _built_in(file, name, config, losses)
    losses.changed(f"the scorer {name!r} is your own", str(file.path), "its scores are here; new runs need TestSuite")
    categories = tuple(named) if named else None
    return Method(
        name=name, config=config, custom=True, categories=categories, requires_reference=cases.references is not None
    )


def _built_in(file: BenchFile, name: str, config: Mapping[str, Any], losses: Losses) -> Method:
    kind = built_in().get(name)
    if kind is None or (kind.name not in CATEGORIES and kind.family != "Arthur Bench"):
        file.refuse(f"{name!r} is no way of scoring that Arthur Bench brings", "scoring_method", "name")
    options: dict[str, Any] = dict(_TOLD_APART.get(name, {}))
    for key, value in config.items():
        try:
            method_named(name, options | {key: value}, Registry(built_in()))
        except UserValueError as problem:
            losses.left_out(f"the option {key} of {name}", f"{file.path}: scoring_method.config", str(problem))
        else:
            options[key] = value
    return method_named(name, options, Registry(built_in()))


def _read_all(path: Path) -> tuple[list[dict[str, Any]], list[Recording], Losses]:
    try:
        return read(path)
    except OSError as problem:
        raise CannotRead(f"{path} is no folder of Arthur Bench that can be read: {problem.strerror}") from None


def _import(request: ImportRequest) -> ImportResult:
    """Read every suite and run of a folder, then keep them all."""
    path, project = request.path, request.project
    if request.options != ImportOptions():
        raise WrongOptions("suites are kept in the project under their own names; leave --into, --out and --name out")
    suites, recordings, losses = _read_all(path)
    if not suites:
        raise CannotRead(f"{path} holds no suite of Arthur Bench; name the folder bench_runs, or a suite in it")
    settings, variables = project.configuration()
    with project.writing(variables) as (writer, reader):
        try:
            stored = store_suites(project.root, writer, reader, suites, recordings, settings, variables)
        except ArthurError as problem:
            raise CannotKeep(str(problem)) from None
    recorded, repeatable = verdict_counts(recordings, project.root)
    runs = tuple(ImportedRun(run.key, run.name, run.suite, run_is) for run, run_is in stored)
    return ImportResult(
        source=path,
        suites=tuple(str(suite["metadata"]["name"]) for suite in suites),
        items=sum(len(suite["items"]) for suite in suites),
        results=sum(len(one.answers) for one in recordings),
        models=tuple(dict.fromkeys(target for one in recordings for target in one.targets)),
        run=runs[-1].key if runs else None,
        run_is=runs[-1].run_is if runs else "",
        runs=runs,
        losses=tuple(losses.entries),
        recorded=recorded,
        repeatable=repeatable,
        next=f"tui-evals show {runs[-1].key}" if runs else "",
    )


def store_suites(
    root: Path,
    writer: Writer,
    reader: Reader,
    suites: Sequence[Mapping[str, Any]],
    recordings: Sequence[Recording],
    settings: Settings,
    variables: Mapping[str, str],
) -> list[tuple[RunRow, Stored]]:
    """Keep what `read` found; UserValueError, before anything is written, where a name is taken.

    It waits for the commits, so it is not called from within an event loop.
    """
    new = [data for data in suites if _is_new(root, data)]
    for one in recordings:
        if recorded_run(reader, one.digest) is None:
            suite_runs.refuse_twice(reader, one.suite, one.name)
    for data in new:
        suite.keep(root, data["metadata"]["name"], data)
    return [store_recording(writer, reader, one, settings, variables) for one in recordings]


def _is_new(root: Path, data: Mapping[str, Any]) -> bool:
    name = data["metadata"]["name"]
    there = suite.kept(root, name)
    if there is not None and (there.data["items"], there.data["default_evaluators"]) != (
        data["items"],
        data["default_evaluators"],
    ):
        raise UserValueError(
            f"there is a suite {name!r} with other cases or another way of scoring already; nothing was imported. "
            "Rename one of them"
        )
    return there is None


IMPORTER = Importer(
    kind="bench",
    about="a folder bench_runs of Arthur Bench, or a suite or a run in it",
    recognises=recognises,
    read=_import,
    recordings=lambda request: _read_all(request.path)[1],
    order=30,
)
