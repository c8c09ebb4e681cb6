"""The options of an evaluator that a dataset may give: their names, spellings and types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from tui_evals.evaluators.base import Evaluator

OptionKind = Literal["text", "choice", "yes", "whole", "number", "json"]
_KINDS: Mapping[object, OptionKind] = {bool: "yes", int: "whole", float: "number", str: "text"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the name it is written with, every spelling a file may use, and what its model says of it."""

    name: str
    spellings: tuple[str, ...]
    field: FieldInfo


def options_of(kind: type[Evaluator]) -> tuple[Option, ...]:
    """The options of an evaluator that a dataset may give: those it needs, its own, those it shares with others."""
    named = kind.Options.model_fields.items()
    return tuple(_option(*one) for one in sorted(named, key=lambda one: _rank(kind.Options, *one)))


def _rank(model: type[BaseModel], name: str, field: FieldInfo) -> int:
    """The place of an option in the form: the further up it is inherited from, the later it comes."""
    if field.is_required():
        return -1
    return next(number for number, base in enumerate(model.__mro__) if name in get_annotations(base))


def _option(name: str, field: FieldInfo) -> Option:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        spellings = [choice for choice in alias.choices if isinstance(choice, str)]
    else:
        spellings = [name, alias] if isinstance(alias, str) else [name]
    return Option(spellings[0], tuple(dict.fromkeys((*spellings, name))), field)


def option_kind(annotation: object) -> tuple[OptionKind, tuple[str, ...]]:
    """How an option is typed, and what there is to choose from."""
    plain_type = without_none(annotation)
    if get_origin(plain_type) is Literal and all(isinstance(choice, str) for choice in get_args(plain_type)):
        return "choice", get_args(plain_type)
    return _KINDS.get(plain_type, "json"), ()


def without_none(annotation: object) -> object:
    """The type of a value that is given."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return without_none(get_args(annotation)[0])
    if origin in (Union, UnionType):
        rest = [branch for branch in get_args(annotation) if branch is not NoneType]
        return without_none(rest[0]) if len(rest) == 1 else annotation
    return annotation
