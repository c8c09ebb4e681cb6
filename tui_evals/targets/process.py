"""A child process in a session of its own, heard as it speaks, and ended together with all it started."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from .answers import one_line
from .base import TargetError

_TAIL = 4_000
_PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class Program:
    """What is run, where and with which variables."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: Path

    @property
    def name(self) -> str:
        """How messages call it."""
        return Path(self.argv[0]).name


class Process(asyncio.SubprocessProtocol):
    """A running program; `heard` gets its output piece by piece, `gone` is called after the last one."""

    def __init__(self, program: Program, heard: Callable[[bytes], None], gone: Callable[[], None]) -> None:
        self._program = program
        self._heard = heard
        self._gone = gone
        self._complaints = b""
        self._ended = asyncio.Event()
        self._transport: asyncio.SubprocessTransport

    async def start(self) -> None:
        """Start it, without a shell."""
        program = self._program
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self, *program.argv, env=program.environment, cwd=program.folder, start_new_session=True
            )
        except (OSError, ValueError) as problem:
            message = f"{program.name} cannot be started: {problem}"
            raise TargetError("agentRequestFailed", message) from None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It runs."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """A piece of its output, or of its complaints, of which the end is kept."""
        if fd == 1:
            self._heard(data)
        else:
            self._complaints = (self._complaints + data)[-_TAIL:]

    def connection_lost(self, exc: Exception | None) -> None:
        """It has exited and everything it wrote was heard."""
        self._ended.set()
        self._gone()

    @property
    def input(self) -> asyncio.WriteTransport:
        """Where it reads; that it no longer reads is noticed when it ends."""
        return cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))

    @property
    def status(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._transport.get_returncode()

    @property
    def fate(self) -> str:
        """How it ended, and the last it complained of."""
        code = self.status
        said = "still runs" if code is None else f"ended with status {code}"
        if code is not None and code < 0:
            said = f"was ended by signal {-code}"
        complaint = one_line(self._complaints.decode("utf-8", "replace"))
        return f"{self._program.name} {said}" + (f": {complaint}" if complaint else "")

    def kill(self) -> None:
        """Kill it and everything of its session that still runs."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), signal.SIGKILL)

    async def end(self) -> None:
        """Kill it, and let go of its pipes once it is gone."""
        try:
            self.kill()
            with suppress(TimeoutError):  # what left the session may hold a pipe for as long as it likes
                await asyncio.wait_for(self._ended.wait(), _PATIENCE)
        finally:
            self._transport.close()
