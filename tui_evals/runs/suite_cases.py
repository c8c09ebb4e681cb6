"""The cases of a suite, read from lists, data frames or files, and the exceptions that users of suites catch."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.datasets.document import MAX_BYTES
from tui_evals.project_files import read_bytes
from tui_evals.text.names import did_you_mean


class ArthurError(Exception):
    """Something about a suite went wrong; one of the kinds below says whose affair it is."""


class ArthurUserError(ArthurError):
    """What was asked for cannot be done as it was asked."""


class UserValueError(ArthurUserError, ValueError):
    """A value that was given does not fit."""


class UserTypeError(ArthurUserError, TypeError):
    """Something of the wrong kind was given."""


class NotFoundError(ArthurUserError, LookupError):
    """There is no suite or run of this name."""


class ArthurInternalError(ArthurError):
    """A run could not be carried out, though everything that was given is right."""


Column = list[str | None]
"""The cells of a column as text; None where a cell is blank."""


@dataclass(frozen=True, slots=True)
class Cases:
    """What a suite asks and, where it is known, what is right."""

    inputs: tuple[str, ...]
    references: tuple[str, ...] | None = None


def cases_from(
    *,
    frame: Any,
    path: str | Path | None,
    inputs: Sequence[Any] | None,
    references: Sequence[Any] | None,
    input_column: str,
    reference_column: str,
    needs_reference: bool,
) -> Cases:
    """The cases of a suite, from the first of frame, file and lists that is given."""
    names = {"input": input_column} | ({"reference": reference_column} if needs_reference else {})
    if frame is not None:
        columns, where = _frame_columns(frame, names, "reference_data"), "reference_data, row"
    elif path is not None:
        columns, where = _file_columns(path, names), f"{path}, row"
    elif inputs is not None:
        columns, where = {"input": listed(inputs, "input_text_list")}, "input_text_list, text"
        if references is not None:
            columns["reference"] = listed(references, "reference_output_list")
    else:
        raise UserValueError(
            "a new suite needs cases: give reference_data (a frame), reference_data_path (a .csv file), or "
            "input_text_list and reference_output_list"
        )
    return _check_cases(columns["input"], columns.get("reference"), where, needs_reference)


def _check_cases(inputs: Column, references: Column | None, where: str, needed: bool) -> Cases:
    if not inputs:
        raise UserValueError("a suite needs at least one case, and the data holds none")
    if references is not None and len(references) != len(inputs):
        raise UserValueError(
            f"there are {len(inputs)} inputs and {len(references)} reference outputs; give one for each"
        )
    for number, text in enumerate(inputs, 1):
        if not text:
            raise UserValueError(f"{where} {number}: the input is blank; write what was asked there")
    blank = [number for number, text in enumerate(references or (), 1) if text is None]
    if references is not None and blank and (len(blank) < len(references)):
        raise UserValueError(
            f"{where} {blank[0]}: the reference output is blank, and others are not; give every case one, or none"
        )
    if references is None or blank:
        if needed:
            raise UserValueError(
                "this way of scoring compares with reference outputs, and there are none; give them in "
                "reference_output_list or a column (reference_column)"
            )
        return Cases(tuple(text or "" for text in inputs))
    return Cases(tuple(text or "" for text in inputs), tuple(text or "" for text in references))


def candidates_from(
    *,
    frame: Any,
    path: str | Path | None,
    candidates: Sequence[Any] | None,
    candidate_column: str,
    context_column: str | None,
    contexts: Sequence[Any] | None,
) -> tuple[Column, Column | None]:
    """The candidates of a run and their contexts, from the first of frame, file and list that is given."""
    names = {"candidate": candidate_column} | ({"context": context_column} if context_column else {})
    if frame is not None:
        columns = _frame_columns(frame, names, "candidate_data")
    elif path is not None:
        columns = _file_columns(path, names)
    elif candidates is not None:
        given = None if contexts is None else listed(contexts, "context_input_list")
        return listed(candidates, "candidate_output_list"), given
    else:
        raise UserValueError(
            "a run needs candidate outputs: give candidate_data (a frame), candidate_data_path (a .csv file), or "
            "candidate_output_list"
        )
    return columns["candidate"], columns.get("context")


def listed(values: Sequence[Any], name: str) -> Column:
    """A list of the user's as text; None and NaN are blank, an empty text is a text."""
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise UserTypeError(f"{name} must be a list of texts, not {type(values).__name__}")
    return [None if _is_absent(value) else str(value) for value in values]


def _is_absent(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(isinstance(value, float) and value != value)


def _frame_columns(frame: Any, names: Mapping[str, str], what: str) -> dict[str, Column]:
    """Columns of a frame, whichever library made it; none is imported for that."""
    if not hasattr(frame, "columns") or not hasattr(frame, "__getitem__"):
        raise UserTypeError(f"{what} must be a frame such as pandas makes, not {type(frame).__name__}")
    columns = [str(name) for name in frame.columns]
    _check_columns(names, columns, what)
    return {key: [_none_if_blank(cell) for cell in listed(frame[name], what)] for key, name in names.items()}


def _none_if_blank(cell: str | None) -> str | None:
    return cell if cell and cell.strip() else None


def _check_columns(names: Mapping[str, str], columns: Sequence[str], where: str) -> None:
    for key, name in names.items():
        if columns.count(name) > 1:
            raise UserValueError(f"{where}: the column {name!r} is there twice; rename one of them")
        if name not in columns:
            there = ", ".join(map(repr, columns)) or "none"
            hint = "; say which column holds it with " + f"{key}_column" if name in _USUAL else ""
            raise UserValueError(
                f"{where}: there is no column {name!r}{did_you_mean(name, columns)}{hint}; the columns are {there}"
            )


_USUAL = frozenset(("input", "reference_output", "candidate_output"))


def _file_columns(path: str | Path, names: Mapping[str, str]) -> dict[str, Column]:
    """Columns of a CSV file; every cell is the text it is written as."""
    file = Path(path)
    if file.suffix != ".csv":
        raise UserValueError(f"{file}: the data must be in a .csv file")
    try:
        content = read_bytes(file, most=MAX_BYTES, follow_out=True)
        text = content.decode("utf-8-sig")  # line ends inside cells stay as they are
    except FileNotFoundError:
        raise UserValueError(f"{file}: there is no such file") from None
    except UnicodeDecodeError:
        raise UserValueError(f"{file}: is not UTF-8 text; save it as UTF-8") from None
    except OSError as problem:
        raise UserValueError(f"{file}: cannot be read: {problem.strerror}") from None
    header, rows = _rows(file, text)
    _check_columns(names, header, str(file))
    places = {key: header.index(name) for key, name in names.items()}
    return {key: [_none_if_blank(row[at]) if at < len(row) else None for row in rows] for key, at in places.items()}


def _rows(file: Path, text: str) -> tuple[list[str], list[list[str]]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        for row in reader:
            if len(row) > len(header):
                raise UserValueError(
                    f"{file}:{reader.line_num}: the row has {len(row)} cells but the header has {len(header)}"
                )
            if row:
                rows.append(row)
    except csv.Error as problem:
        raise UserValueError(f"{file}:{reader.line_num}: the table cannot be read: {problem}") from None
    return header, rows


METADATA = ("model_name", "model_version", "foundation_model", "prompt_template")
