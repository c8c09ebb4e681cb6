"""Where `-o` leads: the one way in which commands write a file, a pipe, a device or the standard output."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tui_evals.atomic_files import CannotSave, descriptor_of, is_stream, write_atomically
from tui_evals.private_files import UnsafeFile, is_private, make_private_folder

from .output import Stop, say_data


def is_output(file: Path) -> bool:
    """Whether a name stands for the standard output, in which no word of ours may follow the data."""
    return file == Path("-") or descriptor_of(file) == 1


def write_file(
    file: Path, pieces: Iterable[str | bytes], *, private: bool = False, new: bool = False, after: str = ""
) -> None:
    """Write text or bytes piece by piece to a file in a folder that need not be there, or end the command.

    A file that is there is replaced, unless it has to be `new`. `after` is what a sentence about a failure ends with.
    """
    if is_output(file):
        say_data(piece if isinstance(piece, str) else piece.decode() for piece in pieces)
        return
    if new and file.exists() and not is_stream(file):
        raise Stop(f"{file} is already there; choose another name or remove it first")
    try:
        if file.parent.exists() and not file.parent.is_dir():
            raise Stop(f"{file} could not be written: {file.parent} is a file, not a folder{after}", 1)
        if is_private(file):
            make_private_folder(file.parent)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(
            file, (piece if isinstance(piece, bytes) else piece.encode() for piece in pieces), private=private
        )
    except OSError as problem:
        sentence = (
            str(problem) if isinstance(problem, UnsafeFile) else f"{file} could not be written: {problem.strerror}"
        )
        raise Stop(f"{sentence}{after}", 1) from None
    except CannotSave as problem:
        raise Stop(f"{problem}{after}", 1) from None
