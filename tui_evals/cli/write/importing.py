"""`tui-evals import` and `item from-conversation`: what was imported, and whether its verdicts can be repeated."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from tui_evals.cli import inputs, project
from tui_evals.cli.inputs import approve
from tui_evals.cli.output import Stop, columns, confirmed, say, say_json, warn
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.document import load
from tui_evals.datasets.history import CannotUndo, locked, recorded
from tui_evals.datasets.paths import DatasetError
from tui_evals.files import CannotSave
from tui_evals.imports import chats, registry
from tui_evals.imports.base import (
    Configuration,
    ImportFailed,
    ImportOptions,
    ImportProject,
    ImportRequest,
    ImportResult,
    Losses,
    NoStore,
    WrongOptions,
    WrongSettings,
    shown,
)
from tui_evals.imports.keeping import keep_targets
from tui_evals.imports.summary import (
    agreement,
    cannot_run_lines,
    difference_lines,
    headline,
    kept_lines,
    next_line,
    not_repeated_lines,
    note_lines,
    only_totals,
    share_line,
    target_text,
    targets_line,
    totals_cells,
)
from tui_evals.imports.verifying import Verification, prepare
from tui_evals.light_records import dataclass
from tui_evals.present.columns import table
from tui_evals.runs.errors import CannotPlan
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import FILE
from tui_evals.text.measures import counted


@dataclass(frozen=True, slots=True)
class Verify:
    """How to check an import: with which results (None for the imported ones), and who may judge."""

    results: Path | None
    judges: bool
    trust: bool


def verified(
    verify: Verify, path: Path, kind: str | None, result: ImportResult, project: ImportProject
) -> Verification:
    """The result of judging the recorded answers with the imported evaluators."""
    document: Mapping[str, Any] | None = None
    if verify.results is None:
        recordings = registry.recordings_in(path, kind, project=project)
    else:
        recordings = registry.recordings_in(verify.results, project=project)
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
    """Print the verdicts that differ, those not repeated, and the agreement last."""
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
        "without_path": found.without_transform,
        "read_again": found.read_again,
    }


def _dataset(path: Path, result: ImportResult) -> Mapping[str, Any]:
    if result.dataset is None:
        raise WrongOptions(f"{path} holds no dataset to judge with; `--verify` without RESULTS judges it by itself")
    try:
        return load(result.dataset).data
    except DatasetError as problem:
        raise Stop(str(problem)) from None


_EXIT_CODES: Mapping[type[ImportFailed], int] = {NoStore: 1, WrongSettings: 3}


def import_path(
    path: Path,
    kind: str | None,
    options: ImportOptions,
    targets: bool | None,
    as_json: bool,
    verify: Verify | None = None,
) -> int:
    """Import from a path and print the result; the exit code is 1 where verdicts were not repeated.

    `targets` says whether settings of targets are written as well.
    """
    try:
        goes_to = _project()
        result = registry.import_from(path, kind, options, project=goes_to)
        if result.targets and _wants_targets(result, targets):
            result = keep_targets(result, goes_to.root)
        found = None if verify is None else verified(verify, path, kind, result, goes_to)
    except ImportFailed as problem:
        raise _stop(problem) from None
    if as_json:
        say_json(_as_json(result) | ({} if found is None else {"verified": as_plain(found)}))
    else:
        _say(result, found)
    return 0 if found is None or found.proven else 1


def show_preview(path: Path, kind: str | None) -> None:
    """Print what an import of a path would contain."""
    try:
        lines = registry.preview(path, kind)
    except ImportFailed as problem:
        raise _stop(problem) from None
    for line in lines:
        say(line)


def add_conversations(path: Path, into: Path, with_checks: bool) -> None:
    """Add the conversations of a file to a dataset as items."""
    importer = replace(chats.IMPORTER, read=partial(chats.add_conversations, with_checks=with_checks))
    try:
        with locked(into), recorded(into, f"item from-conversation {path.name}"):
            result = registry.run_importer(importer, ImportRequest(path, ImportOptions(into=into), _project()))
    except ImportFailed as problem:
        raise _stop(problem) from None
    except (CannotSave, CannotUndo) as problem:
        raise Stop(str(problem)) from None
    for line in Losses(list(result.losses)).sentences():
        say(line)
    say(f"added {counted(result.items, 'item')} to {into}", fg="green")
    for note in result.notes:
        warn(f"note: {note}")


def run_in_file(path: Path) -> str:
    """The key of the run in a results file or log, which is imported unless it is there."""
    try:
        result = registry.import_run(path, _project())
    except ImportFailed as problem:
        raise _stop(problem) from None
    if len(result.runs) > 1:
        named = "\n".join(f"  {run.key} {run.name} of {run.suite}" for run in result.runs)
        raise Stop(f"{path} holds {len(result.runs)} runs, which are imported now; name one of them:\n{named}")
    was = "was imported before as" if result.run_is == "known" else "is now"
    file = result.dataset if result.dataset_is == "written" else None
    beside = f", with its dataset {shown(file)}" if file is not None else ""
    again = f"`tui-evals import {shlex.quote(str(path))}` says what was left out"
    warn(f"note: {path} {was} run {result.run}{beside}; {again}")
    return str(result.run)


def _wants_targets(result: ImportResult, given: bool | None) -> bool:
    """Whether to write the settings of targets: by the option, else by a question at the terminal."""
    if given is None and result.experiment is None and sys.stdin.isatty() and sys.stderr.isatty():
        told = ", ".join(target_text(name, section) for name, section in result.targets.items())
        return confirmed(f"write the settings of {told} to {FILE}?", instead="give --targets")
    return bool(given)


def _project() -> ImportProject:
    def configuration() -> Configuration:
        here = inputs.open_project(None, False)
        return here.settings, here.environment

    return ImportProject(root=project_root(Path.cwd()), open_store=project.store_path, configuration=configuration)


def _stop(problem: ImportFailed) -> Stop:
    return Stop(str(problem), _EXIT_CODES.get(type(problem), 2))


def _as_json(result: ImportResult) -> dict[str, Any]:
    document = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(result).items()}
    paths = {
        "dataset": None if result.dataset is None else shown(result.dataset),
        "experiment": None if result.experiment is None else shown(result.experiment),
        "prompts": [shown(prompt) for prompt in result.prompts],
        "evaluators": [shown(file) for file in result.evaluators],
    }
    return {"read": str(document.pop("source")), **document, **paths}


def _say(result: ImportResult, found: Verification | None) -> None:
    say(headline(result), bold=not only_totals(result))
    for line in _totals(result) if only_totals(result) else ():
        say(f"  {line}")
    for line in Losses(list(result.losses)).sentences():
        say(line)
    line = "" if found is not None else share_line(result)  # then measured verdicts replace the estimate
    if line:
        say(line, bold=True)
    for line in note_lines(result):
        warn(line)
    for line in kept_lines(result):
        say(line, fg="green")
    if line := targets_line(result):
        warn(line)
    for line in cannot_run_lines(result):
        warn(line)
    if command := next_line(result):
        say(f"next: `{command}`")
    if found is not None:
        say_verified(found)


def _totals(result: ImportResult) -> list[str]:
    cells = totals_cells(result)
    if not cells:
        return ["there is no row in it"]
    return table(cells, right=range(1, len(cells[0])), elastic=range(len(cells[0])), room=columns())
