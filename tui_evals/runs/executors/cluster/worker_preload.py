"""What Dask loads first in a worker process of this machine."""

from __future__ import annotations

import os

from tui_evals.interpreter import SAFE_PATH


def dask_setup(_: object) -> None:
    """Begin a session of one's own; how this process was started is no matter of the programs it starts."""
    os.environ.pop(SAFE_PATH, None)
    os.setsid()
