"""Texts that could not be taken are put into files below `.evals/kept`, which only their owner can read."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

from tui_evals.private_files import FOLDER, make_private_folder, private_opener

LONGEST_PASTE = 100_000
"""Characters; a text area takes seconds for more, and so does every key after it."""

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def keep_text(root: Path, name: str, suffix: str, text: str) -> Path:
    """Write a text into a new file of the project; the path from its root. OSError says why that cannot be."""
    folder = root / FOLDER / "kept"
    make_private_folder(folder)
    stem = _UNFIT.sub("-", name)[:40].strip("-.") or "text"
    for number in count(1):
        file = folder / f"{stem}-{number}{suffix}"
        try:
            with open(file, "xb", opener=private_opener) as stream:
                stream.write(text.encode("utf-8", "surrogatepass"))
        except FileExistsError:
            continue
        return file.relative_to(root)
    raise AssertionError("numbers do not end")


def keep_paste(root: Path, text: str) -> str:
    """Put a paste that is too long for a text area into a file, and say so in a sentence."""
    size = f"{len(text):,} characters, at most {LONGEST_PASTE:,} can be pasted"
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        file = keep_text(root, "pasted", ".txt", lines)
    except OSError as problem:
        return f"too long to paste ({size}), and it could not be put into a file: {problem.strerror}"
    return f"too long to paste; it is kept in {file} ({size}): e edits a field in $EDITOR, which can read it"
