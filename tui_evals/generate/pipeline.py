"""The way through the steps: each starts as soon as what it needs is there, and what is done is never done again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.save import CannotSave, ChangedOnDisk
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.executors.base import Stopped
from tui_evals.text.tokens import estimate_tokens

from . import reviewing, truth, writing
from .asking import CannotGenerate, Halted
from .shapes import Test, UnreadableFile, chunks, lines_of, numbered, rows_text
from .steps import BY_NAME, STEPS, Step, after, before
from .work import Generation

State = Literal["kept", "started", "made", "failed"]
Told = Callable[[Step, State, str], None]
Confirmed = Callable[[Step], Awaitable[bool]]
_MISTAKES = (CannotGenerate, UnreadableFile, DatasetError, CannotSave, ChangedOnDisk)


@dataclass(frozen=True, slots=True)
class PipelineOutcome:
    """How a generation ended: what it made, and why it is not finished, if it is not."""

    made: tuple[str, ...]
    finished: bool
    problems: tuple[str, ...] = ()
    stopped: Stopped | None = None
    halted: bool = False


def chosen(work: Generation, until: str | None) -> list[Step]:
    """The steps of a generation up to one of them, without those nobody asked for."""
    wanted = before([until]) if until else set(BY_NAME)
    return [step for step in STEPS if step.name in wanted and (step.wanted(work.options) or step.name == until)]


def begin_again(work: Generation, *names: str) -> Path | None:
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

    def __init__(self, work: Generation, steps: Sequence[Step], told: Told, confirmed: Confirmed | None = None) -> None:
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

    async def run(self) -> PipelineOutcome:
        """Take all steps, those that do not need each other at the same time."""
        try:
            async with asyncio.TaskGroup() as group:
                for step in self._steps:
                    group.create_task(self._when_ready(step))
        finally:
            await asyncio.gather(*(model.target.close() for model in self._work.models.all), return_exceptions=True)
        finished = not self._failed and not self._halted
        return PipelineOutcome(tuple(self._made), finished, tuple(self._problems), self._stopped, self._halted)

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


_RULES = 10
"""How many rules a prompt has, before anybody has counted them."""
_WRITTEN = {"intent": 40, "inputspec": 120, "rules": 300, "inverse": 300, "review": 150, "groundedness": 60}
_FREE = ("labels", "dataset", "exports")
"""The steps that ask nobody."""
_TEST_TOKENS = 90
_ASKED_AROUND = 500


@dataclass(frozen=True, slots=True)
class Share:
    """What one step takes; no cost where a price is not known, no calls where its file is there."""

    step: str
    calls: int
    cost: float | None
    certain: bool
    """Whether the calls are counted, not guessed from how many rules prompts have."""


@dataclass(frozen=True, slots=True)
class _Tests:
    """The tests there will be: those that stay, and how many are still to be written."""

    kept: Sequence[Test]
    of_rules: int
    questions: int
    baseline: int

    def rows(self, undone: Sequence[Test], again: bool) -> int:
        """How many tests a step has to look at: the new ones, and of those that stay what is undone, or all."""
        names = {test.testuid for test in undone}
        return self.of_rules + self.baseline + sum(again or test.testuid in names for test in self.kept)


def shares(work: Generation, steps: Sequence[Step], again: Collection[str] = ()) -> list[Share]:
    """The share of each step; those in `again` are taken whatever is there."""
    rules = _rules(work, again)
    tests = _tests(work, again, rules)
    return [_share(work, step, again, rules, tests) for step in steps if step.name not in _FREE]


def _rules(work: Generation, again: Collection[str]) -> int:
    known = 0 if "rules" in again else len(lines_of(work.folder.read("rules.txt")))
    return known or work.options.max_rules or _RULES


def _tests(work: Generation, again: Collection[str], rules: int) -> _Tests:
    options, scenarios = work.options, len(work.subject.scenarios)
    every = numbered(["rule"] * rules, ["rule"] * rules, options.max_rules)
    chosen = [rule for rule in every if not work.again or rule.number in work.again]
    kept = [] if "tests" in again else [test for test in work.tests if test.ruleid not in work.again]
    if "baseline" in again:
        kept = [test for test in kept if not test.baseline]
    rounds = scenarios * options.test_generations
    writes = "tests" in again or bool(work.again) or not work.tests
    new = len(chosen) * rounds * options.tests_per_rule if writes else 0
    parts = chunks(chosen, options.max_rules_per_test_generation, options.split_rules)
    baseline = options.baseline_tests and ("baseline" in again or work.folder.read("baseline_tests.txt") is None)
    ruled = new + sum(1 for test in kept if not test.baseline)
    return _Tests(kept, new, len(parts) * rounds if writes else 0, ruled if baseline else 0)


def _share(work: Generation, step: Step, again: Collection[str], rules: int, tests: _Tests) -> Share:
    options, anew = work.options, step.name in again
    ruled = replace(tests, kept=[test for test in tests.kept if not test.baseline], baseline=0)
    calls = {
        "tests": tests.questions,
        "inverse": len(work.invert) or int(anew or not step.done(work)),
        "groundedness": rules if anew else len(reviewing.ungrounded(work)) or rules * (not work.rules),
        "expansion": ruled.rows(writing.unexpanded(work), anew) * options.test_expansions,
        "review": tests.rows(reviewing.unreviewed(work), anew) * (options.validity + 2 * options.coverage),
        "groundtruth": tests.rows(truth.untold(work), anew) * (1 + len(work.models.groundtruth_judges)),
    }.get(step.name, int(anew or not step.done(work)))
    written = {
        "tests": tests.of_rules * _TEST_TOKENS,
        "baseline": tests.baseline * _TEST_TOKENS,
    }.get(step.name, calls * _WRITTEN.get(step.name, 150))
    read = calls * (estimate_tokens(work.body) + _ASKED_AROUND)
    known = "rules" not in again and work.folder.read("rules.txt") is not None
    of_tests = step.name in ("expansion", "review", "groundtruth")
    certain = (
        not (tests.of_rules or tests.baseline) if of_tests else known or step.name not in ("tests", "groundedness")
    )
    return Share(step.name, calls, _cost(_asked(work, step), read, written) if calls else 0.0, certain)


def _asked(work: Generation, step: Step) -> Sequence[PricedTarget]:
    models = work.models
    if step.name == "groundtruth":
        return (models.groundtruth, *models.groundtruth_judges)
    if step.name in ("review", "groundedness"):
        return models.judges[:1]
    return (models.baseline if step.name == "baseline" else models.rules,)


def _cost(asked: Sequence[PricedTarget], read: int, written: int) -> float | None:
    """The mean of those asked, each of whom takes its share of the calls."""
    prices = [one.price for one in asked]
    if any(price is None for price in prices):
        return None
    costs = [(read * p.input_per_million + written * p.output_per_million) / 1e6 for p in prices if p is not None]
    return sum(costs) / len(costs) if costs else 0.0
