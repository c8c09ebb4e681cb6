"""Datasets with a row for each item: JSONL of OpenAI Evals, CSV of Arthur Bench, and tables with mapped columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui_evals.datasets.paths import LineError
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean
from tui_evals.text.safe import csv_line, escape_formula


def items_of_table(table: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The items of rows with typed values, as in Parquet; other columns become variables.

    `columns` maps fields to columns with other names. Raises LineError if no row has such a column.
    """
    # Imported when needed, because a dataset is shown before its types are needed.
    from tui_evals.datasets.model import Item

    known = {name: None for row in table for name in row}
    for name in columns.values():
        if table and name not in known:
            hint = did_you_mean(name, known)
            raise LineError(f"there is no column '{name}'{hint}; the columns are: {', '.join(known)}", 1)
    fields = {field: field for field in Item.model_fields if field not in columns}
    fields |= {column: field for field, column in columns.items()}
    return [_item_of_values(row, fields) for row in table]


def _item_of_values(row: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    item: dict[str, Any] = {}
    variables: dict[str, Any] = dict(row.get("variables") or {}) if "variables" in fields else {}
    for column, value in row.items():
        if value is None or column == "variables":
            continue
        field = fields.get(column)
        if field is None:
            variables[column] = value if isinstance(value, str | int | float | bool | list | dict) else str(value)
        else:
            item[field] = str(value) if field in _TEXTS and not isinstance(value, list | dict) else value
    return {**item, "variables": variables} if variables else item


def read_jsonl(text: str, columns: Mapping[str, str] | None = None) -> tuple[list[dict[str, Any]], list[int]]:
    """The items of the lines and the line of each; blank lines are passed over."""
    items: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            sample = strictjson.loads(line)
        except strictjson.JsonError as error:
            column = f" at column {error.column}" if error.column else ""
            raise LineError(f"{error}{column}", number) from None
        if not isinstance(sample, dict):
            raise LineError("each line must be a JSON object with an input", number)
        try:
            items.append(sample if columns else _item_of_sample(sample))
        except ValueError as error:
            raise LineError(str(error), number) from None
        lines.append(number)
    return items_of_table(items, columns) if columns else items, lines


def _item_of_sample(sample: dict[str, Any]) -> dict[str, Any]:
    if "input" not in sample:
        if "prompt" in sample or "turns" in sample:
            return sample
        raise ValueError(f"the sample has no input; its keys are: {', '.join(sample) or 'none'}")
    item = _input_fields(sample["input"])
    if "ideal" in sample:
        item |= _ideal_fields(sample["ideal"])
    if isinstance(sample.get("completion"), str):
        item["response"] = sample["completion"]
    used = {"input", "ideal"} | ({"completion"} if "response" in item else set())
    if variables := {key: value for key, value in sample.items() if key not in used}:
        item["variables"] = variables
    return item


def _input_fields(messages: object) -> dict[str, Any]:
    if isinstance(messages, str):
        return {"prompt": messages}
    if not isinstance(messages, list) or not all(isinstance(part, dict) for part in messages) or not messages:
        raise ValueError("input must be text or a list of chat messages")
    last = messages[-1]
    if last.keys() == {"role", "content"} and last["role"] == "user" and last["content"]:
        return {"messages": messages[:-1], "prompt": last["content"]}
    return {"messages": messages}


def _ideal_fields(ideal: object) -> dict[str, Any]:
    if isinstance(ideal, str):
        return {"expected_response": ideal}
    if isinstance(ideal, list) and all(isinstance(part, str) for part in ideal):
        return {"ideal": ideal}
    raise ValueError("ideal must be text or a list of texts")


def write_jsonl(items: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """JSONL and notes on what it cannot hold; each turn becomes a sample with the earlier turns as history."""
    lost: list[str] = []
    lines: list[str] = []
    known = {"prompt", "messages", "turns", "expected_response", "ideal", "response", "variables"}
    for number, item in enumerate(items):
        units = item.get("turns") or [item]
        if item.get("turns"):
            lost.append(f"items[{number}]: the conversation became {len(units)} samples, each with the turns before it")
        if dropped := sorted({field for part in (item, *units) for field in part} - known):
            lost.append(f"items[{number}]: a sample has no place for {', '.join(dropped)}")
        if any("ideal" in unit and "expected_response" in unit for unit in units):
            lost.append(f"items[{number}]: a sample has no place for expected_response next to ideal")
        if taken := sorted(set().union(*(_reserved_variables(item, unit) for unit in units))):
            lost.append(f"items[{number}]: a sample has no place for the variables {', '.join(taken)}")
        history: list[Mapping[str, Any]] = [] if units[0] is item else list(item.get("messages") or [])
        for unit in units:
            lines.append(strictjson.dumps(_sample_of_unit(item, unit, history)))
            history += [*(unit.get("messages") or []), {"role": "user", "content": unit.get("prompt", "")}]
            if answer := unit.get("expected_response") or unit.get("response"):
                history.append({"role": "assistant", "content": answer})
    return "".join(line + "\n" for line in lines), lost


def _sample_of_unit(
    item: Mapping[str, Any], unit: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    history = [*earlier, *(unit.get("messages") or [])]
    prompt = unit.get("prompt")
    is_chat = bool(history) or "messages" in unit
    question = [{"role": "user", "content": prompt}] if prompt is not None else []
    sample: dict[str, Any] = {"input": [*history, *question] if is_chat else prompt}
    if "ideal" in unit:
        sample["ideal"] = unit["ideal"]
    elif "expected_response" in unit:
        sample["ideal"] = unit["expected_response"]
    if "response" in unit:
        sample["completion"] = unit["response"]
    taken = _reserved_variables(item, unit)
    return {**sample, **{name: value for name, value in (item.get("variables") or {}).items() if name not in taken}}


def _reserved_variables(item: Mapping[str, Any], unit: Mapping[str, Any]) -> set[str]:
    """The variables of an item whose names a sample needs for itself."""
    variables = item.get("variables") or {}
    is_answer = "response" in unit or isinstance(variables.get("completion"), str)
    return variables.keys() & {"input", "ideal", *(("completion",) if is_answer else ())}


COLUMNS: Mapping[str, str] = {
    "prompt": "input",
    "expected_response": "reference_output",
    "response": "candidate_output",
    "context": "context",
}
_SAME_NAME_COLUMNS = ("testId", "category", "notes", "name")
_TEXTS = frozenset((*COLUMNS, *_SAME_NAME_COLUMNS))


def read_csv(text: str, columns: Mapping[str, str] | None = None) -> tuple[list[dict[str, Any]], list[int]]:
    """The items of a table and the line each ends on; a blank cell is absent, other columns become variables.

    Without a column `input`, columns may be called as the fields of an item.
    """
    reader = _reader(text)
    header = [name.strip() for name in next(reader, [])]
    usual = COLUMNS if COLUMNS["prompt"] in header else {f: f if f in header else c for f, c in COLUMNS.items()}
    names = {**usual, **(columns or {})}
    fields = {column: field for field, column in names.items()} | {name: name for name in _SAME_NAME_COLUMNS}
    _check_header(header, names, columns or {})
    items: list[dict[str, Any]] = []
    lines: list[int] = []
    row_line = reader.line_num + 1
    for row in _read_rows(reader):
        if len(row) > len(header):
            raise LineError(f"the row has {len(row)} cells but the header has {len(header)}", row_line)
        if any(row):
            items.append(_item_of_row(dict(zip(header, row, strict=False)), fields))
            lines.append(row_line)
        row_line = reader.line_num + 1
    return items, lines


_LIKELY: Mapping[str, tuple[str, ...]] = {
    "prompt": ("input", "prompt", "question", "query", "instruction", "user", "message", "text"),
    "expected_response": (
        *("reference_output", "expected_response", "expected_output", "expected", "reference", "ideal", "answer"),
        *("ground_truth", "target", "output"),
    ),
    "response": ("candidate_output", "response", "completion", "model_output", "prediction", "generated"),
    "context": ("context", "passage", "document", "source"),
}
"""How the columns of other tables are called, the likeliest first."""


def header_of(text: str) -> list[str]:
    """The names of the columns of a table; none where its first line cannot be read."""
    try:
        return [name.strip() for name in next(_reader(text), []) if name.strip()]
    except csv.Error:
        return []


def likely_columns(header: Sequence[str]) -> dict[str, str]:
    """Which columns the fields of an item are likely to be in, each column once."""
    by_name = {_plain_name(name): name for name in reversed(header)}
    found: dict[str, str] = {}
    for field, names in _LIKELY.items():
        column = next((by_name[name] for name in names if name in by_name), None)
        if column is not None and column not in found.values():
            found[field] = column
    return found


def field_meant(name: str) -> str | None:
    """The field of an item that goes by another name elsewhere, such as `expected`; None where none is known."""
    plain = _plain_name(name)
    return next((field for field, names in _LIKELY.items() if plain in names), _ELSEWHERE.get(plain))


_ELSEWHERE: Mapping[str, str] = {"vars": "variables", "assert": "evaluators", "asserts": "evaluators", "id": "testId"}


def _plain_name(column: str) -> str:
    return "_".join(column.casefold().replace("-", " ").replace("_", " ").split())


def _reader(text: str) -> Any:
    csv.field_size_limit(2**31 - 1)
    return csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)


def _read_rows(reader: Any) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as problem:
        raise LineError(f"the table cannot be read: {problem}", reader.line_num) from None


def _check_header(header: Sequence[str], names: Mapping[str, str], chosen: Mapping[str, str]) -> None:
    for name in header:
        if name and header.count(name) > 1:
            raise LineError(f"the header names the column '{name}' twice", 1)
    required = {names["prompt"], *chosen.values()}
    for name in sorted(required - set(header)):
        present = ", ".join(name for name in header if name) or "none"
        raise LineError(f"there is no column '{name}'{did_you_mean(name, header)}; the columns are: {present}", 1)


def _item_of_row(row: Mapping[str, str], fields: Mapping[str, str]) -> dict[str, Any]:
    item: dict[str, Any] = {}
    variables: dict[str, str] = {}
    for column, cell in row.items():
        if cell.strip() and column:
            (item if column in fields else variables)[fields.get(column, column)] = cell
    if variables:
        item["variables"] = variables
    return item


def write_csv(items: Sequence[Mapping[str, Any]], *, raw: bool = False) -> tuple[str, list[str]]:
    """CSV and notes on what it cannot hold; cells that a spreadsheet would run as formulas are escaped unless `raw`."""
    lost: list[str] = []
    rows = [row for number, item in enumerate(items) for row in _rows_of_item(number, item, lost)]
    used = {name for row in rows for name in row}
    known_columns = [
        name for name in (*COLUMNS.values(), *_SAME_NAME_COLUMNS) if name in used or name == COLUMNS["prompt"]
    ]
    header = known_columns + sorted(used - set(known_columns))
    lines = [csv_line(header if raw else map(escape_formula, header))]
    guarded = 0
    for row in rows:
        cells = [row.get(name, "") for name in header]
        safe = cells if raw else [escape_formula(cell) for cell in cells]
        guarded += sum(cell != escaped for cell, escaped in zip(cells, safe, strict=True))
        lines.append(csv_line(safe))
    if guarded:
        lost.append(
            f"{guarded} cells that a spreadsheet would run as a formula now start with ' (--raw-csv keeps them)"
        )
    return "".join(lines), lost


def _rows_of_item(number: int, item: Mapping[str, Any], lost: list[str]) -> Iterator[dict[str, str]]:
    units = item.get("turns") or [item]
    if "turns" in item:
        became = "turn became a row of its" if len(units) == 1 else f"{len(units)} turns became rows of their"
        lost.append(f"items[{number}]: the {became} own, no conversation")
    known = {*COLUMNS, *_SAME_NAME_COLUMNS, "turns", "variables", "ideal"}
    if dropped := sorted({field for part in (item, *units) for field in part} - known):
        lost.append(f"items[{number}]: a table has no place for {', '.join(dropped)}")
    for unit in units:
        row = {name: str(item[name]) for name in _SAME_NAME_COLUMNS if name in item}
        row |= {str(key): _cell(value) for key, value in (item.get("variables") or {}).items()}
        row |= {column: str(unit[field]) for field, column in COLUMNS.items() if unit.get(field) is not None}
        ideal = unit.get("ideal") or []
        if ideal and "expected_response" not in unit:
            row[COLUMNS["expected_response"]] = str(ideal[0])
        if len(ideal) > 1:
            lost.append(f"items[{number}]: only the first of {len(ideal)} acceptable references fits into a table")
        elif ideal and "expected_response" in unit:
            lost.append(f"items[{number}]: a table has no place for ideal next to expected_response")
        yield row


def _cell(value: object) -> str:
    return "" if value is None else str(value)
