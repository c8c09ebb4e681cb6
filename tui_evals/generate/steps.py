"""The steps of a generation: what each needs, which file it writes, when there is nothing left for it to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from tui_evals.evaluators.compliance import discover_metrics

from . import reviewing, testing, truth, writing
from . import writing as expanding
from .dataset import write_dataset
from .openai_exports import Facts, exports
from .options import Options
from .shapes import rows_text
from .testing import baseline_rows, named
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
    """The files it is made from, or the prompt, of which an edit makes its own file out of date."""
    wanted: Callable[[Options], bool] = lambda options: True
    left: Callable[[Generation], bool] | None = None
    """Whether something is left to do, where its file alone does not say so."""

    def done(self, work: Generation) -> bool:
        """Whether the step need not be taken."""
        return not self.left(work) if self.left is not None else work.folder.read(self.file) is not None


async def _baseline_joined(work: Generation) -> str:
    """The tests with the baseline tests behind them."""
    own = [test for test in work.tests if not test.baseline]
    return rows_text([*named(work, own), *baseline_rows(work)])


def _unjoined(work: Generation) -> bool:
    """Whether tests lack a name of their own, or baseline tests are not among them yet."""
    tests = work.tests
    if not all(test.testuid for test in tests) or len({test.testuid for test in tests}) < len(tests):
        return True
    if not work.options.baseline_tests:
        return False
    known = {test.testinput for test in tests if test.baseline}
    return any(test.testinput not in known for test in baseline_rows(work))


def _labelled_or_joined(work: Generation) -> Awaitable[str]:
    return _baseline_joined(work) if work.options.baseline_tests else _labelled(work)


async def _labelled(work: Generation) -> str:
    return rows_text(named(work, work.tests))


async def _dataset(work: Generation) -> str:
    return write_dataset(work)


async def _exports(work: Generation) -> str:
    """Write what other programs take; a file that somebody changed stays."""
    facts = Facts(work.text("intent.txt"), work.text("input_spec.txt"), work.text("rules.txt"))
    metrics = discover_metrics(work.subject.file.parent)
    written = []
    for export in exports(work.subject, work.tests, list(work.truths.values()), facts, metrics, work.under_test):
        for said in export.left_out:
            work.tell(f"{export.filename}: {said}")
        if work.folder.edited(export.filename):
            work.tell(f"{export.filename} stays as you changed it; delete it to have it written anew")
            continue
        work.folder.wrote(export.filename, export.text, (), None)
        written.append(export.filename)
    return ", ".join(written)


STEPS: tuple[Step, ...] = (
    Step("intent", "intent.txt", (), writing.intent, "what the prompt is for", (PROMPT,)),
    Step("inputspec", "input_spec.txt", (), writing.inputspec, "what limits its input", (PROMPT,)),
    Step("rules", "rules.txt", (), writing.rules, "what every output has to keep", (PROMPT,)),
    Step(
        "inverse",
        "inverse_rules.txt",
        ("rules",),
        writing.inverse,
        "what would break each rule",
        ("rules.txt",),
        left=lambda work: bool(work.invert) or work.folder.read("inverse_rules.txt") is None,
    ),
    Step(
        "groundedness",
        "rule_evals.json",
        ("rules",),
        reviewing.groundedness,
        "whether the prompt says what the rules say",
        wanted=lambda options: options.groundedness,
        left=lambda work: not work.rules or bool(reviewing.ungrounded(work)),
    ),
    Step(
        "tests",
        "tests.json",
        ("inputspec", "inverse"),
        testing.tests,
        "inputs that test the rules",
        ("input_spec.txt", "rules.txt", "inverse_rules.txt"),
        left=lambda work: bool(work.again) or work.folder.read("tests.json") is None,
    ),
    Step(
        "baseline",
        "baseline_tests.txt",
        ("tests",),
        testing.baseline,
        "inputs made from the prompt alone",
        wanted=lambda options: options.baseline_tests,
    ),
    Step("labels", "tests.json", ("tests", "baseline"), _labelled_or_joined, "a name for each test", left=_unjoined),
    Step(
        "expansion",
        "tests.json",
        ("intent", "labels"),
        expanding.expansion,
        "inputs made longer",
        wanted=lambda options: options.test_expansions > 0,
        left=lambda work: not work.tests or bool(expanding.unexpanded(work)),
    ),
    Step(
        "review",
        "test_evals.json",
        ("intent", "expansion"),
        reviewing.review,
        "whether tests are valid and rules say enough",
        wanted=lambda options: options.validity or options.coverage,
        left=lambda work: not work.tests or bool(reviewing.unreviewed(work)),
    ),
    Step(
        "groundtruth",
        "test_groundtruth.json",
        ("intent", "expansion"),
        truth.groundtruth,
        "what a trusted model answers",
        wanted=lambda options: options.groundtruth,
        left=lambda work: not work.tests or bool(truth.untold(work)),
    ),
    Step(
        "dataset",
        "",
        ("intent", "groundedness", "review", "groundtruth"),
        _dataset,
        "items to run",
        left=lambda work: True,
    ),
    Step("exports", "", ("dataset",), _exports, "the tests for other programs", left=lambda work: True),
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


def before(names: Iterable[str]) -> set[str]:
    """Some steps with all they need."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += BY_NAME[name].needs
    return found


def after(*names: str) -> list[Step]:
    """Some steps with all that need one of them, in order."""
    return [step for step in STEPS if before([step.name]) & {*names}]
