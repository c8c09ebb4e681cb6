"""The pieces PromptPex left behind: a file, or a place in one, whose text is JSON or a CSV table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tui_evals.generate.shapes import UnreadableFile
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
