"""`setup` and `teardown` of the user's own code, each called once for all targets of a run that need it."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tui_evals.text.tracebacks import last_frames

from .answers import one_line
from .base import ConfigurationError
from .calling import run

_TEARDOWN_SECONDS = 60.0
_LIFETIMES: dict[tuple[int, int], Lifetime] = {}


class Lifetime:
    """What a module or an object does before its first question and after its last, while targets use it."""

    def __init__(self, key: tuple[int, int], owner: object, name: str) -> None:
        self._key = key
        self._owner = owner
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._users = 0
        self._setup: asyncio.Task[Any] | None = None

    @staticmethod
    def joined(owner: object, name: str) -> Lifetime:
        """The lifetime of a module or an object, with one more user; `name` is for messages."""
        key = id(asyncio.get_running_loop()), id(owner)
        lifetime = _LIFETIMES.get(key)
        if lifetime is None:
            lifetime = _LIFETIMES[key] = Lifetime(key, owner, name)
        lifetime._users += 1
        return lifetime

    async def begin(self) -> None:
        """Wait until it is set up; ConfigurationError says why it cannot be."""
        if self._setup is None:
            self._setup = self._loop.create_task(self._call("setup"))
        try:
            await asyncio.shield(self._setup)
        except (Exception, SystemExit) as problem:  # whatever the user's code raises keeps every question from it
            raise failed(f"{self._name}: setup", problem) from None

    async def leave(self) -> None:
        """One user less; after the last one it is torn down, unless it never was set up."""
        self._users -= 1
        if self._users:
            return
        del _LIFETIMES[self._key]
        setup = self._setup
        if setup is None or not setup.done():
            if setup is not None:
                setup.cancel()
            return
        if setup.cancelled() or setup.exception() is not None:
            return
        try:
            async with asyncio.timeout(_TEARDOWN_SECONDS):
                await self._call("teardown")
        except (Exception, SystemExit) as problem:  # the run is over, so that it can be said and no more
            sys.stderr.write(f"{failed(f'{self._name}: teardown', problem)}\n{last_frames(problem)}\n")

    async def _call(self, word: str) -> None:
        if (function := _own(self._owner, word)) is not None:
            await run(function)


def has_lifetime(owner: object) -> bool:
    """Whether there is anything to do before the first question or after the last."""
    return any(_own(owner, word) is not None for word in ("setup", "teardown"))


def failed(what: str, problem: BaseException) -> ConfigurationError:
    """A step of the user's own code that no question can be put without, and where it failed."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f", {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    raised = f"{type(problem).__name__}: {problem}".removesuffix(": ")
    return ConfigurationError(one_line(f"{what} failed with {raised}{where}"))


def _own(owner: object, word: str) -> Callable[[], Any] | None:
    """The function of a module or object, if it needs no argument; one that a module imports is another's."""
    function = getattr(owner, word, None)
    if not callable(function):
        return None
    if isinstance(owner, ModuleType) and getattr(function, "__module__", None) != owner.__name__:
        return None
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return None
    return function  # type: ignore[no-any-return]
