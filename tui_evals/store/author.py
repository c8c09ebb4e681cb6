"""Who says what stands beside a name in the store: labels and baselines."""

from __future__ import annotations

import getpass
import os


def author_here() -> str:
    """Who sits at the keyboard; a container may know no name for its user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {os.getuid()}"
