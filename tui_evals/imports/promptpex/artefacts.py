"""What PromptPex left behind: its files in a folder, or all of them inside its saved context or report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui_evals.datasets.prompts import SUFFIXES
from tui_evals.generate.options import split_names
from tui_evals.generate.shapes import UnreadableFile, rule_lines
from tui_evals.imports.base import is_file_name
from tui_evals.store.rows import plain

from .rows import Piece, Read, Row, json_of, rows_in

CONTEXT, REPORT = "promptpex_context", "report"
_TEXTS = ("intent", "input_spec", "rules", "inverse_rules")
_ROWS = ("tests", "test_results", "test_groundtruth", "test_evals", "baseline_test_evals", "rule_evals")
_FILES = {
    **{kind: (f"{kind}.txt",) for kind in _TEXTS},
    **{kind: (f"{kind}.json", f"{kind}.csv") for kind in _ROWS},
    "baseline_tests": ("baseline_tests.txt", "baseline_tests.json", "baseline_tests.csv"),
    "overview": ("overview.csv",),
}
_KIND = {file: kind for kind, files in _FILES.items() for file in files}
_KEYS = {
    "intent": "intent",
    "inputSpec": "input_spec",
    "rules": "rules",
    "inverseRules": "inverse_rules",
    "baselineTests": "baseline_tests",
    "tests": "tests",
    "promptPexTests": "tests",
    "testOutputs": "test_results",
    "testResults": "test_results",
    "groundtruthOutputs": "test_groundtruth",
    "testEvals": "test_evals",
    "baselineTestEvals": "baseline_test_evals",
    "ruleEvals": "rule_evals",
    "prompt": "prompt",
}
_ALONE = (f"{CONTEXT}.json", f"{REPORT}.json")
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Artefacts:
    """What was found, by its kind, and where."""

    folder: Path
    name: str
    """The prompt's name."""
    pieces: Mapping[str, Piece]
    prompt: Path | None
    """The file of the prompt; without it `pieces` may hold its text."""
    options: Mapping[str, Any] = field(default_factory=dict)
    spare: Mapping[str, Piece] = field(default_factory=dict)
    """What the report or the saved context holds of a kind that has a file of its own."""
    unread: tuple[str, ...] = ()
    """A sentence for each file that could not be read and for which another stands."""
    _read: dict[str, Read[Any]] = field(default_factory=dict)

    def text(self, kind: str) -> str:
        """The text of a kind; the empty one where there is none."""
        piece = self.pieces.get(kind)
        if piece is None:
            return ""
        lines = [str(line) for line in piece.value] if isinstance(piece.value, list) else [str(piece.value)]
        return plain("\n".join(lines)).replace("\r\n", "\n").strip()

    def lines(self, kind: str) -> list[str]:
        """The lines of a kind."""
        return rule_lines(self.text(kind))

    def rows(self, kind: str, shape: type[Row]) -> list[Row]:
        """The rows of a kind, those that cannot be read left out; UnreadableFile where none can be."""
        if kind not in self._read:
            self._read[kind] = self._most_rows(kind, shape)
        return list(self._read[kind].rows)

    @property
    def left_out(self) -> list[str]:
        """What could not be read of the rows that were asked for, and of files for which another stands."""
        return [*self.unread, *(sentence for read in self._read.values() for sentence in read.skipped)]

    def _most_rows(self, kind: str, shape: type[Row]) -> Read[Row]:
        """The rows of the file, or of the report where more of them can be read there."""
        piece, spare = self.pieces.get(kind), self.spare.get(kind)
        if piece is None:
            return Read()
        try:
            own = rows_in(shape, piece)
            wrong = own.skipped
        except UnreadableFile as problem:
            if spare is None:
                raise
            own, wrong = Read[Row](), (str(problem),)
        if not wrong or spare is None:
            return own
        other = rows_in(shape, spare)
        if len(other.rows) <= len(own.rows):
            return own
        return Read(other.rows, (f"{wrong[0]}; what {spare.where} holds was taken instead", *other.skipped))

    @property
    def judges(self) -> tuple[str, ...]:
        """The models that judged answers, as the options name them."""
        models = self.options.get("evalModels") or self.options.get("evalModel")
        if isinstance(models, str):
            return tuple(split_names(models))
        return tuple(map(str, models)) if isinstance(models, list) else ()


def holds_artefacts(path: Path) -> bool:
    """Whether a path is a file of PromptPex's, or a folder that holds some; `report.json` has many authors."""
    if path.is_dir():
        known = any((path / file).is_file() for file in (*_KIND, _ALONE[0]))
        return known or ((path / _ALONE[1]).is_file() and _is_report(path / _ALONE[1]))
    name = path.name.lower()
    return path.is_file() and (name in _KIND or name == _ALONE[0] or (name == _ALONE[1] and _is_report(path)))


def known_files() -> str:
    """The files that are recognised, for a sentence."""
    return f"{_ALONE[0]}, tests.json, test_results.json, overview.csv (and the older tests.csv, test_results.csv)"


def gather(path: Path) -> Artefacts:
    """Everything that can be found at a path: of one file and what belongs to it, or of a whole folder."""
    folder = (path if path.is_dir() else path.parent).resolve()
    named = None if path.is_dir() else path.name.lower()
    pieces: dict[str, Piece] = {}
    inside: dict[str, Piece] = {}
    broken: dict[str, UnreadableFile] = {}
    about: Mapping[str, Any] = {}
    if named not in _ALONE and named != "overview.csv":
        pieces, broken = _in_folder(folder)
    if named is not None and named in _KIND:
        pieces[_KIND[named]] = _piece(path, named)
        if _KIND[named] == "tests":
            pieces = {kind: piece for kind, piece in pieces.items() if kind not in ("test_results", "overview")}
    for file in _ALONE if named is None else (named,) if named in _ALONE else ():
        if (folder / file).is_file() and (file == _ALONE[0] or _is_report(folder / file)):
            whole = _whole(folder / file)
            about = about or whole
            inside = {**_inside(whole, f"{folder / file}"), **inside}
    for kind, problem in broken.items():
        if kind not in inside:
            raise problem
    name = _named(about.get("name"), folder)
    options = about.get("options")
    return Artefacts(
        folder,
        name,
        {**inside, **pieces},
        _prompt(folder, name),
        options if isinstance(options, dict) else {},
        spare={kind: piece for kind, piece in inside.items() if kind in pieces},
        unread=tuple(
            f"{problem}; what {inside[kind].where} holds was taken instead" for kind, problem in broken.items()
        ),
    )


def _in_folder(folder: Path) -> tuple[dict[str, Piece], dict[str, UnreadableFile]]:
    """The files of a folder by their kinds, and those that cannot be read."""
    pieces_by_kind = {}
    broken = {}
    for kind, files in _FILES.items():
        try:
            pieces = (_piece(folder / file, file) for file in files if (folder / file).is_file())
            if piece := next((piece for piece in pieces if str(piece.value).strip()), None):
                pieces_by_kind[kind] = piece
        except UnreadableFile as problem:
            broken[kind] = problem
    return pieces_by_kind, broken


def _piece(file: Path, name: str) -> Piece:
    return Piece(str(file), _read(file), table=name.endswith(".csv"))


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        raise UnreadableFile(f"{file}:{line} is not UTF-8 text; save the file as UTF-8") from None
    except OSError as problem:
        raise UnreadableFile(f"{file} cannot be read: {problem.strerror}") from None


def _whole(file: Path) -> Mapping[str, Any]:
    value = json_of(Piece(str(file), _read(file)))
    if not isinstance(value, dict):
        raise UnreadableFile(f"{file} must hold an object, as PromptPex saves it")
    return value


def _is_report(file: Path) -> bool:
    """Whether a file called `report.json` is one of PromptPex's."""
    try:
        report = _whole(file)
    except UnreadableFile:
        return False
    return "rules" in report and "tests" in report


def _inside(whole: Mapping[str, Any], where: str) -> dict[str, Piece]:
    """The pieces of a saved context or report: files with their content win over what stands beside them."""
    files: dict[str, Piece] = {}
    beside: dict[str, Piece] = {}
    for key, value, file, known in _entries(whole):
        name = re.split(r"[\\/]", file or key)[-1].lower()
        kind = _KIND.get(name) or (_KEYS.get(key) if known else None)
        if kind is None or not isinstance(value, (str, list)) or not value or not str(value).strip():
            continue
        piece = Piece(f"{where}, {key}", value, table=isinstance(value, str) and name.endswith(".csv"))
        (files if file or name in _KIND else beside).setdefault(kind, piece)
    return {**beside, **files}


def _entries(node: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, object, str, bool]]:
    """The key, content and file name of everything an object holds, and whether the key says what it is.

    Deeper down it does only where a file is: the front matter and the options have an `intent` of their own.
    """
    for key, value in node.items():
        if isinstance(value, dict) and "content" in value:
            file = value.get("filename")
            yield key, value["content"], file if isinstance(file, str) else "", True
        elif isinstance(value, dict) and depth < _DEPTH:
            yield from _entries(value, depth + 1)
        else:
            yield key, value, "", depth == 0


def _named(name: object, folder: Path) -> str:
    return name if isinstance(name, str) and is_file_name(name) else folder.name or "promptpex"


def _prompt(folder: Path, name: str) -> Path | None:
    """The prompt of its name in the folder or above it, else the only prompt in the folder."""
    for place in (folder, folder.parent):
        for suffix in SUFFIXES:
            if (file := place / f"{name}{suffix}").is_file() and file.name not in _KIND:
                return file
    there = [file for file in folder.glob("*.prompty") if not file.name.endswith(".metric.prompty")]
    return there[0] if len(there) == 1 else None
