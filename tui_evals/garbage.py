"""When Python looks for garbage, and when memory goes back to the system.

Not while many objects are made that all stay, nor among those again and again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 20_000
"""Objects made before one looks for garbage, where most of what is made stays."""


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
                gc.freeze()  # and back: they are old now, and the next look among what is new passes them by
                gc.unfreeze()
            gc.enable()


@contextmanager
def known_objects_set_apart() -> Iterator[None]:
    """What was made before stays to the end of this, and is not looked through for garbage meanwhile."""
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


def give_memory_back() -> None:
    """Give back to the system what was freed: the C library keeps the room of long texts for the next ones."""
    import ctypes  # takes longer to import than most commands need

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only the C library of GNU keeps so much, and has this
    if trim is not None:
        trim(0)
