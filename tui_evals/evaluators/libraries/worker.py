"""Measures answers with a metric of an installed library, in a process that loads it once and measures many at a time.

The process has no API keys: its environment is an allow-list, and the libraries' telemetry is off. For models it has an
OpenAI-compatible server in front of the judge. A process that crashes or hangs is replaced, and its open measurements
are repeated. A process that is no longer needed ends by itself.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from tui_evals.evaluators import sandbox
from tui_evals.evaluators.base import CannotJudge
from tui_evals.evaluators.judging import Noted, noting
from tui_evals.light_records import dataclass

CHILD = Path(__file__).with_name("child")
# Imports the child's package alone: nothing else of ours is there to be read.
BEGIN = (
    "import sys, types; package = sys.modules['child'] = types.ModuleType('child');"
    "package.__path__ = [sys.argv.pop(1)]; from child.{module} import main; main()"
)
ENVIRONMENT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE"),
    *("HF_HOME", "HF_HUB_OFFLINE", "HF_EVALUATE_OFFLINE", "XDG_CACHE_HOME", "NLTK_DATA", "TIKTOKEN_CACHE_DIR"),
)
QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "False",
    "OTEL_SDK_DISABLED": "true",
    "PF_DISABLE_TRACING": "true",
    "RAGAS_DO_NOT_TRACK": "true",
    "no_proxy": "127.0.0.1",
}
"""Telemetry, tracing and looking for updates off; the server in front of the judge is not behind a proxy."""
START_SECONDS = 180.0
IDLE_SECONDS = 60.0
ENDING_SECONDS = 1.0
MAX_PRINTED = 2_000

Answer = Callable[[Mapping[str, Any]], Awaitable[object]]


class MetricStopped(Exception):
    """The process gave no result; the message says why."""


class _Ended(Exception):
    """The process has ended; `ours` if we ended it because of another job."""

    def __init__(self, why: str, *, ours: bool) -> None:
        super().__init__(why)
        self.ours = ours


@dataclass(frozen=True, slots=True)
class Setup:
    """Which metric a process is for."""

    python: str
    library: str
    metric: str
    options: str
    """As JSON."""

    @property
    def name(self) -> str:
        """How the metric is called in a dataset."""
        return f"{self.library}:{self.metric}"


@dataclass(frozen=True, slots=True)
class MetricResult:
    """The result of a metric, and the versions of its library and of Python."""

    outcome: Mapping[str, Any]
    version: str
    python: str


async def measure(setup: Setup, given: Mapping[str, Any], answer: Answer, seconds: float) -> MetricResult:
    """The result of a metric for an answer; raises MetricStopped or CannotJudge.

    `seconds` limits its own time, without waiting for the judge.
    """
    tried_again = False
    while True:
        worker = await asyncio.to_thread(_started, setup)
        ready = await worker.ready()
        try:
            outcome = await worker.measure(given, answer, seconds)
        except _Ended as ended:
            if tried_again and not ended.ours:
                raise MetricStopped(f"its process ended without a result, twice ({ended})") from None
            tried_again = tried_again or not ended.ours
            continue
        return MetricResult(outcome, str(ready["version"]), str(ready["python"]))


class _Worker:
    """A process, the jobs that it has not done yet, and the threads that talk with it."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.ended = threading.Event()
        self._ours = False
        self._last_words = ""
        self._numbers = count()
        self._jobs: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Queue[Any]]] = {}
        self._lock = threading.Lock()
        self._ready = Future[dict[str, Any] | None]()
        self._ready.set_running_or_notify_cancel()  # who waits for it may give up, and others wait on
        self._folder = tempfile.TemporaryDirectory(prefix="tui-evals-", ignore_cleanup_errors=True)
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._socket, child_end = socket.socketpair()
        folder = Path(self._folder.name).resolve()
        with child_end:
            self._process = subprocess.Popen(
                [*sandbox.launcher(folder, approved=True), *self._command(child_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=self._printed,
                cwd=folder,
                env=environment(folder),
                pass_fds=(child_end.fileno(),),
                start_new_session=True,  # Ctrl-C is for the run, which lets measuring finish
            )
        self._unsaid: SimpleQueue[bytes] = SimpleQueue()
        for work in (self._listen, self._talk):
            threading.Thread(target=work, daemon=True, name=setup.name).start()

    def _command(self, channel: int) -> list[str]:
        wanted = {"library": self.setup.library, "metric": self.setup.metric, "options": json.loads(self.setup.options)}
        return python_words(self.setup.python, "main", str(channel), json.dumps(wanted))

    async def ready(self) -> Mapping[str, Any]:
        """The versions it works with, once it takes jobs; CannotJudge if it never will."""
        try:
            async with asyncio.timeout(START_SECONDS):
                said = await asyncio.wrap_future(self._ready)
        except TimeoutError:
            self.end()
            said = None
        if said is None:
            end = f": {self._last_words}" if self._last_words else ""
            reason = f"{self.setup.python} did not start {self.setup.name}{end}"
            raise CannotJudge("evaluatorLoadError", f"Evaluator failed: {reason}")
        if "unloadable" in said:
            raise CannotJudge("evaluatorLoadError", f"{self.setup.name} cannot be loaded: {said['unloadable']}")
        return said

    async def measure(self, given: Mapping[str, Any], answer: Answer, seconds: float) -> Mapping[str, Any]:
        """The outcome of one job; its questions are answered meanwhile."""
        number, heard = next(self._numbers), asyncio.Queue[Any]()
        loop = asyncio.get_running_loop()
        with self._lock:
            self._jobs[number] = loop, heard
            gone = self.ended.is_set()
        asking: set[asyncio.Task[Noted[tuple[int, object]]]] = set()
        done = False
        left = seconds
        try:
            if gone:
                raise self._end_of()
            self._say({"job": number, "given": given})
            while True:
                started = loop.time()
                async with asyncio.timeout(None if asking else max(left, 0)):
                    message = await heard.get()
                left -= 0 if asking else loop.time() - started
                if message is None:
                    raise self._end_of()
                if isinstance(message, asyncio.Task):
                    asking.discard(message)
                    question, value = message.result().adopt()
                    self._say({"answer": question, "value": value})
                elif "ask" in message:
                    task = asyncio.create_task(noting(_answered(answer, message)))
                    asking.add(task)
                    task.add_done_callback(heard.put_nowait)
                else:
                    done = True
                    return message  # type: ignore[no-any-return]
        except TimeoutError:
            self._ours = True  # the other jobs in it start again
            self.end()
            raise MetricStopped(f"it gave no result within {seconds:g} s of its own and was stopped") from None
        finally:
            with self._lock:
                del self._jobs[number]
            for task in asking:
                task.cancel()
            if asking:
                await asyncio.gather(*asking, return_exceptions=True)
            if not done:
                self._say({"cancel": number})

    def end(self) -> None:
        """End the process; it has nothing to save."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._unsaid.put(b"")
        self._process.wait()

    def _say(self, message: object) -> None:
        self._unsaid.put(json.dumps(message, default=_plain).encode() + b"\n")

    def _talk(self) -> None:
        """Send queued messages from a thread of its own, because a process that hangs does not read either."""
        with self._socket.dup() as way, suppress(OSError):  # its end is noticed where replies are read
            way.settimeout(None)
            while data := self._unsaid.get():
                way.sendall(data)

    def _listen(self) -> None:
        """Pass each line to its job, until the process ends or has been idle for long."""
        read = bytearray()
        while data := self._received():
            read += data
            if b"\n" in data:
                *lines, read = read.split(b"\n")
                for line in lines:
                    self._hear(json.loads(line))
        with self._lock:
            idle = self.ended.is_set()
            self.ended.set()
            waiting = list(self._jobs.values())
        _forget(self)
        if not idle:
            with suppress(subprocess.TimeoutExpired):  # it hung up, and how it ended is worth knowing
                self._process.wait(ENDING_SECONDS)
        self.end()
        with self._printed:
            self._last_words = _last_line(self._printed)
        self._socket.close()
        if not self._ready.done():
            self._ready.set_result(None)
        for loop, heard in waiting:
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                loop.call_soon_threadsafe(heard.put_nowait, None)
        self._folder.cleanup()

    def _received(self) -> bytes:
        while True:
            self._socket.settimeout(IDLE_SECONDS if self._ready.done() else None)
            try:
                return self._socket.recv(65_536)
            except TimeoutError:
                with self._lock:
                    if not self._jobs:
                        self.ended.set()
                        return b""
            except OSError:
                return b""

    def _hear(self, message: dict[str, Any]) -> None:
        if "ready" in message or "unloadable" in message:
            self._ready.set_result(message.get("ready") or message)
            return
        with self._lock:
            job = self._jobs.get(message["job"] if "ask" in message else message["done"])
        if job is not None:
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                job[0].call_soon_threadsafe(job[1].put_nowait, message)

    def _end_of(self) -> _Ended:
        code = self._process.poll()
        why = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        return _Ended(f"{why}{f': {self._last_words}' if self._last_words else ''}", ours=self._ours)


def _last_line(printed: IO[bytes]) -> str:
    """The last printed line."""
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(size - MAX_PRINTED, 0))
    lines = printed.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


async def _answered(answer: Answer, message: Mapping[str, Any]) -> tuple[int, object]:
    return message["ask"], await answer(message["question"])


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def environment(folder: Path) -> dict[str, str]:
    """The environment of a library's process."""
    kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return {**kept, **QUIET, "TMPDIR": str(folder)}


def python_words(python: str, module: str, *words: str) -> list[str]:
    """The command of a module of the child in some Python, which imports nothing from its working folder."""
    return [python, "-I", "-B", "-u", "-X", "utf8", "-c", BEGIN.format(module=module), str(CHILD), *words]


_workers: dict[Setup, _Worker] = {}
_workers_lock = threading.Lock()


def _started(setup: Setup) -> _Worker:
    """The process of a metric, which may still be starting."""
    with _workers_lock:
        worker = _workers.get(setup)
        if worker is None or worker.ended.is_set():
            sandbox.hide_this_process()
            worker = _workers[setup] = _Worker(setup)
        return worker


def _forget(worker: _Worker) -> None:
    with _workers_lock:
        if _workers.get(worker.setup) is worker:
            del _workers[worker.setup]


@atexit.register
def end_workers() -> None:
    """End every process of a metric."""
    with _workers_lock:
        workers = list(_workers.values())
    for worker in workers:
        worker.end()


SECONDS = 180.0


class CannotList(Exception):
    """The Python did not tell; the message says why."""


@dataclass(frozen=True, slots=True)
class InstalledLibrary:
    """A library, its release, and the inputs of each of its metrics, or why it cannot be imported."""

    name: str
    version: str
    metrics: dict[str, list[str]]
    problem: str = ""


def installed_libraries(python: str) -> list[InstalledLibrary]:
    """The libraries that are installed for a Python; they are imported there."""
    with tempfile.TemporaryDirectory(prefix="tui-evals-") as name:
        folder = Path(name).resolve()
        try:
            done = subprocess.run(
                python_words(python, "listing"),
                cwd=folder,
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
            said = json.loads(done.stdout)
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise CannotList(f"{python} cannot be started: {problem}") from None
        except ValueError:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise CannotList(
                f"{python} did not tell what it has: {lines[-1] if lines else 'it said nothing'}"
            ) from None
    return [
        InstalledLibrary(library, one["version"], one.get("metrics", {}), one.get("problem", ""))
        for library, one in said.items()
        if one is not None
    ]
