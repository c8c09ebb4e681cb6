"""The steps of editing evaluators: those of all units, and those of one item or turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .layout import Path
from .paths import CannotEdit, Data, at, drop, put, unit_at
from .problems import shown
from .resolve import SYSTEM_DEFAULTS

DEFAULTS: Path = ("default_evaluators",)


def add_evaluator(data: Data, where: Path, key: str, options: Mapping[str, Any]) -> Data:
    """An evaluator more at the end; the first one written to the dataset keeps those that judged until now."""
    own = _own(data, where)
    if key in own:
        raise CannotEdit(f"'{key}' is here already; give a second one a name of its own, with its evaluator as type")
    return put(data, _map(where), {**own, key: dict(options)})


def override(data: Data, unit_path: Path, key: str, options: Mapping[str, Any]) -> Data:
    """The evaluator written out on an item or turn, to be changed there; unchanged where it is already."""
    return data if key in _own(data, unit_path) else add_evaluator(data, unit_path, key, options)


def remove_evaluator(data: Data, where: Path, key: str) -> Data:
    """Without one of the evaluators written here; an inherited one can only be replaced."""
    own = _own(data, where)
    if key not in own:
        how = "" if where == DEFAULTS else "; switch to replace to judge without what is inherited"
        raise CannotEdit(f"'{key}' is not written on {_called(where)}{how}")
    rest = {name: options for name, options in own.items() if name != key}
    if rest or where == DEFAULTS or _replaces(data, where):
        return put(data, _map(where), rest)
    return _without(data, where)


def set_option(data: Data, where: Path, key: str, name: str, value: Any) -> Data:
    """An option of an evaluator written here; None takes it away."""
    own = _own(data, where)
    if key not in own:
        raise CannotEdit(f"'{key}' is not written on {_called(where)}; add it there before you change its options")
    if not isinstance(own[key], dict):
        raise CannotEdit(f"the options of '{key}' are no object; mend them in the file")
    if value is not None:
        options = {**own[key], name: value}
    elif name in own[key]:
        options = {option: given for option, given in own[key].items() if option != name}
    else:
        return data
    return put(data, _map(where), {**own, key: options})


def toggle_mode(data: Data, unit_path: Path) -> Data:
    """Between extending the defaults and replacing them; what then says nothing is not kept."""
    own = _own(data, unit_path)
    if _replaces(data, unit_path):
        return drop(data, (*unit_path, "evaluators_mode")) if own else _without(data, unit_path)
    return put(put(data, _map(unit_path), own), (*unit_path, "evaluators_mode"), "replace")


def _map(where: Path) -> Path:
    return where if where == DEFAULTS else (*where, "evaluators")


def _own(data: Data, where: Path) -> Data:
    """The evaluators written at a place; of the dataset, those of the house where it has none of its own."""
    if where != DEFAULTS and "turns" in unit_at(data, where):
        raise CannotEdit("the evaluators of a conversation belong to its turns; choose the turn")
    own = at(data, _map(where))
    if own is None:
        return {key: dict(options) for key, options in SYSTEM_DEFAULTS.items()} if where == DEFAULTS else {}
    if not isinstance(own, dict):
        raise CannotEdit(f"{shown(_map(where))} is no object; mend it in the file")
    return own


def _replaces(data: Data, path: Path) -> bool:
    unit = unit_at(data, path)
    return "evaluators" in unit and unit.get("evaluators_mode") == "replace"


def _without(data: Data, path: Path) -> Data:
    return drop(drop(data, (*path, "evaluators")), (*path, "evaluators_mode"))


def _called(where: Path) -> str:
    return "the dataset" if where == DEFAULTS else "the turn" if "turns" in where else "the item"
