"""Where an exception of somebody's own code was raised: its last frames as text, without those of this program."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from pathlib import Path

_OWN = str(Path(__file__).parent.parent) + os.sep
_FRAMES = 6
_LONGEST = 6_000


def last_frames(error: BaseException) -> str:
    """The traceback as Python prints it, with files named from the current folder; causes stand above, as usual."""
    told = traceback.TracebackException.from_exception(error)
    for part in _chain(told):
        frames = [frame for frame in part.stack if not frame.filename.startswith(_OWN)] or list(part.stack)
        for frame in frames:
            frame.filename = _shown(frame.filename)
        part.stack[:] = frames[-_FRAMES:]
    return "".join(told.format()).rstrip()[-_LONGEST:]


def _chain(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting = [told]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += [one for one in (part.__cause__, part.__context__, *(part.exceptions or ())) if one is not None]


def _shown(file: str) -> str:
    folder = os.getcwd() + os.sep
    return file.removeprefix(folder)
