"""The YAML files of a registry: where its folders are, and every entry with the file and line that define it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path as File
from typing import Any, Literal

from tui_evals.datasets.paths import DatasetError, Path, Problem, line_in, places_in
from tui_evals.imports.base import Losses
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes, read_text
from tui_evals.text.yamls import Repeated, YamlError, load_mapping

KINDS = ("evals", "modelgraded", "eval_sets", "completion_fns", "solvers")
RESERVED = ("key", "group", "cls")
_LARGEST = 1_000_000  # characters


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A name in a registry with its definition; an entry with an `id` refers to another one."""

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
        """An error in a field, with the line of that field."""
        path: Path = (self.name, *field)
        return DatasetError(str(self.file), [Problem(message, path, _line_of(self.file, path, self.line))])


Entries = Mapping[str, RegistryEntry]


def roots_of(paths: Sequence[File]) -> tuple[File, ...]:
    """The registry folder behind each path, which may be its parent, each once."""
    return tuple(dict.fromkeys(map(_root_of, paths)))


def read_entries(
    roots: Sequence[File], kind: str, broken: dict[File, DatasetError], notes: list[str]
) -> dict[str, RegistryEntry]:
    """All entries of one kind; DatasetError if a file or entry is unusable, or a name appears twice.

    A file of evals or sets that is not YAML goes to `broken`: it affects only evals that refer to it. Of two equal keys
    in a grading spec the last one counts, as in the original, with a note in `notes`.
    """
    entries: dict[str, RegistryEntry] = {}
    for root in roots:
        for file in _yaml_files(root / kind):
            try:
                repeated: Repeated | None = [] if kind == "modelgraded" else None
                values, lines = _mapping(file, repeated)
            except DatasetError as problem:
                if kind in ("evals", "eval_sets"):
                    raise
                broken[file] = problem
                continue
            notes += [
                f"{file}:{line}: the key '{key[:40]}' appears twice; the last counts, as in the original"
                for key, line in repeated or ()
            ]
            entries |= _entries_of(root, file, values, lines, entries)
    return entries


def _root_of(path: File) -> File:
    for candidate in (path, path / "registry", path / "evals" / "registry"):
        if any(_yaml_files(candidate / kind) for kind in KINDS):
            return candidate.resolve()
    message = "is no registry: none of the folders " + ", ".join(KINDS) + " in it holds a .yaml file"
    if not path.is_dir():
        message = "there is no such folder; name the folder of a registry"
    raise DatasetError(str(path), [Problem(message)])


def _yaml_files(folder: File) -> list[File]:
    return sorted(folder.glob("*.yaml"))


def _entries_of(
    root: File, file: File, values: Mapping[str, object], lines: Mapping[str, int], known: Entries
) -> dict[str, RegistryEntry]:
    """The entries of one file, or all that is wrong with them."""
    entries: dict[str, RegistryEntry] = {}
    problems: list[Problem] = []
    for name, value in values.items():
        data = {"id": value} if isinstance(value, str) else value
        entry = RegistryEntry(name, root, file, lines[name], data if isinstance(data, dict) else {})
        problems += _wrong(entry, data, known.get(name))
        entries[name] = entry
    if problems:
        raise DatasetError(str(file), problems)
    return entries


def _wrong(entry: RegistryEntry, data: object, other: RegistryEntry | None) -> Iterator[Problem]:
    if other is not None:
        message = f"the name is in {other.where} as well; rename one of them"
        yield Problem(message, (entry.name,), entry.line)
    if not isinstance(data, dict):
        yield Problem("must be a mapping, or the name of another entry", (entry.name,), entry.line)
        return
    for word in RESERVED:
        if word in data:
            path: Path = (entry.name, word)
            message = f"'{word}' is a reserved word in a registry; take the field out"
            yield Problem(message, path, _line_of(entry.file, path, entry.line))


def _mapping(file: File, repeated: Repeated | None = None) -> tuple[dict[str, object], dict[str, int]]:
    if not file.is_file():
        raise DatasetError(str(file), [Problem("is not a file; a registry reads every *.yaml here")])
    try:
        raw = read_bytes(file, most=_LARGEST, root=file.parents[1])
    except OSError as problem:
        raise DatasetError(str(file), [Problem(f"cannot be read: {problem.strerror}")]) from None
    try:
        return load_mapping(raw, limit=_LARGEST, repeated=repeated)
    except YamlError as problem:
        first = _first_of(raw, problem.line)
        also = f" (the first is on line {first})" if first else ""
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
        return line_in(places_in(read_text(file, root=file.parents[1])), path)
    except (OSError, ValueError):
        return otherwise


def resolved(entries: Entries, name: str, what: str) -> RegistryEntry:
    """The entry that a name finally refers to; DatasetError for a missing one or a cycle."""
    entry, trail = entries[name], [name]
    while "id" in entry.data:
        target = entry.data["id"]
        if not isinstance(target, str):
            raise entry.error(f"the id of '{entry.name}' must be the name of another {what}", "id")
        if target not in entries:
            message = f"'{entry.name}' refers to '{target[:80]}', and there is no such {what}{nearest(target, entries)}"
            raise entry.error(message, "id")
        if target in trail:
            raise entry.error(f"the ids lead in a circle: {' -> '.join((*trail, target))}", "id")
        trail.append(target)
        entry = entries[target]
    return entry


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match a pattern; `*` matches anything, every other character itself."""
    if "*" not in pattern:
        return [name for name in names if name == pattern]
    fits = re.compile(re.sub(r"(?:\\\*)+", ".*", re.escape(pattern)), re.DOTALL).fullmatch
    return [name for name in names if fits(name)]


def nearest(name: str, known: Iterable[str]) -> str:
    """The names most like an unknown one, as the end of a sentence; nothing where none is like it."""
    near = get_close_matches(name[:80], list(known), n=5, cutoff=0.6)
    return f"; did you mean {', '.join(near)}?" if near else ""


class Args:
    """The arguments of an entry, each checked and read once; unused ones are reported as losses."""

    def __init__(self, entry: RegistryEntry) -> None:
        self.entry = entry
        given = entry.data.get("args")
        if given is not None and not isinstance(given, dict):
            raise entry.error("args must be a mapping of argument names to values", "args")
        self.left: dict[str, Any] = dict(given or {})
        self.losses = Losses()

    def text(self, name: str) -> str:
        """A text that must be there."""
        value = self.optional_text(name)
        if value is None:
            raise self.entry.error(f"{name} is missing", "args")
        return value

    def optional_text(self, name: str) -> str | None:
        """A text that is not empty, or None."""
        value = self.left.pop(name, None)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.entry.error(f"{name} must be text", "args", name)
        return value

    def count(self, name: str, otherwise: int = 0) -> int:
        """A whole number from 0."""
        value = self.left.pop(name, otherwise)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.entry.error(f"{name} must be a whole number, 0 or more", "args", name)
        return value

    def answers_at_once(self, name: str) -> int | Literal["from_models"]:
        """How many answers are judged together."""
        if self.left.get(name) == "from_models":
            del self.left[name]
            return "from_models"
        if (value := self.count(name, 1)) < 1:
            raise self.entry.error(f"{name} must be 1 or more, or from_models", "args", name)
        return value

    def names(self, name: str) -> dict[str, str]:
        """New names of fields by their old ones."""
        given = self.mapping(name)
        if not all(isinstance(value, str) for value in given.values()):
            raise self.entry.error(f"{name} must give each field a new name", "args", name)
        if given:
            self.losses.carried(f"{name} of {len(given)} fields", self.entry.where)
        return given

    def calls(self, name: str) -> dict[str, Any]:
        """The parameters of the calls an argument is about, with those the original always sends."""
        given = self.mapping(name)
        more = given.pop("completion_kwargs", None)
        return {"max_tokens": 1024, "temperature": 0} | given | (more if isinstance(more, dict) else {})

    def unsent(self, name: str) -> None:
        """Pass over an argument the original takes and never uses."""
        if name in self.left:
            del self.left[name]
            self.losses.left_out(f"args.{name}", self.entry.where, "the original takes it and never sends it")

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """True or false; `yes` and `on` are true as well, because YAML 1.1 said so."""
        value = self.left.pop(name, otherwise)
        if isinstance(value, str):
            value = {"yes": True, "on": True, "no": False, "off": False}.get(value.lower(), value)
        if not isinstance(value, bool):
            raise self.entry.error(f"{name} must be true or false", "args", name)
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """A mapping; empty where there is none."""
        value = self.left.pop(name, None)
        if value is not None and not isinstance(value, dict):
            raise self.entry.error(f"{name} must be a mapping", "args", name)
        return dict(value or {})

    def rest(self) -> Losses:
        """The report so far, with the unused arguments."""
        for name in self.left:
            self.losses.left_out(f"args.{name}", self.entry.where, "it has no meaning here")
        return self.losses

    def sent(self, params: Mapping[str, Any], who: str = "target") -> None:
        """Report the parameters the original sends."""
        if params:
            settings = ", ".join(f"{name} {value}" for name, value in params.items())
            self.losses.changed(f"the original sends {settings}", self.entry.where, f"set them as params of the {who}")
