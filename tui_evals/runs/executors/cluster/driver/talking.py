"""The line to a worker: straight where it can be reached, through the scheduler where it cannot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tui_evals.runs.executors.cluster.hidden import hidden
from tui_evals.runs.executors.cluster.wire import OP, Letter

from .desk import Worker

if TYPE_CHECKING:
    from distributed import Client

_STRAIGHT = 4.0
"""Seconds to try whether a worker can be reached from here."""
_ANSWER = 10.0


class Gone(Exception):
    """The worker has ended its session."""


class Line:
    """Letters to one session."""

    def __init__(self, client: Client, topic: str, worker: Worker) -> None:
        self._client = client
        self._worker = worker
        self._address = {"topic": topic, "session": worker.name}
        self._straight: bool | None = None

    async def exchange(self, letter: Letter) -> Letter:
        """The answer to a letter; OSError or TimeoutError while it cannot be reached, Gone when it has ended."""
        if self._straight is None:
            try:
                async with asyncio.timeout(_STRAIGHT):
                    answer = await self._directly(letter)
                self._straight = True
                return answer
            except (OSError, TimeoutError):
                self._straight = False
        async with asyncio.timeout(_ANSWER):
            return await (self._directly(letter) if self._straight else self._relayed(letter))

    async def _directly(self, letter: Letter) -> Letter:
        ask = getattr(self._client.rpc(self._worker.address), OP)
        return _heard(await ask(**self._address, letter=hidden(letter)))

    async def _relayed(self, letter: Letter) -> Letter:
        message = {"op": OP, **self._address, "letter": hidden(letter)}
        return _heard(await self._client.scheduler.proxy(msg=message, worker=self._worker.address))


def _heard(answer: Any) -> Letter:
    if answer.get("gone"):
        raise Gone
    letter: Letter = answer
    return letter
