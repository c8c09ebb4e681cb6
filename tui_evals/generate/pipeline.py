"""The steps of a generation: their inputs and files, how they run, and their costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.save import ChangedOnDisk
from tui_evals.evaluators.compliance import discover_metrics
from tui_evals.files import CannotSave
from tui_evals.generate import steps
from tui_evals.generate.asking import CannotGenerate, Halted
from tui_evals.generate.exports import PromptFacts, all_exports, evaluators_of_tests, write_dataset
from tui_evals.generate.folder import Test, UnreadableFile, chunk_rules, number_rules, rows_text, rule_lines
from tui_evals.generate.steps import baseline_tests, name_tests
from tui_evals.generate.work import PROMPT, Generation, Options
from tui_evals.light_records import dataclass
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.availability import Left, Unavailable, why_left_open
from tui_evals.runs.executors import Stopped
from tui_evals.runs.judges import price_for
from tui_evals.store.database import StoreError
from tui_evals.targets.base import Price, TargetConfig
from tui_evals.text.measures import estimate_tokens


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `make` returns the text of its file."""

    name: str
    file: str
    needs: tuple[str, ...]
    make: Callable[[Generation], Awaitable[str]]
    about: str
    sources: tuple[str, ...] = ()
    """Its source files, or the prompt; an edit of one makes the step's file outdated."""
    wanted: Callable[[Options], bool] = lambda options: True
    left: Callable[[Generation], bool] | None = None
    """Whether something is left to do, where this does not follow from the file alone."""

    def done(self, work: Generation) -> bool:
        """Whether the step need not be taken."""
        return not self.left(work) if self.left is not None else work.folder.read(self.file) is not None


def _labels_missing(work: Generation) -> bool:
    """Whether tests lack a name of their own, or baseline tests are not added yet."""
    tests = work.tests
    if not all(test.testuid for test in tests) or len({test.testuid for test in tests}) < len(tests):
        return True
    if not work.options.baseline_tests:
        return False
    baseline_inputs = {test.testinput for test in tests if test.baseline}
    return any(test.testinput not in baseline_inputs for test in baseline_tests(work))


async def _label_tests(work: Generation) -> str:
    """The tests with unique names; baseline tests are added if requested."""
    if not work.options.baseline_tests:
        return rows_text(name_tests(work, work.tests))
    own = [test for test in work.tests if not test.baseline]
    return rows_text([*name_tests(work, own), *baseline_tests(work)])


async def _write_dataset(work: Generation) -> str:
    return write_dataset(work)


async def _write_exports(work: Generation) -> str:
    """Write the files for other programs; one that the user changed is kept."""
    facts = PromptFacts(work.text("intent.txt"), work.text("input_spec.txt"), work.text("rules.txt"))
    metrics = discover_metrics(work.subject.file.parent)
    written = []
    for export in all_exports(work.subject, work.tests, list(work.truths.values()), facts, metrics, work.under_test):
        for sentence in export.left_out:
            work.tell(f"{export.filename}: {sentence}")
        if work.folder.edited(export.filename):
            work.tell(f"{export.filename} stays as you changed it; delete it to generate it again")
            continue
        work.folder.write_result(export.filename, export.text, (), None)
        written.append(export.filename)
    return ", ".join(written)


STEPS: tuple[Step, ...] = (
    Step("intent", "intent.txt", (), steps.write_intent, "what the prompt is for", (PROMPT,)),
    Step("inputspec", "input_spec.txt", (), steps.write_input_spec, "what limits its input", (PROMPT,)),
    Step("rules", "rules.txt", (), steps.write_rules, "what every output has to keep", (PROMPT,)),
    Step(
        "inverse",
        "inverse_rules.txt",
        ("rules",),
        steps.write_inverse_rules,
        "what would break each rule",
        ("rules.txt",),
        left=lambda work: bool(work.invert) or work.folder.read("inverse_rules.txt") is None,
    ),
    Step(
        "groundedness",
        "rule_evals.json",
        ("rules",),
        steps.check_groundedness,
        "whether the prompt says what the rules say",
        wanted=lambda options: options.groundedness,
        left=lambda work: not work.rules or bool(steps.rules_to_ground(work)),
    ),
    Step(
        "tests",
        "tests.json",
        ("inputspec", "inverse"),
        steps.write_tests,
        "inputs that test the rules",
        ("input_spec.txt", "rules.txt", "inverse_rules.txt"),
        left=lambda work: bool(work.again) or work.folder.read("tests.json") is None,
    ),
    Step(
        "baseline",
        "baseline_tests.txt",
        ("tests",),
        steps.write_baseline,
        "inputs made from the prompt alone",
        wanted=lambda options: options.baseline_tests,
    ),
    Step("labels", "tests.json", ("tests", "baseline"), _label_tests, "a name for each test", left=_labels_missing),
    Step(
        "expansion",
        "tests.json",
        ("intent", "labels"),
        steps.expand_tests,
        "inputs made longer",
        wanted=lambda options: options.test_expansions > 0,
        left=lambda work: not work.tests or bool(steps.tests_to_expand(work)),
    ),
    Step(
        "review",
        "test_evals.json",
        ("intent", "expansion"),
        steps.review_tests,
        "whether tests are valid and rules say enough",
        wanted=lambda options: options.validity or options.coverage,
        left=lambda work: not work.tests or bool(steps.tests_to_review(work)),
    ),
    Step(
        "groundtruth",
        "test_groundtruth.json",
        ("intent", "expansion"),
        steps.write_groundtruth,
        "what a trusted model answers",
        wanted=lambda options: options.groundtruth,
        left=lambda work: not work.tests or bool(steps.tests_without_truth(work)),
    ),
    Step(
        "dataset",
        "",
        ("intent", "groundedness", "review", "groundtruth"),
        _write_dataset,
        "items to run",
        left=lambda work: True,
    ),
    Step("exports", "", ("dataset",), _write_exports, "the tests for other programs", left=lambda work: True),
)
BY_NAME = {step.name: step for step in STEPS}
_SYNONYMS = {
    "rule": "rules",
    "test": "tests",
    "input_spec": "inputspec",
    "input-spec": "inputspec",
    "ground-truth": "groundtruth",
}


def step_named(word: str) -> Step | None:
    """The step of a name, as PromptPex spells it too."""
    return BY_NAME.get(_SYNONYMS.get(word, word))


def needed_steps(names: Iterable[str]) -> set[str]:
    """The names of some steps and of all they need."""
    needed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += BY_NAME[name].needs
    return needed


def dependent_steps(*names: str) -> list[Step]:
    """Some steps and all that need one of them, in order."""
    return [step for step in STEPS if needed_steps([step.name]) & {*names}]


State = Literal["kept", "started", "made", "failed"]
StepReport = Callable[[Step, State, str], None]
ConfirmStep = Callable[[Step], Awaitable[bool]]
_STEP_ERRORS = (CannotGenerate, UnreadableFile, DatasetError, CannotSave, ChangedOnDisk)


@dataclass(frozen=True, slots=True)
class PipelineOutcome:
    """How a generation ended: its files, and why it is not finished, if it is not."""

    made: tuple[str, ...]
    finished: bool
    problems: tuple[str, ...] = ()
    stopped: Stopped | None = None
    halted: bool = False


def choose_steps(work: Generation, until: str | None) -> list[Step]:
    """The steps that the options ask for, up to one of them."""
    names = needed_steps([until]) if until else set(BY_NAME)
    return [step for step in STEPS if step.name in names and (step.wanted(work.options) or step.name == until)]


def set_results_aside(work: Generation, *names: str) -> Path | None:
    """Set aside the files of some steps and later ones, or copy the files that a rule changes; returns the folder."""
    if not names:
        return work.folder.set_aside(
            copies=["tests.json"] * bool(work.again) + ["inverse_rules.txt"] * bool(work.invert)
        )
    steps = dependent_steps(*names)
    owned = {step.file: step.name for step in reversed(STEPS) if step.file}
    files = [step.file for step in steps if owned.get(step.file) == step.name]
    if "dataset" in names:
        files.append(f"{work.subject.name}.json")
    longer = BY_NAME["expansion"] in steps and "tests.json" not in files
    tests = [test for test in work.tests if test.testinputOriginal is not None] if longer else []
    place = work.folder.set_aside(dict.fromkeys(files), copies=["tests.json"] * bool(tests))
    if tests:
        work.folder.write("tests.json", rows_text([_with_original_input(test) for test in work.tests]))
    return place


def _with_original_input(test: Test) -> Test:
    """A test with its original input, before it was extended."""
    before = {"testinput": test.testinputOriginal, "testinputOriginal": None}
    return test if test.testinputOriginal is None else test.model_copy(update=before)


class Pipeline:
    """One generation under way."""

    def __init__(
        self, work: Generation, steps: Sequence[Step], report: StepReport, confirm: ConfirmStep | None = None
    ) -> None:
        self._work = work
        self._steps = list(steps)
        self._report = report
        self._confirm = confirm
        self._ended = {step.name: asyncio.Event() for step in self._steps}
        self._confirming = asyncio.Lock()
        self._made: list[str] = []
        self._failed: set[str] = set()
        self._left: set[str] = set()
        """The steps that a model was to take that cannot be asked."""
        self._problems: list[str] = []
        self._stopped: Stopped | None = None
        self._halted = False

    def stop(self) -> None:
        """Begin nothing new; open requests finish and are kept."""
        self._halted = True
        self._stop_asking()

    def hold_asking(self) -> None:
        """Ask nothing, because what comes of it could not be stored."""
        self._hold(True)

    def go_on_asking(self) -> None:
        """Ask again."""
        self._hold(False)

    def _hold(self, held: bool) -> None:
        for model in self._work.models.all:
            model.room.gate.hold(held)

    def _stop_asking(self) -> None:
        if self._work.asker is not None:
            self._work.asker.halt()

    async def run(self) -> PipelineOutcome:
        """Run all steps, side by side where they do not need each other."""
        try:
            async with asyncio.TaskGroup() as group:
                for step in self._steps:
                    group.create_task(self._when_ready(step))
        finally:
            await asyncio.gather(*(model.target.close() for model in self._work.models.all), return_exceptions=True)
        finished = not self._failed and not self._halted
        stopped = self._stopped or self._left_open()
        return PipelineOutcome(tuple(self._made), finished, tuple(self._problems), stopped, self._halted)

    def _left_open(self) -> Stopped | None:
        """Why steps were left open by models that cannot be asked; None where none were."""
        if not self._left:
            return None
        states = [model.availability for model in self._work.models.all]
        message, code = why_left_open(states, (), Left())
        steps = [step.name for step in self._steps if step.name in self._left]
        return Stopped(f"{message}. Left open: {', '.join(steps)}", code)

    async def _when_ready(self, step: Step) -> None:
        """Run a step after those it needs, unless one of them failed."""
        try:
            for need in needed_steps(step.needs):
                if need in self._ended:
                    await self._ended[need].wait()
            if not self._halted and self._stopped is None and not self._failed & needed_steps(step.needs):
                await self._run_step(step)
            else:
                self._failed.add(step.name)
        finally:
            self._ended[step.name].set()

    async def _run_step(self, step: Step) -> None:
        try:
            if step.done(self._work):
                self._report(step, "kept", "")
                return
            self._report(step, "started", "")
            text = await step.make(self._work)
            if step.file:
                self._work.folder.write_result(step.file, text, step.sources, self._author(step), self._work.texts)
        except Halted:
            self._failed.add(step.name)
        except Unavailable:  # steps that ask other models continue
            self._failed.add(step.name)
            self._left.add(step.name)
        except (Stopped, StoreError) as problem:
            self._failed.add(step.name)
            self._stopped = self._stopped or (problem if isinstance(problem, Stopped) else Stopped(str(problem)))
            self._stop_asking()
        except _STEP_ERRORS as problem:
            self._failed.add(step.name)
            self._problems.append(f"{step.name}: {problem}")
            self._report(step, "failed", str(problem))
        else:
            self._made.append(step.name)
            self._report(step, "made", "" if step.file else text)
            await self._confirm_step(step)

    def _author(self, step: Step) -> str:
        """The model that wrote the file of a step, and whether by a script."""
        models, asker = self._work.models, self._work.asker
        by = {"baseline": models.baseline, "groundtruth": models.groundtruth}.get(step.name, models.rules)
        judged = step.name in ("groundedness", "review") and models.judges
        name = (models.judges[0] if judged else by).config.name
        return f"{name} (scripted)" if asker is not None and name in asker.scripted else name

    async def _confirm_step(self, step: Step) -> None:
        """Let the user review the file of a step; a no ends the generation."""
        if self._confirm is None:
            return
        async with self._confirming:
            if not self._halted and not await self._confirm(step):
                self.stop()


_TYPICAL_RULES = 10
"""How many rules a prompt is taken to have before they are written."""
_OUTPUT_TOKENS = {"intent": 40, "inputspec": 120, "rules": 300, "inverse": 300, "review": 150, "groundedness": 60}
_STEPS_WITHOUT_MODEL = ("labels", "dataset", "exports")
"""The steps that ask no model."""
_TEST_TOKENS = 90
_ANSWER_TOKENS = 150
_PROMPT_OVERHEAD = 500


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """The estimate of one step; no cost without a price, no calls if its file exists."""

    step: str
    calls: int
    cost: float | None
    certain: bool
    """Whether the calls are counted, not guessed from a typical number of rules."""


@dataclass(frozen=True, slots=True)
class _PlannedTests:
    """The tests there will be: those that stay, and how many are still to be written."""

    kept: Sequence[Test]
    of_rules: int
    questions: int
    baseline: int

    def rows(self, undone: Sequence[Test], again: bool) -> int:
        """How many tests a step has to look at: the new ones, and of the kept ones those undone, or all."""
        names = {test.testuid for test in undone}
        return self.of_rules + self.baseline + sum(again or test.testuid in names for test in self.kept)


def estimate_steps(work: Generation, steps: Sequence[Step], again: Collection[str] = ()) -> list[StepEstimate]:
    """The estimate of each step; those in `again` run even if their file exists."""
    rules = _count_rules(work, again)
    tests = _plan_tests(work, again, rules)
    return [_estimate_step(work, step, again, rules, tests) for step in steps if step.name not in _STEPS_WITHOUT_MODEL]


def estimate_runs(
    work: Generation, under_test: Sequence[TargetConfig], again: Collection[str] = ()
) -> list[StepEstimate]:
    """The estimate of running the tests on the models under test, and of judging their answers."""
    tests = _plan_tests(work, again, _count_rules(work, again))
    items = tests.of_rules + tests.baseline + len(tests.kept)
    items = min(items, work.options.max_tests_to_run or items)
    asked = items * work.options.runs_per_test
    judged = asked * len(under_test) * len(evaluators_of_tests(work)) if work.models.judges else 0
    read, certain = estimate_tokens(work.body), not (tests.of_rules or tests.baseline)
    said = asked * _ANSWER_TOKENS
    costs = [_price_cost(price_for(config), asked * (read + _TEST_TOKENS), said) for config in under_test]
    known = [cost for cost in costs if cost is not None]
    judging = _mean_cost(work.models.judges, judged * (read + _PROMPT_OVERHEAD), judged * _OUTPUT_TOKENS["review"])
    return [
        StepEstimate("run", asked * len(under_test), sum(known) if len(known) == len(costs) else None, certain),
        StepEstimate("judging", judged, judging if judged else 0.0, certain),
    ]


def _price_cost(price: Price | None, read: int, written: int) -> float | None:
    if price is None:
        return None
    return (read * price.input_per_million + written * price.output_per_million) / 1e6


def _count_rules(work: Generation, again: Collection[str]) -> int:
    written = 0 if "rules" in again else len(rule_lines(work.folder.read("rules.txt")))
    return written or work.options.max_rules or _TYPICAL_RULES


def _plan_tests(work: Generation, again: Collection[str], rules: int) -> _PlannedTests:
    options, scenarios = work.options, len(work.subject.scenarios)
    all_rules = number_rules(["rule"] * rules, ["rule"] * rules, options.max_rules)
    chosen = [rule for rule in all_rules if not work.again or rule.number in work.again]
    kept = [] if "tests" in again else [test for test in work.tests if test.ruleid not in work.again]
    if "baseline" in again:
        kept = [test for test in kept if not test.baseline]
    rounds = scenarios * options.test_generations
    writes = "tests" in again or bool(work.again) or not work.tests
    new = len(chosen) * rounds * options.tests_per_rule if writes else 0
    parts = chunk_rules(chosen, options.max_rules_per_test_generation, options.split_rules)
    baseline = options.baseline_tests and ("baseline" in again or work.folder.read("baseline_tests.txt") is None)
    ruled = new + sum(1 for test in kept if not test.baseline)
    return _PlannedTests(kept, new, len(parts) * rounds if writes else 0, ruled if baseline else 0)


def _estimate_step(
    work: Generation, step: Step, again: Collection[str], rules: int, tests: _PlannedTests
) -> StepEstimate:
    options, is_again = work.options, step.name in again
    answers_a_test = 1 + len(work.models.groundtruth_judges)
    ruled = replace(tests, kept=[test for test in tests.kept if not test.baseline], baseline=0)
    calls = {
        "tests": tests.questions,
        "inverse": len(work.invert) or int(is_again or not step.done(work)),
        "groundedness": rules if is_again else len(steps.rules_to_ground(work)) or rules * (not work.rules),
        "expansion": ruled.rows(steps.tests_to_expand(work), is_again) * options.test_expansions,
        "review": tests.rows(steps.tests_to_review(work), is_again) * (options.validity + 2 * options.coverage),
        "groundtruth": tests.rows(steps.tests_without_truth(work), is_again) * answers_a_test,
    }.get(step.name, int(is_again or not step.done(work)))
    written = {
        "tests": tests.of_rules * _TEST_TOKENS,
        "baseline": tests.baseline * _TEST_TOKENS,
    }.get(step.name, calls * _OUTPUT_TOKENS.get(step.name, 150))
    read = calls * (estimate_tokens(work.body) + _PROMPT_OVERHEAD)
    rules_written = "rules" not in again and work.folder.read("rules.txt") is not None
    if step.name in ("expansion", "review", "groundtruth"):
        certain = not (tests.of_rules or tests.baseline)
    else:
        certain = rules_written or step.name not in ("tests", "groundedness")
    cost = _mean_cost(_models_for(work, step), read, written) if calls else 0.0
    return StepEstimate(step.name, calls, cost, certain)


def _models_for(work: Generation, step: Step) -> Sequence[PricedTarget]:
    models = work.models
    if step.name == "groundtruth":
        return (models.groundtruth, *models.groundtruth_judges)
    if step.name in ("review", "groundedness"):
        return models.judges[:1]
    return (models.baseline if step.name == "baseline" else models.rules,)


def _mean_cost(models: Sequence[PricedTarget], read: int, written: int) -> float | None:
    """The mean cost of models that share the calls."""
    costs = [_price_cost(one.price, read, written) for one in models]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return None
    return sum(known) / len(known) if known else 0.0
