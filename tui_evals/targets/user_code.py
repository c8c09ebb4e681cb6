"""Calls your own code for targets, and keeps a copy of approved code to show later changes."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import inspect
import os
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tui_evals.files import make_private_folder, open_private
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes
from tui_evals.targets.answers import one_line, parse_reply
from tui_evals.targets.base import ConfigurationError, Reply, TargetError
from tui_evals.targets.chat import is_chunk, join_chunks
from tui_evals.targets.failures import MAX_BODY
from tui_evals.targets.foreign_messages import plain_data
from tui_evals.targets.sources import UNREADABLE, Manifest
from tui_evals.text.measures import counted
from tui_evals.text.names import last_frames


async def call(function: Callable[..., Any], values: Sequence[Any], named: Mapping[str, Any], who: str) -> Reply:
    """The reply of a function for these arguments; its exceptions go to the caller."""
    began = time.perf_counter()
    stream = _Stream(who, began)

    def work() -> Any:
        given = function(*values, **named)
        return stream.read(given) if isinstance(given, Iterator) else given

    given = await run(function, work, stream.abandon)
    if isinstance(given, AsyncIterable):
        await stream.read_async(given)
    elif isinstance(given, Iterator):
        await in_thread(lambda: stream.read(given), stream.abandon)
    elif given is not stream:
        return replace(parse_reply(given, who), seconds=time.perf_counter() - began)
    return replace(stream.reply(), seconds=time.perf_counter() - began, first_token_seconds=stream.first_token_seconds)


async def run(
    function: Callable[..., Any], work: Callable[[], Any] | None = None, abandon: Callable[[], None] = lambda: None
) -> Any:
    """The result of a function, or of work with it: async code runs here, other code in a thread."""
    work = work or function
    given = work() if _is_async(function) else await in_thread(work, abandon)
    return await given if inspect.isawaitable(given) else given


def _is_async(function: Callable[..., Any]) -> bool:
    both = (function, getattr(function, "__call__", None))  # noqa: B004 - the method itself, if it is an object's
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in both)


class _Stream:
    """The pieces of a generator: text or chat completion chunks, and optionally an object at its end."""

    def __init__(self, who: str, began: float) -> None:
        self.first_token_seconds: float | None = None
        self._who = who
        self._began = began
        self._pieces: list[str] = []
        self._chunks: list[Mapping[str, Any]] = []
        self._length = 0
        self._last: Any = None
        self._is_abandoned = False

    def abandon(self) -> None:
        """End it at its next piece, because its caller stopped waiting."""
        self._is_abandoned = True

    def read(self, pieces: Iterator[Any]) -> _Stream:
        """Read a generator, or any iterator, to its end."""
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                self._last = self._last if end.value is None else end.value
                return self
            if self._is_abandoned:
                getattr(pieces, "close", lambda: None)()
                return self
            self._add(piece)

    async def read_async(self, pieces: AsyncIterable[Any]) -> None:
        """Read an async generator, or anything like it, to its end."""
        async with AsyncExitStack() as stack:
            if isinstance(pieces, AsyncGenerator):
                await stack.enter_async_context(aclosing(pieces))
            async for piece in pieces:
                self._add(piece)

    def _add(self, piece: Any) -> None:
        text = piece
        if not isinstance(piece, str):
            data = plain_data(piece)
            if not is_chunk(data):
                self._last = piece
                return
            self._chunks.append(data)
            text = "".join(str((choice.get("delta") or {}).get("content") or "") for choice in data["choices"])
        else:
            self._pieces.append(piece)
        self._length += len(text)
        if self._length > MAX_BODY:
            message = f"{self._who} streamed more than {MAX_BODY // 1_000_000} MB, which was dropped"
            raise TargetError("agentResponseUnparseable", message)
        if text and self.first_token_seconds is None:
            self.first_token_seconds = time.perf_counter() - self._began

    def reply(self) -> Reply:
        """The reply that all of it comes to."""
        text = "".join(self._pieces)
        if not self._chunks:
            return parse_reply(text if self._last is None else self._last, self._who, text)
        try:
            return parse_reply(join_chunks(self._chunks), self._who)
        except ValueError as problem:
            message = f"{self._who} gave no answer that can be used: {problem}"
            raise TargetError("agentResponseUnparseable", message) from None


async def in_thread(work: Callable[[], Any], abandon: Callable[[], None] = lambda: None) -> Any:
    """The result of `work`, run in a daemon thread of its own, so that hung work blocks neither others nor the exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, Exception | None]] = loop.create_future()

    def settle(result: Any, problem: Exception | None) -> None:
        if not done.done():
            done.set_result((result, problem))

    def do() -> None:
        result: Any = None
        problem: Exception | None = None
        try:
            result = work()
        except Exception as raised:  # handed over to the one who waits
            problem = raised
        except BaseException as raised:  # what would end the whole run, were it raised there
            problem = RuntimeError(f"it raised {type(raised).__name__}").with_traceback(raised.__traceback__)
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=copy_context().run, args=(do,), daemon=True, name="function target").start()
    try:
        result, problem = await done
    except asyncio.CancelledError:
        abandon()
        raise
    if problem is not None:
        raise problem
    return result


_TEARDOWN_SECONDS = 60.0
_LIFETIMES: dict[tuple[int, int], Lifetime] = {}


class Lifetime:
    """The setup before a module's or object's first question and the teardown after its last."""

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
        except (Exception, SystemExit) as problem:  # any exception of the user's code fails every question
            raise failed(f"{self._name}: setup", problem) from None

    async def leave(self) -> None:
        """Remove one user; after the last one the teardown runs, if the setup did."""
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
    """A function of a module or object that needs no argument; functions that a module imports do not count."""
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


_LARGEST = 2**18
_MOST = 2**26
_FOLDER = "agreed"
_UNCHANGED_AROUND = 3
_MOST_LINES = 400


@dataclass(frozen=True, slots=True)
class CodeReview:
    """The code of a permission, for review."""

    files: tuple[str, ...]
    """The names of the files that would run."""
    uncovered: tuple[str, ...]
    is_sealed: bool
    is_new: bool
    """Whether no earlier approval is for the same action with other code."""
    diff: tuple[str, ...] = ()
    """The lines of a unified diff since the last yes."""


def keep_texts(manifest: Manifest, folder: Path) -> None:
    """Store the texts of a manifest, deleting the oldest ones if there is no room."""
    place = folder / _FOLDER
    for text in manifest.texts.values():
        file = place / hashlib.sha256(text).hexdigest()
        if len(text) <= _LARGEST and not file.exists():
            make_private_folder(place, folder)
            with os.fdopen(open_private(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, folder), "wb") as stream:
                stream.write(text)
    _make_room(place)


def _make_room(place: Path) -> None:
    if not place.is_dir():
        return
    kept = [(file.stat().st_mtime, file.stat().st_size, file) for file in place.iterdir()]
    total = sum(size for _, size, _ in kept)
    for _, size, file in sorted(kept):
        if total <= _MOST:
            return
        file.unlink(missing_ok=True)
        total -= size


def review_of(manifest: Manifest, before: Mapping[str, str] | None, folder: Path) -> CodeReview:
    """The review of a manifest; `before` has the files of the last approval, or None."""
    now = dict(manifest.files)
    lines = [] if before is None else list(_diff(manifest, before, now, folder / _FOLDER))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… and {counted(len(lines) - _MOST_LINES, 'more line')}; read the files themselves"]
    return CodeReview(tuple(now), manifest.uncovered, manifest.is_sealed, before is None, tuple(lines))


def _diff(manifest: Manifest, before: Mapping[str, str], now: Mapping[str, str], place: Path) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) == now.get(name):
            continue
        old = [] if name not in before else _kept_lines(place, before[name])
        new = [] if name not in now else _lines(manifest.texts.get(name)) if now[name] != UNREADABLE else None
        names = name if name in before else "nothing", name if name in now else "nothing"
        if old is None or new is None:
            yield from (f"--- {names[0]}", f"+++ {names[1]}", "  what it holds cannot be shown; read the file itself")
            continue
        yield from (
            line.removesuffix("\n") for line in difflib.unified_diff(old, new, *names, n=_UNCHANGED_AROUND, lineterm="")
        )


def _kept_lines(place: Path, digest: str) -> list[str] | None:
    with suppress(OSError):
        return _lines(read_bytes(place / digest, follow_out=True))
    return None


def _lines(content: bytes | None) -> list[str] | None:
    """The lines of a text; None for binary content."""
    if content is None or b"\0" in content or len(content) > _LARGEST:
        return None
    return content.decode("utf-8", "replace").splitlines()
