"""The pieces PromptPex left behind: a file, or a place in one, whose text is JSON or a CSV table."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from tui_evals.generate.shapes import Outcome, UnreadableFile
from tui_evals.generate.tables import CsvRow, csv_rows, join_torn_cells, normal_name, well_quoted
from tui_evals.store.rows import plain
from tui_evals.text import strictjson


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands in one file, or in one place of a file that holds several: text, or rows already read."""

    where: str
    value: object
    table: bool = False
    """The text is a CSV table."""


def json_of(piece: Piece) -> object:
    """The value of a piece of JSON; NaN, which is no JSON, is nothing."""
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
        return strictjson.loads(text)  # It refuses all that json does, and says why in a sentence.


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
    """The records with the line each begins on; behind one that is broken reading goes on with the line after it."""
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


def _whole(value: object) -> int | None:
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
Whole = Annotated[int | None, BeforeValidator(_whole)]
Flag = Annotated[bool | None, BeforeValidator(_flag)]
Text = Annotated[str | None, BeforeValidator(_text)]
Verdict = Annotated[Outcome | None, BeforeValidator(_outcome)]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Measure(_Loose):
    """What one judge made of one answer by one metric."""

    content: Text = None
    score: Number = None
    outcome: Verdict = None


class About(_Loose):
    """What every row says of the test it belongs to."""

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
    """A row of `test_results.json` or `test_groundtruth.json`: what a model answered, and how that was judged."""

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
        """Whether anybody judged the answer."""
        return bool(self.compliance or self.metrics)


class RecordedTestEval(About):
    """A row of `test_evals.json`: whether a test is valid input, and whether the rules alone say enough for it."""

    validity: Verdict = None
    coverage: Verdict = None


class RecordedRuleEval(_Loose):
    """A row of `rule_evals.json`: whether the prompt says what a rule says."""

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
    for place, row in rows_of_table(piece) if piece.table else _entries(piece):
        try:
            rows.append(_row_in(kind, row))
        except ValueError as problem:
            skipped.append(f"{piece.where}, {place}{problem}")
    if skipped and not rows:
        raise UnreadableFile(skipped[0])
    return Read(tuple(rows), tuple(skipped))


def _row_in(kind: type[Row], row: object) -> Row:
    """A record as a row; ValueError says what is wrong, to be read behind the place of the record."""
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
    """The row with its fields as they are spelled here: models wrote the first lines of older tables themselves."""
    spelled = {normal_name(name): name for name in kind.model_fields}
    return {
        spelled.get(normal_name(str(name)), name) if name not in kind.model_fields else name: row[name] for name in row
    }


def _entries(piece: Piece) -> Iterator[tuple[str, object]]:
    value = json_of(piece) if isinstance(piece.value, str) else piece.value
    if not isinstance(value, list):
        raise UnreadableFile(f"{piece.where} must hold a list of objects, such as [{{...}}]")
    yield from ((f"entry {number}", row) for number, row in enumerate(value, 1))
