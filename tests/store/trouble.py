"""What keeps a store from being written: a disk that is full, or another program that holds it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, with a way to fill it."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk can be mounted by root only: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), open(disk / "filler", "ab", buffering=0) as filler:
        while True:
            filler.write(bytes(1_000))


def free(disk: Path) -> None:
    (disk / "filler").unlink()


def file_left(process: subprocess.Popen[str], presses: int, database: Path) -> Path:
    """The file in which a program leaves what it could not store, and which it names, after so many Ctrl-C."""
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    (file,) = database.parent.glob("unstored-*.jsonl")
    assert str(file) in err
    return file


@contextmanager
def locked(database: Path) -> Iterator[subprocess.Popen[str]]:
    """Another program writes in the store and does not come to an end."""
    command = [sys.executable, "-c", HOLDER, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.stdin.close()
