"""Dask's log kept off the terminal: a person is watching a live line there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

QUIET = logging.CRITICAL + 1
NAMES = ("distributed", "tornado", "asyncssh")


@contextmanager
def quiet() -> Iterator[None]:
    """No record of these libraries reaches a handler meanwhile."""
    known = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and logger.level and name.startswith(tuple(f"{one}." for one in NAMES))
    ]
    loggers = [*(logging.getLogger(name) for name in NAMES), *known]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(QUIET)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
