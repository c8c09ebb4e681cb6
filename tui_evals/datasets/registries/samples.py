"""The data files of a registry: where they are, whether they can be read, and their samples."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path as File
from typing import IO, Any, cast

from tui_evals.datasets.problems import DatasetError, Problem
from tui_evals.text import strictjson

MOST_PROBLEMS = 20
_LARGEST = 2**30  # bytes
_POINTER = b"version https://git-lfs.github.com/spec/"
_MODULES = {".zst": "zstandard", ".lz4": "lz4.frame"}
_PACKED = (".gz", *_MODULES)


class NoData(Exception):
    """The data of an eval cannot be had; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a data file; `index` counts from 0 over all files of the eval."""

    index: int
    file: File
    line: int
    data: dict[str, Any]


def located(given: str, root: File, roots: Sequence[File]) -> File:
    """The data file or folder a registry names: a file from the working directory, else one below its `data`.

    Nothing outside the registries and the working directory is read, so that a registry from elsewhere cannot name
    just any file of this machine.
    """
    beside = root / "data" / given
    path = File(given) if "\0" not in given and File(given).is_file() else beside
    if "\0" in given or not path.exists():
        raise NoData(f"its data are missing: there is no {_shown(beside)}")
    real = path.resolve()
    if not any(real.is_relative_to(allowed) for allowed in (*roots, File.cwd().resolve())):
        raise NoData(f"its data {given!r} lie outside the registry; put them below {root / 'data'}")
    return path


def files_of(path: File) -> list[File]:
    """The file itself, or every .jsonl below a folder in the order of their names; NoData where one is unreadable."""
    found = sorted(file for file in path.rglob("*.jsonl") if not file.is_dir()) if path.is_dir() else [path]
    if not found:
        raise NoData(f"its data are missing: the folder {path} holds no .jsonl file")
    for file in found:
        _check(file)
        if path.is_dir() and not file.resolve().is_relative_to(path.resolve()):
            raise NoData(f"{file} is a link that leads out of its folder; put the file itself there")
    return found


def read(path: File) -> list[Sample]:
    """The samples of a file or folder; DatasetError names the lines that are none."""
    found: list[Sample] = []
    for file in files_of(path):
        problems: list[Problem] = []
        for line, text in enumerate(_lines(file), 1):
            if not text.strip():
                continue
            try:
                found.append(Sample(len(found), file, line, _object(text)))
            except ValueError as problem:
                problems.append(Problem(str(problem), line=line))
        if problems:
            raise too_many(file, problems)
    return found


def too_many(file: File, problems: Sequence[Problem]) -> DatasetError:
    """The problems of a file, as many as anybody reads."""
    if len(problems) > MOST_PROBLEMS:
        said = f"{len(problems) - MOST_PROBLEMS} more problems, from this line on"
        problems = [*problems[:MOST_PROBLEMS], Problem(said, line=problems[MOST_PROBLEMS].line)]
    return DatasetError(str(file), problems)


def _check(file: File) -> None:
    if not file.is_file():
        raise NoData(f"{_shown(file)} is not a file")
    try:
        with file.open("rb") as stream:
            start = stream.read(len(_POINTER))
        size = file.stat().st_size
    except OSError as problem:
        raise NoData(f"{_shown(file)} cannot be read: {problem.strerror}") from None
    if start == _POINTER:
        raise NoData(f"{_shown(file)} is a git-lfs pointer, not the data; fetch them with `git lfs pull`")
    if size > _LARGEST:
        raise NoData(f"{_shown(file)} is larger than {_LARGEST // 2**20} MiB; split it")
    package = _MODULES.get(file.suffix, "").partition(".")[0]
    if package and find_spec(package) is None:
        raise NoData(f"{_shown(file)} is read by the Python package {package}, which is not here; unpack the file")


def _shown(file: File) -> str:
    return str(file)[:200]


def _opened(file: File) -> IO[bytes]:
    if file.suffix == ".gz":
        return cast(IO[bytes], gzip.open(file))
    if module := _MODULES.get(file.suffix):
        stream: IO[bytes] = import_module(module).open(file, "rb")
        return stream
    return file.open("rb")


def _lines(file: File) -> list[str]:
    """The lines of a file, whichever of the three line ends it has; inside JSON none of them can stand bare."""
    return _text(file).replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _text(file: File) -> str:
    try:
        with _opened(file) as stream:
            raw = stream.read(_LARGEST + 1)
    except Exception as problem:  # each package that unpacks has errors of its own
        if file.suffix in _PACKED:
            said = f"cannot be unpacked: it is not a whole {file.suffix} file"
        elif isinstance(problem, OSError):
            said = f"cannot be read: {problem.strerror}"
        else:
            raise
        raise DatasetError(str(file), [Problem(said)]) from None
    if len(raw) > _LARGEST:
        raise DatasetError(str(file), [Problem(f"unpacks to more than {_LARGEST // 2**20} MiB; split it")])
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        said = f"the byte 0x{raw[problem.start]:02x} is not UTF-8 text; save the file as UTF-8"
        raise DatasetError(str(file), [Problem(said, line=line)]) from None


def _object(text: str) -> dict[str, Any]:
    try:
        value = strictjson.loads(text, duplicates=True)
    except strictjson.JsonError as problem:
        raise ValueError(f"{problem} (column {problem.column})" if problem.column else str(problem)) from None
    if not isinstance(value, dict):
        raise ValueError("a sample must be a JSON object with an input")
    return value
