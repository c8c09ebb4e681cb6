"""The files of a `bench_runs/` folder, checked field by field; what is wrong is said with file, line and field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from tui_evals.datasets.layout import Layout
from tui_evals.datasets.losses import Losses
from tui_evals.datasets.problems import DatasetError, Problem
from tui_evals.runs.suites.keeping import checked_name
from tui_evals.runs.suites.problems import UserValueError
from tui_evals.text import strictjson

Data = Mapping[str, Any]
_LARGEST = 2**30
_UNFIT = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f]+|\.\.+')
_CALLED: Mapping[type, str] = {str: "text", list: "a list", dict: "an object"}


class BenchFile:
    """A JSON object of the folder, and the places in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = ""
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST:
                self.refuse("must be a file of 1 GiB at most")
            self._text = path.read_text(encoding="utf-8")
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
        """The time at a place as seconds; one without a zone is local."""
        text = self.get(place, str, optional=True)
        try:
            return None if text is None else datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            self.refuse(f"must be a time such as 2024-01-31T12:00:00, not {_shown(text)}", *place)


def named_in(file: BenchFile, what: str, losses: Losses) -> str:
    """The name in a file, made one that a file can have here."""
    given = file.get(("name",), str)
    name = _UNFIT.sub("_", given).strip().lstrip(".-")[:100].strip()
    try:
        checked_name(name, what)
    except UserValueError as problem:
        file.refuse(str(problem), "name")
    if name != given:
        losses.changed(f"the name of a {what}, {given!r}, is now {name!r}", str(file.path), "it is also that of a file")
    return name


def _shown(value: object) -> str:
    text = strictjson.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
