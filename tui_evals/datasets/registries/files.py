"""The YAML files of a registry: where its folders are, and every entry with the file and line that define it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from tui_evals.datasets.layout import Path
from tui_evals.datasets.problems import DatasetError, Problem
from tui_evals.datasets.yaml_lines import line_in, places_in
from tui_evals.text.yamls import YamlError, load_mapping

KINDS = ("evals", "modelgraded", "eval_sets", "completion_fns", "solvers")
RESERVED = ("key", "group", "cls")
_LARGEST = 1_000_000  # characters


@dataclass(frozen=True, slots=True)
class Entry:
    """A name of a registry and what it stands for; an entry with an `id` stands for another."""

    name: str
    root: File
    file: File
    line: int
    data: Mapping[str, Any]

    @property
    def where(self) -> str:
        """The file and line, as sentences name them."""
        return f"{self.file}:{self.line}"

    def error(self, message: str, *field: str | int) -> DatasetError:
        """What is wrong with a field, with the line on which that field stands."""
        path: Path = (self.name, *field)
        return DatasetError(str(self.file), [Problem(message, path, _line_of(self.file, path, self.line))])


Entries = Mapping[str, Entry]


def roots_of(paths: Sequence[File]) -> tuple[File, ...]:
    """The registry folder behind each path, which may be its parent, each once."""
    return tuple(dict.fromkeys(map(_root_of, paths)))


def read_entries(roots: Sequence[File], kind: str, broken: list[DatasetError]) -> dict[str, Entry]:
    """All entries of one kind; DatasetError where a file or an entry cannot be used, or a name stands twice.

    A file beside the evals and sets that is no YAML goes to `broken`: it spoils only the evals that refer to it.
    """
    found: dict[str, Entry] = {}
    for root in roots:
        for file in _yaml_files(root / kind):
            try:
                values, lines = _mapping(file)
            except DatasetError as problem:
                if kind in ("evals", "eval_sets"):
                    raise
                broken.append(problem)
                continue
            found |= _entries_of(root, file, values, lines, found)
    return found


def _root_of(path: File) -> File:
    for candidate in (path, path / "registry", path / "evals" / "registry"):
        if any(_yaml_files(candidate / kind) for kind in KINDS):
            return candidate.resolve()
    said = "is no registry: none of the folders " + ", ".join(KINDS) + " in it holds a .yaml file"
    if not path.is_dir():
        said = "there is no such folder; name the folder of a registry"
    raise DatasetError(str(path), [Problem(said)])


def _yaml_files(folder: File) -> list[File]:
    return sorted(folder.glob("*.yaml"))


def _entries_of(
    root: File, file: File, values: Mapping[str, object], lines: Mapping[str, int], known: Entries
) -> dict[str, Entry]:
    """The entries of one file, or all that is wrong with them."""
    found: dict[str, Entry] = {}
    problems: list[Problem] = []
    for name, value in values.items():
        data = {"id": value} if isinstance(value, str) else value
        entry = Entry(name, root, file, lines[name], data if isinstance(data, dict) else {})
        problems += _wrong(entry, data, known.get(name))
        found[name] = entry
    if problems:
        raise DatasetError(str(file), problems)
    return found


def _wrong(entry: Entry, data: object, other: Entry | None) -> Iterator[Problem]:
    if other is not None:
        said = f"the name stands in {other.where} as well; give one of the two another name"
        yield Problem(said, (entry.name,), entry.line)
    if not isinstance(data, dict):
        yield Problem("must be a mapping, or the name of another entry", (entry.name,), entry.line)
        return
    for word in RESERVED:
        if word in data:
            path: Path = (entry.name, word)
            said = f"'{word}' is a reserved word in a registry; take the field out"
            yield Problem(said, path, _line_of(entry.file, path, entry.line))


def _mapping(file: File) -> tuple[dict[str, object], dict[str, int]]:
    if not file.is_file():
        raise DatasetError(str(file), [Problem("is not a file; a registry reads every *.yaml here")])
    try:
        with file.open("rb") as stream:
            raw = stream.read(_LARGEST + 1)
    except OSError as problem:
        raise DatasetError(str(file), [Problem(f"cannot be read: {problem.strerror}")]) from None
    try:
        return load_mapping(raw, limit=_LARGEST)
    except YamlError as problem:
        first = _first_of(raw, problem.line)
        also = f" (the first stands on line {first})" if first else ""
        raise DatasetError(str(file), [Problem(problem.problem + also, line=problem.line)]) from None


def _first_of(raw: bytes, line: int | None) -> int | None:
    """The earlier line that begins with the same top-level key as this one."""
    lines = raw.splitlines()
    if line is None or line > len(lines) or lines[line - 1][:1].isspace():
        return None
    key, colon, _ = lines[line - 1].partition(b":")
    return next((at for at, text in enumerate(lines[: line - 1], 1) if colon and text.startswith(key + b":")), None)


def _line_of(file: File, path: Path, otherwise: int) -> int:
    """The line of a field, looked up only when something has to be said about it."""
    try:
        return line_in(places_in(file.read_text(encoding="utf-8")), path)
    except (OSError, ValueError):
        return otherwise
