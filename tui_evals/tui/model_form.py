"""Forms made from pydantic models: a field for each option, nested objects and lists of them included."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from tui_evals.transcript import Transcript, to_json
from tui_evals.tui.widgets.form_fields import (
    LIST,
    MAPPING,
    Faults,
    Field,
    ListShape,
    Start,
    Values,
    can_write,
    data_field,
)

_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_PART = re.compile(r"[A-Za-z_]\w*")
_SCHEMA = "schema"
_ROWS_TOO = "space: a list or a mapping, entry by entry."
_NESTED = ("evaluators", "evaluator")
"""Options that hold evaluators with their options."""
_BRANCHES = frozenset(("str", "int", "float", "bool", "dict", "list", "literal", "constrained"))


def form_fields(
    options: tuple[Option, ...], values: Values, sample: str = "", evaluators: ListShape | None = None
) -> list[Field]:
    """A field for every option, and one for each that is given and unknown.

    A schema can be made of a sample answer; `evaluators` says how an evaluator within another is written.
    """
    made = schema_made(sample) if any(option.name == _SCHEMA for option in options) else None
    fields = [option_field(option, values.get(option.name), evaluators) for option in options]
    fields = [replace(one, make=made) if one.name == _SCHEMA else one for one in fields]
    known = {option.name for option in options}
    unknown = "No option of this evaluator; take it away."
    return fields + [
        replace(data_field(name, value), about=unknown) for name, value in values.items() if name not in known
    ]


def schema_made(sample: str) -> tuple[str, Any] | None:
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


def option_field(option: Option, value: object, evaluators: ListShape | None = None) -> Field:
    """The form field of an option: of its type, or of the current value's type if that does not fit."""
    one = _typed_field(option.name, option.field.annotation, value, evaluators)
    about = " ".join(filter(None, (option_about(option), one.about)))
    return replace(one, about=about, default=default_words(option.field))


def _typed_field(name: str, annotation: object, value: object, evaluators: ListShape | None = None) -> Field:
    ways = _ways(name, without_none(annotation), evaluators)
    return next((one for one in ways if value is None or _can_edit(one, value)), data_field(name, value))


def _ways(name: str, annotation: object, evaluators: ListShape | None) -> Iterator[Field]:
    """How a value of a type may be written, the usual way first."""
    branches = _branches(annotation)
    if float in branches and str in branches:
        yield Field(name, "value")
    for branch in branches:
        origin, parts = get_origin(branch), [without_none(one) for one in get_args(branch)]
        if isclass(branch) and issubclass(branch, BaseModel):
            yield Field(name, "object", shape=ModelShape(branch))
        elif origin is dict and name == _SCHEMA:
            yield Field(name, "object", shape=SCHEMA)
        elif origin is dict and name in _NESTED and evaluators is not None:
            yield Field(name, "rows", rows=evaluators)
        elif origin is list and name == "tools" and get_origin(parts[0]) is dict:
            yield Field(name, "rows", rows=TOOLS)
        elif branch is Any:
            yield Field(name, "value", _ROWS_TOO)
        else:
            kind, choices = option_kind(branch)
            if kind != "json":
                yield Field(name, kind, _ROWS_TOO if parts[-1:] == [Any] else "", choices)
            if origin is list and kind == "json" and (parts[0] is Any or parts[0] in (int, float)):
                yield Field(name, "values")
            if origin in (list, dict, Mapping):
                yield Field(name, "rows", rows=_rows_of(parts[-1], named=origin is not list))
    if annotation is None:
        yield Field(name, "value")


def _branches(annotation: object) -> list[object]:
    return [without_none(one) for one in get_args(annotation)] if _is_union(annotation) else [annotation]


def _is_union(annotation: object) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def _rows_of(part: object, *, named: bool) -> ListShape:
    """A list or a mapping whose entries are of a type."""
    if part is Any:
        return MAPPING if named else LIST
    starts = {}
    for branch in _branches(part):
        origin = get_origin(branch)
        if origin is list:
            starts["a list"] = Start("a list", [], "one entry after the other")
        elif origin in (dict, Mapping) or (isclass(branch) and issubclass(branch, BaseModel)):
            starts["an empty one"] = Start("an empty one", {}, "every field is written by hand")
        else:
            starts["a text"] = Start("a text", "", "typed in a line")
    return ListShape(lambda name, value: _typed_field(name, part, value or None), tuple(starts.values()), named=named)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The objects of a model as forms."""

    model: type[BaseModel]
    evaluators: ListShape | None = None
    """How evaluators within are written, where it is that of the options of an evaluator."""

    def fields(self, before: Values) -> list[Field]:
        """A field for each member."""
        return form_fields(model_options(self.model), self.values(before), evaluators=self.evaluators)

    def values(self, before: Values) -> dict[str, Any]:
        """The given values, by field name."""
        return form_values(model_options(self.model), before)

    def written(self, before: Values, values: Values) -> dict[str, Any]:
        """The object with the values of a form, in the order and spelling it had."""
        return file_options(model_options(self.model), before, values)

    def faults(self, written: Values) -> Faults:
        """The problems of an object."""
        label = "type" if self.evaluators is not None else None
        return model_faults(self.model, {name: value for name, value in written.items() if name != label})


def _merged(before: Values, values: Values) -> dict[str, Any]:
    """An object with the values of a form, in the order it had."""
    names = [*(name for name in before if name in values), *(name for name in values if name not in before)]
    return {name: _whole(values[name]) for name in names}


_SCHEMA_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


def _of_types(*types: str) -> Callable[[Values], bool]:
    """Whether a keyword says something about one of the types of a schema; all do where it has none."""

    def applies(schema: Values) -> bool:
        given = schema.get("type") or types
        return any(one in types for one in (given if isinstance(given, (list, tuple)) else [given]))

    return applies


_OBJECT, _LIST, _NUMBER = _of_types("object"), _of_types("array"), _of_types("number", "integer")
_TEXT, _SCALAR = _of_types("string"), _of_types("string", "number", "integer")


@dataclass(frozen=True, slots=True)
class SchemaShape:
    """A form for a JSON Schema: type, fields with their schemas, and limits; other keywords are kept."""

    def fields(self, before: Values) -> list[Field]:
        """A field for each keyword."""
        several = isinstance(before.get("type"), list)
        fields = [
            Field("type", "several" if several else "choice", "What the value is.", _SCHEMA_TYPES),
            Field("description", about="What it is for, as the model reads it."),
            Field(
                "properties", "rows", "The fields of an object, with a schema each.", rows=PROPERTIES, applies=_OBJECT
            ),
            Field(
                "required",
                "several",
                "Fields that must be given.",
                lambda values: [*(values.get("properties") or ())],
                applies=_OBJECT,
            ),
            Field("items", "object", "What each entry of a list is.", shape=self, applies=_LIST),
            Field("enum", "values", "The only values it can have, one a line.", applies=_SCALAR),
            Field("pattern", about="A regular expression that a text must match.", applies=_TEXT),
            Field("minimum", "number", "The least number.", applies=_NUMBER),
            Field("maximum", "number", "The greatest number.", applies=_NUMBER),
            Field("minItems", "whole", "How many entries a list has at least.", applies=_LIST),
            Field("maxItems", "whole", "How many entries a list has at most.", applies=_LIST),
            Field("additionalProperties", "yes", "Whether an object may have other fields.", applies=_OBJECT),
        ]
        return _for_values(fields, before)

    def values(self, before: Values) -> dict[str, Any]:
        """The keywords that are given."""
        return dict(before)

    def written(self, before: Values, values: Values) -> dict[str, Any]:
        """The schema with the values of a form."""
        return _merged(before, values)

    def faults(self, written: Values) -> Faults:
        """No problems: the evaluator or dataset with this schema checks it."""
        return {}


def _for_values(fields: Sequence[Field], values: Values) -> list[Field]:
    """A field for each value: one that its usual field cannot edit gets a generic one, and none is left out."""
    known = {one.name for one in fields}
    fitting = [
        one
        if (value := values.get(one.name)) is None or _can_edit(one, value)
        else replace(data_field(one.name, value), about=one.about, applies=one.applies)
        for one in fields
    ]
    return fitting + [data_field(name, value) for name, value in values.items() if name not in known]


SCHEMA = SchemaShape()
PROPERTIES = ListShape(
    lambda name, value: Field(name, "object", shape=SCHEMA) if isinstance(value, dict) else data_field(name, value),
    (Start("a field", {}),),
    named=True,
    pair=lambda text: {"type": text} if text in _SCHEMA_TYPES else None,
    pair_hint="a name, or name: type (string, number, integer, boolean, array, object)",
)


@dataclass(frozen=True, slots=True)
class ToolShape:
    """The definition of a tool as a form, whether its function is nested, as in chats, or not."""

    def _parts(self, tool: Values) -> tuple[Values, str]:
        """The function, and the keyword of its parameters."""
        body = tool.get("function", tool) if tool else {}
        body = body if isinstance(body, dict) else {}
        return body, "input_schema" if "input_schema" in body else "parameters"

    def fields(self, before: Values) -> list[Field]:
        """The fields for name, description, parameters and other properties of a tool."""
        body, parameters = self._parts(before)
        fields = [
            Field("name", about="What the model calls it.", default="needed"),
            Field("description", about="What it does, and when to call it."),
            Field(parameters, "object", "The arguments, as the fields of an object.", shape=SCHEMA),
        ]
        return _for_values(fields, body)

    def values(self, before: Values) -> dict[str, Any]:
        """The properties of the function; a new one takes an object without fields."""
        body, _ = self._parts(before)
        return dict(body) if before else {"parameters": {"type": "object", "properties": {}}}

    def written(self, before: Values, values: Values) -> dict[str, Any]:
        """The definition with the values of a form."""
        body, _ = self._parts(before)
        function = _merged(body or {"name": None, "description": None}, values)
        if not before:
            return {"type": "function", "function": function}
        return {**before, "function": function} if isinstance(before.get("function"), dict) else function

    def faults(self, written: Values) -> Faults:
        """A missing name."""
        body, _ = self._parts(written)
        return {} if "type" in body or body.get("name") else {"name": "must be given"}


TOOL = ToolShape()
TOOLS = ListShape(
    lambda name, value: Field(name, "object", shape=TOOL) if isinstance(value, dict) else data_field(name, value),
    (Start("a function", {}, "its name, what it does, its parameters"),),
)


def dataset_field(name: str, where: Sequence[str | int], value: object) -> Field:
    """How a field of a dataset, item or turn is written in a form, or an entry of one."""
    from tui_evals.datasets.model import Dataset, Item, Metadata, Turn

    inner = name.removeprefix("metadata.")
    model = Metadata if name != inner else (Turn if len(where) > 2 else Item) if where else Dataset
    option = next((one for one in model_options(model) if inner in one.spellings), None)
    if option is None:
        return data_field(name, value)
    one = replace(option_field(option, value), name=name)
    return replace(one, kind="rows", rows=MAPPING) if one.kind == "map" else one


def entry_field(name: str, label: str, value: object) -> Field:
    """How one entry of a field that is shown in parts is written."""
    from tui_evals.datasets.model import Message

    if name in ("tools", "messages") and isinstance(value, dict):
        return Field(label, "object", shape=TOOL if name == "tools" else ModelShape(Message))
    return data_field(label, value)


def option_about(option: Option) -> str:
    """The description of an option, with its limits."""
    return " ".join(filter(None, (option.field.description, _limits(option.field))))


def _can_edit(one: Field, value: object) -> bool:
    """Whether a field returns the value unchanged."""
    kind = one.kind
    if kind == "object":
        return isinstance(value, dict)
    if kind == "rows" and one.rows is not None:
        return isinstance(value, dict if one.rows.named else list)
    if kind == "yes":
        return isinstance(value, bool)
    if kind in ("list", "values", "map", "value"):
        return isinstance(value, _TYPES[kind]) and can_write(kind, value)
    if kind == "several":
        return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
    if kind in ("text", "choice"):
        return isinstance(value, str) and bool(value.strip())
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: Mapping[str, type | tuple[type, ...]] = {"list": list, "values": list, "map": dict, "value": (str, int, float)}


def _limits(field: FieldInfo) -> str:
    limits = [
        f"{word} {value:g}"
        for limit in field.metadata
        for name, word in _LIMITS.items()
        if (value := getattr(limit, name, None)) is not None
    ]
    return f"{', '.join(limits).capitalize()}." if limits else ""


def default_words(field: FieldInfo) -> str:
    """The default of an option, in words."""
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
    """The given values, by field name."""
    names = dict(_names(options, options_of_file))
    return {names.get(key, key): value for key, value in options_of_file.items() if key != "type" and value is not None}


def _names(options: tuple[Option, ...], options_of_file: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The field name of each key in the file; of two spellings of an option only the first counts."""
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
    """The problems of options by field name; those of no single field have an empty name."""
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
