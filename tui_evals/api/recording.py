"""Answers that tests give themselves: the cases of a dataset, and one run that stores and judges the answers.

All processes of a pytest session share the run. A separate process executes it. Its target takes the answers of tests
from a folder, so limits, judges and the store work as in every other run.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tui_evals.api.arguments import TargetLike
from tui_evals.api.evaluating import execute_prepared, prepared_run, resume
from tui_evals.api.run import Run, RunStopped, read_run
from tui_evals.api.watching import Answer, answer_of, wait_for
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.document import load
from tui_evals.datasets.item_names import names_in_run
from tui_evals.datasets.matrix import expanded
from tui_evals.files import write_private_json
from tui_evals.interpreter import python_command
from tui_evals.present.runs import run_facts, stop_reason
from tui_evals.project_files import read_text
from tui_evals.runs.engine import Engine, ExecutionEnd
from tui_evals.runs.executors import WaitCut
from tui_evals.runs.project import Project, load_project, store_of
from tui_evals.runs.start import PreparedRun
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader
from tui_evals.targets.answers import parse_reply
from tui_evals.targets.base import ConfigurationError, Reply, Request, Usage
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe_line
from tui_evals.transcript import from_json, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """How a session asks and judges; the fields have the meaning of the parameters of `evaluate`."""

    root: str
    target: str | None = None
    judge: str | None = None
    without_judges: bool = False
    max_cost: float | None = None
    trust: bool = False
    allow_unjudged: bool = False
    use_cache: bool = True

    @property
    def project(self) -> Project:
        """The project of the session."""
        return load_project(project_root(Path(self.root)), trusting=self.trust)

    def prepared(
        self,
        here: Project,
        dataset: Path,
        target: TargetLike | None,
        positions: Iterable[int],
        shared_limit: str,
        **more: Any,
    ) -> PreparedRun:
        """A run of the items of a dataset at these positions; runs of one `shared_limit` share their budget."""
        return prepared_run(
            here,
            dataset,
            target,
            self.judge,
            None,
            sweep={},
            tags=("pytest",),
            without_judges=self.without_judges,
            allow_unjudged=self.allow_unjudged,
            positions=frozenset(positions),
            max_cost=self.max_cost,
            shared_limit=shared_limit,
            use_cache=self.use_cache,
            **more,
        )


@dataclass(frozen=True, slots=True)
class ClosingLine:
    """The closing lines of a session about the run of a dataset."""

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
        why = f": {self.why}" if self.why else ""
        return f"{self.dataset}: {self.missing:,} of {counted(self.total, 'answer')} are missing{why}"

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
        self._folder, self.terms = folder, terms

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
            with Reader(store_of(project_root(Path(self.terms.root)))) as reader:
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
        here = self.terms.project
        prepared = self.terms.prepared(here, dataset, self.terms.target, positions, self._folder.name)

        def note_key(key: str) -> None:
            write_private_json(note, {"name": name, "key": key})

        return wait_for(execute_prepared(prepared, here, stored=note_key))

    def _continued(self, key: str) -> Run:
        return resume(key, trust=self.terms.trust, project=self.terms.root)

    def _stored(self, key: str) -> Run:
        with Reader(store_of(project_root(Path(self.terms.root)))) as reader:
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


POLL = 0.02
_UNFINISHED = ("pending", "running", "answered")
_TERMS, _END, _OVER, _FAILED, _LOG, _PROCESS = "terms", "end", "over", "failed", "log", "process"


@dataclass(frozen=True, slots=True)
class Case:
    """One item of a dataset, for a test that produces the answer itself."""

    dataset: Path
    name: str
    position: int
    item: Mapping[str, Any] = field(repr=False)
    """The whole item, once a matrix is expanded."""

    @property
    def prompt(self) -> str:
        """The question; in a conversation, that of its first turn."""
        return str(self._unit.get("prompt") or "")

    @property
    def expected(self) -> str | None:
        """The expected response; in a conversation, that of its first turn."""
        return self._unit.get("expected_response") or next(iter(self._unit.get("ideal") or ()), None)

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables of the item."""
        return self.item.get("variables") or {}

    @property
    def _unit(self) -> Mapping[str, Any]:
        turns = self.item.get("turns")
        return turns[0] if isinstance(turns, list) and turns else self.item


def cases_of(dataset: Path) -> list[Case]:
    """The cases of a dataset, in the order of its items; DatasetError where it cannot be read."""
    asked, _ = expanded(load(dataset))
    items = asked.data["items"]
    names = names_in_run([name if isinstance(name := item.get("testId"), str) else None for item in items])
    return [Case(dataset, name, place, item) for place, (item, name) in enumerate(zip(items, names, strict=True))]


Test = TypeVar("Test", bound=Callable[..., Any])


def cases(dataset: str | Path, *, marks: Mapping[str, Any] | None = None) -> Callable[[Test], Test]:
    """Parametrize a pytest test with the items of a dataset, passed as its argument `case`.

    The path is relative to the folder of the test, one above it in the project, or the folder in which pytest starts.
    Category and tags of an item become marks of its test. `marks` adds marks by item name, one or a list: `{"refund":
    pytest.mark.xfail}`.
    """
    wanted = dict(marks or {})

    def decorate(test: Test) -> Test:
        import pytest  # which only tests need

        file = _dataset_near(Path(dataset), Path(inspect.getfile(test)).resolve().parent)
        found = cases_of(file)
        if unknown := wanted.keys() - {case.name for case in found}:
            raise ValueError(f"marks of @cases names {min(unknown)!r}, and {file.name} has no such item")
        parameters = [pytest.param(case, id=case.name, marks=wanted.get(case.name, ())) for case in found]
        decorated: Test = pytest.mark.parametrize("case", parameters)(test)
        return decorated

    return decorate


def _dataset_near(dataset: Path, folder: Path) -> Path:
    top = project_root(folder)
    places = [folder, *(place for place in folder.parents if place.is_relative_to(top)), Path.cwd()]
    return next((place / dataset for place in places if (place / dataset).is_file()), folder / dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingTerms:
    """How the run of recorded answers is judged; a file passes it to the process that executes the run."""

    name: str
    dataset: str
    positions: list[int]
    process: int
    """The process of the session: after its end nothing more is answered."""
    session: SessionTerms


class RecordingFailed(Exception):
    """An answer could not be recorded; the message says why."""


class NotJudged(RecordingFailed):
    """The run ended before it judged an answer, because of its limit of cost or an outage."""


class TestRecording:
    """The run of the recorded answers to one dataset, as the processes of a session see it."""

    def __init__(self, note: Path) -> None:
        self._note = note
        self._folder = note.with_suffix(".answers")

    def demand(self, terms: RecordingTerms) -> None:
        """Start the process that executes the run, unless another process of the session did."""
        with locked(self._note.with_suffix(".lock")):
            if not self._folder.exists():
                self._folder.mkdir(mode=0o700)
                self._start(terms)

    def end(self) -> None:
        """Tell the process that no more answers will come, and wait until the run has ended."""
        (self._folder / _END).touch()
        while not (self._folder / _OVER).exists() and _is_alive(int(read_text(self._folder / _PROCESS))):
            time.sleep(POLL)

    def _start(self, terms: RecordingTerms) -> None:
        """Start the process that executes the run."""
        write_private_json(self._folder / _TERMS, asdict(terms))
        with (self._folder / _LOG).open("wb") as log:
            command = python_command("-m", "tui_evals.api.recording", str(self._folder))
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=terms.session.root,
                start_new_session=True,
            )
        (self._folder / _PROCESS).write_text(str(process.pid))

    def record(self, case: Case, value: object, *, turn: int, root: Path, since: float) -> Answer:
        """Store an answer, and return it once it is judged; raises RecordingFailed."""
        now = time.time()
        reply = parse_reply(value, case.name)
        file = self._folder / f"{case.position}-{turn}.answer"
        if file.exists():
            raise RecordingFailed(f"An answer of {case.name} is recorded already. A test records one for each turn.")
        write_private_json(file, _reply_data(reply) | {"started": since, "seconds": now - since})
        key = self._key()
        with Reader(store_of(project_root(root))) as reader:
            item = reader.snapshot(reader.find_run(key).snapshot)["items"][case.position]
            while True:
                run = reader.find_run(key)  # before the answer, which may be judged just as the run ends
                rows = [row for row in reader.answers_to(run.id, [case.position]) if row.turn == turn]
                if rows and rows[0].status not in _UNFINISHED:
                    (told,) = read_details(reader, run, rows)
                    return answer_of(run, told, item)
                if run.status in ("interrupted", "finished"):
                    why = run.message or f"the run {key} is {run.status}"
                    raise NotJudged(f"not judged: {why}")
                time.sleep(POLL)

    def _key(self) -> str:
        """The key of the run, after waiting until it is stored."""
        while not (note := read_note(self._note)):
            if (self._folder / _FAILED).exists() or not _is_alive(int(read_text(self._folder / _PROCESS))):
                why = self._folder / _FAILED
                raise RecordingFailed(read_text(why if why.exists() else self._folder / _LOG))
            time.sleep(POLL)
        return str(note["key"])


_PLAIN = ("text", "tool_calls", "cost", "model", "finish_reason")


def _reply_data(reply: Reply) -> dict[str, Any]:
    """A reply as JSON data, for the process that executes the run."""
    return {
        **{name: getattr(reply, name) for name in _PLAIN},
        "usage": None if reply.usage is None else asdict(reply.usage),
        "transcript": None if reply.transcript is None else to_json(reply.transcript),
    }


def _reply_from_data(data: Mapping[str, Any]) -> Reply:
    usage, transcript = data["usage"], data["transcript"]
    fields = {
        **data,
        "tool_calls": tuple(data["tool_calls"]),
        "usage": None if usage is None else Usage(**usage),
        "transcript": None if transcript is None else from_json(transcript),
    }
    return Reply(**fields)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


class _Answers:
    """A target that gives to each question what its test answered."""

    name = "pytest"
    keeps_time = True

    def __init__(self, folder: Path, session: int) -> None:
        self._folder, self._session = folder, session
        self._run_ends = False

    async def ask(self, request: Request) -> Reply:
        """The answer of this item's test, after waiting for it."""
        file = self._folder / f"{request.position}-{request.turn}.answer"
        while not file.exists():
            if self._run_ends:
                raise WaitCut
            if (self._folder / _END).exists() or not _is_alive(self._session):
                raise ConfigurationError("the tests ended without an answer to every item")
            await asyncio.sleep(POLL)
        return _reply_from_data(json.loads(await asyncio.to_thread(read_text, file)))

    async def follow(self, engine: Engine, work: asyncio.Task[ExecutionEnd]) -> None:
        """Wait for no more tests once answers are not judged any more: they wait for the run."""
        while not work.done():
            self._run_ends = self._run_ends or engine.is_halted
            await asyncio.wait({work}, timeout=POLL)

    async def close(self) -> None:
        """Nothing to close."""


async def _execute(folder: Path, note: Path, terms: RecordingTerms) -> None:
    here = terms.session.project
    answers = _Answers(folder, terms.process)
    at_once = max(len(terms.positions), 1)
    prepared = terms.session.prepared(
        here, Path(terms.dataset), answers, terms.positions, note.parent.name, concurrency=at_once
    )

    def note_key(key: str) -> None:
        write_private_json(note, {"name": terms.name, "key": key, "ended": True})

    await execute_prepared(prepared, here, stored=note_key, companion=lambda run, store: answers.follow)


def main(folder: Path) -> None:
    """Execute the run of a folder of answers."""
    stored = json.loads(read_text(folder / _TERMS))
    terms = RecordingTerms(**{**stored, "session": SessionTerms(**stored["session"])})
    try:
        asyncio.run(_execute(folder, folder.with_suffix(".json"), terms))
    except RunStopped:
        pass  # the store says why, and the session too
    except Exception as problem:
        part = folder / f"{_FAILED}.part"
        part.write_text(str(problem) or type(problem).__name__)
        part.rename(folder / _FAILED)
    finally:
        (folder / _OVER).touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
