"""Runs untrusted code in a separate process.

Infinite loops, crashes, excessive output and memory use only end that process and become a record. The process has an
allow-listed environment (so no key), no terminal and an empty folder. Code of models is isolated from files, network
and processes as far as this machine supports it: with bubblewrap, Landlock or not at all. Code that the user approved
has the user's files and network, but cannot see other processes, whose environments contain keys.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal
from weakref import WeakKeyDictionary

from tui_evals.evaluators.base import CannotJudge
from tui_evals.interpreter import python_command
from tui_evals.light_records import dataclass

IsolationKind = Literal["bubblewrap", "Landlock"]

_SYSTEM = (
    *("/usr", "/bin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"),
)
_PROBE_SECONDS = 10.0

NOT_ISOLATED = (
    "not isolated: this machine has neither a bubblewrap nor a Landlock that works, so code of models runs with your "
    "files, your network and your processes within its reach; install bubblewrap, or use a container without keys"
)


@cache
def isolation_kind() -> IsolationKind | None:
    """How code of models is isolated here; None where it is not."""
    if _bubblewrap_works():
        return "bubblewrap"
    return "Landlock" if landlock_works() else None


def landlock_works() -> bool:
    """Whether this kernel restricts files and filters system calls for those who ask it to."""
    from .child import lockdown

    return lockdown.has_seccomp() and lockdown.landlock_version() > 0


def readable_paths() -> tuple[str, ...]:
    """The paths that an interpreter needs to read, outermost first."""
    interpreter = Path(python_command()[0]).resolve().parent
    prefixes = (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix, str(interpreter))
    package = str(Path(__file__).with_name("child"))
    return tuple(sorted({*_SYSTEM, *prefixes, package}, key=len))


def launcher(folder: Path, *, approved: bool) -> Sequence[str]:
    """The prefix of a command that runs in this folder; code that the user approved keeps files and network."""
    program = _installed_bubblewrap() if isolation_kind() == "bubblewrap" else None
    return _bubblewrap(program, folder, approved=approved) if program else ()


def hide_this_process() -> None:
    """Hide the keys of this process from other processes of the same user, while it may run code."""
    from .child import lockdown

    lockdown.hide_from_others()


def _installed_bubblewrap() -> str | None:
    """The path of bubblewrap, unless it is a relative one."""
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    return program if program is not None and os.path.isabs(program) else None


def _bubblewrap(program: str, folder: Path, *, approved: bool) -> list[str]:
    ends = ["--chdir", str(folder), "--"]
    if approved:
        walls = ["--unshare-pid", "--cap-drop", "CAP_SYS_ADMIN", "--cap-drop", "CAP_SYS_PTRACE", "--die-with-parent"]
        return [program, *walls, "--dev-bind", "/", "/", "--proc", "/proc", *ends]
    binds = [part for path in readable_paths() for part in ("--ro-bind-try", path, path)]
    walls = ["--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--hostname", "sandbox"]
    closed = ["--remount-ro", "/", "--remount-ro", "/dev"]
    return [program, *walls, *binds, "--dev", "/dev", "--bind", str(folder), str(folder), *closed, *ends]


@cache
def _bubblewrap_works() -> bool:
    """Whether there is a bubblewrap that may make namespaces and start this Python in them."""
    program = _installed_bubblewrap()
    if program is None:
        return False
    folder = Path(os.devnull).parent
    for approved in (False, True):
        command = [*_bubblewrap(program, folder, approved=approved), *python_command("-S", "-c", "", isolated=True)]
        if not approved:
            bind = command.index("--bind")
            del command[bind : bind + 3]
        try:
            if subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS, env={}).returncode:
                return False
        except (OSError, subprocess.TimeoutExpired):
            return False
    return True


CHILD = Path(__file__).with_name("child")
# Imports the child's package alone: nothing else of ours is there to be read.
_BEGIN = (
    "import sys, types; package = sys.modules['child'] = types.ModuleType('child');"
    "package.__path__ = [sys.argv.pop(1)]; from child.main import main; main()"
)
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
START_SECONDS = 30.0
MAX_LINE = 2_000_000
MAX_PRINTED = 2_000
MAX_WRITTEN = 256_000_000
"""Bytes that all files together may take which code of a model writes."""
WATCH_SECONDS = 0.2

AnswerQuestion = Callable[[dict[str, Any]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds of its own time (waiting for an answer is not counted), bytes of memory, processes it may start."""

    seconds: float = 60.0
    memory: int = 2_000_000_000
    processes: int = 16


class CodeStopped(Exception):
    """The code returned no result; the message says why, `printed` is the end of its output."""

    printed = ""


async def run_job(
    job: Mapping[str, object], files: Mapping[str, bytes], limits: Limits, answer: AnswerQuestion | None = None
) -> tuple[dict[str, Any], str]:
    """The result of a job that runs next to these files, and the end of its output; `answer` serves its questions."""
    hide_this_process()
    with tempfile.TemporaryDirectory(prefix="tui-evals-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        _write_files(folder, files)
        with tempfile.TemporaryFile() as printed:
            try:
                result = await _run_child(job, folder, printed, limits, answer)
            except CodeStopped as stopped:
                stopped.printed = _printed_end(printed, folder)
                raise
            return result, _printed_end(printed, folder)


async def _run_child(
    job: Mapping[str, object], folder: Path, printed: IO[bytes], limits: Limits, answer: AnswerQuestion | None
) -> dict[str, Any]:
    own_end, child_end = socket.socketpair()
    with child_end:
        try:
            async with _cpu_gate():
                process = await _start_child(str(job["kind"]), folder, child_end, printed)
        except BaseException:
            own_end.close()
            raise
    conversation = None
    watching = asyncio.create_task(_stop_when_full(folder, process)) if job["kind"] == "unit_test" else None
    try:
        conversation = _ChildConversation(
            *await asyncio.open_unix_connection(sock=own_end, limit=MAX_LINE), limits.seconds
        )
        await conversation.wait_until_ready()
        result = await conversation.run_job({**job, "limits": asdict(limits)}, answer)
    finally:
        if conversation is not None:
            conversation.close()
        if watching is not None:
            watching.cancel()
        await _kill_child(process)
    if watching is not None and watching.done() and not watching.cancelled():
        raise CodeStopped(f"it wrote more than {MAX_WRITTEN // 1_000_000} MB and was stopped")
    ended = process.returncode if result is None else result.get("ended")
    if result is None or isinstance(ended, int):
        raise CodeStopped(f"its process ended without a result ({_exit_text(ended)})")
    return result


async def _stop_when_full(folder: Path, process: asyncio.subprocess.Process) -> None:
    """End the child once its files are too large together; each by itself is bounded in the child."""
    while await asyncio.to_thread(_bytes_in, folder) <= MAX_WRITTEN:
        await asyncio.sleep(WATCH_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _bytes_in(folder: Path) -> int:
    """The size of all files in a folder, at least one block each."""
    total = 0
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(OSError):
                total += max(os.lstat(os.path.join(place, name)).st_blocks * 512, 4096)
    return total


class _ChildConversation:
    """The messages to and from a child; only the child's own time is counted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        self._reader, self._writer = reader, writer
        self._seconds = seconds
        self._spent = 0.0

    async def wait_until_ready(self) -> None:
        """Wait for the child's first message; a failed start is not the fault of the code it will run."""
        with suppress(CodeStopped):
            if await self._exchange(START_SECONDS) is not None:
                return
        raise CannotJudge("evaluatorError", f"Evaluator failed: {sys.executable} did not start to run it")

    def close(self) -> None:
        """Hang up."""
        self._writer.transport.abort()

    async def run_job(self, job: Mapping[str, object], answer: AnswerQuestion | None) -> dict[str, Any] | None:
        """Send the job, answer its questions and return its result; None when the child hangs up before."""
        clock = asyncio.get_running_loop().time
        message: object = job
        while True:
            async with _cpu_gate():
                started = clock()
                reply = await self._exchange(self._seconds - self._spent, message)
                self._spent += clock() - started
            if reply is None or isinstance(reply.get("done"), dict):
                return reply and reply["done"]
            if answer is None or not isinstance(reply.get("ask"), dict):
                raise CodeStopped("it wrote something to its result channel that is not a result")
            message = await answer(reply["ask"])

    async def _exchange(self, seconds: float, *messages: object) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                for message in messages:
                    self._writer.write(json.dumps(message).encode() + b"\n")
                    await self._writer.drain()
                line = await self._reader.readline()
                reply = json.loads(line) if line else None
        except TimeoutError:
            raise CodeStopped(f"it gave no result within {self._seconds:g} s and was stopped") from None
        except OSError:
            return None
        except (ValueError, RecursionError):
            raise CodeStopped("its result is not JSON or longer than 2 MB") from None
        if reply is not None and not isinstance(reply, dict):
            raise CodeStopped("it wrote something to its result channel that is not a result")
        return reply


async def _start_child(
    kind: str, folder: Path, child_end: socket.socket, printed: IO[bytes]
) -> asyncio.subprocess.Process:
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    channel = child_end.fileno()
    how = await asyncio.to_thread(isolation_kind)
    options = {"kind": kind, "isolation": how, "readable": readable_paths()}
    arguments = (str(CHILD), str(channel), json.dumps(options))
    return await asyncio.create_subprocess_exec(
        *launcher(folder, approved=kind == "custom"),
        *python_command("-B", "-u", "-X", "utf8", "-c", _BEGIN, *arguments, isolated=True),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=printed,
        stderr=printed,
        cwd=folder,
        env={**environment, "TMPDIR": str(folder)},
        pass_fds=(channel,),
        start_new_session=True,
    )


async def _kill_child(process: asyncio.subprocess.Process) -> None:
    """Kill the child and all processes in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


_cpu_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _cpu_gate() -> asyncio.Semaphore:
    """As many children compute at once as there are processors, so that a busy machine does not look like a hang."""
    return _cpu_gates.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(max(os.cpu_count() or 1, 2)))


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def _printed_end(printed: IO[bytes], folder: Path) -> str:
    """The end of the output, without the name of the folder, which always differs."""
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(size - 2 * MAX_PRINTED, 0))
    return printed.read().decode("utf-8", "replace").replace(f"{folder}/", "")[-MAX_PRINTED:]


def _exit_text(code: int | None) -> str:
    if code is not None and code > 128 and isolation_kind() == "bubblewrap":
        code = 128 - code  # bubblewrap reports the signal of its program like a shell
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
