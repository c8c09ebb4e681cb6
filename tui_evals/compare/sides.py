"""The answers of one run as a comparison needs them: by item, small, and with columns numbered like the other runs'."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from statistics import median
from typing import Any, NamedTuple

from tui_evals.store.figures import ComparedFields, JudgedFields
from tui_evals.store.records import AnswerStatus, RunRow, Totals
from tui_evals.store.rows import EarlierAttempt, JudgedBy, expected_item, references
from tui_evals.text.measures import common_measure, on_common_scale, parse_measure
from tui_evals.text.names import numbered

from .match import ItemKey
from .statistics import Interval, wilson

Evaluators = dict[str, dict[str, Any]]
"""Evaluators with their options, by key."""

CellKey = tuple[int, int, int, int]
"""Repeat, prompt, target and turn."""

Rubrics = Mapping[str, frozenset[str]]
"""The rubrics by which judges gave verdicts, by the evaluators' keys."""

_CONTENT = (
    "prompt",
    "expected_response",
    "ideal",
    "context",
    "messages",
    "attachments",
    "variables",
    "user",
    "tools",
    "response_format",
)


_NO_EXPECTATION = ("judge", "weight")


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the runs to compare: its answers, the dataset it asked, and what was judged."""

    run: RunRow
    rows: Iterable[ComparedFields]
    document: Mapping[str, Any]
    judged: Iterable[JudgedFields] = ()
    judged_by: JudgedBy | None = None
    """What the answers are judged by, where that is not the dataset that was asked."""
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often each evaluator gave each label that neither passes nor fails."""
    rubrics: Rubrics = field(default_factory=dict)
    """The rubrics by which judges gave the verdicts of an evaluator, where they are recorded."""
    rejudged: Mapping[int, EarlierAttempt] = field(default_factory=dict)
    """Answers by their ids that are judged by another expectation than their run."""
    totals: Mapping[int | None, Totals] = field(default_factory=dict)
    """Each target in numbers, and under None the whole run; without them nothing is known of cost and time."""
    latencies: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """The milliseconds to each answer of a target; those from the cache are left out."""
    unpriced: int = 0
    """The calls of targets and judges that nobody knows the price of."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run took of one target, or of all."""

    cost: float
    """US dollars, judges included."""
    unpriced: int
    input_tokens: int
    output_tokens: int
    latency: float | None
    """The median of the seconds to an answer; those from the cache are left out."""
    perhaps: float = 0.0
    """What calls without an answer may have cost besides."""


class Answer(NamedTuple):
    """One answer: enough to list it; answers of the same text look the same, the converse need not hold.

    Hundreds of thousands are made at once, so it is a plain tuple.
    """

    id: int
    status: AnswerStatus
    score: float | None
    text_hash: int


@dataclass(slots=True)
class _Scored:
    """The answers to which an evaluator gave scores in one measure, or bare verdicts."""

    answers: array[int] = field(default_factory=lambda: array("q"))
    verdicts: int = 0
    above: int = 0
    """How often what passes lies on or above the threshold, and what fails below it."""
    below: int = 0
    """How often it is the other way round."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How many of the answers that could be judged pass."""

    passed: int
    judged: int

    @property
    def share(self) -> float | None:
        """The pass rate; None when nothing was judged."""
        return self.passed / self.judged if self.judged else None

    @property
    def interval(self) -> Interval | None:
        """Where the true pass rate lies."""
        return wilson(self.passed, self.judged)


def column_name(run: RunRow, prompt: int, target: int) -> str:
    """The target, and the prompt under test where there is one."""
    return " · ".join(name for name in (numbered(run.targets)[target], run.prompts[prompt]) if name)


def share_scales(sides: Sequence[RunAnswers]) -> None:
    """Bring the scores of every evaluator to one scale in all runs, where theirs differ."""
    for key in dict.fromkeys(key for side in sides for key in side.scores):
        measure = common_measure(known for side in sides for known in side.scales(key))
        if parse_measure(measure).normalised:
            for side in sides:
                side.bring(key, measure)


class RunAnswers:
    """The answers of a run by item; `prompts` and `targets` say under which numbers the other runs know its columns."""

    def __init__(self, ran: ComparedRun, prompts: Mapping[int, int], targets: Mapping[int, int]) -> None:
        run = self.run = ran.run
        self.labels = ran.labels
        self.rubrics = ran.rubrics
        self.rejudged = ran.rejudged
        self.items: Sequence[Mapping[str, Any]] = ran.document["items"]
        self.judged_by = ran.judged_by or JudgedBy(ran.document, run.created)
        self.names: dict[int, str] = {}
        self.categories: dict[int, str] = {}
        self.answers: dict[CellKey, dict[int, Answer]] = {}
        """The answers by what they are to, then by item: most runs ask all items the same."""
        self.scores: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """The scores of each evaluator by the ids of the answers; a bare verdict counts 1 or 0."""
        self._scored: defaultdict[str, dict[str | None, _Scored]] = defaultdict(dict)
        """The same by what the scores are in, None for bare verdicts."""
        self.columns = {
            (prompts[p], targets[t]): column_name(run, p, t)
            for p in range(len(run.prompts))
            for t in range(len(run.targets))
        }
        self.statuses: Counter[tuple[str, AnswerStatus]] = Counter()
        self._totals, self._unpriced, self._latencies = ran.totals, ran.unpriced, ran.latencies
        # What many answers have in common is kept once: a run may have a hundred thousand.
        words: dict[Any, Any] = {}
        for answer_id, item, turn, prompt, target, repeat, name, category, status, score, code, preview in ran.rows:
            category, status = words.setdefault(category, category), words.setdefault(status, status)
            key = (repeat, prompts[prompt], targets[target], turn)
            self.names[item] = name
            self.categories[item] = category
            self.answers.setdefault(key, {})[item] = Answer(answer_id, status, score, hash((preview, code)))
            self.statuses[category, status] += 1
        for answer_id, evaluator, score, result, threshold, measure in ran.judged:
            if score is not None and not isfinite(score):  # an endless score has no mean
                continue
            by_measure, its_measure = self._scored[evaluator], None if score is None else measure
            scored = by_measure.get(its_measure)
            if scored is None:
                scored = by_measure[its_measure] = _Scored()
            scored.answers.append(answer_id)
            self.scores[evaluator][answer_id] = float(result == "pass") if score is None else score
            if result in ("pass", "fail"):
                scored.verdicts += 1
                if score is not None and threshold is not None:
                    if (result == "pass") == (score >= threshold):
                        scored.above += 1
                    else:
                        scored.below += 1
        self.measures = {key: common_measure(known) for key in self.scores if (known := self.scales(key))}

    def cells(self, item: int) -> dict[CellKey, Answer]:
        """The answers to an item, in the order of the plan; taken, so that what becomes of them has their memory."""
        cells = {key: answers.pop(item) for key, answers in self.answers.items() if item in answers}
        return cells if len(cells) < 2 else dict(sorted(cells.items(), key=lambda cell: cell[1].id))

    def scales(self, key: str) -> list[str]:
        """What the scores of an evaluator are in, where it says so; several where it has several scales."""
        return [measure for measure in self._scored.get(key, ()) if measure]

    def bring(self, key: str, measure: str) -> None:
        """Bring the scores of an evaluator to a scale that others share, without those that stand on none."""
        scores, by_measure = self.scores[key], self._scored[key]
        for own, scored in list(by_measure.items()):
            if own is None:
                continue
            if parse_measure(own).bounds is None:
                del by_measure[own]
            for answer in scored.answers:
                if (score := on_common_scale(scores[answer], own, measure)) is None:
                    del scores[answer]
                else:
                    scores[answer] = score
        self.measures[key] = measure

    def verdicts(self, key: str) -> tuple[int, int, int]:
        """How many verdicts an evaluator gave, and how often what passes lies above its threshold, or below it."""
        parts = self._scored[key].values()
        return sum(one.verdicts for one in parts), sum(one.above for one in parts), sum(one.below for one in parts)

    def rate(self, category: str | None = None) -> Rate:
        """How many answers pass, of all or of a category."""
        counts: Counter[AnswerStatus] = Counter()
        for (name, status), count in self.statuses.items():
            counts[status] += count if category in (None, name) else 0
        return Rate(counts["pass"], counts["pass"] + counts["fail"])

    def usage(self) -> dict[str, Usage]:
        """What the run took: under the empty name of all targets, then of each by its name."""
        if not self._totals:
            return {}
        numbers = range(len(self.run.targets))
        whole = self._used([self._totals[None]], numbers)
        by_name: defaultdict[str, list[int]] = defaultdict(list)
        for number in numbers:
            by_name[self.run.targets[number]].append(number)
        each = {
            name: self._used([self._totals[number] for number in own if number in self._totals], own)
            for name, own in by_name.items()
        }
        return {"": replace(whole, unpriced=max(whole.unpriced, self._unpriced)), **each}

    def _used(self, totals: Sequence[Totals], targets: Iterable[int]) -> Usage:
        latencies = [one for number in targets for one in self._latencies.get(number, ())]
        return Usage(
            sum(one.cost + one.judge_cost for one in totals),
            sum(one.unpriced for one in totals),
            sum(one.input_tokens for one in totals),
            sum(one.output_tokens for one in totals),
            median(latencies) / 1000 if latencies else None,
            sum(one.may_cost for one in totals),
        )

    def expects_otherwise(self, position: int, later: RunAnswers, place: int) -> bool:
        """Whether the answers to an item are judged by another expectation in a later run."""
        own, other = (
            _expectation(side.judged_by.document["items"][at]) for side, at in ((self, position), (later, place))
        )
        return own != other

    def expectation_of(self, position: int, answer: Answer, turn: int) -> tuple[list[object], Evaluators]:
        """What is expected of one answer, and the evaluators that judge every item beside it."""
        item, defaults = self.judged_by.document["items"][position], self.judged_by.document.get("default_evaluators")
        if (attempt := self.rejudged.get(answer.id)) is not None and attempt.rejudged and attempt.rejudged.expected:
            item, defaults = expected_item(attempt, item, turn), attempt.rejudged.expected.get("default_evaluators")
        own, *turns = _expectation(item)
        return [own, turns[turn] if turns else None], _evaluators(defaults)

    def has_verdict(self, cells: Mapping[CellKey, Answer], keys: Collection[str]) -> bool:
        """Whether one of these evaluators judged one of these answers."""
        return any(answer.id in self.scores.get(key, ()) for key in keys for answer in cells.values())

    def item_keys(self, items: Iterable[int], same_document: bool) -> list[ItemKey]:
        """What each item that was asked is recognised by; its position where all runs have the same document."""
        return [
            ItemKey(self._test_id(n), str(n) if same_document else _content_hash(self.items[n]), n)
            for n in sorted(items)
        ]

    def _test_id(self, number: int) -> str | None:
        test_id = self.items[number].get("testId")
        return test_id if isinstance(test_id, str) else None


def same_expectations(one: RunAnswers, other: RunAnswers) -> bool:
    """Whether two runs are judged by the same dataset, which need not be looked into then."""
    if one.judged_by.digest:
        return one.judged_by.digest == other.judged_by.digest
    return one.judged_by.document is other.judged_by.document


def other_rubrics(one: Rubrics, other: Rubrics) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """The evaluators whose verdicts judges gave by other rubrics in the one run than in the other, with these."""
    return {key: (one[key], other[key]) for key in sorted(one.keys() & other.keys()) if one[key] != other[key]}


def defaults_differ(one: RunAnswers, other: RunAnswers) -> bool:
    """Whether an evaluator that judges every item of both runs does so by other options."""
    own, others = (_evaluators(side.judged_by.document.get("default_evaluators")) for side in (one, other))
    return _options_differ(own, others)


def answers_expect_otherwise(
    one: RunAnswers, position: int, before: Answer, other: RunAnswers, place: int, after: Answer, turn: int
) -> bool:
    """Whether two answers to the same are judged by different expectations."""
    (own, own_defaults), (others, other_defaults) = (
        one.expectation_of(position, before, turn),
        other.expectation_of(place, after, turn),
    )
    return own != others or _options_differ(own_defaults, other_defaults)


def _options_differ(own: Evaluators, others: Evaluators) -> bool:
    return any(own[key] != others[key] for key in own.keys() & others.keys())


def shared_numbers(names: Sequence[Sequence[str]]) -> list[dict[int, int]]:
    """For each run a common number for each of its names: the same for equal names, or where each run has only one."""
    if all(len(run_names) == 1 for run_names in names):
        return [{0: 0} for _ in names]
    numbers: dict[tuple[str, int], int] = {}
    mappings = []
    for run_names in names:
        name_counts: Counter[str] = Counter()
        mapping = {}
        for place, name in enumerate(run_names):
            mapping[place] = numbers.setdefault((name, name_counts[name]), len(numbers))
            name_counts[name] += 1
        mappings.append(mapping)
    return mappings


def _expectation(item: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """What is expected of the answers to an item: the texts that are right, its own evaluators, and its threshold."""
    turns = item.get("turns")
    return [
        (sorted(set(references(unit))), _evaluators(unit.get("evaluators")), unit.get("threshold"))
        for unit in (item, *(turns if isinstance(turns, list) else ()))
    ]


def _evaluators(chosen: object) -> Evaluators:
    """The options of evaluators that change what passes."""
    if not isinstance(chosen, Mapping):
        return {}
    return {
        key: {name: value for name, value in (options or {}).items() if name not in _NO_EXPECTATION}
        for key, options in chosen.items()
        if isinstance(options, Mapping | None)
    }


def _content_hash(item: Mapping[str, Any]) -> str:
    """The hash of what is asked and expected."""
    turns = item.get("turns")
    units = [item, *(turns if isinstance(turns, list) else ())]
    parts = [{name: unit[name] for name in _CONTENT if unit.get(name) is not None} for unit in units]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
