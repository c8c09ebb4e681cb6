"""Which tests are stories, which plain `pytest` leaves to `.ci/run`, and which of their cases `.ci/nightly` has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import pytest

WITHOUT_STORIES = "(first or not story)"
_OVER_HTTP = "one_server"
_STARTS = {"run_test", "Popen", "subprocess", "as_process", "at_terminal", "openpty"}
"""The names by which a test, or a helper that it calls, mounts the workbench or starts a process."""


def pytest_configure(config: pytest.Config) -> None:
    """Run the stories too of files and tests that are named on the command line: only all of them take long."""
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        config.option.markexpr = config.option.markexpr.replace(f" and {WITHOUT_STORIES}", "")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a story by what the test and its fixtures start."""
    if not isinstance(item, pytest.Function):
        return
    fixtures = [found[-1].func for found in item._fixtureinfo.name2fixturedefs.values()]
    if _OVER_HTTP in item.fixturenames or any(map(_starts_something, [item.function, *fixtures])):
        item.add_marker(pytest.mark.story)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but some cases of a test, spread evenly, to the night where it has the mark `cases`."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("cases"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one_test in cases.values():
        (count,) = of_one_test[0].get_closest_marker("cases").args
        kept = {at * len(of_one_test) // count for at in range(count)}
        for at, item in enumerate(of_one_test):
            if at not in kept:
                item.add_marker(pytest.mark.nightly)


def _starts_something(function: Callable[..., Any]) -> bool:
    found = _plain(function)
    if found is None or found.__module__ == "tests.conftest":  # what holds for each test says nothing about this one
        return False
    seen, to_read = {found}, [found]
    while to_read:
        starts, called = _read(to_read.pop())
        if starts:
            return True
        to_read += called - seen
        seen |= called
    return False


@functools.cache
def _read(function: FunctionType) -> tuple[bool, frozenset[FunctionType]]:
    """Whether a function names what starts something, and the functions of `tests` that it names."""
    names = set(_names(function.__code__))
    called = set()
    for name in names:
        value = function.__globals__.get(name)
        of_a_module = isinstance(value, ModuleType) and value.__name__.startswith("tests.")
        for each in map(vars(value).get, names) if of_a_module else (value,):
            methods = vars(each).items() if isinstance(each, type) and each.__module__.startswith("tests.") else ()
            candidates = [method for at, method in methods if at in names or at == "__init__"] or [each]
            called |= {plain for candidate in candidates if (plain := _plain(candidate))}
    return not _STARTS.isdisjoint(names), frozenset(called)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _plain(value: Any) -> FunctionType | None:
    """The function of `tests` that this is, without what wraps or binds it."""
    function = value.__func__ if isinstance(value, staticmethod | classmethod | MethodType) else value
    function = inspect.unwrap(function) if isinstance(function, FunctionType) else function
    ours = isinstance(function, FunctionType) and function.__module__.startswith("tests.")
    return function if ours else None
