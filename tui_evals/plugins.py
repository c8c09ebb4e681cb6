"""Extensions of tui_evals: objects that modules of a package declare, and those of installed packages."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from tui_evals.light_records import dataclass

T = TypeVar("T")


class UnusablePlugin(Exception):
    """An extension of an installed package cannot be used; the message names the package and the reason."""


@dataclass(frozen=True, slots=True)
class Plugins(Generic[T]):
    """Extensions by the name of the entry point, and a sentence for each that cannot be used."""

    by_name: Mapping[str, T]
    problems: tuple[str, ...] = ()


def declared(package: str, attribute: str) -> Iterator[object]:
    """The objects that the modules of a package declare under a name, in the order of the modules."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        value = getattr(importlib.import_module(module.name), attribute, None)
        if value is not None:
            yield value


def offered(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of installed packages in a group, without loading them."""
    return _found_on(tuple(sys.path), group)


@functools.lru_cache(maxsize=64)
def _found_on(path: tuple[str, ...], group: str) -> tuple[EntryPoint, ...]:
    """Looked for once where modules are looked for on this path, because to read about every package takes long."""
    return tuple(entry_points(group=group))


def installed(group: str, kind: type[T], what: str, taken: Collection[str] = ()) -> Plugins[T]:
    """Everything installed packages offer in a group; names that are `taken` stay with those who have them."""
    return _offered(group, lambda point: _loaded(point, kind, what), what, taken)


def installed_classes(group: str, base: type[T], what: str) -> Plugins[type[T]]:
    """The classes installed packages offer in a group, all of them made from a base class."""

    def load(point: EntryPoint) -> type[T]:
        value = _loaded(point, object, what)
        if isinstance(value, type) and issubclass(value, base):
            return value
        raise UnusablePlugin(f"{_named(point, what)} is no {base.__name__}")

    return _offered(group, load, what)


def _offered(group: str, load: Callable[[EntryPoint], T], what: str, taken: Collection[str] = ()) -> Plugins[T]:
    by_name: dict[str, T] = {}
    problems: list[str] = []
    for point in offered(group):
        try:
            value = load(point)
        except UnusablePlugin as problem:
            problems.append(str(problem))
            continue
        if point.name in taken:
            problems.append(f"the installed {what} '{point.name}' has the name of a built-in one and is left out")
        else:
            by_name[point.name] = value
    return Plugins(by_name, tuple(problems))


def installed_named(group: str, name: str, kind: type[T], what: str) -> T | None:
    """The extension of an installed package in a group under one name; UnusablePlugin if it cannot be used."""
    point = next((point for point in offered(group) if point.name == name), None)
    return None if point is None else _loaded(point, kind, what)


def _loaded(point: EntryPoint, kind: type[T], what: str) -> T:
    named = _named(point, what)
    try:
        value = point.load()
    except (Exception, SystemExit) as problem:  # report any exception of a foreign package's import
        raise UnusablePlugin(f"{named} cannot be loaded: {str(problem) or type(problem).__name__}") from problem
    if not isinstance(value, kind):
        raise UnusablePlugin(f"{named} is no {kind.__name__}")
    return value


def _named(point: EntryPoint, what: str) -> str:
    return f"the installed {what} '{point.name}' ({point.value})"
