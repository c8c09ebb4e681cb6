"""The files of a promptfoo configuration: values that know where they are, and files next to it, never elsewhere."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path as File
from typing import Any

from tui_evals.datasets.paths import DatasetError, Layout, Path, Problem, line_in, places_in
from tui_evals.imports.base import Losses
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.text import strictjson
from tui_evals.text.yamls import Dates, YamlError, load_yaml

_LARGEST = 4_000_000  # bytes of a file a configuration names
_MOST_FILES = 1_000
_REFERENCES = 8
_SIGNS = re.compile(r"[*?\[]")
_KINDS = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its name, its value, and a function for the line of a path in it."""

    name: str
    value: Any
    line: Callable[[Path], int | None]
    folder: File | None = None
    """Its folder, if it is a file next to the configuration: names in it may be relative to that."""
    dates: Dates = field(default_factory=list)
    """Its dates without quotes, which promptfoo reads as times."""

    def note_dates(self, losses: Losses) -> Source:
        """Record for each date that it is text here; returns the source."""
        for text, line in self.dates:
            why = "promptfoo reads a date without quotes as a point in time, not as this text. Put quotes around it"
            losses.changed(text, f"{self.name}:{line}", why)
        return self


@dataclass(frozen=True, slots=True)
class Spot:
    """A value and where it is."""

    source: Source
    path: Path
    value: Any

    @property
    def where(self) -> str:
        """File and line."""
        line = self.source.line(self.path)
        return self.source.name if line is None else f"{self.source.name}:{line}"

    def wrong(self, message: str) -> DatasetError:
        """An error at this place."""
        return DatasetError(self.source.name, [Problem(message, self.path, self.source.line(self.path))])

    def get(self, key: str) -> Spot | None:
        """The value of a key of a mapping; None when it is absent or null."""
        value = self.mapping().get(key)
        return None if value is None else Spot(self.source, (*self.path, key), value)

    def entries(self) -> list[Spot]:
        """The entries of a list, each reference to another place of the file followed."""
        return [Spot(self.source, (*self.path, at), value).followed() for at, value in enumerate(self.sequence())]

    def members(self) -> list[tuple[str, Spot]]:
        """The keys and values of a mapping."""
        return [(key, Spot(self.source, (*self.path, key), value)) for key, value in self.mapping().items()]

    def mapping(self) -> Mapping[str, Any]:
        """The value, which must be a mapping."""
        if not isinstance(self.value, dict):
            raise self.wrong(f"must be a mapping, not {kind_of(self.value)}")
        return self.value

    def sequence(self) -> Sequence[Any]:
        """The value, which must be a list."""
        if not isinstance(self.value, list):
            raise self.wrong(f"must be a list, not {kind_of(self.value)}")
        return self.value

    def text(self) -> str:
        """The value, which must be text that is not empty."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.wrong(f"must be text, not {kind_of(self.value)}")
        return self.value

    def number(self, least: float = 0) -> float:
        """The value, which must be a number that is not too small."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.wrong(f"must be a number, not {kind_of(self.value)}")
        if self.value < least:
            raise self.wrong(f"must be at least {least:g}, not {self.value:g}")
        return self.value

    def followed(self) -> Spot:
        """The place a `$ref` of this file points at, or this place."""
        spot = self
        for _ in range(_REFERENCES):
            target = spot.value.get("$ref") if isinstance(spot.value, dict) else None
            if target is None:
                return spot
            if not isinstance(target, str) or not target.startswith("#/"):
                raise spot.wrong("$ref must point into this file, as in #/assertionTemplates/short")
            spot = spot._pointed(target)
        raise self.wrong(f"$ref leads over more than {_REFERENCES} references; write the value here")

    def _pointed(self, target: str) -> Spot:
        path: Path = ()
        value = self.source.value
        for part in target[2:].split("/"):
            key: str | int = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list) and part.isascii() and part.isdecimal():
                key = int(part)
            try:
                value = value[key]
            except (LookupError, TypeError):
                raise self.wrong(f"$ref names {target}, which is not in this file") from None
            path = (*path, key)
        return Spot(self.source, path, value)


def kind_of(value: object) -> str:
    """The type of a value, in a word."""
    if value is None or value == "":
        return "nothing"
    return _KINDS[type(value)]


def yaml_source(text: str, name: str) -> Source:
    """A YAML text with the lines of its values."""
    dates: Dates = []
    try:
        value = load_yaml(text, merges=True, dates=dates)
    except YamlError as problem:
        raise DatasetError(name, [Problem(problem.problem, line=problem.line)]) from None
    places = places_in(text)
    return Source(name, value, lambda path: line_in(places, path), dates=dates)


def json_source(text: str, name: str) -> Source:
    """A JSON text with the lines of its values."""
    try:
        value = strictjson.loads(text)
    except strictjson.JsonError as problem:
        raise DatasetError(name, [Problem(str(problem), line=problem.line)]) from None
    return Source(name, value, Layout(text).line)


def lines_source(text: str, name: str) -> Source:
    """A JSON value on each line, as a list."""
    values: list[Any] = []
    numbers: list[int] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if line.strip():
            try:
                values.append(strictjson.loads(line))
            except strictjson.JsonError as problem:
                raise DatasetError(name, [Problem(str(problem), line=number)]) from None
            numbers.append(number)
    return Source(name, values, lambda path: numbers[int(path[0])] if path else 1)


def rows_source(text: str, name: str) -> Source:
    """A table as a list of mappings from its header to the text of the cells."""
    csv.field_size_limit(_LARGEST)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[dict[str, str]] = []
    numbers: list[int] = []
    started = 1
    try:
        header = [cell.strip() for cell in next(reader, [])]
        named = [column for column in header if column]
        if not named or len(set(named)) < len(named):
            raise DatasetError(name, [Problem("the header must name each column, and each name once", line=1)])
        started = reader.line_num + 1
        for row in reader:
            if len(row) > len(header):
                message = f"the row has {len(row)} cells but the header has {len(header)}"
                raise DatasetError(name, [Problem(message, line=started)])
            if any(row):
                rows.append(dict(zip(header, row, strict=False)))
                numbers.append(started)
            started = reader.line_num + 1
    except csv.Error as problem:
        raise DatasetError(name, [Problem(f"the table cannot be read: {problem}", line=started)]) from None
    return Source(name, rows, lambda path: numbers[int(path[0])] if path else 1)


def source_of(file: File, name: str) -> Source:
    """The value of a file by its ending."""
    read = _READERS.get(file.suffix.lower())
    if read is None:
        raise DatasetError(name, [Problem("is no file that can be read here: .yaml, .json, .jsonl or .csv can")])
    return replace(read(text_of(file, name), name), folder=file.parent)


_READERS: Mapping[str, Callable[[str, str], Source]] = {
    ".json": json_source,
    ".jsonl": lines_source,
    ".csv": rows_source,
    ".yaml": yaml_source,
    ".yml": yaml_source,
}


def text_of(file: File, name: str) -> str:
    """The text of a file that a configuration names."""
    try:
        return read_text(file, most=_LARGEST, follow_out=True).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise DatasetError(name, [Problem("is not UTF-8 text; save the file as UTF-8")]) from None
    except OSError as problem:
        raise DatasetError(name, [Problem(f"cannot be read: {problem.strerror}")]) from None


def named_file(spot: Spot, folder: File, name: str) -> File:
    """The file that a configuration names; it must be inside the folder of the configuration."""
    files = files_named(spot, folder, name)
    if len(files) != 1:
        raise spot.wrong(f"{name!r} names {len(files)} files; name one")
    return files[0]


def files_named(spot: Spot, folder: File, name: str, *, beside: File | None = None) -> list[File]:
    """The files that a name or pattern matches, in the order of their names.

    A name is relative to the folder of the configuration; in a file that it names, first to the folder of that file.
    """
    root = folder.resolve()
    relative = name.removeprefix("file://").removeprefix("./")
    try:
        places = [place.resolve() for place in (beside, folder) if place is not None]
        if not any((place / relative.split("*")[0]).resolve().is_relative_to(root) for place in places):
            raise spot.wrong(f"{name!r} is outside the folder of the configuration. Copy it next to the configuration")
        inside = next(filter(None, (_files_in(place, relative, root) for place in places)), [])
    except (OSError, ValueError, NotImplementedError, RuntimeError):  # the last of links in a circle
        raise spot.wrong(f"{name!r} cannot be used as the name of a file") from None
    if not inside:
        raise spot.wrong(f"there is no file {name!r} in the folder of the configuration")
    if len(inside) > _MOST_FILES:
        raise spot.wrong(f"{name!r} matches more than {_MOST_FILES} files")
    return inside


def _files_in(place: File, relative: str, root: File) -> list[File]:
    """The files below `root` that a name or pattern matches, relative to a folder."""
    parts = relative.split("/")
    first = next((at for at, part in enumerate(parts) if _SIGNS.search(part)), None)
    if first is None:
        files = [place / relative]
    else:
        start = (place / "/".join(parts[:first])).resolve()
        files = sorted(start.glob("/".join(parts[first:])))[: _MOST_FILES + 1]
    return [file.resolve() for file in files if file.is_file() and file.resolve().is_relative_to(root)]


def shown_name(file: File, folder: File) -> str:
    """A file as sentences name it: from the folder of the configuration."""
    return file.relative_to(folder.resolve()).as_posix()
