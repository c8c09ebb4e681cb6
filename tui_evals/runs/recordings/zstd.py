"""Unpacking zstandard: by Python itself from 3.14 on, before that by its package."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from functools import cache

_DAMAGED = "the frames are damaged, or larger than they say"

Unpack = Callable[[bytes, int], bytes]
"""The content of some frames, or as much of it as fits into so many bytes and one more; ValueError for damaged ones."""


@cache
def unpacker() -> Unpack:
    """What unpacks zstandard here."""
    return _standard() or _package()


def _standard() -> Unpack | None:
    try:
        library = importlib.import_module("compression.zstd")
    except ImportError:
        return None

    def unpack(packed: bytes, most: int) -> bytes:
        try:
            with library.ZstdFile(io.BytesIO(packed)) as stream:
                return bytes(stream.read(most + 1))
        except (library.ZstdError, EOFError):
            raise ValueError(_DAMAGED) from None

    return unpack


def _package() -> Unpack:
    library = importlib.import_module("zstandard")

    def unpack(packed: bytes, most: int) -> bytes:
        try:
            with library.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
                return bytes(stream.read(most + 1))
        except library.ZstdError:
            raise ValueError(_DAMAGED) from None

    return unpack
