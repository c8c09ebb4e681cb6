"""What Dask loads first in a worker process of this machine."""

from __future__ import annotations

import os


def dask_setup(_: object) -> None:
    """Begin a session of one's own."""
    os.setsid()
