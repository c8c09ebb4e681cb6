"""Baselines: which stored run each dataset is compared with, and who chose it."""

from __future__ import annotations

import getpass
import os
import time
from pathlib import Path

from tui_evals.light_records import dataclass
from tui_evals.project_files import resolved
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer


def author_here() -> str:
    """The name of the user; a container may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {os.getuid()}"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The run chosen for a dataset."""

    source: str
    run: int
    author: str
    time: float


def dataset_key(source: str, root: Path, cwd: Path | None = None) -> str:
    """The key of a dataset's baseline: `source` relative to the project root if it is a file there, else unchanged."""
    try:
        path = resolved(Path(cwd or Path.cwd(), source))
        if path.is_file() and path.is_relative_to(root.resolve()):
            return path.relative_to(root.resolve()).as_posix()
    except (OSError, ValueError):  # not a valid file name, so not a path
        pass
    return source


def baselines(reader: Reader) -> list[Baseline]:
    """Every baseline by the name of its dataset."""
    return [Baseline(*row) for row in reader.query("SELECT source, run, author, time FROM baselines ORDER BY source")]


def baseline_of(reader: Reader, source: str) -> Baseline | None:
    """The baseline of a dataset, if one is set."""
    return next((baseline for baseline in baselines(reader) if baseline.source == source), None)


def set_baseline(writer: Writer, source: str, run: int, author: str) -> None:
    """Measure the runs of a dataset against this one from now on."""
    writer.write(
        "INSERT OR REPLACE INTO baselines(source, run, author, time) VALUES (?,?,?,?)",
        writer.clean(source),
        run,
        author,
        time.time(),
    )


def clear_baseline(writer: Writer, source: str) -> None:
    """Remove the baseline of a dataset."""
    writer.write("DELETE FROM baselines WHERE source = ?", writer.clean(source))
