"""The run of each dataset in a pytest session: one for all its processes, with one limit of cost."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.datasets.discover import project_root
from tui_evals.files import write_private_json
from tui_evals.present.runs import run_facts, stop_reason
from tui_evals.project_files import read_text
from tui_evals.runs.project import load_project, store_of
from tui_evals.store.reader import Reader
from tui_evals.text.safe import safe_line

from .evaluating import execute_prepared, prepared_run, resume
from .run import Run, RunStopped, read_run
from .watching import wait_for


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """How a session asks and judges; the fields mean what the parameters of `evaluate` mean."""

    root: Path
    target: str | None = None
    judge: str | None = None
    without_judges: bool = False
    max_cost: float | None = None
    trust: bool = False
    allow_unjudged: bool = False
    use_cache: bool = True


@dataclass(frozen=True, slots=True)
class ClosingLine:
    """What the end of a session says of the run of a dataset."""

    dataset: str
    text: str
    missing: int
    total: int
    why: str
    """Why answers are missing; empty where none is."""
    gates: tuple[str, ...]
    """The table of its gates in lines."""

    @property
    def missing_sentence(self) -> str:
        """How many of its answers are missing, and why."""
        return f"{self.dataset}: {self.missing:,} of {self.total:,} answers are missing" + f": {self.why}" * bool(
            self.why
        )

    @property
    def missing_share(self) -> float:
        """The percentage of its answers that are missing."""
        return 100 * self.missing / self.total if self.total else 0.0


class SessionRuns:
    """The runs of a session, noted in a folder that all its processes share.

    The first process that needs a dataset asks all its selected items, and the others wait for it. Where that process
    is killed, the next one continues its run.
    """

    def __init__(self, folder: Path, terms: SessionTerms) -> None:
        self._folder, self._terms = folder, terms

    def run(self, dataset: Path, name: str, positions: Iterable[int]) -> Run:
        """The run of a dataset; `positions` are those of the selected items once its matrix is expanded."""
        note = self.note(name)
        with locked(note.with_suffix(".lock")):
            known = read_note(note)
            if known.get("ended"):
                return self._stored(known["key"])
            try:
                run = self._continued(known["key"]) if known else self._asked(dataset, name, note, positions)
            except RunStopped as stopped:
                run = stopped.run
            write_private_json(note, {"name": name, "key": run.key, "ended": True})
            return run

    def keep_gates(self, name: str, lines: Sequence[str]) -> None:
        """Note the table of the gates of a dataset for the end of the session."""
        note = self.note(name)
        write_private_json(note, {**read_note(note), "gates": list(lines)})

    def note(self, name: str) -> Path:
        """The file that notes the run of a dataset."""
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"

    def closing_lines(self) -> Iterator[ClosingLine]:
        """A line for each dataset whose run was begun, in the order of their names."""
        notes = sorted((read_note(file) for file in self._folder.glob("*.json")), key=lambda note: str(note["name"]))
        for note in notes:
            with Reader(store_of(project_root(self._terms.root))) as reader:
                run = reader.find_run(note["key"])
                totals = reader.totals(run.id)
            yield ClosingLine(
                dataset=note["name"],
                text=safe_line(f"{note['name']}: run {run.key}: {run_facts(run, totals).sentence}"),
                missing=totals.pending + totals.running + totals.answered,
                total=totals.total,
                why=safe_line(stop_reason(run)),
                gates=tuple(note.get("gates", ())),
            )

    def _asked(self, dataset: Path, name: str, note: Path, positions: Iterable[int]) -> Run:
        terms = self._terms
        here = load_project(project_root(terms.root), trusting=terms.trust)
        prepared = prepared_run(
            here,
            dataset,
            terms.target,
            terms.judge,
            None,
            sweep={},
            tags=("pytest",),
            without_judges=terms.without_judges,
            allow_unjudged=terms.allow_unjudged,
            positions=frozenset(positions),
            max_cost=terms.max_cost,
            shared_limit=self._folder.name,
            use_cache=terms.use_cache,
        )

        def note_key(key: str) -> None:
            write_private_json(note, {"name": name, "key": key})

        return wait_for(execute_prepared(prepared, here, stored=note_key))

    def _continued(self, key: str) -> Run:
        return resume(key, trust=self._terms.trust, project=self._terms.root)

    def _stored(self, key: str) -> Run:
        with Reader(store_of(project_root(self._terms.root))) as reader:
            return read_run(reader, reader.find_run(key))


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold a lock between the processes of a session for a block."""
    with file.open("w") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def read_note(file: Path) -> Mapping[str, Any]:
    """A note on a run; empty where there is none."""
    note: Mapping[str, Any] = json.loads(read_text(file)) if file.exists() else {}
    return note
