"""The header and the samples of an Inspect log, from its archive or its JSON; an error names file, line and field."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tui_evals.datasets.layout import Layout
from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.problems import DatasetError, Problem
from tui_evals.datasets.validate import problem_of
from tui_evals.text import strictjson

from .archive import opened, refused
from .inspect_shapes import Header, Sample

VERSION = 2
LARGEST_JSON = 2**29
_HEADERS = ("header.json", "_journal/start.json")
_ATTACHED = "attachment://"
_RESOLVED = ("input", "messages", "output", "scores")
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN', re.DOTALL)

Part = TypeVar("Part", bound=BaseModel)


@dataclass
class _Text:
    """A JSON text, and how its errors name it."""

    source: str
    text: str

    @cached_property
    def value(self) -> Any:
        """Its value; NaN and the infinities are numbers in it, as Inspect writes them."""
        try:
            return json.loads(self.text.removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            pass
        try:
            strictjson.loads(_NO_NUMBER.sub(lambda found: found[0] if found[0][0] == '"' else "null", self.text))
        except strictjson.JsonError as problem:
            raise DatasetError(self.source, [Problem(str(problem), line=problem.line)]) from None
        raise DatasetError(self.source, [Problem("is not valid JSON")])

    def refuse(self, message: str, place: Place = ()) -> DatasetError:
        """The error of a place in it."""
        return DatasetError(self.source, [Problem(message, place, Layout(self.text).line(place))])

    def typed(self, value: object, kind: type[Part], base: Place = ()) -> Part:
        """A value of it as a shape; the error names every field that is not right."""
        try:
            return kind.model_validate(value)
        except ValidationError as errors:
            layout = Layout(self.text)
            problems = [problem_of(error, kind, base) for error in errors.errors(include_url=False)]
        raise DatasetError(
            self.source, [Problem(problem.message, problem.path, layout.line(problem.path)) for problem in problems]
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A sample and where it stands; `traced` where the log also tells how it came about."""

    where: str
    sample: Sample
    traced: bool


def log_in(path: Path) -> tuple[Header, list[Found]]:
    """What a log holds; DatasetError names file, member, line and field of what is wrong."""
    return _archived(path) if path.suffix.lower() == ".eval" else _written(path)


def _archived(path: Path) -> tuple[Header, list[Found]]:
    with opened(path) as archive:
        name = next((name for name in _HEADERS if name in archive.names), None)
        if name is None:
            raise refused(path, f"is no Inspect log: it holds neither {' nor '.join(_HEADERS)}")
        text = _Text(f"{path}: {name}", archive.text(name))
        header = _header(text, text.value)
        names = [name for name in archive.names if re.fullmatch(r"samples/[^/]+\.json", name)]
        texts = (_Text(f"{path}: {name}", archive.text(name)) for name in names)
        return header, [_sample(text, text.value, ()) for text in texts]


def _written(path: Path) -> tuple[Header, list[Found]]:
    try:
        if path.stat().st_size > LARGEST_JSON:
            message = f"is larger than {LARGEST_JSON // 2**20} MiB; `inspect log convert --to eval` makes it smaller"
            raise refused(path, message)
        text = _Text(str(path), path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise refused(path, f"is not UTF-8 text (at byte {problem.start:,})") from None
    except OSError as problem:
        raise refused(path, f"cannot be read: {problem.strerror or problem}") from None
    header = _header(text, text.value)
    samples = text.value.get("samples") or []
    if not isinstance(samples, list):
        raise text.refuse("must be a list", ("samples",))
    return header, [_sample(text, sample, ("samples", number)) for number, sample in enumerate(samples)]


def _header(text: _Text, value: object) -> Header:
    if not isinstance(value, dict) or "version" not in value or "eval" not in value:
        raise text.refuse("is no Inspect log: it names no version and no eval")
    if value["version"] != VERSION:
        message = (
            f"the log has version {value['version']!r}, and version {VERSION} is read; `inspect log convert` writes it"
        )
        raise text.refuse(message, ("version",))
    return text.typed(value, Header)


def _sample(text: _Text, value: object, base: Place) -> Found:
    if not isinstance(value, dict):
        raise text.refuse("must be an object", base)
    found = {name: value[name] for name in Sample.model_fields if name in value}
    found |= {"model_usage": value["model_usage"]} if "model_usage" in value else {}
    if isinstance(attached := value.get("attachments"), dict) and attached:
        found |= {name: _resolved(found[name], attached) for name in _RESOLVED if name in found}
    where = text.source if not base else f"{text.source}, sample {int(base[-1]) + 1}"
    return Found(where, text.typed(found, Sample, base), bool(value.get("events") or value.get("store")))


def _resolved(value: Any, attached: Mapping[str, Any]) -> Any:
    """A value with the long texts put back that Inspect keeps once for a sample."""
    match value:
        case str() if value.startswith(_ATTACHED):
            text = attached.get(value.removeprefix(_ATTACHED))
            return text if isinstance(text, str) else value
        case dict():
            return {name: _resolved(one, attached) for name, one in value.items()}
        case list():
            return [_resolved(one, attached) for one in value]
        case _:
            return value
