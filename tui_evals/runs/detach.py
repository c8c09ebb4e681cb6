"""Starting runs, battles and generations in sessions of their own, which outlive the terminal."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tui_evals.files import UnsafeFile, make_private_folder, private_opener
from tui_evals.interpreter import python_command
from tui_evals.runs.project import DATABASE
from tui_evals.store.battles import ActivityRow, activity
from tui_evals.store.reader import Reader
from tui_evals.store.records import LIVE_STATUSES, RunRow

_PATIENCE = 30.0


class DetachFailed(Exception):
    """The run did not come to life; `reason` is why, as the store says it, or else the end of its log."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def has_begun(run: RunRow) -> bool:
    """Whether a process has made the first call of a run, or could have."""
    return run.status in ("running", "paused", "stopping", "finished")


def is_being_judged(before: RunRow) -> Callable[[RunRow], bool]:
    """Whether a run is judged again by now, or has been, since it was as `before`."""
    return lambda now: now.scoring_pass > before.scoring_pass or bool(now.staged_pass and now.status in LIVE_STATUSES)


def is_asked_again(before: RunRow) -> Callable[[RunRow], bool]:
    """Whether a process has continued a run since its state `before`, finished or not."""
    return lambda now: now.status in LIVE_STATUSES or (now.status == "finished" and now.finished != before.finished)


_LAST_BYTES = 8000


def start_detached(
    database: Path,
    key: str,
    arguments: Sequence[str],
    begun: Callable[[RunRow], bool] = has_begun,
    *,
    folder: Path | None = None,
) -> Path:
    """Start `tui-evals ARGUMENTS` in a folder for a stored run; return its log once that run has `begun`."""
    try:
        process, log, start = _started(database, key, arguments, folder)
    except UnsafeFile as problem:
        raise DetachFailed(f"the run {key} was not started: {problem}", str(problem)) from None
    deadline = time.monotonic() + _PATIENCE
    with Reader(database) as reader:
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            run = reader.find_run(key)
            if begun(run):
                return log
            if ended:
                reason = run.message or _end_of(log, start)
                raise DetachFailed(f"the run {key} ended as soon as it began:\n{reason}", reason)
            time.sleep(0.02)
    slow = f"the run {key} did not begin within {_PATIENCE:g} s; see {log}"
    raise DetachFailed(slow, slow)


def start_activity(database: Path, row: ActivityRow, folder: Path) -> None:
    """Start a process for a planned battle or generation; returns once it has begun."""
    command = {"battle": "battle", "generation": "generate"}[row.kind]
    name = f"{row.kind}-{row.key}"
    try:
        process, log, start = _started(database, name, [command, "--stored", row.key, "--json"], folder)
    except UnsafeFile as problem:
        raise DetachFailed(f"the {row.kind} was not started: {problem}", str(problem)) from None
    deadline = time.monotonic() + _PATIENCE
    with Reader(database) as reader:
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            now = activity(reader, row.key)
            if now.status != "planned":
                return
            if ended:
                reason = now.message or _end_of(log, start)
                raise DetachFailed(f"the {row.kind} ended as soon as it began:\n{reason}", reason)
            time.sleep(0.02)
    slow = f"the {row.kind} did not begin within {_PATIENCE:g} s; see {log}"
    raise DetachFailed(slow, slow)


def _started(
    database: Path, name: str, arguments: Sequence[str], folder: Path | None
) -> tuple[subprocess.Popen[bytes], Path, int]:
    """A process in a session of its own, its log, and how long that was before."""
    log = database.parent / "logs" / f"{name}.log"
    make_private_folder(log.parent, database.parent)
    with open(log, "ab", opener=private_opener) as stream:
        length_before = stream.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            python_command("-m", "tui_evals", *arguments),
            cwd=folder,
            env={**os.environ, DATABASE: str(database)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    # Waiting for the process keeps it from becoming a zombie while this one lives on.
    threading.Thread(target=process.wait, daemon=True, name=f"end of {name}").start()
    return process, log, length_before


def _end_of(log: Path, start: int) -> str:
    """The end of the log, after position `start`."""
    with open(log, "rb", opener=private_opener) as stream:
        stream.seek(max(start, stream.seek(0, os.SEEK_END) - _LAST_BYTES))
        printed = stream.read(_LAST_BYTES).decode("utf-8", errors="replace")
    return printed[-2000:].strip() or "it printed nothing"
