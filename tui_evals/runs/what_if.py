"""The verdicts of a run under other thresholds, weights, label values and pass rules, from stored scores.

No call is made. The verdicts equal those of rescoring; if a score is not enough, the answer stays open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tui_evals.datasets.model import Item
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.verdicts import Scale, label_scale, parse_scale, threshold_problem
from tui_evals.light_records import dataclass
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project
from tui_evals.runs.rescoring import RescoreRequest, Rule, judging_now, prepare_rescore
from tui_evals.runs.scoring import FORMAT_KEY, Column
from tui_evals.runs.scoring_passes import deciding_options, under_options
from tui_evals.runs.status import Status, status_of
from tui_evals.store.details import scores_of
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
    """The changes in a run."""

    statuses: Mapping[int, Status]
    """The status of each answer that stored scores tell."""
    changed: tuple[ChangedVerdict, ...]
    columns: Mapping[Column, tuple[PassCount, PassCount]]
    """By prompt and target, before and after; open answers are included."""
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
            moved = under_options(evaluator, record) if record.result not in ("error", "skipped") else record
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
        """Whether only threshold, weight and label values of an evaluator differ."""
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
    """What rescoring a run by other rules would change; raises CannotPlan and similar errors."""
    after = prepare_rescore(run, replace(request, allow_unjudged=True), reader, project).plan
    rule = StatusRule(judging_now(run, reader, project), after)
    return summed_up(_statuses(_scored(reader, run), rule), _verdicts(reader, run))


def _verdicts(reader: Reader, run: RunRow) -> Mapping[int, str]:
    return {label.answer: label.verdict for label in reader.labels(run.id) if label.evaluator is None}


_STEPS = 20
"""The number of thresholds to try for an evaluator that gave many different scores."""
_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)


class StoredScores:
    """The scores of a run in memory, to try one rule after another on them."""

    def __init__(self, run: RunRow, reader: Reader, project: Project) -> None:
        self.run = run
        self._project = project
        self._before = judging_now(run, reader, project)
        self._scored = list(_scored(reader, run))
        self._verdicts = _verdicts(reader, run)
        self._scales: dict[str, tuple[Scale, float | None]] = {}
        """The scale of labels that an evaluator has, and its threshold where that does not follow from the scale."""

    def rules(self) -> list[Rule]:
        """The current thresholds, label values and weights by evaluator, then the pass rule.

        If an evaluator has different options in several places, the first ones count.
        """
        found: dict[tuple[str, str], Rule] = {}
        self._scales.clear()
        for entries, _ in self._before.evaluator_sets:
            for entry in entries:
                assigned = self._before.assigned(entry, lambda _: None)
                threshold = assigned.evaluator.passing_score
                if assigned.evaluator.compares and threshold is not None:
                    found.setdefault(("threshold", entry.key), Rule("threshold", threshold, entry.key))
                for rule in self._label_rules(entry.key, assigned.evaluator):
                    found.setdefault((f"scale {rule.label}", entry.key), rule)
                found.setdefault(("weight", entry.key), Rule("weight", assigned.weight, entry.key))
        needed = next((item.threshold for item in self._before.dataset.items if item.threshold is not None), 1.0)
        return [*found.values(), Rule("pass rule", needed)]

    def _label_rules(self, key: str, evaluator: Evaluator) -> Iterator[Rule]:
        """The labels of an evaluator whose value can be moved while its question stays."""
        scale, options = label_scale(type(evaluator), evaluator.options), evaluator.options
        if scale is None or key in self._scales:
            return
        self._scales[key] = scale, options.threshold if "threshold" in options.model_fields_set else None
        for label, value in scale.labels.items():
            rule = None if value is None else Rule("scale", value, key, label)
            if rule is not None and len(self.steps(rule)) > 1:
                yield rule

    def _label_values(self, rule: Rule) -> list[float]:
        """The values of the other labels and the threshold that keep the order of the labels."""
        scale, threshold = self._scales[rule.key]
        values = {value for value in scale.labels.values() if value is not None}
        fitting = {rule.value}
        for value in values if threshold is None else values | {threshold}:
            labels = {**scale.labels, rule.label: value}
            if len({one for one in labels.values() if one is not None}) > 1:
                moved = parse_scale(labels)
                if moved.best_first == scale.best_first and threshold_problem(moved, threshold) is None:
                    fitting.add(value)
        return sorted(fitting)

    def steps(self, rule: Rule) -> list[float]:
        """The values that a rule is moved through: those at which a verdict may change, and the one it has."""
        if rule.name == "pass rule":
            return sorted({rule.value, *(step / _STEPS for step in range(1, _STEPS + 1))})
        if rule.name == "scale":
            return self._label_values(rule)
        if rule.name == "weight":
            return sorted({rule.value, *_WEIGHTS})
        own = (one for _, records in self._scored for one in records if one.key == rule.key)
        scores = sorted({one.score for one in own if one.score is not None})
        if len(scores) > _STEPS:
            low, high = scores[0], scores[-1]
            scores = [float(f"{low + (high - low) * step / _STEPS:.3g}") for step in range(_STEPS + 1)]
        return sorted({rule.value, *scores})

    def tried(self, rules: Iterable[Rule], reader: Reader) -> WhatIf:
        """The changes under other rules; CannotPlan names a rule that no evaluator has."""
        request = RescoreRequest(rules=tuple(rules), allow_unjudged=True)
        after = prepare_rescore(self.run, request, reader, self._project).plan
        return summed_up(_statuses(self._scored, StatusRule(self._before, after)), self._verdicts)


ScoredAnswer = tuple[AnswerRow, Sequence[ScoreRecord]]


def _scored(reader: Reader, run: RunRow) -> Iterator[ScoredAnswer]:
    """The judged answers of a run with the scores that count."""
    for start in range(0, run.total, _PAGE):
        rows = [row for row in reader.window(run.id, start, _PAGE) if row.code is None and _is_final(row)]
        scores = scores_of(reader, [row.id for row in rows], run.scoring_pass)
        yield from ((row, tuple(scores.get(row.id, ()))) for row in rows)


def _statuses(scored: Iterable[ScoredAnswer], rule: StatusRule) -> Iterator[tuple[AnswerRow, Status | None]]:
    return ((row, rule.status(row, records)) for row, records in scored)


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
