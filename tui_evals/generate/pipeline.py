"""The way through the steps: each starts as soon as what it needs is there, and what is done is never done again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.save import CannotSave, ChangedOnDisk
from tui_evals.runs.executors.base import Stopped

from .asking import CannotGenerate, Halted
from .shapes import Test, UnreadableFile, rows_text
from .steps import BY_NAME, STEPS, Step, after, before
from .work import Work

State = Literal["kept", "started", "made", "failed"]
Told = Callable[[Step, State, str], None]
Confirmed = Callable[[Step], Awaitable[bool]]
_MISTAKES = (CannotGenerate, UnreadableFile, DatasetError, CannotSave, ChangedOnDisk)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a generation ended: what it made, and why it is not finished, if it is not."""

    made: tuple[str, ...]
    finished: bool
    problems: tuple[str, ...] = ()
    stopped: Stopped | None = None
    halted: bool = False


def chosen(work: Work, until: str | None) -> list[Step]:
    """The steps of a generation up to one of them, without those nobody asked for."""
    wanted = before([until]) if until else set(BY_NAME)
    return [step for step in STEPS if step.name in wanted and (step.wanted(work.options) or step.name == until)]


def begin_again(work: Work, *names: str) -> Path | None:
    """Set aside what some steps and those after them wrote, or keep a copy of what some rules change; where to."""
    if not names:
        return work.folder.set_aside(
            copies=["tests.json"] * bool(work.again) + ["inverse_rules.txt"] * bool(work.invert)
        )
    steps = after(*names)
    owned = {step.file: step.name for step in reversed(STEPS) if step.file}
    files = [step.file for step in steps if owned.get(step.file) == step.name]
    if "dataset" in names:
        files.append(f"{work.subject.name}.json")
    longer = BY_NAME["expansion"] in steps and "tests.json" not in files
    tests = [test for test in work.tests if test.testinputOriginal is not None] if longer else []
    place = work.folder.set_aside(dict.fromkeys(files), copies=["tests.json"] * bool(tests))
    if tests:
        work.folder.write("tests.json", rows_text([_shorter(test) for test in work.tests]))
    return place


def _shorter(test: Test) -> Test:
    """A test as it was before its input was made longer."""
    before = {"testinput": test.testinputOriginal, "testinputOriginal": None}
    return test if test.testinputOriginal is None else test.model_copy(update=before)


class Pipeline:
    """One generation under way."""

    def __init__(self, work: Work, steps: Sequence[Step], told: Told, confirmed: Confirmed | None = None) -> None:
        self._work = work
        self._steps = list(steps)
        self._told = told
        self._confirmed = confirmed
        self._over = {step.name: asyncio.Event() for step in self._steps}
        self._asking = asyncio.Lock()
        self._made: list[str] = []
        self._failed: set[str] = set()
        self._problems: list[str] = []
        self._stopped: Stopped | None = None
        self._halted = False

    def halt(self) -> None:
        """Begin nothing new; what is in flight is let finish and kept."""
        self._halted = True
        self._quiet()

    def _quiet(self) -> None:
        if self._work.talk is not None:
            self._work.talk.halt()

    async def run(self) -> Ended:
        """Take all steps, those that do not need each other at the same time."""
        try:
            async with asyncio.TaskGroup() as group:
                for step in self._steps:
                    group.create_task(self._when_ready(step))
        finally:
            await asyncio.gather(*(model.target.close() for model in self._work.models.all), return_exceptions=True)
        finished = not self._failed and not self._halted
        return Ended(tuple(self._made), finished, tuple(self._problems), self._stopped, self._halted)

    async def _when_ready(self, step: Step) -> None:
        """Take a step after those it needs; one that lacks something is not taken."""
        try:
            for need in before(step.needs):
                if need in self._over:
                    await self._over[need].wait()
            if not self._halted and self._stopped is None and not self._failed & before(step.needs):
                await self._take(step)
            else:
                self._failed.add(step.name)
        finally:
            self._over[step.name].set()

    async def _take(self, step: Step) -> None:
        try:
            if step.done(self._work):
                self._told(step, "kept", "")
                return
            self._told(step, "started", "")
            text = await step.make(self._work)
            if step.file:
                self._work.folder.wrote(step.file, text, step.sources, self._author(step), self._work.texts)
        except Halted:
            self._failed.add(step.name)
        except Stopped as stopped:
            self._failed.add(step.name)
            self._stopped = self._stopped or stopped
            self._quiet()
        except _MISTAKES as problem:
            self._failed.add(step.name)
            self._problems.append(f"{step.name}: {problem}")
            self._told(step, "failed", str(problem))
        else:
            self._made.append(step.name)
            self._told(step, "made", "" if step.file else text)
            await self._ask(step)

    def _author(self, step: Step) -> str:
        """Who wrote the file of a step, and whether by a script."""
        models, talk = self._work.models, self._work.talk
        by = {"baseline": models.baseline, "groundtruth": models.groundtruth}.get(step.name, models.rules)
        judged = step.name in ("groundedness", "review") and models.judges
        name = (models.judges[0] if judged else by).config.name
        return f"{name} (scripted)" if talk is not None and name in talk.scripted else name

    async def _ask(self, step: Step) -> None:
        """Let a person look at what a step made; a no ends the generation here."""
        if self._confirmed is None:
            return
        async with self._asking:
            if not self._halted and not await self._confirmed(step):
                self.halt()
