"""`tui-evals import --verify`: whether recorded answers are judged as they were, as lines or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tui_evals.cli import inputs
from tui_evals.cli.approving import approve
from tui_evals.cli.output import Stop, say
from tui_evals.datasets.document import load
from tui_evals.datasets.problems import DatasetError
from tui_evals.imports import doors
from tui_evals.imports.base import ImportProject, ImportResult, WrongOptions
from tui_evals.imports.summary import agreement, difference_lines, not_repeated_lines
from tui_evals.imports.verifying import Verification, prepare
from tui_evals.runs.plan import CannotPlan
from tui_evals.targets.base import ConfigurationError


@dataclass(frozen=True, slots=True)
class Verify:
    """How an import is to be checked: by which results (None for those that are imported), and who may judge."""

    results: Path | None
    judges: bool
    trust: bool


def verified(
    verify: Verify, path: Path, kind: str | None, result: ImportResult, project: ImportProject
) -> Verification:
    """What comes of judging the recorded answers with the imported evaluators."""
    document: Mapping[str, Any] | None = None
    if verify.results is None:
        recordings = doors.recordings_in(path, kind, project=project)
    else:
        recordings = doors.recordings_in(verify.results, project=project)
        document = _dataset(path, result)
    here = inputs.open_project(None, verify.trust)
    try:
        work = prepare(recordings, here, document, judges=verify.judges)
        approve(work.missing_permissions(), here.root)
        return work.verify()
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except CannotPlan as problem:
        raise Stop(str(problem), 2 if problem.blame == "arguments" else 3) from None


def say_verified(found: Verification) -> None:
    """The verdicts that differ, what was not repeated, and the agreement last."""
    for line in difference_lines(found):
        say(line, fg="red")
    for line in not_repeated_lines(found):
        say(line)
    say(agreement(found), bold=True, fg="green" if found.proven else "red")


def as_plain(found: Verification) -> dict[str, Any]:
    """All of it as plain data."""
    return {
        "answers": found.answers,
        "repeated": found.repeated,
        "as_before": found.as_before,
        "proven": found.proven,
        "differences": [
            {name: value for name, value in asdict(one).items() if name != "same"} for one in found.differences
        ],
        "not_repeated": {
            "by_model": dict(found.by_model),
            "no_equal": dict(found.no_equal),
            "cannot": dict(found.cannot),
            "answers_not_asked": found.not_asked,
        },
        "without_path": found.without_path,
    }


def _dataset(path: Path, result: ImportResult) -> Mapping[str, Any]:
    if result.dataset is None:
        raise WrongOptions(f"{path} holds no dataset to judge with; `--verify` without RESULTS judges it by itself")
    try:
        return load(result.dataset).data
    except DatasetError as problem:
        raise Stop(str(problem)) from None
