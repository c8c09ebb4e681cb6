"""Makes tests or an inverse rule anew: the command line does it, in a process that says how it goes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from tui_evals.datasets.editing import Editing
from tui_evals.interpreter import python_command
from tui_evals.present.estimates import estimated_cost
from tui_evals.present.figures import counted
from tui_evals.present.runs import destination_lines
from tui_evals.private_files import make_private_folder, private_opener

_LOOK = 0.1
_LAST_LINES = 6
_AGAIN, _KEYS = "; the same command goes on", "Ctrl-C"  # what is of use only where the command was typed
_WORDS = {"made": "is made", "failed": "could not be made"}


class NotStarted(Exception):
    """The generation could not be planned or started; the message is what was printed."""


@dataclass(frozen=True, slots=True)
class Regeneration:
    """What is to be made anew: the tests of a rule, or the inverse of an output rule."""

    folder: Path
    what: Literal["rule", "inverse"]
    number: int
    says: str
    most: int | None = None
    """For how many output rules tests are made from now on, where that is to change."""

    def arguments(self, values: Mapping[str, Any]) -> list[str]:
        """The same, as the command line says it."""
        words = ["generate", str(self.folder), f"--{self.what}", str(self.number), "--yes"]
        words += ["--max-rules", str(self.most)] if self.most else []
        target = values.get("other target") or values.get("target")
        words += ["--target", target.strip()] if target else []
        words += ["--max-cost", str(values["budget"])] if values.get("budget") else []
        return words


@dataclass(slots=True)
class RegenerationProgress:
    """Something that is being made for a dataset, and what has been said of it."""

    remake: Regeneration
    editing: Editing
    began: float = field(default_factory=time.monotonic)
    messages: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    code: int | None = None
    """How it ended; None while it is under way."""
    process: subprocess.Popen[bytes] | None = None
    stopped: bool = False
    """Whether somebody wanted it to end."""

    @property
    def live(self) -> bool:
        """Whether it is under way."""
        return self.code is None

    def stop(self) -> None:
        """Let what is in flight finish and begin nothing new; asked again, stop now."""
        self.stopped = True
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def take(self, line: str) -> None:
        """Take in a line the process wrote: an event, or a sentence for a person."""
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or "event" not in event:
            text = line.strip().removesuffix(_AGAIN)
            if text and _KEYS not in text:
                self.problems.append(text)
                self.messages.append(text)
        elif event["event"] == "note":
            self.messages.append(str(event.get("text", "")))
        elif event["event"] == "step" and event.get("step") != "labels" and event.get("state") in _WORDS:
            state = str(event["state"])
            about = event.get("text") if state == "made" and not event.get("file") else ""
            self.messages.append(f"{event.get('step')}: {about or _WORDS[state]}")


async def price_regeneration(root: Path, database: Path, remake: Regeneration, values: Mapping[str, Any]) -> str:
    """What it will take and where questions and keys go, as a sentence; NotStarted says why it cannot be done."""
    done = await asyncio.to_thread(
        subprocess.run,
        _command(remake, values, "--plan"),
        cwd=root,
        env=_environment(database),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        printed = done.stderr.decode(errors="replace").strip()
        raise NotStarted("\n".join(printed.splitlines()[-_LAST_LINES:]) or f"it ended with code {done.returncode}")
    plan = json.loads(done.stdout)
    takes = f"{counted(plan['calls'], 'call')}, {estimated_cost(plan['cost'])}; repairs and retries may add some"
    return ". ".join((takes, *destination_lines(plan.get("destinations"))))


async def run_regeneration(
    making: RegenerationProgress, root: Path, database: Path, values: Mapping[str, Any], news: Callable[[], None]
) -> None:
    """Start it and listen until it ends; it goes on when nobody listens any more."""
    log = await asyncio.to_thread(_begin, making, root, database, values)
    rest = b""
    with open(log, "rb") as stream:
        while True:
            over = making.process is None or making.process.poll() is not None
            *lines, rest = (rest + await asyncio.to_thread(stream.read)).split(b"\n")
            lines += [rest] if over else []
            for line in lines:
                making.take(line.decode(errors="replace"))
            if over:
                break
            if lines:
                news()
            await asyncio.sleep(_LOOK)
    making.code = making.process.returncode if making.process is not None else 1


def _begin(making: RegenerationProgress, root: Path, database: Path, values: Mapping[str, Any]) -> Path:
    logs = database.parent / "logs"
    try:
        make_private_folder(logs, database.parent)
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns() % 1_000_000}"
        log = logs / f"generate-{stamp}.log"
        with open(log, "xb", opener=private_opener) as stream:
            making.process = _start_process(_command(making.remake, values), root, database, stream)
    except OSError as problem:
        raise NotStarted(f"the generation could not be started: {problem.strerror or problem}") from None
    return log


def _start_process(command: list[str], root: Path, database: Path, out: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=root,
        env=_environment(database),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        start_new_session=True,
    )


def _command(remake: Regeneration, values: Mapping[str, Any], *more: str) -> list[str]:
    return python_command("-m", "tui_evals", *remake.arguments(values), *more, "--json")


def _environment(database: Path) -> dict[str, str]:
    return {**os.environ, "TUI_EVALS_DB": str(database)}
