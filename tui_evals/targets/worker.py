"""A module of ours in a process of its own, which answers jobs in JSON lines over its standard input, many at once."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Mapping
from itertools import count
from typing import Any

from tui_evals.interpreter import python_command

Job = Mapping[str, Any]
READY = {"ready": True}
"""Sent by the process once it takes jobs."""
_WORKERS: dict[tuple[str, frozenset[tuple[str, str]]], Worker] = {}


class Worker:
    """The process of one module and environment, shared by the targets that need it and replaced when it dies."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._key = module, frozenset(environment.items())
        self._users = 0
        self._child = _ChildProcess(*self._key)

    @staticmethod
    def joined(module: str, environment: Mapping[str, str]) -> Worker:
        """The worker for these arguments, with one more user; it may still be starting."""
        key = module, frozenset(environment.items())
        worker = _WORKERS.get(key)
        if worker is None:
            worker = _WORKERS[key] = Worker(module, environment)
        worker._users += 1
        return worker

    async def ready(self) -> None:
        """Wait until the process takes jobs, or has died; another takes the place of one that is dead already."""
        child = self._child
        if child.dead or child.loop not in (None, asyncio.get_running_loop()):
            child.end()
            child = self._child = _ChildProcess(*self._key)
        await child.ready()

    async def do(self, job: Job) -> dict[str, Any] | None:
        """The reply of the process to a job; None if it dies before."""
        await self.ready()
        return await self._child.do(job)

    def leave(self) -> None:
        """Remove one user; the last one ends the process."""
        self._users -= 1
        if not self._users:
            del _WORKERS[self._key]
            self._child.end()


class _ChildProcess(asyncio.Protocol):
    """One process and its open jobs."""

    def __init__(self, module: str, environment: frozenset[tuple[str, str]]) -> None:
        self.dead = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any] | None]] = {}
        self._read = bytearray()
        self._connected: asyncio.Task[asyncio.WriteTransport] | None = None
        self._ready = asyncio.Event()
        self._socket, child_socket = socket.socketpair()
        with child_socket:
            self._process = subprocess.Popen(
                python_command("-m", module),
                stdin=child_socket.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C is for the run, which lets open jobs finish.
            )

    async def ready(self) -> None:
        await self._transport()
        await self._ready.wait()

    async def _transport(self) -> asyncio.WriteTransport:
        if self._connected is None:
            self.loop = asyncio.get_running_loop()
            self._connected = self.loop.create_task(self._connect())
        return await asyncio.shield(self._connected)

    async def do(self, job: Job) -> dict[str, Any] | None:
        transport = await self._transport()
        if self.dead:
            return None
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        transport.write(json_line({"number": number, **job}))
        try:
            done = await answer
        finally:
            del self._waiting[number]
            if answer.cancelled() and not self.dead:
                transport.write(json_line({"cancel": number}))
        return done

    async def _connect(self) -> asyncio.WriteTransport:
        transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=self._socket)
        return transport

    def data_received(self, data: bytes) -> None:
        """Hand each whole line to the job it answers."""
        self._read += data
        if b"\n" not in data:
            return
        *lines, self._read = self._read.split(b"\n")
        for line in lines:
            done: dict[str, Any] = json.loads(line)
            if done == READY:
                self._ready.set()
                continue
            answer = self._waiting.get(done["number"])
            if answer is not None and not answer.done():
                answer.set_result(done)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell all waiting jobs that no answer will come."""
        self.dead = True
        self._ready.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result(None)

    def end(self) -> None:
        """End the process; it has nothing to save."""
        self.dead = True
        if self._connected is not None and self._connected.done() and not self._connected.cancelled():
            self._connected.result().abort()
        else:
            self._socket.close()
        self._process.kill()
        self._process.wait()


def json_line(value: object) -> bytes:
    """A line of JSON; any mapping is an object."""
    return _compact(value).encode() + b"\n"


_compact = json.JSONEncoder(separators=(",", ":"), default=dict).encode
