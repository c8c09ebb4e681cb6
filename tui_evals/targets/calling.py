"""Calls the user's own code: async functions here, others in a thread of their own; what they stream is read whole."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from typing import Any

from .answers import parse_reply, plain
from .base import Reply, TargetError
from .chat import is_chunk, join_chunks
from .failures import MAX_BODY


async def call(function: Callable[..., Any], values: Sequence[Any], named: Mapping[str, Any], who: str) -> Reply:
    """The reply that a function gives to arguments; what it raises goes to the caller."""
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
    """What a function, or the work with it, comes to: done here if it is async, else in a thread."""
    work = work or function
    given = work() if _is_async(function) else await in_thread(work, abandon)
    return await given if inspect.isawaitable(given) else given


def _is_async(function: Callable[..., Any]) -> bool:
    both = (function, getattr(function, "__call__", None))  # noqa: B004 - the method itself, if it is an object's
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in both)


class _Stream:
    """What a generator gives: pieces of text or of a chat completion, and at its end, as it likes, an object."""

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
        """Nobody waits for it any more, so that it ends at its next piece."""
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
            data = plain(piece)
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
    """What work comes to; a thread of its own, a daemon, lets hung work hold up neither others nor the end."""
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
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=do, daemon=True, name="function target").start()
    try:
        result, problem = await done
    except asyncio.CancelledError:
        abandon()
        raise
    if problem is not None:
        raise problem
    return result
