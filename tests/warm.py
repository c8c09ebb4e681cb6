"""Processes of the product that need not import it first, which is most of what a short one costs.

One process imports everything once and forks: what it forks has its own id, folder, environment, streams, terminal,
signals and end, as if it had been started from nothing. Only what is imported, when and from where is not as it would
be: the tests of that start an interpreter of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_READ_AT_START = ("PYTHON", "LC_", "LANG", "TEXTUAL_", "ESCDELAY")
"""How variables begin that an interpreter or a library reads once, when it starts."""
_STILL = {"TEXTUAL_ANIMATIONS": "none"}
_LARGEST = 1 << 17
_NUMBER = struct.Struct("i")
_ONE_BY_ONE = threading.RLock()

COLD = subprocess.Popen
"""What starts an interpreter that imports everything itself."""


class Popen(COLD[Any]):
    """A process as `subprocess` starts it, forked from the warm one where its command is that of the product."""

    _end: End | None = None

    def _execute_child(self, args: Any, *given: Any) -> None:
        executable, prepare, _, kept, folder, environment, _, _, shell, *streams = given[:15]
        arguments = None if executable or prepare or kept or shell else arguments_of(args)
        environment = dict(os.environ if environment is None else environment)
        if arguments is None or not begins_as_usual(environment):
            super()._execute_child(args, *given)  # type: ignore[misc]
            return
        sys.audit("subprocess.Popen", args[0], args, folder, environment)
        child_in, _, _, child_out, _, child_err = streams
        used = [number if stream == -1 else stream for number, stream in enumerate((child_in, child_out, child_err))]
        self.pid, self._end = fork(arguments, folder or os.getcwd(), environment, used, session=given[20])
        self._child_created = True
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._end is None:
            return super()._try_wait(flags)  # type: ignore[misc, no-any-return]
        status = self._end.status(block=not flags & os.WNOHANG)
        return (0, 0) if status is None else (self.pid, status)

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self._end is None:
            return super()._internal_poll(*given, **named)  # type: ignore[misc, no-any-return]
        if self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None and (status := self._end.status(block=False)) is not None:
                    self.returncode = os.waitstatus_to_exitcode(status)
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


@dataclass
class End:
    """Where the warm process says how one that it forked has ended."""

    file: io.FileIO

    def status(self, *, block: bool) -> int | None:
        """As `waitpid` says it; None while the process goes on."""
        if not block and not _ready(self.file, wait=0):
            return None
        with self.file:
            told = self.file.read(_NUMBER.size)
            # The warm process ends with the tests; what a detached process that outlives it ends with is unknown.
            return int(_NUMBER.unpack(told)[0]) if told else int(signal.SIGKILL)


def arguments_of(command: Any) -> list[str] | None:
    """What a command gives to the product, if it starts that with this interpreter."""
    words = [os.fspath(word) for word in command] if isinstance(command, list | tuple) else []
    for start in ([sys.executable, "-m", "tui_evals"], [sys.executable, "-P", "-m", "tui_evals"]):
        if words[: len(start)] == start:
            return words[len(start) :]
    return None


def begins_as_usual(environment: Mapping[str, str]) -> bool:
    """Whether an interpreter would begin with these variables as the warm one has begun."""
    with _ONE_BY_ONE:
        return _read_at_start(environment) == _warm().began_with


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_START) and _STILL.get(name) != value
    }


def fork(
    arguments: Sequence[str],
    folder: str | os.PathLike[str],
    environment: Mapping[str, str],
    streams: Sequence[int],
    *,
    session: bool = False,
    terminal: bool = False,
) -> tuple[int, End]:
    """`tui-evals ARGUMENTS` in a folder, on these three streams, of which the first may be its terminal."""
    asked = [list(arguments), os.fspath(folder), dict(environment), session, terminal]
    here, there = os.pipe()
    with io.FileIO(there, "w"), _ONE_BY_ONE:
        channel = _warm().channel
        socket.send_fds(channel, [json.dumps(asked).encode()], [*streams, there])
        return _NUMBER.unpack(channel.recv(_NUMBER.size))[0], End(io.FileIO(here))


def at_terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], size: tuple[int, int]
) -> tuple[int, int, Callable[[], int]]:
    """A command on a terminal of its own: its id, our side of the terminal, and what waits for its exit code."""
    master, slave = os.openpty()
    columns, lines = size
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    arguments = arguments_of(command)
    if arguments is not None and begins_as_usual(environment):
        process, end = fork(arguments, folder, environment, [slave] * 3, terminal=True)
        os.close(slave)
        return process, master, lambda: os.waitstatus_to_exitcode(end.status(block=True) or 0)
    process = os.fork()
    if process == 0:
        os.login_tty(slave)
        os.chdir(folder)
        os.execve(command[0], list(command), environment)
    os.close(slave)
    return process, master, lambda: os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@dataclass
class _Warm:
    """The process that has imported everything."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    began_with: dict[str, str]


@functools.cache
def _warm() -> _Warm:
    environment = {**os.environ, **_STILL}
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", "tests.warm", str(its.fileno())]
        process = COLD(command, pass_fds=[its.fileno()], env=environment, start_new_session=True)
    ours.recv(_NUMBER.size)
    return _Warm(process, ours, _read_at_start(environment))


def cool() -> None:
    """End the warm process, if there is one."""
    if _warm.cache_info().currsize:
        _warm().channel.close()
        _warm().process.wait()
        _warm.cache_clear()


def _import_everything() -> None:
    """What the commands and the workbench import; not what a plain run must do without."""
    import tui_evals

    for module in pkgutil.walk_packages(tui_evals.__path__, "tui_evals."):
        if not module.name.startswith(_LEFT_OUT):
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)


_LEFT_OUT = (
    "tui_evals.__main__",
    "tui_evals.api.pytest_plugin",
    "tui_evals.evaluators.child",
    "tui_evals.runs.executors.cluster",
    "tui_evals.targets.through_litellm",
)
_LATE = ("aiohttp", "jsonschema", "sqlite_utils")
"""What is imported only where it is needed."""


def _serve(channel: socket.socket) -> None:
    """Fork what is asked for and tell how it ends; what was forked leaves from here too, as the program."""
    ends: dict[int, int] = {}
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    _import_everything()
    gc.collect()
    gc.freeze()
    channel.send(_NUMBER.pack(os.getpid()))
    while True:
        ready = _ready(channel, wake)
        if wake in ready:
            os.read(wake, 512)
            _tell_ends(ends)
        if channel.fileno() not in ready:
            continue
        asked, given, _, _ = socket.recv_fds(channel, _LARGEST, 4)
        if not asked:
            return
        *streams, end = given
        process = os.fork()
        if not process:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in (wake, woken, end, *ends.values()):
                os.close(number)
            _become(channel, streams, *json.loads(asked))
            return
        for stream in streams:
            os.close(stream)
        ends[process] = end


def _ready(*files: io.FileIO | socket.socket | int, wait: float | None = None) -> set[int]:
    """The numbers of those files that something can be read from; a number may be one that `select` cannot take."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return {number for number, _ in poll.poll(wait)}


def _tell_ends(ends: dict[int, int]) -> None:
    while ends:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        with io.FileIO(ends.pop(process), "w") as end, contextlib.suppress(BrokenPipeError):  # nobody may want to know
            end.write(_NUMBER.pack(status))


def _become(
    channel: socket.socket,
    streams: Sequence[int],
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    session: bool,
    terminal: bool,
) -> None:
    """Be `python -m tui_evals ARGUMENTS` from here on."""
    if session:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    if terminal:
        os.login_tty(os.dup(0))
    with channel:
        channel.send(_NUMBER.pack(os.getpid()))  # not before it has its session and its terminal
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        open_stream(name, mode)
    sys.argv[1:] = arguments
    sys.path[0] = folder  # as -m puts it there
    runpy.run_module("tui_evals", run_name="__main__", alter_sys=True)


def open_stream(name: str, mode: str) -> None:
    """As an interpreter opens it when it starts."""
    old = getattr(sys, f"__{name}__")
    number = ("stdin", "stdout", "stderr").index(name)
    raw = open(number, f"{mode}b", closefd=False)  # noqa: SIM115  it is open to the end
    new = io.TextIOWrapper(
        raw,
        old.encoding,
        old.errors,
        newline=None if name == "stdin" else "\n",
        line_buffering=name == "stderr" or os.isatty(number),
    )
    setattr(sys, name, new)
    setattr(sys, f"__{name}__", new)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv.pop())))
