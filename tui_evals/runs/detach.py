"""Starting a run in a session of its own, so that it outlives the terminal it was started from."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

_PATIENCE = 30.0


class DetachFailed(Exception):
    """The run did not come to life; the message holds the end of its log."""


def has_begun(run: RunRow) -> bool:
    """Whether somebody has asked the first question of a run, or could have."""
    return run.status in ("running", "paused", "stopping", "finished")


def start_detached(
    database: Path, key: str, arguments: Sequence[str], begun: Callable[[RunRow], bool] = has_begun
) -> Path:
    """Start `tui-evals ARGUMENTS` for a stored run; return its log once the run, as it is stored, has `begun`."""
    logs = database.parent / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    log = logs / f"{key}.log"
    with open(log, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        said_before = stream.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            [sys.executable, "-m", "tui_evals", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    deadline = time.monotonic() + _PATIENCE
    with Reader(database) as reader:
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            if begun(reader.find_run(key)):
                return log
            if ended:
                raise DetachFailed(f"the run {key} ended as soon as it began:\n{_said(log, said_before)}")
            time.sleep(0.02)
    raise DetachFailed(f"the run {key} did not begin within {_PATIENCE:g} s; see {log}")


def _said(log: Path, start: int) -> str:
    """The end of what was said since the log was this long."""
    said = log.read_bytes()[start:].decode("utf-8", errors="replace")
    return said[-2000:].strip() or "it printed nothing"
