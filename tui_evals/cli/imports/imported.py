"""What an import comes to: where it goes, what was written and stored, and what is said of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tui_evals.cli.output import Stop
from tui_evals.datasets.document import load
from tui_evals.datasets.layout import pretty_json
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.save import CannotSave, write_atomically
from tui_evals.imports.losses import Loss
from tui_evals.imports.promptpex.artefacts import is_plain

DatasetIs = Literal["written", "unchanged", "kept", "added to", "none needed", ""]
RunIs = Literal["new", "finished now", "known", ""]

_LARGEST = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Where an import is to go and what it is to be called, as far as a person says."""

    into: Path | None = None
    out: Path | None = None
    name: str | None = None
    prompt: str | None = None

    def folder(self, default: Path) -> Path:
        """The folder that files are written to."""
        return ((self.into.parent if self.into is not None else self.out) or default).resolve()

    def stem(self, default: str) -> str:
        """The name of the dataset's file without its ending."""
        if self.into is not None:
            if self.into.suffix.lower() != ".json":
                raise Stop(f"--into {self.into} is no name for the dataset; give it one that ends in .json")
            return self.into.name[: -len(".json")]
        if self.name is None:
            return default
        name = self.name.removesuffix(".json")
        if not is_plain(name):
            raise Stop(f"--name {name!r} cannot be the name of a file; give one without slashes, such as {default}")
        return name

    def file(self, path: Path, default: str) -> Path:
        """The dataset's file; never the one that is imported."""
        file = self.folder(path if path.is_dir() else path.parent) / f"{self.stem(default)}.json"
        if file != path.resolve():
            return file
        if self.into is not None or self.name is not None:
            raise Stop(f"{path} is what is imported; give the dataset another name")
        return file.with_name(f"{default}-dataset.json")


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """One run of several that were taken in together."""

    key: str
    name: str
    suite: str
    run_is: RunIs


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What was read and where it went; without a dataset and a run there were only totals."""

    read: str
    kind: str = ""
    dataset: str | None = None
    dataset_is: DatasetIs = ""
    prompts: tuple[str, ...] = ()
    """The prompt files that were written because there were none."""
    items: int = 0
    results: int = 0
    models: tuple[str, ...] = ()
    run: str | None = None
    run_is: RunIs = ""
    suites: tuple[str, ...] = ()
    runs: tuple[ImportedRun, ...] = ()
    """Every run, where several were taken in together; `run` is the last of them."""
    losses: tuple[Loss, ...] = ()
    notes: tuple[str, ...] = ()
    overview: Sequence[dict[str, Any]] = ()
    next: str = ""


def shown(path: Path) -> str:
    """A path as it is typed from here, where that is shorter."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)


def text_of(path: Path) -> str:
    """The text of a file, or the end of the command with why it cannot be read."""
    try:
        if not path.is_file():
            raise Stop(f"{path} is not a file; name the file itself")
        if path.stat().st_size > _LARGEST:
            raise Stop(f"{path} is larger than {_LARGEST // 2**20} MiB; split it into several files")
        raw = path.read_bytes()
    except OSError as problem:
        raise Stop(f"{path} cannot be read: {problem.strerror}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise Stop(f"{path}:{line}: is not UTF-8 text; save the file as UTF-8") from None


def keep_dataset(document: Mapping[str, Any], file: Path, known: bool = False) -> DatasetIs:
    """Write a dataset, unless there is a file of its name; a `known` one may have been changed since."""
    found = _held(document, file)
    if found == "":
        write_atomically(file, pretty_json(dict(document)).encode("utf-8", "backslashreplace"))
        return "written"
    if found == "kept" and not known:
        raise _taken(file)
    return found


def write_whole(document: Mapping[str, Any], file: Path, beside: Mapping[Path, str]) -> DatasetIs:
    """Write a dataset and the files it is run with: all of them or none, and none over another file."""
    for one, text in beside.items():
        if one.exists() and text_of(one) != text:
            raise _taken(one)
    made = [one for one in beside if not one.exists()]
    try:
        make_folder(file.parent)
        for one in made:
            write_atomically(one, beside[one].encode())
        return keep_dataset(document, file)
    except BaseException as problem:
        for one in made:
            one.unlink(missing_ok=True)
        if isinstance(problem, CannotSave):
            raise Stop(str(problem)) from None
        raise


def make_folder(folder: Path) -> None:
    """Make a folder where there is none, or end the command."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise Stop(f"{folder} cannot be made: {problem.strerror}; name another folder with --out") from None


def _held(document: Mapping[str, Any], file: Path) -> DatasetIs:
    """What a file holds in the place of a document; nothing where there is none."""
    if not os.path.lexists(file):
        return ""
    try:
        return "unchanged" if load(file).data == document else "kept"
    except DatasetError:
        return "kept"


def _taken(file: Path) -> Stop:
    return Stop(
        f"{shown(file)} is there already and holds something else; it is as it was. Name another folder with --out, "
        "or another name with --name"
    )
