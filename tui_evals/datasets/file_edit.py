"""An edit of a dataset file from outside the workbench: checked, written in the file's own style, and undoable."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path as File
from typing import Any

from tui_evals.datasets.paths import Data, Problem, place_in_words, same_data
from tui_evals.light_records import dataclass
from tui_evals.text.safe import safe_line

from .document import Document, load
from .editing import Editing
from .history import locked, recorded, refuse_read_only
from .model import Dataset
from .validate import ValidationReport

_SHOWN = 10
_POSITION = re.compile(r"\[[0-9]+\]")


class Refused(Exception):
    """An edit that would add an error; nothing was written."""


@dataclass(frozen=True, slots=True)
class Change:
    """The data after an edit, its name in the history of the file, and the positions of its items."""

    data: Data
    what: str
    items: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of a document; they need packages that this one must not import."""

    validate: Callable[[Document], ValidationReport]
    unfilled: Callable[[Document, Dataset], Sequence[Problem]]
    """Problems that can only be found in a valid dataset."""


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The result of an edit."""

    before: Data
    after: Data
    items: Sequence[int]
    """The positions of the items it was about."""
    changed: bool
    backup: File | None = None
    """The backup of the older shape that was replaced."""
    standing: tuple[Problem, ...] = ()
    """Errors that were there before and still are."""
    warnings: tuple[Problem, ...] = ()
    """New problems that are not errors."""


def edit_file(
    file: File, edit: Callable[[Data], Change], checks: Checks, *, force: bool = False, new: bool = False
) -> FileEdit:
    """Make an edit and write it, unless it adds an error; `force` also writes a read-only file.

    With `new`, it creates a dataset if the file does not exist.
    """
    with locked(file):
        editing = Editing.new_file(file) if new and not os.path.lexists(file) else Editing(load(file))
        before = editing.document.data if editing.in_file else {**editing.data, "items": []}
        change = edit(before)
        if editing.in_file and same_data(change.data, before):
            return FileEdit(before, before, change.items, changed=False)
        if not force:
            refuse_read_only(file)
        was = checks.validate(editing.document) if editing.in_file else None
        document = replace(editing.document, data=change.data)
        now = checks.validate(document)
        unseen = checks.unfilled(document, now.dataset) if now.dataset is not None else ()
        known = () if was is None else was.problems
        if was is not None and was.dataset is not None:
            known = (*known, *checks.unfilled(editing.document, was.dataset))
        found = [*now.problems, *unseen]
        fresh = _fresh(before, known, change.data, found)
        if was is not None and was.dataset is None:  # what only a valid dataset shows could not be seen before
            fresh = [problem for problem in fresh if problem not in unseen]
        errors = [problem for problem in fresh if problem.severity == "error"]
        if errors:
            raise Refused("\n".join([*_sentences(file, errors), "nothing was written"]))
        editing.apply(change.data, change.what)
        with recorded(file, change.what):
            saved = editing.save(even_read_only=force)
    return FileEdit(
        before,
        editing.data,
        change.items,
        changed=True,
        backup=saved.backup,
        standing=tuple(problem for problem in found if problem.severity == "error"),
        warnings=tuple(problem for problem in fresh if problem.severity == "warning"),
    )


def _sentences(file: File, problems: Sequence[Problem]) -> Iterator[str]:
    for problem in problems[:_SHOWN]:
        yield f"{safe_line(str(file))}: {place_in_words(problem.path)}: {problem.message}"
    if len(problems) > _SHOWN:
        yield f"and {len(problems) - _SHOWN} more"


def _fresh(before: Data, known: Sequence[Problem], after: Data, found: Sequence[Problem]) -> list[Problem]:
    """The problems that are new; moved items keep their problems."""
    old, new = _items(before), _items(after)
    origins = _origins(old, new)
    count = Counter(_mark(problem, old, range(len(old))) for problem in known)
    fresh = []
    for problem in found:
        mark = _mark(problem, new, origins)
        if count[mark]:
            count[mark] -= 1
        else:
            fresh.append(problem)
    return fresh


def _origins(old: Sequence[Any], new: Sequence[Any]) -> list[int]:
    """The old position of each item, since edits keep unchanged items as objects; new items have a negative one."""
    places = {id(item): number for number, item in enumerate(old)}
    kept = {places[id(item)] for item in new if id(item) in places}
    return [
        places[id(item)] if id(item) in places else number if number < len(old) and number not in kept else -1 - number
        for number, item in enumerate(new)
    ]


def _mark(problem: Problem, items: Sequence[Any], origins: Sequence[int]) -> tuple[object, ...]:
    """The identity of a problem, without the numbers that edits elsewhere change."""
    number = problem.path[1] if len(problem.path) > 1 and problem.path[0] == "items" else None
    if not isinstance(number, int) or number >= len(items):
        return (problem.path, problem.message)
    names = tuple(part for part in problem.path[2:] if isinstance(part, str))
    name = items[number].get("testId") if isinstance(items[number], dict) else None
    message = problem.message.removeprefix(name if isinstance(name, str) else "the item")
    return (origins[number], names, _POSITION.sub("[]", message))


def _items(data: Data) -> Sequence[Any]:
    items = data.get("items")
    return items if isinstance(items, list) else ()
