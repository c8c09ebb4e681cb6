"""Load a dataset file of any dialect: its text, its data as an eval document, and the lines of its values.

A file of another format may have a companion next to it, which holds the dataset that it was made of.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path as File
from typing import Any, Literal, cast

from tui_evals.datasets import rows
from tui_evals.datasets.paths import (
    CURRENT_VERSION,
    DatasetError,
    Layout,
    LineError,
    Path,
    Places,
    Problem,
    line_in,
    places_in,
)
from tui_evals.light_records import dataclass
from tui_evals.project_files import TooLarge, read_bytes
from tui_evals.text import strictjson
from tui_evals.text.yamls import YamlError, load_yaml

COMPANION_ENDING = ".tui-evals"
_LARGEST_COMPANION = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Companion:
    """The companion of a file, which has what the file cannot hold."""

    dataset: dict[str, Any]
    """The dataset that the file was made of."""
    is_whole: bool
    """Whether the file has not been edited since it was written."""


def companion_of(file: File) -> File:
    """The name of the companion of a file."""
    return File(f"{file}{COMPANION_ENDING}")


def companion_text(text: str, dataset: dict[str, Any]) -> str:
    """The companion of a text that was made of a dataset."""
    return strictjson.dumps({"of": _digest(text), "dataset": dataset}) + "\n"


def read_companion(file: File, text: str) -> Companion | None:
    """The companion of a file with this text; None without a readable one."""
    try:
        raw = read_bytes(companion_of(file), most=_LARGEST_COMPANION, follow_out=True)
        value = strictjson.loads(raw.decode("utf-8"))
    except (OSError, ValueError):
        return None
    dataset = value.get("dataset") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(dataset, dict) or not isinstance(dataset.get("items"), list):
        return None
    return Companion(dataset, value.get("of") == _digest(text))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


Dialect = Literal["document", "array", "parallel", "csv", "jsonl", "yaml", "parquet"]
MAX_BYTES = 2**30
"""The largest dataset."""
MAX_UNPACKED = 2**26
"""The largest content of a packed file, which may hold a thousand times its own size."""


@dataclass(frozen=True)
class Document:
    """A file's content when it was read; `digest` tells later whether the file has changed."""

    file: File
    text: str
    digest: str
    dialect: Dialect
    data: dict[str, Any]
    item_lines: Sequence[int] = ()

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self.text)

    def with_data(self, data: dict[str, Any]) -> Document:
        """The document with other data and the known lines."""
        other = replace(self, data=data)
        other.__dict__["_layout"] = self._layout
        return other

    @cached_property
    def _yaml_layout(self) -> tuple[Shape, Places]:
        return shape_of(load_yaml(self.text)) or "document", places_in(self.text)

    @property
    def is_json(self) -> bool:
        """Whether the file is JSON, which is edited in place; other files are read, or hold rows."""
        return self.dialect in ("document", "array", "parallel")

    @property
    def needs_upgrade(self) -> bool:
        """Whether the file has one of the older shapes, which the first save replaces."""
        if self.dialect in ("array", "parallel"):
            return True
        return self.dialect == "document" and "schemaVersion" not in self.written

    @property
    def written(self) -> Collection[str | int]:
        """The top-level keys that the JSON object in the file has."""
        return self._layout.by_key(self._layout.root).keys()

    def line(self, path: Path) -> int | None:
        """The line of a value of the document; None if it is unknown or not in a file."""
        if not self.digest:
            return None
        if self.is_json:
            return self._layout.line(written_path(path, cast("Shape", self.dialect)))
        if self.dialect == "yaml":
            shape, places = self._yaml_layout
            return line_in(places, written_path(path, shape))
        if path[:1] == ("items",) and len(path) > 1 and isinstance(path[1], int):
            return self.item_lines[path[1]] if path[1] < len(self.item_lines) else None
        return None


def load(file: File, columns: Mapping[str, str] | None = None) -> Document:
    """Read a dataset file of any dialect; DatasetError says why one cannot be read.

    `columns` names the column, or the key of each object, that holds a field of an item.
    """
    raw = _read_bytes(file)
    digest = hashlib.sha256(raw).hexdigest()
    dialect = dialect_of_name(file)
    if dialect == "parquet":
        items = rows.items_of_table(_read_parquet(file, raw), columns or {})
        return Document(file, "", digest, dialect, as_document(items, "array"))
    text = _decode(file, raw)
    try:
        if dialect in ("document", "yaml"):
            return _with_columns(_read_value(file, text, digest, dialect), columns)
        items, lines = rows.read_csv(text, columns) if dialect == "csv" else rows.read_jsonl(text, columns)
    except LineError as error:
        raise _refuse(file, str(error), error.line) from None
    return Document(file, text, digest, dialect, _with_the_rest(file, text, items), lines)


def _with_columns(document: Document, columns: Mapping[str, str] | None) -> Document:
    if not columns:
        return document
    items = document.data.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise LineError("columns can be mapped only where each item is an object", 1)
    return document.with_data({**document.data, "items": rows.items_of_table(items, columns)})


def _read_parquet(file: File, raw: bytes) -> list[dict[str, Any]]:
    try:
        # Imported when needed, because it is an extra and takes a while.
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise _refuse(file, "needs pyarrow: pip install 'tui-evals[parquet]'") from None
    try:
        return list(ParquetFile(pyarrow.BufferReader(raw)).read().to_pylist())
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise _refuse(file, f"cannot be read as Parquet: {error}") from None


def _with_the_rest(file: File, text: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows of a file as a document, completed by its companion from the dataset they were made of.

    A row that was edited since is used as it is; every other row is replaced by its original item.
    """
    beside = read_companion(file, text)
    if beside is None:
        return as_document(items, "array")
    if beside.is_whole:
        return beside.dataset
    write, read = (rows.write_csv, rows.read_csv) if dialect_of_name(file) == "csv" else _SAMPLES
    known = {strictjson.dumps(row): item for item in beside.dataset["items"] for row in read(write([item])[0])[0]}
    return {**beside.dataset, "items": [known.get(strictjson.dumps(item), item) for item in items]}


_SAMPLES = (rows.write_jsonl, rows.read_jsonl)


def dialect_of_name(file: File) -> Literal["document", "csv", "jsonl", "yaml", "parquet"]:
    """The dialect of a file name; the older JSON shapes can only be recognized by content."""
    name = file.name.lower().removesuffix(".gz")
    if name.endswith((".csv", ".parquet")):
        return "csv" if name.endswith(".csv") else "parquet"
    if name.endswith((".yaml", ".yml")):
        return "yaml"
    return "jsonl" if name.endswith((".jsonl", ".ndjson")) else "document"


def digest_of(file: File) -> str | None:
    """The current digest of the file's bytes; None if the file is missing."""
    try:
        return hashlib.sha256(read_bytes(file, most=MAX_BYTES, follow_out=True)).hexdigest()
    except FileNotFoundError:
        return None


def _refuse(file: File, message: str, line: int | None = None) -> DatasetError:
    return DatasetError(str(file), [Problem(message, line=line)])


def _read_bytes(file: File) -> bytes:
    try:
        return read_bytes(file, most=MAX_BYTES, follow_out=True)
    except FileNotFoundError:
        raise _refuse(file, "there is no such file") from None
    except IsADirectoryError:
        raise _refuse(file, "is a folder, not a file; name the dataset file itself") from None
    except TooLarge:
        raise _refuse(file, f"is larger than {MAX_BYTES // 2**20} MiB; split it into several datasets") from None
    except (OSError, ValueError) as error:
        raise _refuse(file, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _decode(file: File, raw: bytes) -> str:
    if file.name.lower().endswith(".gz"):
        raw = _unzip(file, raw)
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _refuse(file, "is written in UTF-16; save it as UTF-8")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = raw[error.start]
        raise _refuse(file, f"the byte 0x{byte:02x} is not UTF-8 text; save the file as UTF-8", line) from None


def _unzip(file: File, raw: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            raw = stream.read(MAX_UNPACKED + 1)
    except (OSError, EOFError, zlib.error):
        raise _refuse(file, "is named .gz but is not a whole gzip file") from None
    if len(raw) > MAX_UNPACKED:
        raise _refuse(file, f"unpacks to more than {MAX_UNPACKED // 2**20} MiB; split it into several datasets")
    return raw


def _read_value(file: File, text: str, digest: str, dialect: Literal["document", "yaml"]) -> Document:
    if not text.strip("\ufeff \t\r\n"):
        raise _refuse(file, "is empty; `tui-evals init` writes a starter dataset")
    try:
        value = load_yaml(text) if dialect == "yaml" else strictjson.loads(text)
    except YamlError as error:
        column = f" (column {error.column})" if error.column else ""
        raise _refuse(file, f"{error.problem}{column}", error.line) from None
    except strictjson.DuplicateKey as error:
        raise _refuse(file, str(error), _duplicate_key_line(text)) from None
    except strictjson.JsonError as error:
        column = f" (column {error.column})" if error.column else ""
        raise _refuse(file, f"{error}{column}", error.line) from None
    shape = shape_of(value)
    if shape is None:
        raise _refuse(file, "must hold an object with items, or a list of items", 1)
    try:
        data = as_document(value, shape)
        return Document(file, text, digest, "yaml" if dialect == "yaml" else shape, data)
    except ValueError as error:
        raise _refuse(file, str(error), 1) from None


def _duplicate_key_line(text: str) -> int | None:
    """The line of the first key that an object repeats."""
    layout = Layout(text)
    waiting = [layout.root]
    while waiting:
        start = waiting.pop()
        seen: set[str | int] = set()
        for member in layout.members(start):
            if member.key in seen:
                return layout.line_at(member.head)
            seen.add(member.key)
            waiting.append(member.start)
    return None


Shape = Literal["document", "array", "parallel"]


def shape_of(value: object) -> Shape | None:
    """Which of the accepted shapes a JSON value has."""
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict) and "items" not in value and isinstance(value.get("prompts"), list):
        return "parallel"
    return "document" if isinstance(value, dict) else None


def as_document(value: Any, shape: Shape) -> dict[str, Any]:
    """The value as an eval document; a document without a version stays without one until it is upgraded."""
    if shape == "array":
        return {"schemaVersion": CURRENT_VERSION, "items": value}
    if shape == "parallel":
        rest = {key: part for key, part in value.items() if key not in ("prompts", "expected_responses")}
        return {"schemaVersion": CURRENT_VERSION, **rest, "items": _items_of_prompts(value)}
    return {"schemaVersion": CURRENT_VERSION, **value} if "schemaVersion" not in value else dict(value)


def _items_of_prompts(value: dict[str, Any]) -> list[dict[str, Any]]:
    prompts = value["prompts"]
    expected = value.get("expected_responses", [None] * len(prompts))
    if not isinstance(expected, list) or len(expected) != len(prompts):
        count = len(expected) if isinstance(expected, list) else "no list of"
        raise ValueError(f"there are {len(prompts)} prompts but {count} expected_responses; give one for each")
    return _prompt_items(prompts, expected)


def inline_document(prompts: Sequence[str], expected: Sequence[str] = ()) -> dict[str, Any]:
    """The eval document of prompts given on the command line, with one expected response for each or none at all."""
    if expected and len(expected) != len(prompts):
        message = f"there are {len(prompts)} prompts but {len(expected)} expected responses; give one for each"
        raise DatasetError("--expected", [Problem(message)])
    return as_document(_prompt_items(prompts, expected or [None] * len(prompts)), "array")


def _prompt_items(prompts: Sequence[Any], references: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {"prompt": prompt} if reference is None else {"prompt": prompt, "expected_response": reference}
        for prompt, reference in zip(prompts, references, strict=True)
    ]


def written_path(path: Path, shape: Shape) -> Path:
    """The path of a value of the document in the file."""
    if shape == "document" or path[:1] != ("items",):
        return path
    if shape == "array":
        return path[1:]
    column = "expected_responses" if path[2:3] == ("expected_response",) else "prompts"
    return (column, *path[1:2])
