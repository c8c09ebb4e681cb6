"""A `bench_runs/` folder of Arthur Bench: its suites as eval documents, its runs as finished runs of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui_evals.datasets.losses import Losses
from tui_evals.datasets.problems import DatasetError, Problem
from tui_evals.evaluators.registry import Registry, built_in
from tui_evals.runs.suites.cases import Cases
from tui_evals.runs.suites.keeping import MARK, document_of
from tui_evals.runs.suites.methods import CATEGORIES, Method, method_named
from tui_evals.runs.suites.problems import UserValueError

from .bench_answers import recording_of
from .bench_files import BenchFile, named_in
from .model import Recording

_SUITE, _RUN = "suite.json", "run.json"
_TOLD_APART: Mapping[str, Mapping[str, Any]] = {
    "exact_match": {"compat": True},  # its option means the reverse of what it says
    "hedging_language": {"method": "bertscore"},
}


def recognises(path: Path) -> bool:
    """Whether a folder is one that Arthur Bench keeps suites in, or one suite of it."""
    try:
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


def read(path: Path) -> tuple[list[dict[str, Any]], list[Recording], Losses]:
    """The suites and runs of a folder, and what it does not tell; DatasetError says what is wrong in it."""
    if not recognises(path):
        raise DatasetError(str(path), [Problem(f"holds no suite: no folder in it has a {_SUITE}")])
    folders = [path] if (path / _SUITE).is_file() else sorted(one for one in path.iterdir() if one.is_dir())
    suites: list[dict[str, Any]] = []
    recordings: list[Recording] = []
    losses = Losses()
    for folder in folders:
        if not (folder / _SUITE).is_file():
            losses.left_out(f"the folder {folder.name}", str(folder), f"it holds no {_SUITE}")
            continue
        suite, runs = _suite(folder, losses)
        name = suite["metadata"]["name"]
        if name in [one["metadata"]["name"] for one in suites]:
            BenchFile(folder / _SUITE).refuse(f"there is another suite {name!r} in {path}", "name")
        suites.append(suite)
        recordings += runs
        losses.carried(f"the suite {name!r} with {len(suite['items']):,} cases and {len(runs):,} runs")
    losses.left_out("contexts of runs", why="Arthur Bench keeps none")
    return suites, recordings, losses


def _suite(folder: Path, losses: Losses) -> tuple[dict[str, Any], list[Recording]]:
    file = BenchFile(folder / _SUITE)
    name = named_in(file, "suite", losses)
    cases, numbers = _cases(file, losses)
    method = _method(file, cases, losses)
    try:
        document = document_of(name, cases, method, file.get(("description",), str, optional=True))
    except UserValueError as problem:
        file.refuse(str(problem), "scoring_method", "config")
    about = document["extensions"][MARK]
    del about["created"]  # what is read again must be the same
    for key, field in (("id", "id"), ("created", "created_at"), ("last_run", "last_run_time")):
        if (value := file.get((field,), str, optional=True)) is not None:
            about[key] = value
    file.time("created_at")
    found: list[Recording] = []
    for inner in sorted(one for one in folder.iterdir() if one.is_dir()):
        if not (inner / _RUN).is_file():
            losses.left_out(f"the folder {inner.name}", str(inner), f"it holds no {_RUN}")
            continue
        one = recording_of(BenchFile(inner / _RUN), file, document, method, numbers, losses)
        if one.name in [before.name for before in found]:
            BenchFile(inner / _RUN).refuse(f"the suite has another run {one.name!r}", "name")
        found.append(one)
    return document, sorted(found, key=lambda one: one.finished or 0.0)


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
    """The way of scoring; one that stands as a bare name is built in."""
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
