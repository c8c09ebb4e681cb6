"""What a generation will take before it starts: calls of each step, and about how much money."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tui_evals.runs.asking import Asked
from tui_evals.text.tokens import estimate_tokens

from . import expanding, reviewing, truth
from .shapes import chunks, lines_of, numbered
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


def shares(work: Work, steps: Sequence[Step], again: Collection[str] = ()) -> list[Share]:
    """The share of each step; those in `again` are taken whatever is there."""
    return [_share(work, step, step.name in again) for step in steps if step.name not in _FREE]


def _share(work: Work, step: Step, again: bool) -> Share:
    if not again and step.done(work):
        return Share(step.name, 0, 0.0, True)
    known = work.folder.read("rules.txt") is not None
    rules = len(lines_of(work.folder.read("rules.txt"))) or work.options.max_rules or _RULES
    per_list = min(rules, work.options.max_rules or rules)
    counted = numbered(["rule"] * rules, ["rule"] * rules, work.options.max_rules)
    chosen = [rule for rule in counted if not work.again or rule.number in work.again]
    parts = len(work.subject.scenarios) * len(
        chunks(chosen, work.options.max_rules_per_test_generation, work.options.split_rules)
    )
    rounds, scenarios = work.options.test_generations, len(work.subject.scenarios)
    tests = len(work.tests) or 2 * per_list * work.options.tests_per_rule * rounds * scenarios
    there = bool(work.tests)
    judges, options = len(work.models.groundtruth_judges), work.options
    per_test = options.validity + 2 * options.coverage
    calls = {
        "tests": parts * rounds,
        "inverse": len(work.invert) or 1,
        "groundedness": len(reviewing.ungrounded(work)) if known else rules,
        "expansion": (len(expanding.unexpanded(work)) if there else tests) * options.test_expansions,
        "review": (len(reviewing.unreviewed(work)) if there else tests) * per_test,
        "groundtruth": (len(truth.untold(work)) if there else tests) * (1 + judges),
    }.get(step.name, 1)
    certain = {"tests": known, "groundedness": known, "expansion": there, "review": there, "groundtruth": there}
    written = {
        "tests": len(chosen) * scenarios * rounds * options.tests_per_rule * _TEST_TOKENS,
        "baseline": tests * _TEST_TOKENS,
    }.get(step.name, calls * _WRITTEN.get(step.name, 150))
    read = calls * (estimate_tokens(work.body) + _ASKED_AROUND)
    return Share(step.name, calls, _cost(_asked(work, step), read, written), certain.get(step.name, True))


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
