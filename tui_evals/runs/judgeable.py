"""What of a plan nothing could judge, known before it runs: evaluators that lack a library, a yes or a file here."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .plan import CannotPlan, Plan


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An evaluator that can judge nothing here, why and what mends it, and how many answers it was to judge."""

    key: str
    reason: str
    answers: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        count = f"{self.answers:,} {'answer' if self.answers == 1 else 'answers'}"
        return f"{self.key} cannot judge any of {count}: {self.reason}"


class Unjudgeable(CannotPlan):
    """Some evaluators of a run can judge nothing here."""

    def __init__(self, obstacles: tuple[Obstacle, ...]) -> None:
        self.obstacles = obstacles
        self.reason = ". ".join(obstacle.sentence for obstacle in obstacles)
        way_out = "Mend that, choose other evaluators, or pass --allow-unjudged to go on without their verdicts"
        super().__init__(f"{self.reason}. {way_out}", "arguments")


def obstacles_of(plan: Plan) -> tuple[Obstacle, ...]:
    """Every evaluator of a plan that can judge nothing here; those that are left out with the judges are none."""
    counts: dict[tuple[str, str], int] = {}
    reasons: dict[tuple[str, str], str | None] = {}
    for entries, answers in plan.evaluator_sets:
        for entry in entries:
            mark = entry.key, json.dumps([entry.evaluator, entry.settings], sort_keys=True, default=str)
            if mark not in counts:
                kind = plan.registry.find(entry.evaluator)
                left_out = plan.without_judges and kind.judged
                made = None if left_out else kind(kind.Options.model_validate(entry.settings))
                reasons[mark] = made.obstacle() if made is not None else None
            counts[mark] = counts.get(mark, 0) + answers
    by_key: dict[tuple[str, str], int] = {}
    for mark, reason in reasons.items():
        if reason is not None:
            by_key[mark[0], reason] = by_key.get((mark[0], reason), 0) + counts[mark]
    return tuple(Obstacle(key, reason, count) for (key, reason), count in by_key.items())


def check_judgeable(plan: Plan) -> None:
    """Unjudgeable where an evaluator of the plan can judge nothing here."""
    if obstacles := obstacles_of(plan):
        raise Unjudgeable(obstacles)
