"""Asking a person at the terminal whether a generation goes on, in a way that Ctrl-C ends at once."""

from __future__ import annotations

import asyncio
import os
import sys

from .output import warn

_ANSWERS = {"": True, "y": True, "yes": True, "n": False, "no": False}


class Question:
    """Asks at the terminal while other things go on; whoever interrupts says no to what is asked then and later."""

    def __init__(self) -> None:
        self._interrupted = asyncio.Event()

    def interrupt(self) -> None:
        """Ask nothing any more."""
        self._interrupted.set()

    async def yes(self, asked: str) -> bool:
        """Whether a person agrees; the end of the input is a no."""
        while not self._interrupted.is_set():
            warn(f"{asked} [Y/n]")
            line = await self._line()
            if line is None:
                return False
            if (word := line.strip().lower()) in _ANSWERS:
                return _ANSWERS[word]
            warn("answer y or n")
        return False

    async def _line(self) -> str | None:
        """The next line a person types; None when there is none to come."""
        loop, typed = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), typed.set)
        waiting = [asyncio.create_task(event.wait()) for event in (typed, self._interrupted)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(sys.stdin.fileno())
            for task in waiting:
                task.cancel()
        if self._interrupted.is_set():
            return None
        return os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace") or None
