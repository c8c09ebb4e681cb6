"""When Python collects garbage, when memory is returned to the system, and when long work rests for a key.

No collection runs while many lasting objects are created, and later ones skip these objects.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 20_000
"""Objects created between collections, where most of them stay."""


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """The objects made here all stay; looking for garbage among them takes half of the time and blocks a screen."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            if not gc.get_freeze_count():
                gc.freeze()  # moves objects to the oldest generation, which the next collection skips
                gc.unfreeze()
            gc.enable()


@contextmanager
def known_objects_set_apart() -> Iterator[None]:
    """Exclude earlier objects from garbage collections inside the block."""
    apart = not gc.get_freeze_count()  # otherwise other code has frozen objects, which stay frozen
    threshold, *others = gc.get_threshold()
    gc.set_threshold(max(threshold, MANY) if threshold else 0, *others)
    if apart:
        gc.freeze()
    try:
        yield
    finally:
        if apart:
            gc.unfreeze()
        gc.set_threshold(threshold, *others)


_REST, _SLICE = 0.05, 0.005


class Foreground:
    """Lets long work in threads pause while a key is handled, because two threads get half of the time each."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()
        self._rested = 0.0

    def begin(self) -> None:
        """A person waits for something."""
        self._free.clear()

    def end(self) -> None:
        """Long work may continue."""
        self._free.set()

    def give_way(self) -> None:
        """Pause while the user waits; long work calls this between its parts, and still makes a little progress."""
        if self._free.is_set() or threading.current_thread() is threading.main_thread():
            return
        if time.monotonic() >= self._rested + _SLICE:
            self._free.wait(_REST)
            self._rested = time.monotonic()


foreground = Foreground()


def give_memory_back() -> None:
    """Return freed memory to the system: the C library keeps the memory of long texts for later ones."""
    import ctypes  # takes longer to import than most commands need

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only the C library of GNU keeps so much, and has this
    if trim is not None:
        trim(0)
