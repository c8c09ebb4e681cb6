"""Files on their way to workers: sealed with a fingerprint, opened with suspicion, laid out whole or not at all."""

from __future__ import annotations

import errno
import socket
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tui_evals.evaluators.trust import MAX_BYTES, MAX_FILES, digest, holds
from tui_evals.targets.base import ConfigurationError

_TRIES = 5

Files = Mapping[str, bytes]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Sealed(_Model):
    """Files in base64, and the fingerprint they had when they were packed."""

    digest: str
    files: dict[str, str]


class Missing(_Model):
    """An evaluator that does not travel: how it behaves, and why it cannot judge where it is not at hand."""

    judged: bool
    scope: Literal["answer", "group"]
    why: str


class Parcel(_Model):
    """What a driver sends: code, metrics, what could not be packed, and what workers have to have installed."""

    custom: dict[str, Sealed]
    metrics: dict[str, Sealed]
    broken: dict[str, Missing]
    installed: dict[str, Missing]


@dataclass(frozen=True, slots=True)
class Opened:
    """Files that are what their fingerprint says."""

    mark: str
    files: Files


def sealed(files: Files) -> Sealed:
    """Files as text, with their fingerprint."""
    return Sealed(digest=digest(files), files={name: b64encode(data).decode() for name, data in files.items()})


def parcel_of(data: Mapping[str, Any]) -> Parcel:
    """The parcel some data are; ConfigurationError when they are none."""
    try:
        return Parcel.model_validate(dict(data))
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise refused(f"{place[:200]}: {first['msg']}") from None


def refused(why: str) -> ConfigurationError:
    """The parcel as a whole is not what a driver sends."""
    return ConfigurationError(
        f"the evaluators sent to {socket.gethostname()} were refused and none of them was run: {why}; "
        "start the run again, and if that does not help, find out what changes them on the way"
    )


def is_utf8(name: str) -> bool:
    """Whether a name can be sent and written everywhere."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def opened(name: str, seal: Sealed, main: str) -> Opened:
    """The files under a seal, which have to be harmless to write and what the fingerprint says."""
    left = MAX_BYTES
    files: dict[str, bytes] = {}
    for file, text in seal.files.items():
        if why := _harm(file, seal.files):
            raise refused(f"the evaluator {name!r} has a file {file[:200]!r}, {why}")
        try:
            files[file] = b64decode(text, validate=True)
        except ValueError as problem:
            raise refused(f"the file {file[:200]!r} of the evaluator {name!r} is not base64: {problem}") from None
        left -= len(files[file])
        if left < 0 or len(files) > MAX_FILES:
            raise refused(f"the evaluator {name!r} has more than {MAX_FILES} files or 16 MB")
    if main not in files:
        raise refused(f"the evaluator {name!r} has no file {main!r}")
    if (found := digest(files)) != seal.digest:
        raise refused(f"the evaluator {name!r} should have the digest {seal.digest[:64]!r} and has {found}")
    return Opened(found, files)


def _harm(file: str, others: Mapping[str, object]) -> str | None:
    """Why a file of this name must not be written, if it must not."""
    path = PurePosixPath(file)
    if path.as_posix() != file or "\0" in file or not is_utf8(file):
        return "which is no plain name"
    if any(part[0] in "./" or part == "__pycache__" for part in path.parts):
        return "which is hidden, outside or bytecode"
    return "which is inside another file" if any(str(above) in others for above in path.parents) else None


def laid_out(code: Opened, folder: Path) -> Path:
    """The folder that holds these files, put there whole by whichever process is first."""
    place = folder / code.mark
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        for _ in range(_TRIES):
            if holds(place, code.mark):
                return place
            _put(code, place, folder)
        why = "what was written there reads otherwise"
    except OSError as problem:
        why = str(problem)
    raise ConfigurationError(
        f"the evaluators of this run cannot be kept in {folder} on {socket.gethostname()}: {why}; "
        "see that the folder can be written and has room, then resume the run"
    )


def _put(code: Opened, place: Path, folder: Path) -> None:
    """Write files beside their place and move them there in one step, or else clear what lies there wrongly."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".draft-") as name:
        draft = Path(name) / "new"
        draft.mkdir(mode=0o700)
        for file, data in code.files.items():
            (draft / file).parent.mkdir(parents=True, exist_ok=True)
            (draft / file).write_bytes(data)
        try:
            draft.rename(place)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            if not holds(place, code.mark):  # what another process has just put there may be in use
                with suppress(FileNotFoundError):
                    place.rename(Path(name) / "old")
