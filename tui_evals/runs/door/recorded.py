"""An agent as a target whose model calls are recorded."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from tui_evals.targets.base import Reply, Request, Target, TargetConfig, TargetError

from .server import Attempt, Door


class RecordedAgent:
    """Asks an agent, and puts what it asked meanwhile into its reply."""

    keeps_time = True

    def __init__(self, agent: Target, config: TargetConfig, door: Door) -> None:
        self._agent = agent
        self._config = config
        self.door = door
        self._is_shared = getattr(agent, "is_shared", True)
        """Whether one process answers many questions."""
        self._alone = asyncio.Lock()

    async def ask(self, request: Request) -> Reply:
        """The reply of the agent with its calls; Unavailable where the model behind it cannot be asked."""
        if not self._is_shared or self.door.is_attributed:
            return await self._ask(request)
        async with self._alone:  # until a call says which question it is for
            return await self._ask(request)

    async def _ask(self, request: Request) -> Reply:
        async with self.door.attempt(request, shared=self._is_shared) as (attempt, address):
            reply = await self._within_time(attempt, replace(request, recorder=address))
            return attempt.recording.reply(reply)

    async def _within_time(self, attempt: Attempt, request: Request) -> Reply:
        """The agent's own reply within its timeout, which leaves out the time that it waits for models."""
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._agent.ask(request))
        given_up = loop.create_task(attempt.interrupted.wait())
        began, limit = loop.time(), self._config.timeout
        try:
            while not work.done() and not given_up.done():
                left = began + limit + attempt.in_models - loop.time()
                if left <= 0:
                    message = f"no answer within {limit:g} s, the time that models took left out"
                    raise TargetError("agentTimeout", message, retryable=True)
                await asyncio.wait({work, given_up}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if attempt.reason is not None:
                raise attempt.reason
            return await work
        finally:
            for task in (work, given_up):
                task.cancel()
            with suppress(asyncio.CancelledError, TargetError):
                await work

    async def close(self) -> None:
        """Close the agent and the server."""
        await self._agent.close()
        await self.door.close()
