"""What verdicts a run would have under other thresholds, weights and pass rules, from stored scores and without a call.

A verdict found here is the one that judging again gives. Where a score does not tell, the answer is left open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tui_evals.datasets.model import Item
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.evaluators.base import Evaluator
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project
from tui_evals.runs.rescoring import RescoreRequest, judging_now, prepare_rescore
from tui_evals.runs.scoring import FORMAT_KEY, Column
from tui_evals.runs.scoring_passes import at_threshold, deciding_options
from tui_evals.runs.status import Status, status_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord

_PAGE = 2_000


@dataclass(frozen=True, slots=True)
class ChangedVerdict:
    """An answer that has another status under the new rules."""

    answer: int
    before: str
    after: Status


@dataclass(frozen=True, slots=True)
class PassCount:
    """How many answers of a column pass, of how many that pass or fail."""

    passed: int
    judged: int

    @property
    def share(self) -> float:
        """The part that passes."""
        return self.passed / self.judged if self.judged else 0.0


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would change in a run."""

    statuses: Mapping[int, Status]
    """The status of each answer that stored scores tell."""
    changed: tuple[ChangedVerdict, ...]
    columns: Mapping[Column, tuple[PassCount, PassCount]]
    """By prompt and target, before and after; open answers count as they are."""
    open: int
    """Answers that have to be judged again to know."""
    contradicted: int
    """Verdicts of people on answers as a whole that the new statuses contradict."""
    contradicted_before: int


class StatusRule:
    """The status of answers under a plan, from the scores that another plan gave."""

    def __init__(self, before: Plan, after: Plan) -> None:
        self._before, self._after = before, after
        self._evaluators: dict[tuple[str, str], tuple[Evaluator, float]] = {}
        self._alike: dict[tuple[str, str, str], bool] = {}

    def status(self, row: AnswerRow, records: Iterable[ScoreRecord]) -> Status | None:
        """The status of an answer; None where its scores do not tell."""
        item = self._after.dataset.items[row.item].asking(row.repeat)
        known = {record.key: record for record in records}
        held: list[ScoreRecord] = []
        together = False
        earlier = {one.key: one for one in self._before.resolved(self._asked_before(row), row.turn)}
        for entry in self._after.resolved(item, row.turn):
            evaluator, weight = self._assigned(entry)
            if not self._is_own(evaluator, item, row.turn, entry.key):
                together |= not (self._after.without_judges and evaluator.judged)
                continue
            record = known.get(entry.key)
            if record is None or not self._same(earlier.get(entry.key), entry, evaluator):
                return None
            moved = at_threshold(evaluator, record) if record.result not in ("error", "skipped") else record
            if moved is None:
                return None
            held.append(replace(moved, weight=weight))
        form = known.get(FORMAT_KEY)
        if form is not None:
            held.append(form)
            if form.result == "fail":
                return "fail"
        return status_of(held, 1.0 if item.threshold is None else item.threshold, together=together)

    def _asked_before(self, row: AnswerRow) -> Item:
        return self._before.dataset.items[row.item].asking(row.repeat)

    def _is_own(self, evaluator: Evaluator, item: Item, turn: int, key: str) -> bool:
        if evaluator.scope == "thread":
            return self._after.judges_thread(item, turn, key)
        return evaluator.scope == "answer"

    def _assigned(self, entry: EffectiveEvaluator) -> tuple[Evaluator, float]:
        mark = (entry.key, repr(entry.options))
        if mark not in self._evaluators:
            assigned = self._after.assigned(entry, lambda _: None)
            self._evaluators[mark] = (assigned.evaluator, assigned.weight)
        return self._evaluators[mark]

    def _same(self, before: EffectiveEvaluator | None, now: EffectiveEvaluator, evaluator: Evaluator) -> bool:
        """Whether only threshold and weight of an evaluator differ."""
        if before is None or before.evaluator != now.evaluator:
            return False
        mark = (now.key, repr(before.options), repr(now.options))
        if mark not in self._alike:
            rubrics = self._before.rubric, self._after.rubric
            options = [
                deciding_options(type(evaluator), entry, rubric)
                for entry, rubric in zip((before, now), rubrics, strict=True)
            ]
            self._alike[mark] = options[0] == options[1]
        return self._alike[mark]


def what_if(run: RunRow, request: RescoreRequest, reader: Reader, project: Project) -> WhatIf:
    """What judging a run again by other rules would change; CannotPlan and the like say why they cannot judge it."""
    after = prepare_rescore(run, replace(request, allow_unjudged=True), reader, project).plan
    rule = StatusRule(judging_now(run, reader, project), after)
    verdicts = {label.answer: label.verdict for label in reader.labels(run.id) if label.evaluator is None}
    return summed_up(_statuses(reader, run, rule), verdicts)


def _statuses(reader: Reader, run: RunRow, rule: StatusRule) -> Iterator[tuple[AnswerRow, Status | None]]:
    for start in range(0, run.total, _PAGE):
        rows = [row for row in reader.window(run.id, start, _PAGE) if row.code is None and _is_final(row)]
        scores = reader.scores_of([row.id for row in rows], run.scoring_pass)
        yield from ((row, rule.status(row, scores.get(row.id, ()))) for row in rows)


def _is_final(row: AnswerRow) -> bool:
    return row.status not in ("pending", "running", "answered")


def summed_up(found: Iterable[tuple[AnswerRow, Status | None]], verdicts: Mapping[int, str]) -> WhatIf:
    """New statuses of answers, held against the old ones and against people's verdicts."""
    statuses: dict[int, Status] = {}
    changed: list[ChangedVerdict] = []
    counts: dict[Column, list[Counter[str]]] = {}
    left_open = contradicted = contradicted_before = 0
    for row, told in found:
        after = row.status if told is None else told
        left_open += told is None
        if told is not None:
            statuses[row.id] = told
            if told != row.status:
                changed.append(ChangedVerdict(row.id, row.status, told))
        for counter, status in zip(
            counts.setdefault((row.prompt, row.target), [Counter(), Counter()]), (row.status, after), strict=True
        ):
            counter[status] += 1
        label = verdicts.get(row.id)
        contradicted += _contradicts(label, after)
        contradicted_before += _contradicts(label, row.status)
    columns = {column: (_passes(both[0]), _passes(both[1])) for column, both in sorted(counts.items())}
    return WhatIf(statuses, tuple(changed), columns, left_open, contradicted, contradicted_before)


def _passes(counts: Counter[str]) -> PassCount:
    return PassCount(counts["pass"], counts["pass"] + counts["fail"])


def _contradicts(label: str | None, status: str) -> bool:
    return label is not None and status in ("pass", "fail") and label != status
