"""The table of a run, or of a comparison, as one Parquet file; `pyarrow`, which writes it, is an extra."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import Any

from tui_evals.reports.kinds import ReportKind
from tui_evals.store.answer_facts import Kind
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.strictjson import one_line

from . import comparison, results

_GROUP = 5_000
"""Rows of a row group, which is held in memory until it is written."""
_TYPES: Mapping[Kind, type] = {"text": str, "whole": int, "number": float, "yes or no": bool}
_KINDS: Mapping[str, Kind] = {**results.COLUMN_KINDS, "edited": "yes or no", "threshold": "number"}
"""What a column holds, by its name or its last part; all others hold text."""


class _Sink(io.RawIOBase):
    """Holds what was written since it was last taken, and knows how much that is from the beginning."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._size += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """A table as Parquet, a row group at a time."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    kinds = [_kind(column) for column in columns]
    types = {float: pyarrow.float64(), int: pyarrow.int64(), bool: pyarrow.bool_(), str: pyarrow.string()}
    schema = pyarrow.schema([(column, types[kind]) for column, kind in zip(columns, kinds, strict=True)])
    sink, waiting = _Sink(), iter(rows)
    with ParquetWriter(pyarrow.PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        while group := list(islice(waiting, _GROUP)):
            by_column = zip(*group, strict=True)
            arrays = [
                pyarrow.array([_value(value, kind) for value in values], types[kind])
                for values, kind in zip(by_column, kinds, strict=True)
            ]
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
            yield sink.take()
    yield sink.take()


def _kind(column: str) -> type:
    known = _KINDS.get(column) or _KINDS.get(column.rpartition(".")[2])
    return str if known is None else _TYPES[known]


def _value(value: object, kind: type) -> object:
    if value is None or kind is not str:
        return value
    text = value if isinstance(value, str) else one_line(value)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _missing() -> str | None:
    if find_spec("pyarrow") is not None:
        return None
    return "a Parquet file is written by pyarrow, which is not installed: pip install 'tui_evals[parquet]'"


def _write(reader: Reader, runs: Sequence[RunRow], raw: bool) -> Iterator[bytes]:
    return table(*(comparison.rows(reader, runs) if len(runs) > 1 else results.rows(reader, runs[0])))


KINDS = {"parquet": ReportKind((".parquet",), _write, missing=_missing, is_text=False, about="a table for data frames")}
