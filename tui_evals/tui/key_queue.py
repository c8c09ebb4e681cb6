"""Handles one key at a time: over a slow line several arrive at once, and each must meet what the last one made."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from textual.app import App
from textual.events import Key, Paste
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import Widget

from tui_evals.tui.widgets.lines import MOVES, Lines

_PATIENCE = 1.0
_GLANCE = 0.002
Forward = Callable[[Key | Paste], Awaitable[None]]


class KeyQueue:
    """Hands on what is typed, each key once all is done that the one before it began."""

    def __init__(self, app: App[Any], forward: Forward, after: Callable[[], None]) -> None:
        self._app = app
        self._forward = forward
        self._after = after
        self._typed: asyncio.Queue[Key | Paste] = asyncio.Queue()
        self.idle = asyncio.Event()
        """Set while nothing that was typed waits."""
        self.idle.set()

    def take(self, event: Key | Paste) -> None:
        """Somebody has typed."""
        self.idle.clear()
        self._typed.put_nowait(event)

    async def work(self) -> None:
        """Hand on keys for as long as the app goes on."""
        following: Key | Paste | None = None
        while True:
            event = following or await self._typed.get()
            before, stack = set(self._app.workers), self._app.screen_stack
            focused = self._app.focused
            await self._forward(event)
            following = None if self._typed.empty() else self._typed.get_nowait()
            if _is_repeat(event, following, focused):
                continue
            await self._settled(before, focused, stack)
            if following is None and self._typed.empty():
                if self._app.is_running:
                    self._after()
                self.idle.set()

    async def _settled(self, before: set[Any], focused: Widget | None, stack: Sequence[Screen[Any]]) -> None:
        """Wait for what a key began: messages, a dialog that an action is about to show, and the next picture.

        A key that leaves a dialog lets the action go on that had asked, perhaps to another one."""
        app, screen = self._app, self._app.screen
        await wait_until_handled(_concerned(app))
        goes_on = stack[-1] not in app.screen_stack
        if goes_on:
            screen = stack[-2]
        begun = [worker for worker in app.workers if worker.group == "acts" and (goes_on or worker not in before)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while any(worker.is_running for worker in begun) and app.screen is screen:
                    await asyncio.sleep(_GLANCE)
        if app.is_running and app.focused is not focused:
            await _drawn(app.screen)
            await wait_until_handled(_concerned(app))


def _is_repeat(event: Key | Paste, following: Key | Paste | None, focused: Widget | None) -> bool:
    """Whether a key comes again that only moves in a list: it need not wait, or the list would go on after its end."""
    if not isinstance(event, Key) or not isinstance(following, Key) or not isinstance(focused, Lines):
        return False
    return event.key == following.key and event.key in MOVES


def _concerned(app: App[Any]) -> list[MessagePump]:
    """What has the keys and what is around it, from the inside out."""
    return list(app.focused.ancestors_with_self if app.focused else [app.screen, app])


async def wait_until_handled(nodes: Iterable[MessagePump]) -> None:
    """Wait until these have handled what was sent to them, and what that made them send to themselves."""
    for node in nodes:
        for _ in range(2):
            done = asyncio.Event()
            if not node.call_later(done.set):
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await done.wait()


async def _drawn(screen: Screen[Any]) -> None:
    """Wait for the next picture, because a pane that was just brought in front has no rows before it."""
    done = asyncio.Event()
    screen.call_after_refresh(done.set)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            await done.wait()
