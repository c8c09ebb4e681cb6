"""A world that stands still: a clock set by hand, ids that are drawn alike, nothing of the machine or its user."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

from tui_evals.tui.playground import conversation
from tui_evals.tui.results.table import ResultsTable, RunCounter
from tui_evals.tui.widgets import bar

NOW = 1_790_845_200.0
"""Ten o'clock of a day in October."""

_HOMES = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
_OURS = ("NO_COLOR", "TUI_EVALS_DB", "TMUX", "OPENAI_API_KEY", "OPENAI_BASE_URL")


@dataclass
class Clock:
    """What time it is, until somebody says otherwise."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


@contextmanager
def still_world(home: Path) -> Iterator[Clock]:
    """Whatever asks for the time, for an id or for its user's home is told the same on every machine."""
    clock = Clock()
    try:
        with (
            patch.dict(os.environ, {**dict.fromkeys(_HOMES, str(home)), "TZ": "UTC"}),
            patch.object(time, "time", clock),
            patch.object(secrets, "choice", Random(5).choice),
            patch.object(ResultsTable.__init__, "__defaults__", (clock,)),
            patch.object(RunCounter, "share", 0),  # how long counting takes makes no difference
            patch.dict(bar._STAYS, dict.fromkeys(bar._STAYS, 3_600.0)),  # nor how long it takes to press a few keys
            patch.object(conversation, "time", SimpleNamespace(monotonic=clock)),
        ):
            for name in _OURS:
                os.environ.pop(name, None)
            time.tzset()
            yield clock
    finally:
        time.tzset()
