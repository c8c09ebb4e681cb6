"""Unpacking zstandard: by Python itself from 3.14 on, before that by its package."""

from __future__ import annotations

import importlib
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tui_evals.datasets.problems import DatasetError, Problem

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


LARGEST_FILE = 2**31
LARGEST_MEMBER = 2**28
LARGEST_TOTAL = 2**32
MOST_MEMBERS = 200_000
_HEAD = struct.Struct("<4s22xHH")


class Archive:
    """An open zip whose sizes are within bounds."""

    def __init__(self, file: Path, zipped: zipfile.ZipFile) -> None:
        self.file = file
        self._zipped = zipped
        members = zipped.infolist()
        if len(members) > MOST_MEMBERS:
            raise refused(file, f"holds {len(members):,} members, more than the {MOST_MEMBERS:,} that are read")
        for member in members:
            if member.file_size > LARGEST_MEMBER:
                raise refused(file, f"unpacks to more than {LARGEST_MEMBER // 2**20} MiB", member.filename)
        if sum(member.file_size for member in members) > LARGEST_TOTAL:
            raise refused(file, f"unpacks to more than {LARGEST_TOTAL // 2**30} GiB in all; split the log")
        self.names = tuple(dict.fromkeys(member.filename for member in members))

    def text(self, name: str) -> str:
        """A member as text; of several of one name, the last."""
        member = self._zipped.getinfo(name)
        content = self._unpacked(member, self._packed(member))
        if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
            raise self._damaged(name)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise refused(self.file, "is not UTF-8 text", name) from None

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        if member.flag_bits & 1:
            raise refused(self.file, "is encrypted; export the log without a password", member.filename)
        stream = self._zipped.fp
        if stream is None:
            raise ValueError("the archive is closed")
        try:
            stream.seek(member.header_offset)
            mark, name, extra = _HEAD.unpack(stream.read(_HEAD.size))
            stream.seek(name + extra, 1)
            packed = stream.read(member.compress_size)
        except (struct.error, ValueError):
            raise self._damaged(member.filename) from None
        if mark != b"PK\x03\x04":
            raise self._damaged(member.filename)
        return packed

    def _unpacked(self, member: zipfile.ZipInfo, packed: bytes) -> bytes:
        try:
            match member.compress_type:
                case zipfile.ZIP_STORED:
                    return packed
                case zipfile.ZIP_DEFLATED:
                    return zlib.decompressobj(-15).decompress(packed, member.file_size + 1)
                case 93:  # zstandard, which the module has no name for before Python 3.14
                    return unpacker()(packed, member.file_size)
        except (zlib.error, ValueError):
            raise self._damaged(member.filename) from None
        message = f"is packed by the method {member.compress_type}, which is not known here"
        raise refused(self.file, message, member.filename)

    def _damaged(self, name: str) -> DatasetError:
        return refused(self.file, "is damaged: its content is not what the archive says of it", name)


@contextmanager
def opened(file: Path) -> Iterator[Archive]:
    """An archive; DatasetError where it is none, or too large."""
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise refused(file, f"is larger than {LARGEST_FILE // 2**30} GiB; split the log")
        with zipfile.ZipFile(file) as zipped:
            yield Archive(file, zipped)
    except (zipfile.BadZipFile, NotImplementedError, struct.error):
        raise refused(file, "is no whole zip archive; was it copied while it was being written?") from None
    except OSError as problem:
        raise refused(file, f"cannot be read: {problem.strerror or problem}") from None


def refused(file: Path, message: str, member: str = "") -> DatasetError:
    """The error of a file, or of one member of it."""
    return DatasetError(f"{file}: {member}" if member else str(file), [Problem(message)])
