"""What a generation will take before it starts: calls of each step, and about how much money."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tui_evals.runs.asking import Asked
from tui_evals.text.tokens import estimate_tokens

from . import expanding, reviewing, truth
from .shapes import Test, chunks, lines_of, numbered
from .steps import Step
from .work import Work

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


def shares(work: Work, steps: Sequence[Step], again: Collection[str] = ()) -> list[Share]:
    """The share of each step; those in `again` are taken whatever is there."""
    rules = _rules(work, again)
    tests = _tests(work, again, rules)
    return [_share(work, step, again, rules, tests) for step in steps if step.name not in _FREE]


def _rules(work: Work, again: Collection[str]) -> int:
    known = 0 if "rules" in again else len(lines_of(work.folder.read("rules.txt")))
    return known or work.options.max_rules or _RULES


def _tests(work: Work, again: Collection[str], rules: int) -> _Tests:
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


def _share(work: Work, step: Step, again: Collection[str], rules: int, tests: _Tests) -> Share:
    options, anew = work.options, step.name in again
    ruled = replace(tests, kept=[test for test in tests.kept if not test.baseline], baseline=0)
    calls = {
        "tests": tests.questions,
        "inverse": len(work.invert) or int(anew or not step.done(work)),
        "groundedness": rules if anew else len(reviewing.ungrounded(work)) or rules * (not work.rules),
        "expansion": ruled.rows(expanding.unexpanded(work), anew) * options.test_expansions,
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


def _asked(work: Work, step: Step) -> Sequence[Asked]:
    models = work.models
    if step.name == "groundtruth":
        return (models.groundtruth, *models.groundtruth_judges)
    if step.name in ("review", "groundedness"):
        return models.judges[:1]
    return (models.baseline if step.name == "baseline" else models.rules,)


def _cost(asked: Sequence[Asked], read: int, written: int) -> float | None:
    """The mean of those asked, each of whom takes its share of the calls."""
    prices = [one.price for one in asked]
    if any(price is None for price in prices):
        return None
    costs = [(read * p.input_per_million + written * p.output_per_million) / 1e6 for p in prices if p is not None]
    return sum(costs) / len(costs) if costs else 0.0
