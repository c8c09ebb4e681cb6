"""The interface of importers: their request, their result with losses, and the errors that end an import."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from tui_evals.datasets.discover import make_project
from tui_evals.files import CannotSave
from tui_evals.imports.recording import Recording
from tui_evals.light_records import dataclass
from tui_evals.project_files import RefusedFile, real_path
from tui_evals.store.database import StoreError, open_store
from tui_evals.store.reader import Reader
from tui_evals.store.rows import plain
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, load_settings
from tui_evals.targets.environment import environment
from tui_evals.text.safe import secrets_of

Kind = Literal["carried", "changed", "left out"]
KINDS: tuple[Kind, ...] = ("left out", "changed", "carried")


@dataclass(frozen=True, slots=True)
class Loss:
    """One part and what happened to it; `where` is a file with its line, or a path in a document."""

    kind: Kind
    what: str
    where: str = ""
    why: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.kind}: {self.what}" + (f" ({self.why})" if self.why else "")


@dataclass(slots=True)
class Losses:
    """The entries of one import or export, in the order they were met; the same one is kept once."""

    entries: list[Loss] = field(default_factory=list)
    assertions: dict[object, bool] = field(default_factory=dict, compare=False)
    """Every assertion of the source, by its place, and whether it judges here as it does there."""
    _known: set[Loss] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Know the entries it starts with."""
        self._known.update(self.entries)

    def carried(self, what: str, where: str = "", why: str = "") -> None:
        """Note a part that means the same here."""
        self._add(Loss("carried", what, where, why))

    def changed(self, what: str, where: str = "", why: str = "") -> None:
        """Note a part that was imported with another meaning or shape."""
        self._add(Loss("changed", what, where, why))

    def left_out(self, what: str, where: str = "", why: str = "") -> None:
        """Note a part that has no equal and was not imported."""
        self._add(Loss("left out", what, where, why))

    def extend(self, other: Losses) -> None:
        """Note everything another report holds."""
        for entry in other.entries:
            self._add(entry)

    def judges(self, place: object, told: Losses) -> None:
        """Add the losses of one assertion, and whether it was changed or left out in part."""
        self.extend(told)
        same = all(entry.kind == "carried" for entry in told.entries)
        self.assertions[place] = same and self.assertions.get(place, True)

    def of(self, kind: Kind) -> Iterator[Loss]:
        """The entries of one kind, in the order they were met."""
        return (entry for entry in self.entries if entry.kind == kind)

    def ordered(self) -> list[Loss]:
        """The losses: first what was left out, then what was changed, then what was carried over."""
        return [entry for kind in KINDS for entry in self.of(kind)]

    def sentences(self) -> list[str]:
        """The report as lines, in that order."""
        return [str(entry) for entry in self.ordered()]

    def _add(self, entry: Loss) -> None:
        if entry not in self._known:
            self._known.add(entry)
            self.entries.append(entry)


_FILE_NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,100}")

DatasetIs = Literal["written", "unchanged", "kept", "added to", "none needed", ""]
RunIs = Literal["new", "finished now", "known", ""]


class ImportFailed(Exception):
    """An import that failed; the message says what is wrong and what to do."""


class UnknownSource(ImportFailed):
    """There is no such file, or no importer for it."""


class WrongOptions(ImportFailed):
    """The options contradict each other or the imported files."""


class CannotRead(ImportFailed):
    """The source is malformed or cannot be read."""


class CannotKeep(ImportFailed):
    """The dataset, prompt or suite cannot be written where it was to go."""


class WrongSettings(ImportFailed):
    """The settings or environment files of the project cannot be used."""


class NoStore(ImportFailed):
    """The store of the project cannot be made or used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The destination and the names of an import, as given by the user."""

    into: Path | None = None
    """The file of the dataset."""
    out: Path | None = None
    """The folder of the dataset; the name of its file comes from the source."""
    name: str | None = None
    """The name of the dataset and the run."""
    limit: int | None = None
    """How many conversations of traces, chosen at random."""
    redact: bool = False
    """Whether what may be private in traces is replaced."""
    prompt: str | None = None
    """Which prompt, of a file that holds several."""
    written_by: str | None = None
    """The version of the tool that the file was written for, if its meaning depends on it."""


Configuration = tuple[Settings, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProject:
    """The project an import goes to; store and settings are opened only by the importers that need them."""

    root: Path
    open_store: Callable[[], Path]
    """The path of the store, which is made where there is none."""
    configuration: Callable[[], Configuration]
    """The settings and the environment."""
    writer: Writer | None = None
    """The writer of this process, where there is one already."""

    @contextmanager
    def writing(self, variables: Mapping[str, str]) -> Iterator[tuple[Writer, Reader]]:
        """The store, open for writing; the writer removes secrets of the environment from texts."""
        path = self.open_store()
        with Reader(path) as reader:
            if self.writer is not None:
                yield self.writer, reader
                return
            with Writer(path, secrets=secrets_of(variables)) as writer:
                yield writer, reader


def project_at(
    root: Path,
    *,
    database: Path | None = None,
    settings: Settings | None = None,
    variables: Mapping[str, str] | None = None,
    writer: Writer | None = None,
) -> ImportProject:
    """The project of a folder; missing arguments are found as on the command line."""

    def configuration() -> Configuration:
        try:
            known = load_settings(root) if settings is None else settings
            return known, environment(root, None, known.variables)[0] if variables is None else variables
        except ConfigurationError as problem:
            raise WrongSettings(str(problem)) from None

    def store() -> Path:
        elsewhere = database or os.environ.get("TUI_EVALS_DB")
        path = Path(elsewhere) if elsewhere else root / ".evals" / "evals.db"
        try:
            if not elsewhere:
                make_project(root)
            return open_store(path)
        except StoreError as problem:
            raise NoStore(str(problem)) from None
        except (OSError, CannotSave) as problem:
            raise NoStore(f"the database {path} cannot be made: {problem}") from None

    return ImportProject(root=root, open_store=store, configuration=configuration, writer=writer)


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The request to an importer: a path, the options and the project."""

    path: Path
    options: ImportOptions
    project: ImportProject

    def folder(self, default: Path) -> Path:
        """The folder that files are written to."""
        into, out = self.options.into, self.options.out
        folder = (into.parent if into is not None else out) or default
        try:
            return real_path(folder)
        except RefusedFile as problem:
            raise CannotKeep(f"{folder} cannot be used: {problem}. Name another folder with --out.") from None

    def stem(self, default: str) -> str:
        """The name of the dataset's file without its ending."""
        into, name = self.options.into, self.options.name
        if into is not None:
            if into.suffix.lower() != ".json":
                raise WrongOptions(f"--into {into} is no name for the dataset; give it one that ends in .json")
            return into.name[: -len(".json")]
        if name is None:
            return default
        stem = name.removesuffix(".json")
        if not is_file_name(stem):
            raise WrongOptions(
                f"--name {stem!r} cannot be the name of a file; give one without slashes, such as {default}"
            )
        return stem

    def dataset_file(self, default: str) -> Path:
        """The dataset's file; never the one that is imported."""
        path = self.path
        file = self.folder(path if path.is_dir() else path.parent) / f"{self.stem(default)}.json"
        if file != path.resolve():
            return file
        if self.options.into is not None or self.options.name is not None:
            raise WrongOptions(f"{path} is the imported file; give the dataset another name")
        return file.with_name(f"{default}-dataset.json")


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """One of several runs that were imported together."""

    key: str
    name: str
    suite: str
    run_is: RunIs


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The source of an import and its results; without dataset and run, the source had only totals."""

    source: Path
    kind: str = ""
    dataset: Path | None = None
    dataset_is: DatasetIs = ""
    prompts: tuple[Path, ...] = ()
    """The prompt files that were written because there were none."""
    evaluators: tuple[Path, ...] = ()
    """The files of the custom evaluators that it brings."""
    experiment: Path | None = None
    """The experiment that was written, with prompts and targets."""
    items: int = 0
    results: int = 0
    models: tuple[str, ...] = ()
    run: str | None = None
    run_is: RunIs = ""
    suites: tuple[str, ...] = ()
    runs: tuple[ImportedRun, ...] = ()
    """Every run, where several were imported together; `run` is the last of them."""
    losses: tuple[Loss, ...] = ()
    """The parts that were carried over, changed and left out, each with its place."""
    notes: tuple[str, ...] = ()
    cannot_run: tuple[str, ...] = ()
    """Problems to fix in the dataset before it can run, each with its place."""
    overview: Sequence[dict[str, Any]] = ()
    """The totals, where there was nothing else."""
    next: str = ""
    """The command line that continues from here."""
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Sections for the project's configuration, by the names of the targets: settings that no command line holds."""
    targets_written: tuple[str, ...] = ()
    assertions: int = 0
    as_before: int = 0
    """How many assertions the source has, and how many of them judge here as they did there."""
    recorded: int = 0
    repeatable: int = 0
    """How many verdicts the source records, and how many of them have an evaluator here that can give them again."""
    next_with_targets: str = ""
    """The command line that continues from here, once those sections have been written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """One kind of files that can be imported.

    A module of this package declares it as `IMPORTER`, several as `IMPORTERS`. An installed package adds one with the
    entry-point group `tui_evals.importers`. `read` stores its results with functions of `tui_evals.imports.keeping`,
    and may raise ImportFailed, DatasetError or CannotSave.
    """

    kind: str
    about: str
    """A description of the files, for a list of kinds."""
    recognises: Callable[[Path], bool]
    read: Callable[[ImportRequest], ImportResult]
    recordings: Callable[[ImportRequest], Sequence[Recording]] | None = None
    """The finished runs in a path, with nothing kept; None where such files record no verdicts."""
    holds_answers: bool = True
    """Whether its runs have the answers, so that they can be judged again."""
    names: tuple[str, ...] = ()
    """File names that only this tool uses: such a file, or one in the folder, takes precedence over others."""
    also: tuple[str, ...] = ()
    """Other words for the kind."""
    preview: Callable[[Path], Iterator[str]] | None = None
    """Lines about what would be taken in, where that should be looked at first."""
    order: int = 50
    """Importers with a lower number try to recognize a path first; 90 recognizes every dataset."""

    takes_prompt: bool = False
    """Whether the option `prompt` means something to it."""

    def named(self, path: Path) -> bool:
        """Whether a path is this importer's by the name of the file, or of one in the folder."""
        return path.name in self.names or any((path / name).is_file() for name in self.names)


def is_file_name(name: str) -> bool:
    """Whether a name can be that of a file in a folder."""
    return bool(_FILE_NAME.fullmatch(name)) and not name.startswith(".") and plain(name) == name


def shown(path: Path) -> str:
    """A path relative to the current folder, if it is inside."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
