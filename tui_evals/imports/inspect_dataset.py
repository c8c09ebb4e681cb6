"""A dataset file of Inspect (.jsonl, .json or .csv with its columns input and target) imported as a dataset.

The fields are read as `json_dataset` and `csv_dataset` read them without a FieldSpec. How a task scores is in its
Python and not in the file, so the evaluators are only a beginning: `choice` where there are choices, else `includes`.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tui_evals.datasets.attachments import CannotAttach, read_attachment
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Layout, Problem
from tui_evals.datasets.rows import header_of
from tui_evals.datasets.validate import problem_of
from tui_evals.imports.base import Losses
from tui_evals.imports.inspect.samples import Sample, finite, item_of
from tui_evals.project_files import read_head
from tui_evals.text import strictjson
from tui_evals.text.measures import counted

from .base import Importer, ImportRequest, ImportResult
from .keeping import json_in, keep_dataset, text_of

Data = dict[str, Any]

_FIELDS = ("input", "target", "choices", "id", "metadata", "sandbox", "files", "setup")
_OTHER_TOOLS = frozenset(
    ("ideal", "messages", "items", "prompt", "turns", "reference_output", "candidate_output", "expected_response")
)
"""Fields that records of other formats have besides an input."""
_FILES = ("image", "audio", "video", "document")
"""The types of content that name a file, in a field with the name of the type."""


def recognises(path: Path) -> bool:
    """Whether the records of a file have the columns of Inspect samples, and none of another format."""
    match path.suffix.lower():
        case ".csv":
            return path.is_file() and _is_sample(header_of(_head(path)))
        case ".json" | ".jsonl":
            value = json_in(path)
            first = value[0] if isinstance(value, list) and value else value
            return isinstance(first, dict) and _is_sample(first)
        case _:
            return False


def _is_sample(names: Mapping[str, Any] | Sequence[str]) -> bool:
    return "input" in names and ("target" in names or "choices" in names) and not _OTHER_TOOLS & set(names)


def _head(path: Path) -> str:
    return read_head(path, 2**20, follow_out=True).decode("utf-8-sig", "replace").partition("\n")[0]


def _import(request: ImportRequest) -> ImportResult:
    path, losses = request.path, Losses()
    file = request.dataset_file(path.stem)
    items: list[Data] = []
    ids: set[tuple[type, object]] = set()
    for number, (where, record) in enumerate(_records(path)):
        items.append(_item(record, where, number, file, path, losses))
        identity = items[-1]["extensions"]["inspect"]["id"]
        if (type(identity), identity) in ids:
            raise where.refuse(f"the id {identity!r} is there twice, and Inspect reads it once", ("id",))
        ids.add((type(identity), identity))
    if not items:
        raise DatasetError(str(path), [Problem("holds no samples")])
    document: Data = {
        "schemaVersion": CURRENT_VERSION,
        "metadata": {"name": path.stem},
        "default_evaluators": _judged(items),
        "items": items,
    }
    losses.carried(counted(len(items), "sample"), str(path), "as items")
    why = "a task scores in its Python, which is not in the file; these evaluators are a beginning: change them to its"
    losses.changed(f"how samples are scored: {', '.join(_kinds(document)) or 'by nothing'}", why=why)
    return keep_dataset(request, file, document, losses)


# -- records


Place = tuple[str | int, ...]


class _Where:
    """A place in the file, for the errors of one record."""

    def __init__(self, path: Path, line: int | None, place: Place = ()) -> None:
        self._path, self._line, self._place = path, line, place

    def refuse(self, message: str, place: Place = ()) -> DatasetError:
        """The error of a field."""
        return DatasetError(str(self._path), [Problem(message, (*self._place, *place), self._line)])


def _records(path: Path) -> Iterator[tuple[_Where, Mapping[str, Any]]]:
    text = text_of(path)
    match path.suffix.lower():
        case ".csv":
            yield from _rows(path, text)
        case ".jsonl":
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip():
                    yield _object(_loaded(path, line, number), _Where(path, number))
        case _:
            value = _loaded(path, text)
            layout = Layout(text)
            if not isinstance(value, list):
                yield _object(value, _Where(path, layout.line(())))
                return
            for number, record in enumerate(value):
                yield _object(record, _Where(path, layout.line((number,)), (number,)))


def _loaded(path: Path, text: str, line: int | None = None) -> Any:
    try:
        return strictjson.loads(text)
    except strictjson.JsonError as problem:
        raise DatasetError(str(path), [Problem(str(problem), line=line or problem.line)]) from None


def _object(record: object, where: _Where) -> tuple[_Where, Mapping[str, Any]]:
    if not isinstance(record, dict):
        raise where.refuse("must be an object with an input")
    return where, record


def _rows(path: Path, text: str) -> Iterator[tuple[_Where, Mapping[str, Any]]]:
    """The rows of a table with their columns; a blank cell is absent."""
    reader = csv.reader(io.StringIO(text, newline=""), dialect="unix")
    try:
        header = next(reader, [])
        for row in reader:
            where = _Where(path, reader.line_num)
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise where.refuse(f"the row has {counted(len(row), 'cell')}, and the header has {len(header)}")
            yield where, {name: cell for name, cell in zip(header, row, strict=True) if cell.strip()}
    except csv.Error as problem:
        raise DatasetError(str(path), [Problem(f"the table cannot be read: {problem}", line=reader.line_num)]) from None


# -- samples


def _item(record: Mapping[str, Any], where: _Where, number: int, file: Path, path: Path, losses: Losses) -> Data:
    """The item of a record; without an id it has the number that Inspect gives it."""
    asked = record.get("input")
    if not asked:
        raise where.refuse("the sample has no input", ("input",))
    asked, attached = _without_files(asked, file.parent, path.parent, losses)
    known: Data = {
        "id": number + 1 if record.get("id") in (None, "") else record["id"],
        "epoch": 1,
        "input": asked,
        "target": _target(record.get("target")),
        "choices": _choices(record.get("choices")),
        "metadata": _decoded(record, "metadata", where),
        **{name: record.get(name) for name in ("sandbox", "files", "setup")},
    }
    if not isinstance(known["metadata"], dict | None):
        raise where.refuse("must be an object", ("metadata",))
    try:
        sample = Sample.model_validate(known)
    except ValidationError as errors:
        problem = problem_of(errors.errors(include_url=False)[0], Sample)
        raise where.refuse(problem.message, problem.path) from None
    item = item_of(sample, losses)
    if attached:
        item["attachments"] = attached
    if others := {name: value for name, value in record.items() if name and name not in _FIELDS}:
        losses.changed(
            f"the columns {', '.join(others)}" if len(others) > 1 else f"the column {next(iter(others))}",
            why="Inspect reads them only where a task's FieldSpec names them; kept under extensions.inspect.columns",
        )
        item["extensions"]["inspect"]["columns"] = finite(others)
    return item


def _target(value: object) -> list[str]:
    """The targets, as text whatever their types."""
    return [str(one) for one in value] if isinstance(value, list) else [] if value is None else [str(value)]


def _choices(value: object) -> list[str] | None:
    """The choices of a list, or of text in which commas or else spaces part them."""
    if value is None:
        return None
    parts = value if isinstance(value, list) else [value]
    if isinstance(value, str):
        parts = value.split(",") if "," in value else value.split()
        parts = [part.strip() for part in parts]
    return [str(part) for part in parts if str(part).strip()] or None


def _decoded(record: Mapping[str, Any], name: str, where: _Where) -> Any:
    """A field that may be an object, or the JSON of one."""
    value = record.get(name)
    if not isinstance(value, str):
        return value
    try:
        return strictjson.loads(value)
    except strictjson.JsonError as problem:
        raise where.refuse(f"is no JSON: {problem}", (name,)) from None


def _without_files(asked: Any, folder: Path, beside: Path, losses: Losses) -> tuple[Any, list[str]]:
    """The input with the files of its last message apart: they go along with the prompt, by their paths."""
    last = asked[-1] if isinstance(asked, list) and asked else None
    content = last.get("content") if isinstance(last, dict) and last.get("role") == "user" else None
    if not isinstance(content, list):
        return asked, []
    texts: list[Any] = []
    paths: list[str] = []
    for part in content:
        named = isinstance(part, dict) and part.get("type") in _FILES
        name = part.get(part["type"]) if named else None
        if not isinstance(name, str) or "://" in name or name.startswith("data:"):
            texts.append(part)
            continue
        path = os.path.relpath(beside / name, folder)
        try:
            read_attachment(folder, path)
        except CannotAttach as problem:
            losses.left_out(f"the file {name} of a message", why=str(problem))
        else:
            paths.append(path)
    if texts == content:
        return asked, []
    return [*asked[:-1], {**last, "content": texts}], paths  # type: ignore[dict-item]


def _judged(items: Sequence[Data]) -> Data:
    """The evaluators of all items; each item has its own if only some have choices."""
    offering = [item for item in items if "choices" in item["extensions"]["inspect"]]
    if len(offering) == len(items):
        return {"choice": {}}
    for item in offering:
        item |= {"evaluators": {"choice": {}}, "evaluators_mode": "replace"}
    return {"includes": {}} if any("expected_response" in item for item in items if item not in offering) else {}


def _kinds(document: Data) -> list[str]:
    every = [document["default_evaluators"], *(item.get("evaluators", {}) for item in document["items"])]
    return sorted({name for evaluators in every for name in evaluators})


IMPORTER = Importer(
    kind="inspect-dataset",
    about="a dataset file of Inspect: .jsonl, .json or .csv with input and target",
    recognises=recognises,
    read=_import,
    order=65,
)
