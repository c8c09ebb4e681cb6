"""A program of the user's as a target: `command:ARGV`, one process for each turn or one for all, in JSON lines."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tui_evals.light_records import dataclass
from tui_evals.text import strictjson

from .answers import last_question, one_line, parse_reply
from .base import ConfigurationError, RecorderAddress, Reply, Request, Target, TargetConfig, TargetError, TargetKind
from .function import request_data
from .permissions import target_code
from .sources import Manifest, sealed_command

_ERROR_TAIL = 4_000
_END_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Program:
    """The program to run, where, and with which variables."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: Path

    @property
    def name(self) -> str:
        """The name in messages."""
        return Path(self.argv[0]).name

    def recorded_at(self, recorder: RecorderAddress | None) -> Program:
        """The program with the variables of a recorder."""
        if recorder is None:
            return self
        merged = {**self.environment, **recorder.environment}
        return replace(self, environment={name: value for name, value in merged.items() if value is not None})


class Process(asyncio.SubprocessProtocol):
    """A running program in a session of its own; `on_output` gets each piece of output, `on_exit` is called last."""

    def __init__(self, program: Program, on_output: Callable[[bytes], None], on_exit: Callable[[], None]) -> None:
        self._program = program
        self._on_output = on_output
        self._on_exit = on_exit
        self._errors = b""
        self._ended = asyncio.Event()
        self._transport: asyncio.SubprocessTransport

    async def start(self) -> None:
        """Start it, without a shell."""
        program = self._program
        starting = asyncio.ensure_future(
            asyncio.get_running_loop().subprocess_exec(
                lambda: self, *program.argv, env=program.environment, cwd=program.folder, start_new_session=True
            )
        )
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # asyncio would wait here for processes that the program has started and that hold its pipes
            with suppress(OSError, ValueError):
                await starting
                await self.end()
            raise
        except (OSError, ValueError) as problem:
            message = f"{program.name} cannot be started: {problem}"
            raise TargetError("agentRequestFailed", message) from None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called once it runs."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Pass on output, and keep the end of the errors."""
        if fd == 1:
            self._on_output(data)
        else:
            self._errors = (self._errors + data)[-_ERROR_TAIL:]

    def connection_lost(self, exc: Exception | None) -> None:
        """Called once it has exited and all its output was read."""
        self._ended.set()
        self._on_exit()

    @property
    def input(self) -> asyncio.WriteTransport:
        """Its standard input."""
        return cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))

    @property
    def status(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._transport.get_returncode()

    @property
    def exit_summary(self) -> str:
        """How it ended, with the end of its errors."""
        code = self.status
        ending = "still runs" if code is None else f"ended with status {code}"
        if code is not None and code < 0:
            ending = f"was ended by signal {-code}"
        error = one_line(self._errors.decode("utf-8", "replace"))
        return f"{self._program.name} {ending}" + (f": {error}" if error else "")

    def kill(self) -> None:
        """Kill it and everything of its session that still runs."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), signal.SIGKILL)

    async def end(self) -> None:
        """Kill it, and close its pipes once it has ended."""
        try:
            self.kill()
            with suppress(TimeoutError):  # what left the session may hold a pipe for as long as it likes
                await asyncio.wait_for(self._ended.wait(), _END_SECONDS)
        finally:
            self._transport.close()


MAX_OUTPUT = 16 * 2**20


def command_target(
    config: TargetConfig, environment: Mapping[str, str], root: Path, code: Manifest | None = None
) -> Target:
    """The target of a command line, limited to the code that was approved."""
    program = _find_program(config.model.removeprefix("command:"), environment, root, code)
    params = dict(config.params)
    protocol = params.pop("protocol", "text")
    if protocol == "jsonl":
        return JsonLines(program, params)
    if protocol != "text" or params:
        reason = f"knows the protocol 'text' or 'jsonl', not {protocol!r}" if protocol != "text" else "takes no params"
        raise ConfigurationError(f"the target {config.name}: a command {reason}. Fix its params")
    return Command(program)


def _find_program(line: str, environment: Mapping[str, str], root: Path, code: Manifest | None) -> Program:
    try:
        argv = shlex.split(line)
    except ValueError as problem:
        raise ConfigurationError(f"command:{line} cannot be split into words: {str(problem).lower()}") from None
    if not argv:
        raise ConfigurationError("command: names no program; write command:PROGRAM ARGUMENTS")
    in_folder = os.sep in argv[0]
    path = shutil.which(root / argv[0] if in_folder else argv[0], path=environment.get("PATH", os.defpath))
    if path is None:
        where = f"{root}" if in_folder else "the folders of PATH"
        raise ConfigurationError(f"command:{line}: there is no program {argv[0]} in {where} that can be run")
    return Program(*sealed_command((os.path.abspath(path), *argv[1:]), environment, root, code), root)


class Command:
    """Starts one process for every turn."""

    is_shared = False

    def __init__(self, program: Program) -> None:
        self._program = program

    async def ask(self, request: Request) -> Reply:
        """The output of the program for the question; cancelling kills it."""
        output = bytearray()
        done = asyncio.Event()

        def collect(data: bytes) -> None:
            output.extend(data)
            if len(output) > MAX_OUTPUT:
                process.kill()
                done.set()

        process = Process(self._program.recorded_at(request.recorder), collect, done.set)
        await process.start()
        try:
            process.input.write(last_question(request.messages).encode("utf-8", "replace"))
            process.input.write_eof()
            await done.wait()
        finally:
            await process.end()
        if len(output) > MAX_OUTPUT:
            raise _too_much_output(self._program)
        if process.status != 0:
            raise TargetError("agentRequestFailed", process.exit_summary)
        try:
            return Reply(text=output.decode("utf-8").removesuffix("\n").removesuffix("\r"))
        except UnicodeDecodeError:
            message = f"{self._program.name} wrote something that is not UTF-8 text"
            raise TargetError("agentResponseUnparseable", message) from None

    async def close(self) -> None:
        """Nothing to close."""


class JsonLines:
    """Uses one process for all turns, started with the first one and again if it has ended."""

    def __init__(self, program: Program, params: Mapping[str, Any]) -> None:
        self._program = program
        self._params = params
        self._starting = asyncio.Lock()
        self._worker: _Worker | None = None

    async def ask(self, request: Request) -> Reply:
        """The reply with the id of the request."""
        async with self._starting:
            if self._worker is None or not self._worker.alive:
                await self.close()
                worker = _Worker(self._program.recorded_at(request.recorder))
                await worker.start()
                self._worker = worker
            worker = self._worker
        params = {name: value for name, value in request.params.items() if name != "protocol"}
        question = {**request_data(request), "params": {**self._params, **params}}
        if request.recorder is not None:
            question["headers"] = dict(request.recorder.headers)
        reply = await worker.ask(question)
        if "error" in reply:
            message = f"{self._program.name}: {one_line(str(reply['error']))}"
            raise TargetError("agentRequestFailed", message, retryable=reply.get("retryable") is True)
        return parse_reply({key: value for key, value in reply.items() if key != "id"}, self._program.name)

    async def close(self) -> None:
        """End the process."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end()


class _Worker:
    """A process that answers line by line, and the requests that wait for its answers."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._process = Process(program, self._read_lines, self._on_exit)
        self._waiting: dict[int, asyncio.Future[dict[str, Any] | TargetError]] = {}
        self._rest = bytearray()
        self._last_number = 0
        self._answered = 0
        self._problem: TargetError | None = None

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._problem is None

    async def start(self) -> None:
        """Start the process."""
        await self._process.start()

    async def end(self) -> None:
        """End the process; requests that wait fail."""
        self._give_up(TargetError("agentRequestFailed", f"{self._program.name} was ended", retryable=True))
        await self._process.end()

    async def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The object that answers a question."""
        if self._problem is not None:
            raise self._problem
        self._last_number += 1
        number, answered = self._last_number, self._answered
        reply: asyncio.Future[dict[str, Any] | TargetError] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        try:
            self._process.input.write(json.dumps({"id": number, **question}, default=str).encode() + b"\n")
            answer = await reply
        except asyncio.CancelledError:
            # A process that answered no call while this one waited hangs; the next call gets a new one.
            if self._answered == answered:
                message = f"{self._program.name} did not answer in time and was stopped"
                self._give_up(TargetError("agentTimeout", message, retryable=True))
            raise
        finally:
            self._waiting.pop(number, None)
        if isinstance(answer, TargetError):
            raise answer
        return answer

    def _read_lines(self, data: bytes) -> None:
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = bytes(self._rest + end)
            self._rest.clear()
            if line.strip() and self.alive:
                self._answer(line)
        self._rest += rest
        if len(self._rest) > MAX_OUTPUT:
            self._give_up(_too_much_output(self._program))

    def _answer(self, line: bytes) -> None:
        try:
            reply = strictjson.loads(line.decode("utf-8"))
        except ValueError:
            reply = None
        number = reply.get("id") if isinstance(reply, dict) else None
        if not isinstance(reply, dict) or type(number) is not int or not 0 < number <= self._last_number:
            start = one_line(line[:100].decode("utf-8", "replace"))
            message = f"{self._program.name} wrote a line that is no JSON object with the id of a request: {start}"
            self._give_up(TargetError("agentResponseUnparseable", message))
            return
        self._answered += 1
        waiting = self._waiting.pop(number, None)  # no call waits after a timeout or a second answer
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def _on_exit(self) -> None:
        message = f"{self._process.exit_summary}; it has to answer every request before it ends"
        self._give_up(TargetError("agentRequestFailed", message, retryable=True))

    def _give_up(self, problem: TargetError) -> None:
        """Kill the process and fail all requests that wait."""
        if self._problem is not None:
            return
        self._problem = problem
        self._process.kill()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(problem)


def _too_much_output(program: Program) -> TargetError:
    return TargetError("agentResponseUnparseable", f"{program.name} wrote more than {MAX_OUTPUT // 2**20} MiB")


KIND = TargetKind(
    form="command:ARGV",
    open=lambda config, context: command_target(
        config, context.environment, context.root, target_code(config, context.environment, context.root)
    ),
)
