"""Executing a generation: its steps in the name of a run, with progress and messages in the store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from tui_evals.generate.exports import dataset_path
from tui_evals.generate.folder import LARGEST
from tui_evals.generate.pipeline import Step
from tui_evals.generate.request import claim_folder, open_session, unfinished_run
from tui_evals.generate.work import PROMPT, Generation
from tui_evals.light_records import dataclass
from tui_evals.present.battles import generation_stopped, outdated_note, step_message
from tui_evals.project_files import read_bytes
from tui_evals.runs.activities import ActivityRecord, Progress, Storing, recorded_activity
from tui_evals.runs.asking import StoreLedger
from tui_evals.runs.executors import Stopped
from tui_evals.runs.limits import Budget
from tui_evals.store.battles import Order
from tui_evals.store.reader import Reader
from tui_evals.store.records import StoreWait
from tui_evals.store.writer import Writer

from . import pipeline
from .asking import ModelAsker
from .request import SILENT, ChosenSteps, FoundGeneration


class Listener(Protocol):
    """A face that shows a generation while it is made."""

    def tell(self, note: str) -> None:
        """Show a note that stops nothing."""

    def progress(self, step: str, done: int, total: int) -> None:
        """Show how far a step is."""

    def step(self, step: Step, state: pipeline.State, result: str) -> None:
        """Show what became of a step."""

    def show_wait(self, wait: StoreWait, is_over: bool) -> None:
        """Show what the generation waits for."""


class Silence:
    """The listener of a face that shows nothing."""

    def tell(self, note: str) -> None:
        """Show nothing."""

    def progress(self, step: str, done: int, total: int) -> None:
        """Show nothing."""

    def step(self, step: Step, state: pipeline.State, result: str) -> None:
        """Show nothing."""

    def show_wait(self, wait: StoreWait, is_over: bool) -> None:
        """Show nothing."""


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """The result of a generation."""

    work: Generation
    steps: Sequence[Step]
    ended: pipeline.PipelineOutcome
    spent: float
    notes: tuple[str, ...]
    """Notes about files that are older than their sources."""

    @property
    def dataset(self) -> Path | None:
        """The dataset; None before there is one."""
        file = dataset_path(self.work)
        return file if file.exists() else None

    @property
    def reason(self) -> str:
        """Why it is not finished; empty where it is."""
        if self.ended.stopped is not None:
            return generation_stopped(str(self.ended.stopped))
        if self.ended.halted:
            return generation_stopped("")
        return " ".join(self.ended.problems)


class GenerationExecution:
    """A running generation, which stores its progress and obeys orders from the store."""

    def __init__(
        self,
        found: FoundGeneration,
        work: Generation,
        budget: Budget,
        reader: Reader,
        writer: Writer,
        *,
        listener: Listener,
        chosen: ChosenSteps,
        confirm: pipeline.ConfirmStep | None = None,
        key: str | None = None,
    ) -> None:
        self._found = found
        self._budget = budget
        self._before = budget.spent
        self._reader = reader
        self._writer = writer
        self._listener = listener
        self._chosen = chosen
        self._confirm = confirm
        self._key = key
        self._work = replace(work, tell=self._tell, progress=self._count)
        self._record: ActivityRecord | None = None
        self._storing: Storing | None = None
        self._pipeline: pipeline.Pipeline | None = None
        self._task: asyncio.Task[pipeline.PipelineOutcome] | None = None
        self._over: set[str] = set()
        self._counts: dict[str, tuple[int, int]] = {}
        self._is_stopped = False

    # -- orders

    def stop(self) -> None:
        """Begin nothing new; open calls finish and are kept."""
        self._is_stopped = True
        if self._storing is not None:
            self._storing.give_up()
        if self._pipeline is not None:
            self._pipeline.stop()

    def abort(self) -> None:
        """End now."""
        if self._task is not None:
            self._task.cancel()

    def _obey(self, order: Order) -> None:
        if order == "stop":
            self.stop()
        else:
            self.abort()

    # -- messages

    def _tell(self, note: str) -> None:
        self._listener.tell(note)
        if self._record is not None:
            self._record.say(note)

    def _count(self, step: str, done: int, total: int) -> None:
        self._listener.progress(step, done, total)
        self._counts[step] = (done, total)

    def _step(self, step: Step, state: pipeline.State, result: str) -> None:
        self._listener.step(step, state, result)
        if state == "started":
            self._counts.setdefault(step.name, (0, 0))
            return
        self._counts.pop(step.name, None)
        self._over.add(step.name)
        told = step.name in SILENT or state == "kept" or (state == "made" and step.name in self._work.gaps)
        if self._record is not None and not told:
            self._record.say(step_message(step.name, state, result, has_file=bool(step.file)))

    @property
    def _progress(self) -> Progress:
        facts = {"steps": {name: list(count) for name, count in self._counts.items()}, "gaps": {**self._work.gaps}}
        return Progress(len(self._over), len(self._chosen.steps), self._budget.spent - self._before, facts)

    # -- the work

    async def run(self) -> GenerationResult:
        """Take the steps, with a run that records their cost."""
        found, chosen, store = self._found, self._chosen, self._reader.path
        with claim_folder(self._work.folder, store), ExitStack() as stack:
            is_over = bool(found.request.until) or unfinished_run(self._work.folder, self._reader) is None
            place = pipeline.set_results_aside(self._work, *(step.name for step in chosen.begin))
            is_made = is_over and all(step.done(self._work) for step in chosen.steps if step.file)
            if not is_made or self._key is not None:
                request = found.request.stored()
                self._record = stack.enter_context(
                    recorded_activity(self._reader, self._writer, "generation", found.about, request, self._key)
                )
            if place is not None:
                self._tell(f"the earlier files are in {place}")
            self._note_inputs()
            ended = await (self._take_steps() if is_made else self._take_steps_in_session())
            if found.request.use_cache:
                for note in _came_out_alike(self._work, chosen.begin, ended.made, place):
                    self._tell(note)
        steps = [step for step in chosen.steps if step.sources and step.name not in ended.made]
        notes = tuple(_outdated(self._work, steps))
        return GenerationResult(self._work, chosen.steps, ended, self._budget.spent - self._before, notes)

    def _note_inputs(self) -> None:
        """Save the inputs for later commands."""
        work = self._work
        folder, file = work.folder.path.resolve(), work.subject.file
        prompt = Path(os.path.relpath(file.parent.resolve() / file.name, folder)).as_posix()
        work.folder.note(prompt=prompt, options=work.options.kept(), targets=self._found.roles.names)

    async def _take_steps(self) -> pipeline.PipelineOutcome:
        """Take steps that ask nothing."""
        ended = await self._pipeline_outcome()
        await self._end(ended)
        return ended

    async def _take_steps_in_session(self) -> pipeline.PipelineOutcome:
        """Take the steps within a session, whose run keeps how they ended."""
        found, work, request = self._found, self._work, self._found.request
        anew = bool(self._chosen.begin or work.again or work.invert)
        use_cache = request.use_cache and not (work.again or work.invert)
        session = open_session(
            work.subject, work.folder, found.roles, self._writer, self._reader, self._reader.path, anew=anew
        )
        async with session as current:
            self._budget.of_run(current.run.id, self._reader, self._writer)
            self._before = self._budget.spent
            ledger = StoreLedger(self._reader, self._writer, current.run.id)
            self._work = replace(work, asker=ModelAsker(ledger, current.run.key, use_cache=use_cache))
            self._storing = current.storing
            ended = await self._pipeline_outcome()
            current.finished = ended.finished
            if ended.stopped is not None:
                current.message, current.code = str(ended.stopped), ended.stopped.code
            elif ended.problems and not ended.halted:
                current.message, current.code = ended.problems[0], "failed"
        if current.lost:
            return replace(ended, finished=False, stopped=Stopped(current.lost, "store"))
        await self._end(ended)
        return ended

    async def _pipeline_outcome(self) -> pipeline.PipelineOutcome:
        self._pipeline = pipeline.Pipeline(self._work, self._chosen.steps, self._step, self._confirm)
        if self._storing is not None:
            self._storing.watch(self._pipeline, self._listener.show_wait)
        if self._is_stopped:
            self._pipeline.stop()
        self._task = asyncio.create_task(self._pipeline.run())
        try:
            if self._record is not None:
                await self._record.attend(self._task, lambda: self._progress, self._obey, self._storing)
            return await self._task
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            return pipeline.PipelineOutcome((), False, halted=True)

    async def _end(self, ended: pipeline.PipelineOutcome) -> None:
        """Store how it ended."""
        if self._record is None:
            return
        code = ended.stopped.code if ended.stopped is not None else "asked" if ended.halted else "failed"
        reason = GenerationResult(self._work, (), ended, 0.0, ()).reason
        finished = ended.finished and ended.stopped is None
        await self._record.end(
            self._progress, finished=finished, message="" if finished else reason, code="" if finished else code
        )


def _came_out_alike(
    work: Generation, begin: Sequence[Step], made: Collection[str], place: Path | None
) -> Iterator[str]:
    """A note for each repeated step whose file is unchanged."""
    for step in begin:
        if place is not None and step.name in made and _is_same(work.folder.path / step.file, place / step.file):
            yield f"{step.file} came out as it was, for its question was asked before; --no-cache asks it again"


def _is_same(new: Path, old: Path) -> bool:
    return new.is_file() and old.is_file() and _content(new) == _content(old)


def _content(file: Path) -> bytes:
    return read_bytes(file, most=LARGEST)


def _outdated(work: Generation, steps: Sequence[Step]) -> Iterator[str]:
    """Notes on files older than their sources; files with the same sources share one note."""
    alike: dict[tuple[str, ...], list[Step]] = {}
    for step in steps:
        if changed := work.folder.outdated(step.file, work.texts):
            changed_names = (work.subject.file.name if source == PROMPT else source for source in changed)
            alike.setdefault(tuple(changed_names), []).append(step)
    for sources, made in alike.items():
        files = list(dict.fromkeys(step.file for step in made))
        yield outdated_note(files, sources, [step.name for step in made])
