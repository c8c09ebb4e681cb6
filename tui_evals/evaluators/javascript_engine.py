"""The engine that runs JavaScript, and what its results mean as verdicts.

The code runs in an engine that has the language and nothing else, inside a process that is isolated like the one for
code of models. One process serves the answers of a run one after another. It is replaced when code was stopped in it.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import math
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from tui_evals.evaluators import sandbox
from tui_evals.evaluators.judging import call_data
from tui_evals.interpreter import python_command
from tui_evals.light_records import dataclass

from .base import (
    CannotJudge,
    Evidence,
    Misconfigured,
    NoValueToJudge,
    Options,
    Score,
    is_installed,
    measured_score,
    verdict_score,
)

MEMORY = 256_000_000
SECONDS = 5.0
NOT_INSTALLED = (
    "JavaScript needs the engine quickjs-ng, which is not installed here. "
    "Install it with `pip install quickjs-ng`; where there is no wheel for your machine, pip needs a C compiler."
)
NOT_ISOLATED = (
    "not isolated: this machine has neither a bubblewrap nor a Landlock that works, so JavaScript runs with the "
    "engine's own limits alone"
)
_START_SECONDS = 30.0
_BEGIN = (
    "import sys, types; package = sys.modules['child'] = types.ModuleType('child');"
    "package.__path__ = [sys.argv.pop(1)]; from child.javascript import main; main()"
)
_CHILD = Path(__file__).with_name("child")
_SHOWN = 120


def engine_obstacle() -> str | None:
    """Why no JavaScript can run here."""
    return None if is_installed("quickjs") else NOT_INSTALLED


class CodeFailed(Exception):
    """The code threw an error; the message says which. `transforming` is whether a transform did."""

    def __init__(self, reason: str, *, transforming: bool) -> None:
        super().__init__(reason)
        self.transforming = transforming


@dataclass(frozen=True, slots=True)
class Module:
    """The source of a file, and the function that is called of those it exports; None for the default one."""

    source: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Code for the engine: transforms, each with the result of the one before, then code or a module."""

    transforms: Sequence[str] = ()
    code: str | None = None
    module: Module | None = None
    parse: bool = False
    """Whether the first argument is handed over as the value its JSON holds, where it is JSON."""
    seconds: float = SECONDS


async def verdict_of(script: Script, *arguments: object) -> tuple[dict[str, Any], str]:
    """The verdict of code on an answer, and its printed output."""
    return await _run(script, "verdict", arguments)


async def text_of(script: Script, *arguments: object) -> tuple[str, str]:
    """The text that code makes of an answer, and its printed output."""
    done, printed = await _run(script, "text", arguments)
    return str(done["text"]), printed


def value_of(script: Script, *arguments: object) -> object:
    """The plain data that code returns, for use outside a run."""
    job = _job(script, "value", arguments)
    done, _ = _done(_thread.submit(_engine.run, job, script.seconds).result())
    return done["value"]


async def _run(script: Script, wants: str, arguments: Sequence[object]) -> tuple[dict[str, Any], str]:
    job = _job(script, wants, arguments)
    return _done(await asyncio.get_running_loop().run_in_executor(_thread, _engine.run, job, script.seconds))


def _job(script: Script, wants: str, arguments: Sequence[object]) -> dict[str, object]:
    if not is_installed("quickjs"):
        raise Misconfigured(NOT_INSTALLED)
    module = script.module
    return {
        "wants": wants,
        "transforms": list(script.transforms),
        "code": script.code,
        "module": None if module is None else {"source": module.source, "name": module.name},
        "json": script.parse,
        "given": [_plain(argument) for argument in arguments],
    }


def _done(outcome: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The result of the code, and its printed output."""
    printed = str(outcome.get("printed", ""))
    details = {"printed": printed} if printed else {}
    if why := outcome.get("stopped"):
        raise CannotJudge("evaluatorError", f"The JavaScript was stopped: {why}")
    if why := outcome.get("invalid"):
        raise Misconfigured(f"this is not valid JavaScript: {why}")
    transforming = outcome.get("during") == "transform"
    if why := outcome.get("threw"):
        raise CodeFailed(str(why), transforming=transforming)
    if not isinstance(done := outcome.get("done"), dict):
        raise CannotJudge("evaluatorError", "The JavaScript waits for a promise that never settles", **details)
    return done, printed


def _plain(value: object) -> object:
    """A value as JSON can hold it; a number that is none becomes null, as in JavaScript."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


class _Engine:
    """The process of the engine, as seen from the one thread that talks with it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._owner = os.getpid()

    def run(self, job: Mapping[str, object], seconds: float) -> Mapping[str, Any]:
        """The outcome of a job; after one that had to be stopped the process is another one."""
        wall = 4 * seconds + 5  # the engine counts only its own time, which is less than real time on a busy machine
        message = {"job": job, "seconds": seconds, "memory": MEMORY, "wall": wall}
        reply = self._exchange(message, wall)
        if reply is None:  # it may have ended because it was idle
            reply = self._exchange(message, wall)
        if reply is None:
            return {"stopped": "its process ended without a result"}
        if "stopped" in reply:
            self.end()
        return reply

    def _exchange(self, message: object, wall: float) -> Mapping[str, Any] | None:
        link = self._link if self._owner == os.getpid() else None
        try:
            if link is None:
                link = self._started()
            link.settimeout(wall)
            link.sendall(json.dumps(message).encode() + b"\n")
            if (reply := _line(link)) is not None:
                return reply
        except TimeoutError:
            self.end()
            return {"stopped": f"it gave no result within {wall:g} s"}
        except OSError:
            pass  # it ended, and another one is started
        self.end()
        return None

    def _started(self) -> socket.socket:
        sandbox.hide_this_process()
        self._folder = tempfile.TemporaryDirectory(prefix="tui-evals-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name).resolve()
        self._link, child_end = socket.socketpair()
        self._owner = os.getpid()
        options = {"isolation": sandbox.isolation_kind(), "readable": sandbox.readable_paths()}
        channel = child_end.fileno()
        words = ("-B", "-X", "utf8", "-c", _BEGIN, str(_CHILD), str(channel), json.dumps(options))
        with child_end:
            self._process = subprocess.Popen(
                [*sandbox.launcher(folder, approved=False), *python_command(*words, isolated=True)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={"TMPDIR": str(folder)},
                pass_fds=(channel,),
                start_new_session=True,
            )
        self._link.settimeout(_START_SECONDS)
        try:
            said = _line(self._link)
        except OSError:
            said = None
        if said is None or "ready" not in said:
            self.end()
            why = NOT_INSTALLED if said is not None else "the process of the JavaScript engine did not start"
            raise Misconfigured(why)
        return self._link

    def end(self) -> None:
        """End the process; it has nothing to save."""
        process, link, folder = self._process, self._link, self._folder
        self._process = self._link = self._folder = None
        if link is not None:
            link.close()
        if process is not None and self._owner == os.getpid():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if folder is not None:
            folder.cleanup()


def _line(link: socket.socket) -> Mapping[str, Any] | None:
    """The next message of the process; None when it hung up."""
    read = bytearray()
    while not read.endswith(b"\n"):
        part = link.recv(1 << 20)
        if not part:
            return None
        read += part
    message = json.loads(read)
    return message if isinstance(message, dict) else None


_engine = _Engine()
_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="javascript")
"""Talks with the process, one answer at a time, on whichever loop waits."""
atexit.register(_engine.end)


def context_of(evidence: Evidence, config: Mapping[str, Any] | None = None) -> dict[str, object]:
    """The second argument of code: what promptfoo gives its assertions, and what else is known of an answer."""
    chat = [dict(message) for message in evidence.chat]
    alone = len(chat) == 1 and chat[0].get("role") == "user" and isinstance(chat[0].get("content"), str)
    variables = dict(evidence.variables)
    reply = {
        "output": evidence.response,
        "latencyMs": evidence.latency_ms,
        "cost": evidence.cost,
        "tokenUsage": {"total": evidence.tokens},
        "finishReason": evidence.finish_reason,
    }
    return {
        "vars": variables,
        "prompt": chat[0]["content"] if alone else json.dumps(_plain(chat)) if chat else evidence.prompt,
        "test": {"vars": variables},
        "providerResponse": reply,
        "expected": evidence.expected,
        "references": evidence.references,
        "history": evidence.history,
        "toolCalls": [call_data(call) for call in evidence.tool_calls or ()],
        "latencyMs": evidence.latency_ms,
        "cost": evidence.cost,
        "tokens": evidence.tokens,
        "finishReason": evidence.finish_reason,
        **({} if config is None else {"config": config}),
    }


class ScriptOptions(Options):
    """Options of every evaluator whose verdict JavaScript returns."""

    transform: str | list[str] = Field(
        default_factory=list,
        description="Code that transforms the answer before the code that judges gets it; several run in order.",
    )
    threshold: float | None = Field(
        None, description="The number from which an answer passes; without one every number above 0 passes."
    )
    config: dict[str, Any] | None = Field(None, description="Handed to the code as `context.config`.")
    parse: bool = Field(
        False, description="Hand an answer that is JSON to the code as the value it holds, not as its text."
    )
    timeout: float = Field(SECONDS, gt=0, le=600, description="Seconds of computing that the code may take.")


def listed(transform: str | list[str]) -> list[str]:
    """The transforms of an option that may be one."""
    return [transform] if isinstance(transform, str) else transform


def short_code(code: str) -> str:
    """Code on one line, cut where it is long."""
    line = " ".join(code.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


async def judge(script: Script, evidence: Evidence, options: Any, who: str) -> Score:
    """The record of the verdict that code returns."""
    try:
        said, printed = await verdict_of(script, evidence.response or "", context_of(evidence, options.config))
    except CodeFailed as failed:
        what = "the transform" if failed.transforming else who
        raise NoValueToJudge(f"{what} threw {failed}") from None
    details = {"printed": printed} if printed else {}
    if "unusable" in said:
        wanted = "it has to be true, false, a finite number or {pass, score, reason}"
        raise NoValueToJudge(f"{who} returned {said['unusable']}; {wanted}")
    passed, number = said.get("passed"), said.get("score")
    if number is None:
        return verdict_score(bool(passed), f"{who} returned {'true' if passed else 'false'}", **details)
    reason = str(said.get("reason", "")) or f"{who} returned {number:g}"
    if passed is None:
        passed = number > 0 if options.threshold is None else number >= options.threshold
    record = measured_score(float(number), options.threshold, reason, **details)
    return replace(record, result="pass" if passed else "fail")
