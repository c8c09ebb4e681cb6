"""Reads files of PromptPex, in a folder or one saved context, and the JSON or tables in them."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from tui_evals.datasets.prompts import SUFFIXES
from tui_evals.generate.asking import CsvRow, csv_rows, join_torn_cells, normal_name, well_quoted
from tui_evals.generate.folder import Outcome, UnreadableFile, rule_lines
from tui_evals.generate.work import split_names
from tui_evals.imports.base import is_file_name
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes
from tui_evals.store.rows import plain
from tui_evals.text import strictjson


@dataclass(frozen=True, slots=True)
class Piece:
    """The content of one file, or of one place in a file: text, or rows."""

    where: str
    value: object
    table: bool = False
    """The text is a CSV table."""


def json_of(piece: Piece) -> object:
    """The value of a piece of JSON; NaN becomes None."""
    try:
        return parsed(str(piece.value))
    except strictjson.JsonError as problem:
        at = f":{problem.line}" if problem.line else ""
        raise UnreadableFile(f"{piece.where}{at} cannot be read: {problem}") from None


def parsed(text: str) -> object:
    """The value of a JSON text; a bare NaN is nothing."""
    try:
        return json.loads(text.removeprefix("\ufeff"), parse_constant=lambda word: None)
    except (ValueError, RecursionError):
        return strictjson.loads(text)  # It refuses all that json refuses, with a sentence as the reason.


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot be read, and why."""

    why: str


def table_of(piece: Piece) -> list[dict[str, Any]]:
    """The rows of a CSV table by their columns, without those that cannot be read."""
    return [row for _, row in rows_of_table(piece) if not isinstance(row, Unreadable)]


def rows_of_table(piece: Piece) -> Iterator[tuple[str, dict[str, Any] | Unreadable]]:
    """The rows of a CSV table by their columns, each with its line; models wrote some of them, so any may be broken."""
    csv.field_size_limit(2**31 - 1)
    text = str(piece.value).removeprefix("\ufeff").replace("\0", "")
    lines = io.StringIO(text, newline="").readlines()
    header: list[str] | None = None
    for line, record in _records(lines):
        if not isinstance(record, Unreadable) and not any(cell.strip() for cell in record.cells):
            continue
        if header is None:
            if isinstance(record, Unreadable):
                raise UnreadableFile(f"{piece.where}:{line} cannot be read as a table: {record.why}")
            header = [cell.strip() for cell in record.cells]
        elif isinstance(record, Unreadable):
            yield f"line {line}", record
        else:
            yield f"line {line}", _by_column(record, header)


_SPACED = re.compile(r'[^",]*, ')
"""How a line begins whose cells are separated by a comma and a space, as models write them."""


def _records(lines: list[str]) -> Iterator[tuple[int, CsvRow | Unreadable]]:
    """The records with the line each begins on; behind one that is broken reading continues with the line after it."""
    spaced = any(_SPACED.match(line) for line in lines[:2])
    begin = 0
    while begin < len(lines):
        following = (lines[place] for place in range(begin, len(lines)))
        reader = csv.reader(following, strict=True, skipinitialspace=spaced)
        read = 0
        try:
            for cells in reader:
                yield begin + read + 1, CsvRow(cells, "".join(lines[begin + read : begin + reader.line_num]))
                read = reader.line_num
            return
        except csv.Error as problem:
            yield begin + read + 1, _alone(lines[begin + read], str(problem))
            begin += read + 1


def _alone(line: str, why: str) -> CsvRow | Unreadable:
    """The record that one line is with its escaped quotation marks doubled, as they should have been."""
    mended = line.replace('\\"', '""')
    if not well_quoted(mended, ","):
        return Unreadable(f"cannot be read as a row of a table: {why}")
    return next(csv_rows(mended, ","), CsvRow([]))


def _by_column(record: CsvRow, header: list[str]) -> dict[str, Any] | Unreadable:
    """The cells by their columns; a comma too many at the end adds nothing."""
    row, cells = record, list(record.cells)
    while len(cells) > len(header) and not cells[-1].strip():
        cells.pop()
    if len(cells) > len(header):
        cells = list(join_torn_cells(row, header).cells)
    if len(cells) > len(header):
        return Unreadable(f"has {len(cells)} cells, but the header has {len(header)}")
    return dict(zip(header, cells, strict=False))


_NOTHING = frozenset(("", "nan", "null", "none", "undefined"))
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_MOST = 1e9


def _number(value: object) -> float | None:
    if value is None or str(value).strip().lower() in _NOTHING:
        return None
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= _MOST:
        raise ValueError(f"{_start(value)} is no number")
    return number


def _whole_value(value: object) -> int | None:
    number = _number(value)
    if number is not None and number != int(number):
        raise ValueError(f"{_start(value)} is no whole number")
    return None if number is None else int(number)


def _flag(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _NOTHING:
        return None
    if word not in _FLAGS:
        raise ValueError(f"{_start(value)} is neither true nor false")
    return _FLAGS[word]


def _text(value: object) -> str | None:
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        value = value["message"]
    return None if value is None else plain(value if isinstance(value, str) else strictjson.dumps(value))


def _outcome(value: object) -> str | None:
    word = str(value or "").strip().lower()
    return None if word in _NOTHING else word if word in ("ok", "err") else "unknown"


def _metrics(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        value = parsed(value) if value.strip() else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("must be an object with an entry for each metric")
    return {plain(key): _measured(metric) for key, metric in value.items()}


def _measured(metric: object) -> object:
    if isinstance(metric, str):
        return {"content": metric}
    return metric if isinstance(metric, dict) else {"score": metric}


def _start(value: object) -> str:
    line = " ".join(str(value).split())
    return repr(line if len(line) <= 40 else f"{line[:39]}…")


Number = Annotated[float | None, BeforeValidator(_number)]
Whole = Annotated[int | None, BeforeValidator(_whole_value)]
Flag = Annotated[bool | None, BeforeValidator(_flag)]
Text = Annotated[str | None, BeforeValidator(_text)]
Verdict = Annotated[Outcome | None, BeforeValidator(_outcome)]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Measure(_Loose):
    """One judge's score of one answer by one metric."""

    content: Text = None
    score: Number = None
    outcome: Verdict = None


class About(_Loose):
    """The fields of every row about its test."""

    testuid: Text = None
    ruleid: Whole = None
    rule: Text = None
    inverse: Flag = None
    baseline: Flag = None
    scenario: Text = None
    testinput: str = ""

    @model_validator(mode="before")
    @classmethod
    def _asked(cls, row: Any) -> Any:
        """Older rows have `input` only."""
        question = row.get("testinput")
        return {**row, "testinput": _text(row.get("input") if question is None else question) or ""}


class RecordedTest(About):
    """A row of `tests.json`."""

    testid: Text = None
    generation: Whole = None
    testinputOriginal: Text = None
    expectedoutput: Text = None
    reasoning: Text = None
    groundtruth: Text = None
    groundtruthModel: Text = None
    groundtruthScore: Number = None


class RecordedResult(About):
    """A row of `test_results.json` or `test_groundtruth.json`: a model's answer with its scores."""

    promptid: Text = None
    model: Text = None
    output: Text = None
    error: Text = None
    isGroundtruth: Flag = None
    groundtruthScore: Number = None
    compliance: Verdict = None
    complianceText: Text = None
    metrics: Annotated[dict[str, Measure], BeforeValidator(_metrics)] = {}

    @property
    def judged(self) -> bool:
        """Whether the answer was judged."""
        return bool(self.compliance or self.metrics)


class RecordedTestEval(About):
    """A row of `test_evals.json`: whether a test is valid input, and whether the rules alone say enough for it."""

    validity: Verdict = None
    coverage: Verdict = None


class RecordedRuleEval(_Loose):
    """A row of `rule_evals.json`: whether the prompt contains a rule."""

    ruleid: Whole = None
    rule: Text = None
    grounded: Verdict = None
    groundedText: Text = None


Row = TypeVar("Row", bound=_Loose)


@dataclass(frozen=True, slots=True)
class Read(Generic[Row]):
    """The rows that could be read, and a sentence for each that could not."""

    rows: tuple[Row, ...] = ()
    skipped: tuple[str, ...] = ()


def rows_in(kind: type[Row], piece: Piece) -> Read[Row]:
    """The rows of a piece without those that cannot be read; UnreadableFile where that is every one."""
    rows, skipped = [], []
    for place, row in rows_of_table(piece) if piece.table else _entries_of(piece):
        try:
            rows.append(_row_in(kind, row))
        except ValueError as problem:
            skipped.append(f"{piece.where}, {place}{problem}")
    if skipped and not rows:
        raise UnreadableFile(skipped[0])
    return Read(tuple(rows), tuple(skipped))


def _row_in(kind: type[Row], row: object) -> Row:
    """A record as a row; the message of ValueError follows the place of the record."""
    if isinstance(row, Unreadable):
        raise ValueError(f" {row.why}")
    if not isinstance(row, dict):
        raise ValueError(": must be an object, such as {...}")
    row = _named_as_read(kind, row)
    if not row.keys() & {*kind.model_fields, "input"}:
        raise ValueError(f": has none of the fields that are read, which are {', '.join(sorted(kind.model_fields))}")
    try:
        return kind.model_validate(row)
    except ValidationError as errors:
        first = errors.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
    raise ValueError(f", {field}: {message}")


def _named_as_read(kind: type[Row], row: dict[str, Any]) -> dict[str, Any]:
    """The row with our field names: in older tables, models wrote the header themselves."""
    spelled = {normal_name(name): name for name in kind.model_fields}
    return {
        spelled.get(normal_name(str(name)), name) if name not in kind.model_fields else name: row[name] for name in row
    }


def _entries_of(piece: Piece) -> Iterator[tuple[str, object]]:
    value = json_of(piece) if isinstance(piece.value, str) else piece.value
    if not isinstance(value, list):
        raise UnreadableFile(f"{piece.where} must hold a list of objects, such as [{{...}}]")
    yield from ((f"entry {number}", row) for number, row in enumerate(value, 1))


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
_LARGEST = 2**25
_LARGEST_TEXT = 2**20
"""Of a file of rules or of an intent, which the dataset, its run and the signature each repeat."""


@dataclass(frozen=True, slots=True)
class Artefacts:
    """The pieces that were found, by kind, with their places."""

    folder: Path
    name: str
    """The prompt's name."""
    pieces: Mapping[str, Piece]
    prompt: Path | None
    """The file of the prompt; without it `pieces` may hold its text."""
    options: Mapping[str, Any] = field(default_factory=dict)
    spare: Mapping[str, Piece] = field(default_factory=dict)
    """Pieces in the report or the saved context of kinds that have their own file."""
    unread: tuple[str, ...] = ()
    """A sentence for each unreadable file that another one replaces."""
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
        """What could not be read of the rows, and of files that others replace."""
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
    """The recognized files, for a sentence."""
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
    most = _LARGEST_TEXT if _KIND[name] in _TEXTS else _LARGEST
    return Piece(str(file), _read(file, root=file.parent, most=most), table=name.endswith(".csv"))


def _read(file: Path, *, root: Path | None = None, most: int = _LARGEST) -> str:
    """The text of a file that was named, or of one that was found in the folder `root`."""
    try:
        return read_bytes(file, most=most, root=root, follow_out=root is None).decode("utf-8-sig")
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
    """The pieces of a saved context or report: files with their content win over other pieces."""
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
    """The key, content and file name of every entry in an object, and whether the key names its kind.

    Deeper down, only a file does: the front matter and the options have an `intent` of their own.
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
