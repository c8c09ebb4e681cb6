"""The steps of a generation: what each needs, which file it writes, and when it is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from tui_evals.evaluators.compliance import discover_metrics

from . import reviewing, testing, truth, writing
from .dataset import write_dataset
from .openai_exports import PromptFacts, all_exports
from .options import Options
from .shapes import rows_text
from .testing import baseline_tests, name_tests
from .work import PROMPT, Generation


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `make` returns the text of its file."""

    name: str
    file: str
    needs: tuple[str, ...]
    make: Callable[[Generation], Awaitable[str]]
    about: str
    sources: tuple[str, ...] = ()
    """The files it is made from, or the prompt; an edit of one makes its own file out of date."""
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
    """The tests, each with a name of its own; baseline tests are added where they are wanted."""
    if not work.options.baseline_tests:
        return rows_text(name_tests(work, work.tests))
    own = [test for test in work.tests if not test.baseline]
    return rows_text([*name_tests(work, own), *baseline_tests(work)])


async def _write_dataset(work: Generation) -> str:
    return write_dataset(work)


async def _write_exports(work: Generation) -> str:
    """Write the files for other programs; one that the user changed stays."""
    facts = PromptFacts(work.text("intent.txt"), work.text("input_spec.txt"), work.text("rules.txt"))
    metrics = discover_metrics(work.subject.file.parent)
    written = []
    for export in all_exports(work.subject, work.tests, list(work.truths.values()), facts, metrics, work.under_test):
        for sentence in export.left_out:
            work.tell(f"{export.filename}: {sentence}")
        if work.folder.edited(export.filename):
            work.tell(f"{export.filename} stays as you changed it; delete it to have it written anew")
            continue
        work.folder.write_result(export.filename, export.text, (), None)
        written.append(export.filename)
    return ", ".join(written)


STEPS: tuple[Step, ...] = (
    Step("intent", "intent.txt", (), writing.write_intent, "what the prompt is for", (PROMPT,)),
    Step("inputspec", "input_spec.txt", (), writing.write_input_spec, "what limits its input", (PROMPT,)),
    Step("rules", "rules.txt", (), writing.write_rules, "what every output has to keep", (PROMPT,)),
    Step(
        "inverse",
        "inverse_rules.txt",
        ("rules",),
        writing.write_inverse_rules,
        "what would break each rule",
        ("rules.txt",),
        left=lambda work: bool(work.invert) or work.folder.read("inverse_rules.txt") is None,
    ),
    Step(
        "groundedness",
        "rule_evals.json",
        ("rules",),
        reviewing.check_groundedness,
        "whether the prompt says what the rules say",
        wanted=lambda options: options.groundedness,
        left=lambda work: not work.rules or bool(reviewing.rules_to_ground(work)),
    ),
    Step(
        "tests",
        "tests.json",
        ("inputspec", "inverse"),
        testing.write_tests,
        "inputs that test the rules",
        ("input_spec.txt", "rules.txt", "inverse_rules.txt"),
        left=lambda work: bool(work.again) or work.folder.read("tests.json") is None,
    ),
    Step(
        "baseline",
        "baseline_tests.txt",
        ("tests",),
        testing.write_baseline,
        "inputs made from the prompt alone",
        wanted=lambda options: options.baseline_tests,
    ),
    Step("labels", "tests.json", ("tests", "baseline"), _label_tests, "a name for each test", left=_labels_missing),
    Step(
        "expansion",
        "tests.json",
        ("intent", "labels"),
        writing.expand_tests,
        "inputs made longer",
        wanted=lambda options: options.test_expansions > 0,
        left=lambda work: not work.tests or bool(writing.tests_to_expand(work)),
    ),
    Step(
        "review",
        "test_evals.json",
        ("intent", "expansion"),
        reviewing.review_tests,
        "whether tests are valid and rules say enough",
        wanted=lambda options: options.validity or options.coverage,
        left=lambda work: not work.tests or bool(reviewing.tests_to_review(work)),
    ),
    Step(
        "groundtruth",
        "test_groundtruth.json",
        ("intent", "expansion"),
        truth.write_groundtruth,
        "what a trusted model answers",
        wanted=lambda options: options.groundtruth,
        left=lambda work: not work.tests or bool(truth.tests_without_truth(work)),
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
