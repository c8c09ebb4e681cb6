"""The sample project with runs in its store: what the scripted target says, at times that are fixed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from random import Random

from tests.pictures.still import Clock, still_world
from tui_evals.datasets.discover import make_demo
from tui_evals.datasets.document import load
from tui_evals.datasets.validate import dataset_of
from tui_evals.evaluators.registry import load_registry
from tui_evals.runs import execution, start
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.availability import room_of
from tui_evals.runs.executors import Cell
from tui_evals.runs.executors.local import LocalExecutor
from tui_evals.runs.judges import Judges
from tui_evals.runs.limits import Budget
from tui_evals.runs.plan import Plan
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, CallRecord, RunRow, ScoreRecord
from tui_evals.store.writer import Writer
from tui_evals.targets.base import Price
from tui_evals.targets.config import load_settings
from tui_evals.targets.demo import Demo

_HOUR, _DAY = 3_600.0, 86_400.0
_AT_ONCE = {"latency_ms": 0, "jitter_ms": 0, "error_rate": 1e-9}
"""Every tenth item still gets no answer, but no request fails only once, which would have to be waited for."""


@dataclass(frozen=True)
class Script:
    """A run that was: of which dataset, how long ago, and with which seed the target draws its answers."""

    dataset: str
    ago: float
    seed: int
    tags: tuple[str, ...] = ()
    note: str = ""
    name: str = ""


HISTORY = (
    Script("library-assistant", 9 * _DAY, 21),
    Script("wishes-as-json", 8 * _DAY, 2),
    Script("library-assistant", 6 * _DAY, 7, ("nightly",)),
    Script("moving-in", 5 * _DAY, 22, name="house rules, first try"),
    Script("library-assistant", 2 * _DAY, 10, ("nightly",)),
    Script("moving-in", 5 * _HOUR, 16, name="house rules, shorter"),
    Script("library-assistant", 3 * _HOUR, 36, ("release",), "The prompt that goes out on Monday."),
)
"""The seeds are such that later runs do better on the whole, and the last one worse here and there."""

UNDER_WAY = Script("library-assistant", 0.0, 27, ("nightly",))


@dataclass
class Said:
    """What came of asking everything once: a record, its scores and its calls for each position of the plan."""

    answers: dict[int, AnswerRecord] = field(default_factory=dict)
    scores: dict[int, tuple[Sequence[ScoreRecord], str, float | None]] = field(default_factory=dict)
    calls: dict[int, list[CallRecord]] = field(default_factory=dict)
    stopping = False

    def running(self, answer: int) -> None:
        """Nobody watches."""

    async def answered(self, answer: int, record: AnswerRecord, cache_key: str | None, target: str) -> bool:
        self.answers[answer] = record
        return True

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: str, score: float | None) -> None:
        self.scores[answer] = records, status, score

    def waiting(self, wait: object, answer: int | None) -> None:
        """Nobody watches."""

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Nothing is changed."""

    def called(self, record: CallRecord) -> None:
        assert record.answer is not None
        self.calls.setdefault(record.answer, []).append(record)

    async def cached(self, key: str) -> None:
        return None

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Nothing is asked twice."""

    async def may_start(self) -> bool:
        return True

    async def may_begin(self, answer: int) -> bool:
        return True


async def _said(plan: Plan, seed: int) -> Said:
    """Hold all conversations of a plan with a target that answers at once."""
    said, config = Said(), plan.targets[0]

    def asked(**more: str) -> PricedTarget:
        quick = replace(config, params={**_AT_ONCE, "seed": seed}, concurrency=8)
        return PricedTarget(
            quick, Demo(quick), {}, Price(0.0, 0.0), Budget(None), room_of(quick), cacheable=False, **more
        )

    executor = LocalExecutor(plan, [asked()], Judges({None: asked(kind="judge")}, said, False), said, False)
    await executor.execute({0: _cells(plan)})
    return said


def _cells(plan: Plan) -> Iterator[Cell]:
    """The conversations of a plan, their answers numbered by position."""
    for _, group in groupby(enumerate(plan.answers()), key=lambda numbered: numbered[1].cell):
        turns = list(group)
        first = turns[0][1]
        places = tuple(position for position, _ in turns)
        item = plan.dataset.items[first.item]
        yield Cell(item, first.name, first.item, first.prompt, first.target, first.repeat, places, {}, frozenset())


@dataclass(frozen=True)
class Project:
    """The sample project in a folder, and what is written into its store."""

    folder: Path
    clock: Clock

    @property
    def database(self) -> Path:
        return self.folder / ".evals" / "evals.db"

    def rows(self, run: RunRow) -> list[AnswerRow]:
        with Reader(self.database) as reader:
            return list(reader.all_rows(run.id))


def played(folder: Path) -> Path:
    """The sample project with its history, in a new folder."""
    folder.mkdir()
    make_demo(folder)
    with still_world(folder.parent) as clock:
        project = Project(folder, clock)
        open_store(project.database)
        for script in HISTORY:
            asyncio.run(_play(project, script))
    return folder


async def _play(project: Project, script: Script) -> None:
    """A run from its plan to its end."""
    clock = project.clock
    began = clock.now = clock.now - script.ago
    with Writer(project.database) as writer:
        plan, run = _planned(project, script, writer)
        took = await _commit(writer, project.rows(run), await _said(plan, script.seed), script.seed, began)
        writer.run_status(run.id, "finished", started=began, finished=began + took)
    clock.now += script.ago


def _planned(project: Project, script: Script, writer: Writer) -> tuple[Plan, RunRow]:
    known = load_registry()
    document = load(project.folder / "evals" / f"{script.dataset}.json")
    target = load_settings(project.folder).targets["demo"]
    dataset = dataset_of(document, known.catalogue, known.own)
    plan = Plan(dataset=dataset, targets=(target,), registry=known, judge=target)
    name, source = script.name or script.dataset, f"evals/{script.dataset}.json"
    terms = execution.Terms()
    run = start.store_plan(plan, document.data, terms, writer, {}, name=name, source=source, tags=script.tags)
    if script.note:
        writer.edit(run.id, note=script.note)
    return plan, run


async def _commit(writer: Writer, rows: Sequence[AnswerRow], said: Said, seed: int, began: float) -> float:
    """Write what was said of some answers, as if three had been asked at once; returns how long that took."""
    free = [began] * 3
    records: list[tuple[AnswerRow, AnswerRecord]] = []
    for row in rows:
        record = said.answers[row.pos]
        latency = None if record.code == "turnSkipped" else round(Random(f"{seed} {row.pos}").uniform(300, 1500), 1)
        records.append((row, replace(record, latency_ms=latency)))
        lane = free.index(min(free))
        for call in said.calls.get(row.pos, ()):
            took = latency if call.kind == "target" and latency else 412.0
            writer.call(replace(call, answer=row.id, started=free[lane], latency_ms=took), row.run)
            free[lane] += took / 1000
    texts = (writer.answered(row.id, one, "error" if one.text is None else "answered") for row, one in records)
    await asyncio.gather(*texts)
    judged = ((row, said.scores[row.pos]) for row in rows if row.pos in said.scores)
    await asyncio.gather(*(writer.scored(row.id, 1, *found) for row, found in judged))
    return max(free) - began


@dataclass(frozen=True)
class UnderWay:
    """A run that goes on when it is told to."""

    project: Project
    writer: Writer
    rows: Sequence[AnswerRow]
    said: Said

    async def go_on(self, first: int, last: int) -> None:
        """Answers from one position to another come in, and the next three are asked."""
        clock = self.project.clock
        for number, row in enumerate(self.rows[last : last + 3]):
            self.writer.running([row.id], clock.now - 0.4 * (3 - number))
        await _commit(self.writer, self.rows[first:last], self.said, UNDER_WAY.seed, clock.now)
        self.writer.heartbeat(self.rows[0].run)
        await asyncio.to_thread(self.writer.flush)


@asynccontextmanager
async def under_way(project: Project) -> AsyncIterator[UnderWay]:
    """Plan a run and own it."""
    with Writer(project.database) as writer:
        plan, run = _planned(project, UNDER_WAY, writer)
        writer.run_status(run.id, "running", started=project.clock.now)
        with hold(run_lock(project.database, run.key)):
            yield UnderWay(project, writer, project.rows(run), await _said(plan, UNDER_WAY.seed))
