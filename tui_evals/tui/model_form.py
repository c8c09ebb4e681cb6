"""Forms made from pydantic models: a field for each option, nested objects and lists of them included."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from inspect import isclass
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tui_evals.datasets.paths import path_text
from tui_evals.datasets.validate import problem_of
from tui_evals.evaluators.base import ToolCall
from tui_evals.light_records import dataclass
from tui_evals.runs.readiness import Option, model_options, option_kind, without_none
from tui_evals.text import strictjson
from tui_evals.text.safe import safe, safe_line
from tui_evals.transcript import Transcript, to_json
from tui_evals.tui.widgets.form import Faults, Field, Kind, Shape, Values, can_write

_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_PART = re.compile(r"[A-Za-z_]\w*")
_SCHEMA = "schema"
_BRANCHES = frozenset(("str", "int", "float", "bool", "dict", "list", "literal", "constrained"))


def form_fields(options: tuple[Option, ...], values: Values, sample: str = "") -> list[Field]:
    """A field for every option, and one for each that is given and unknown; a schema can be made of a sample answer."""
    made = _schema_made(sample) if any(option.name == _SCHEMA for option in options) else None
    fields = [_field(option, values.get(option.name)) for option in options]
    fields = [replace(one, make=made) if one.name == _SCHEMA else one for one in fields]
    known = {option.name for option in options}
    unknown = "No option of this evaluator; take it away."
    return fields + [Field(name, "json", unknown) for name in values if name not in known]


def _schema_made(sample: str) -> tuple[str, Any] | None:
    """The schema of an answer that is JSON."""
    try:
        return "make one from this answer", schema_of(strictjson.loads(sample))
    except (strictjson.JsonError, RecursionError):
        return None


def schema_of(value: Any) -> dict[str, Any]:
    """A JSON Schema that a value conforms to, with every field of its objects required."""
    if isinstance(value, dict):
        properties = {name: schema_of(part) for name, part in value.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}
    if isinstance(value, list):
        schemas = list({json.dumps(schema): schema for schema in map(schema_of, value)}.values())
        shape = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        return {"type": "array", **({"items": shape} if schemas else {})}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return {"type": kinds[type(value)]}


def _field(option: Option, value: object) -> Field:
    about = option_about(option)
    if option.name == _SCHEMA:
        return Field(option.name, "json", f"{about}{_hint(dict, value)}", default=default_words(option.field))
    annotation = without_none(option.field.annotation)
    for kind, choices, shape in _ways(annotation):
        if kind != "json" and (value is None or _can_edit(kind, value)):
            return Field(option.name, kind, about, choices, default_words(option.field), shape=shape)
    return Field(option.name, "json", f"{about}{_hint(annotation, value)}", default=default_words(option.field))


def _ways(annotation: object) -> Iterator[tuple[Kind, tuple[str, ...], Shape | None]]:
    """How a value of a type may be written, the usual way first: each with its choices, or what its objects hold."""
    branches = [without_none(one) for one in get_args(annotation)] if _is_union(annotation) else [annotation]
    if float in branches and str in branches:
        yield "value", (), None
    for branch in branches:
        part = without_none(get_args(branch)[0]) if get_origin(branch) is list else None
        if isclass(branch) and issubclass(branch, BaseModel):
            yield "object", (), ModelShape(branch)
        elif isclass(part) and issubclass(part, BaseModel):
            yield "objects", (), ModelShape(part)
        elif branch is Any:
            yield "value", (), None
        else:
            kind, choices = option_kind(branch)
            yield kind, choices, None


def _is_union(annotation: object) -> bool:
    return get_origin(annotation) in (Union, UnionType)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The objects of a model as forms."""

    model: type[BaseModel]

    def fields(self, before: Values) -> list[Field]:
        """A field for each member."""
        return form_fields(model_options(self.model), self.values(before))

    def values(self, before: Values) -> dict[str, Any]:
        """What is given, by the names of the form."""
        return form_values(model_options(self.model), before)

    def written(self, before: Values, values: Values) -> dict[str, Any]:
        """The object with the values of a form, in the order and spelling it had."""
        return file_options(model_options(self.model), before, values)

    def faults(self, written: Values) -> Faults:
        """What is wrong with an object."""
        return model_faults(self.model, written)


def option_about(option: Option) -> str:
    """What an option is for, with its limits."""
    return " ".join(filter(None, (option.field.description, _limits(option.field))))


def _hint(annotation: object, value: object) -> str:
    """How to type what is no line of text and no number."""
    origin = get_origin(without_none(annotation))
    if isinstance(value, str):
        return " Written as JSON, in quotation marks."
    if origin is list:
        return ' Written as JSON: ["one", "two"].'
    if origin in (dict, Mapping):
        return ' Written as JSON: {"name": "value"}.'
    return " Written as JSON: put texts in quotation marks."


def _can_edit(kind: Kind, value: object) -> bool:
    """Whether a field of this kind gives the value back as it was; control bytes need JSON."""
    if kind == "object":
        return isinstance(value, dict)
    if kind == "objects":
        return isinstance(value, list) and bool(value)
    if kind == "yes":
        return isinstance(value, bool)
    if kind in ("list", "map", "value"):
        return can_write(kind, value)
    if kind == "several":
        return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
    if kind in ("text", "choice"):
        visible = safe if kind == "text" and "\n" in str(value) else safe_line
        return isinstance(value, str) and visible(value) == value and bool(value.strip())
    return not isinstance(value, (str, bool))


def _limits(field: FieldInfo) -> str:
    limits = [
        f"{word} {value:g}"
        for limit in field.metadata
        for name, word in _LIMITS.items()
        if (value := getattr(limit, name, None)) is not None
    ]
    return f"{', '.join(limits).capitalize()}." if limits else ""


def default_words(field: FieldInfo) -> str:
    """What holds while an option is not given."""
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return ""
    if isinstance(value, (bool, float)):
        return f"default: {'yes' if value is True else 'no' if value is False else f'{value:g}'}"
    words = value if isinstance(value, str) else json.dumps(as_json(value), ensure_ascii=False)
    return f"default: {words if value or value == 0 else 'none'}"


def form_values(options: tuple[Option, ...], options_of_file: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, by the names of the form."""
    names = dict(_names(options, options_of_file))
    return {names.get(key, key): value for key, value in options_of_file.items() if key != "type" and value is not None}


def _names(options: tuple[Option, ...], options_of_file: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name in the form of each key of a file; of two spellings of one option only the first counts."""
    for option in options:
        for spelling in option.spellings:
            if spelling in options_of_file:
                yield spelling, option.name
                break


def file_options(options: tuple[Option, ...], before: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """The options of a file once a form was taken: in the order and spelling they had, new ones at the end."""
    names = dict(_names(options, before))
    kept = {key: values[names.get(key, key)] for key in before if names.get(key, key) in values and key != "type"}
    new = {name: value for name, value in values.items() if name not in names.values() and name not in kept}
    label = {"type": before["type"]} if "type" in before else {}
    return {**label, **{key: _whole(value) for key, value in {**kept, **new}.items()}}


def _whole(value: Any) -> Any:
    """Three stays 3 where it was typed into a field for any number."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def model_faults(model: type[BaseModel], options: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with options, by the names of the form; under the empty name what concerns no single one."""
    try:
        model.model_validate(options)
    except ValidationError as problem:
        names = {spelling: option.name for option in model_options(model) for spelling in option.spellings}
        messages: dict[str, list[str]] = {}
        for error in problem.errors(include_url=False):
            first = str(error["loc"][0]) if error["loc"] else ""
            messages.setdefault(names.get(first, first), []).append(_fault_words(error, model, names))
        return {name: "; or ".join(dict.fromkeys(texts)) for name, texts in messages.items()}
    return {}


def _fault_words(error: ErrorDetails, model: type[BaseModel], names: Mapping[str, str]) -> str:
    if error["type"] == "missing" and len(error["loc"]) == 1:
        return "must be given"
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1 and error["loc"][0] in names:
        return "is given twice, in two spellings; take one of them away"
    rest = tuple(
        part
        for part in error["loc"][1:]
        if isinstance(part, int) or (_PART.fullmatch(part) and part not in _BRANCHES and not part[0].isupper())
    )
    message = problem_of(error, model).message
    return f"{path_text(rest)}: {message}" if rest else message


def as_json(value: Any) -> Any:
    """A default or an example as JSON."""
    if isinstance(value, ToolCall):
        return {"name": value.name, "arguments": value.arguments}
    if isinstance(value, Transcript):
        return to_json(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: as_json(part) for key, part in value.items()}
    return [as_json(part) for part in value] if isinstance(value, tuple | list) else value
