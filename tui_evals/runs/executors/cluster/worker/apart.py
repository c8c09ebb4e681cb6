"""What a worker process of this machine does first: it leaves the terminal, so that Ctrl-C is for the run alone."""

from __future__ import annotations

import os


def dask_setup(_: object) -> None:
    """Begin a session of one's own."""
    os.setsid()
