"""The pieces PromptPex left behind: a file, or a place in one, whose text is JSON or a CSV table."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from tui_evals.generate.shapes import Outcome, UnreadableFile
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


def table_of(piece: Piece) -> list[dict[str, Any]]:
    """The rows of a CSV table by their columns."""
    return [row for _, row in rows_of_table(piece)]


def rows_of_table(piece: Piece) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a CSV table by their columns, each with its line."""
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(str(piece.value).removeprefix("\ufeff"), newline=""), strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as problem:
            raise UnreadableFile(f"{piece.where}:{line} cannot be read as a table: {problem}") from None
        if row is None:
            return
        if not any(cell.strip() for cell in row):
            continue
        if header is None:
            header = [cell.strip() for cell in row]
        elif len(row) > len(header):
            raise UnreadableFile(f"{piece.where}:{line} has {len(row)} cells, but the header has {len(header)}")
        else:
            yield f"line {line}", dict(zip(header, row, strict=False))


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


def rows_in(kind: type[Row], piece: Piece) -> list[Row]:
    """The rows of a piece; UnreadableFile says in which row which field is wrong."""
    rows = []
    for place, row in rows_of_table(piece) if piece.table else _entries(piece):
        if not isinstance(row, dict):
            raise UnreadableFile(f"{piece.where}, {place}: must be an object, such as {{...}}")
        if not row.keys() & {*kind.model_fields, "input"}:
            known = ", ".join(sorted(kind.model_fields))
            raise UnreadableFile(f"{piece.where}, {place}: has none of the fields that are read, which are {known}")
        try:
            rows.append(kind.model_validate(row))
        except ValidationError as errors:
            first = errors.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"]))
            message = first["msg"].removeprefix("Value error, ")
            raise UnreadableFile(f"{piece.where}, {place}, {field}: {message}") from None
    return rows


def _entries(piece: Piece) -> Iterator[tuple[str, object]]:
    value = json_of(piece) if isinstance(piece.value, str) else piece.value
    if not isinstance(value, list):
        raise UnreadableFile(f"{piece.where} must hold a list of objects, such as [{{...}}]")
    yield from ((f"entry {number}", row) for number, row in enumerate(value, 1))
