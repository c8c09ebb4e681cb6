"""Taking the suites and runs of a `bench_runs/` folder into a project: all of them, and each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tui_evals.runs.recording import Stored, recorded_run, store_recording
from tui_evals.runs.suites import keeping, running
from tui_evals.runs.suites.problems import UserValueError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.writer import Writer
from tui_evals.targets.config import Settings

from .model import Recording


def take_in(
    root: Path,
    writer: Writer,
    reader: Reader,
    suites: Sequence[Mapping[str, Any]],
    recordings: Sequence[Recording],
    settings: Settings,
    environment: Mapping[str, str],
) -> list[tuple[RunRow, Stored]]:
    """Keep what `bench_runs.read` found; UserValueError, before anything is written, where a name is taken.

    It waits for the commits, so it is not called from within an event loop.
    """
    new = [data for data in suites if _is_new(root, data)]
    for one in recordings:
        if recorded_run(reader, one.digest) is None:
            running.refuse_twice(reader, one.suite, one.name)
    for data in new:
        keeping.keep(root, data["metadata"]["name"], data)
    return [store_recording(writer, reader, one, settings, environment) for one in recordings]


def _is_new(root: Path, data: Mapping[str, Any]) -> bool:
    name = data["metadata"]["name"]
    there = keeping.kept(root, name)
    if there is not None and (there.data["items"], there.data["default_evaluators"]) != (
        data["items"],
        data["default_evaluators"],
    ):
        raise UserValueError(
            f"there is a suite {name!r} with other cases or another way of scoring already; nothing was imported. "
            "Rename one of them"
        )
    return there is None
