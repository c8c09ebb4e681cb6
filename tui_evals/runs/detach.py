"""Starting a run in a session of its own, so that it outlives the terminal it was started from."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tui_evals.store.reader import Reader
from tui_evals.store.runlock import alive, run_lock

_PATIENCE = 30.0


class DetachFailed(Exception):
    """The run did not come to life; the message holds the end of its log."""


def start_detached(database: Path, key: str, arguments: Sequence[str]) -> Path:
    """Start `tui-evals ARGUMENTS` for a planned run and return its log once the run is alive or over."""
    logs = database.parent / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    log = logs / f"{key}.log"
    with open(log, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "tui_evals", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if alive(run_lock(database, key)) or _is_over(database, key):
            return log
        if process.poll() is not None:
            raise DetachFailed(f"the run {key} ended before it began:\n{_end_of(log)}")
        time.sleep(0.02)
    raise DetachFailed(f"the run {key} did not begin within {_PATIENCE:g} s; see {log}")


def _is_over(database: Path, key: str) -> bool:
    with Reader(database) as reader:
        return reader.find_run(key).status == "finished"


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:].strip() or "it printed nothing"
