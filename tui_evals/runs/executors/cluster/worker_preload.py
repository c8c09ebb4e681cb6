"""Loaded first by Dask in a worker process of this machine."""

from __future__ import annotations

import os

from tui_evals.interpreter import SAFE_PATH


def dask_setup(_: object) -> None:
    """Start a new session, and hide from child programs how this process was started."""
    os.environ.pop(SAFE_PATH, None)
    os.setsid()
