"""The answers of one run as a comparison needs them: small, by item, matched with the items of other runs."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from math import isfinite
from statistics import median
from typing import Any, Literal, NamedTuple

from tui_evals.light_records import dataclass
from tui_evals.store import ledger
from tui_evals.store.ledger import Spent
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, RunRow
from tui_evals.store.rows import EarlierAttempt, JudgedBy, expected_item, known_status, references
from tui_evals.store.run_figures import ComparedFields, JudgedFields
from tui_evals.text.measures import common_measure, on_common_scale, parse_measure
from tui_evals.text.names import numbered

Kind = Literal["fixed", "broken", "changed", "same", "new", "gone", "not comparable"]
How = Literal["testId", "content", "position"]
Verdict = Literal["pass", "fail", "unjudged", "errored"]

_WHOLE: frozenset[AnswerStatus] = frozenset(("pass", "fail", "answered", "unjudged", "scored"))
_WEAKNESS: dict[How, int] = {"testId": 0, "content": 1, "position": 2}


class ItemKey(NamedTuple):
    """The keys that identify an item; the hash covers question and expectation, without the testId."""

    test_id: str | None
    content_hash: str
    position: int


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The result of one turn in one repeat."""

    turn: int
    repeat: int
    status: AnswerStatus


class Group(NamedTuple):
    """One item across runs: its key in each run, None if it is missing."""

    keys: tuple[ItemKey | None, ...]
    how: How | None
    """The weakest key that it was matched by; None if only one run has it."""


def match_items(runs: Sequence[Sequence[ItemKey]]) -> Iterable[Group]:
    """Every item of the runs once: those of the first run in its order, then what each later one adds."""
    counts = [Counter(key.test_id for key in run) for run in runs]
    repeated = {test_id for count in counts for test_id, times in count.items() if times > 1}
    if len(runs) > 1 and all(run == runs[0] for run in runs[1:]):
        return (_same_everywhere(key, len(runs), repeated) for key in runs[0])
    groups: list[_GrowingGroup] = []
    for number, run in enumerate(runs):
        unmatched = list(run)
        for how, identity in _identities(repeated):
            unmatched = _add_matches(unmatched, number, groups, how, identity)
        groups += (_GrowingGroup({number: key}) for key in unmatched)
    return (Group(tuple(group.keys.get(run) for run in range(len(runs))), group.how) for group in groups)


def item_verdict(outcomes: Sequence[TurnOutcome]) -> Verdict:
    """Pass when most of the repeats that could be judged pass; a repeat is as good as the worst of its judged turns."""
    repeats: dict[int, set[AnswerStatus]] = defaultdict(set)
    for outcome in outcomes:
        repeats[outcome.repeat].add(outcome.status)
    complete = [statuses for statuses in repeats.values() if statuses <= _WHOLE]
    judged = [statuses for statuses in complete if statuses & {"pass", "fail"}]
    if judged:
        return "pass" if 2 * sum("fail" not in statuses for statuses in judged) > len(judged) else "fail"
    return "unjudged" if complete else "errored"


def repeat_verdicts(outcomes: Iterable[TurnOutcome]) -> list[Verdict]:
    """The verdict of each repeat, which is as good as the worst of its turns."""
    repeats: dict[int, list[TurnOutcome]] = defaultdict(list)
    for outcome in outcomes:
        repeats[outcome.repeat].append(outcome)
    return [item_verdict(turns) for turns in repeats.values()]


def _same_everywhere(key: ItemKey, runs: int, repeated: Collection[str | None]) -> Group:
    """An item that is at the same place in the same list of items everywhere, as of runs of one dataset."""
    return Group((key,) * runs, "testId" if key.test_id and key.test_id not in repeated else "content")


@dataclass(slots=True)
class _GrowingGroup:
    keys: dict[int, ItemKey]
    how: How | None = None

    def add(self, run: int, key: ItemKey, how: How) -> None:
        self.keys[run] = key
        if self.how is None or _WEAKNESS[how] > _WEAKNESS[self.how]:
            self.how = how


def _identities(repeated: set[str | None]) -> tuple[tuple[How, Callable[[ItemKey], Hashable]], ...]:
    """The ways to recognise an item, surest first; an identity of None does not recognise it."""

    def by_id(key: ItemKey) -> str | None:
        return key.test_id if key.test_id and key.test_id not in repeated else None

    def by_position(key: ItemKey) -> int | None:
        # Two unique testIds name two items even where their positions agree.
        return key.position if by_id(key) is None else None

    return ("testId", by_id), ("content", lambda key: key.content_hash), ("position", by_position)


def _add_matches(
    unmatched: list[ItemKey],
    run: int,
    groups: list[_GrowingGroup],
    how: How,
    identity: Callable[[ItemKey], Hashable],
) -> list[ItemKey]:
    """Add each key to the first group of its identity that lacks this run; the keys without one are returned."""
    candidates_by_identity: dict[Hashable, deque[_GrowingGroup]] = defaultdict(deque)
    for group in groups:
        if run not in group.keys:
            for known in {identity(key) for key in group.keys.values()} - {None}:
                candidates_by_identity[known].append(group)
    rest = []
    for key in unmatched:
        candidates = candidates_by_identity[identity(key)]
        while candidates and run in candidates[0].keys:
            candidates.popleft()
        if candidates:
            candidates[0].add(run, key, how)
        else:
            rest.append(key)
    return rest


EVALUATORS = ("Latency", "TimeToFirstToken", "TokensPerSecond", "Cost")
"""Evaluators that judge the call of an answer."""
FORM_KEY = "response_format"
"""The key of the record that says whether an answer has the form that was asked for."""
_NAMES = frozenset(name.casefold() for name in EVALUATORS)


@dataclass(frozen=True, slots=True)
class CallVerdicts:
    """Which answers of a run are cached, and how all are judged without what their calls measured."""

    cached: frozenset[int] = frozenset()
    keys: frozenset[str] = frozenset()
    """The evaluators that judge calls."""
    statuses: Mapping[int, AnswerStatus] = field(default_factory=dict)
    """The status of an answer without them, where it is another."""

    def status(self, answer: int, status: AnswerStatus) -> AnswerStatus:
        """The status of an answer without them."""
        return self.statuses.get(answer, status) if status in ("pass", "fail") else status


def read_call_verdicts(
    reader: Reader, runs: Sequence[RunRow], documents: Sequence[Mapping[str, Any]]
) -> list[CallVerdicts]:
    """The call verdicts of runs judged by these datasets; without cached answers nothing else is read."""
    cached = [ledger.cached_answers(reader.query, run.id) for run in runs]
    if not any(cached):
        return [CallVerdicts() for _ in runs]
    found = []
    for run, own, document in zip(runs, cached, documents, strict=True):
        keys = ledger.keys_of(reader.query, run.id, run.scoring_pass, EVALUATORS)
        found.append(CallVerdicts(own, keys, _statuses(reader, run, keys, document) if keys else {}))
    return found


def _statuses(
    reader: Reader, run: RunRow, keys: Collection[str], document: Mapping[str, Any]
) -> dict[int, AnswerStatus]:
    thresholds = [item.get("threshold") for item in document.get("items", ())]
    statuses: dict[int, AnswerStatus] = {}
    for answer, item, passed, failed, wrong_form in ledger.other_verdicts(
        reader.query, run.id, run.scoring_pass, keys, FORM_KEY
    ):
        wanted = thresholds[item] if item < len(thresholds) else None
        if wrong_form:
            statuses[answer] = "fail"
        elif judged := passed + failed:
            statuses[answer] = "pass" if passed >= (1.0 if wanted is None else wanted) * judged - 1e-9 else "fail"
        else:
            statuses[answer] = "unjudged"
    return statuses


def judges_calls(document: Mapping[str, Any]) -> bool:
    """Whether a dataset has an evaluator that judges answers by their calls."""
    return any(
        str((isinstance(options, Mapping) and options.get("type")) or key).casefold() in _NAMES
        for evaluators in _evaluator_maps(document)
        for key, options in evaluators.items()
    )


def _evaluator_maps(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if isinstance(own := document.get("default_evaluators"), Mapping):
        yield own
    for item in document.get("items", ()):
        turns = item.get("turns")
        for unit in (item, *(turns if isinstance(turns, list) else ())):
            if isinstance(own := unit.get("evaluators"), Mapping):
                yield own


@dataclass(frozen=True, slots=True)
class AskedItems:
    """How many items a run asked, and of how many."""

    items: int
    of: int

    @property
    def text(self) -> str:
        """The two numbers in words."""
        return f"{self.items:,} of {self.of:,} item{'' if self.of == 1 else 's'}"


def asked_part(reader: Reader, run: RunRow) -> AskedItems | None:
    """How much of its dataset a run asked; None where that is all of it."""
    only = run.config.get("only") if run.config else None
    if only is None:
        return None
    of = ledger.item_count(reader.query, run.snapshot)
    return AskedItems(len(only), of) if len(only) < of else None


Evaluators = dict[str, dict[str, Any]]
"""Evaluators with their options, by key."""

CellKey = tuple[int, int, int, int]
"""Repeat, prompt, target and turn."""

Rubrics = Mapping[str, frozenset[str]]
"""The rubrics of the judges' verdicts, by the evaluators' keys."""

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
    """One of the runs to compare: its answers, its dataset, and its scores."""

    run: RunRow
    rows: Iterable[ComparedFields]
    document: Mapping[str, Any]
    judged: Iterable[JudgedFields] = ()
    judged_by: JudgedBy | None = None
    """The expectations of the answers, if they are not those of the asked dataset."""
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often each evaluator gave each label that neither passes nor fails."""
    rubrics: Rubrics = field(default_factory=dict)
    """The rubrics of the judges' verdicts for each evaluator, if they are recorded."""
    rejudged: Mapping[int, EarlierAttempt] = field(default_factory=dict)
    """Answers by their ids that are judged by another expectation than their run."""
    spent: Callable[[Collection[int] | None], Mapping[int, Spent]] | None = None
    """Returns the cost and time of answers by target; of these ids, or of all for None."""
    calls: CallVerdicts = field(default_factory=CallVerdicts)
    """Its cached answers, and their statuses without evaluators of calls."""
    part: AskedItems | None = None
    """How much of its dataset it asked, unless that is all of it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost and time of the compared answers of one target, or of all."""

    answers: int
    cached: int
    """How many of them came from the cache: what their calls took is in none of these numbers."""
    cost: float
    """US dollars, judges included."""
    unpriced: int
    input_tokens: int
    output_tokens: int
    latency: float | None
    """The median of the seconds to an answer."""
    perhaps: float = 0.0
    """The possible cost of calls without an answer."""


class Answer(NamedTuple):
    """One answer as it is listed; equal texts have equal hashes, but not only they.

    A plain tuple, because hundreds of thousands are created at once.
    """

    id: int
    status: AnswerStatus
    score: float | None
    text_hash: int


Cells = Mapping[CellKey, Answer]


def without_calls(
    both: tuple[Cells, Cells], verdicts: tuple[CallVerdicts, CallVerdicts]
) -> tuple[tuple[Cells, Cells], bool]:
    """The answers to an item in two runs, judged without their calls if one of them is cached; and whether one is."""
    if not any(one.id in known.cached for known, own in zip(verdicts, both, strict=True) for one in own.values()):
        return both, False
    before, after = (
        {cell: one._replace(status=known.status(one.id, one.status)) for cell, one in own.items()}
        for known, own in zip(verdicts, both, strict=True)
    )
    return (before, after), True


@dataclass(slots=True)
class _Scored:
    """The answers to which an evaluator gave scores in one measure, or bare verdicts."""

    answers: array[int] = field(default_factory=lambda: array("q"))
    verdicts: int = 0
    above: int = 0
    """How often a passing score is on or above the threshold, or a failing one below it."""
    below: int = 0
    """How often it is the other way round."""


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
        """The answers by cell, then by item: most runs ask all items in the same cells."""
        self.scores: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """The scores of each evaluator by the ids of the answers; a bare verdict counts 1 or 0."""
        self._scored: defaultdict[str, dict[str | None, _Scored]] = defaultdict(dict)
        """The scores of each evaluator by scale, None for bare verdicts."""
        self.columns = {
            (prompts[p], targets[t]): column_name(run, p, t)
            for p in range(len(run.prompts))
            for t in range(len(run.targets))
        }
        self.calls, self.part, self._spent = ran.calls, ran.part, ran.spent
        self.count = 0
        """How many answers there are."""
        # Equal words are stored once: a run may have a hundred thousand.
        words: dict[Any, Any] = {}
        seen: dict[str, AnswerStatus] = {}
        for answer_id, item, turn, prompt, target, repeat, name, category, status, score, code, preview in ran.rows:
            category = words.setdefault(category, category)
            status = seen.get(status) or seen.setdefault(status, known_status(status))
            key = (repeat, prompts[prompt], targets[target], turn)
            self.names[item] = name
            self.categories[item] = category
            self.count += 1
            self.answers.setdefault(key, {})[item] = Answer(answer_id, status, score, hash((preview, code)))
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
        """The measures of an evaluator's scores, if it declares them; several if it has several scales."""
        return [measure for measure in self._scored.get(key, ()) if measure]

    def bring(self, key: str, measure: str) -> None:
        """Bring the scores of an evaluator to a scale that others share, without those that are on none."""
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
        """How many verdicts an evaluator gave, and how often passing scores were above or below its threshold."""
        parts = self._scored[key].values()
        return sum(one.verdicts for one in parts), sum(one.above for one in parts), sum(one.below for one in parts)

    def usage(self, answers: Collection[int] | None) -> dict[str, Usage]:
        """The cost and time of some answers, or all: of all targets under the empty name, then of each."""
        spent = self._spent(answers) if self._spent else {}
        if not spent:
            return {}
        by_name: defaultdict[str, list[Spent]] = defaultdict(list)
        for target, own in spent.items():
            by_name[self.run.targets[target]].append(own)
        return {"": _used(list(spent.values())), **{name: _used(own) for name, own in by_name.items()}}

    def expects_otherwise(self, position: int, later: RunAnswers, place: int) -> bool:
        """Whether the answers to an item are judged by another expectation in a later run."""
        own, other = (
            _expectation(side.judged_by.document["items"][at]) for side, at in ((self, position), (later, place))
        )
        return own != other

    def expectation_of(self, position: int, answer: Answer, turn: int) -> tuple[list[object], Evaluators]:
        """The expectation of one answer, and the evaluators that judge every item."""
        item, defaults = self.judged_by.document["items"][position], self.judged_by.document.get("default_evaluators")
        if (attempt := self.rejudged.get(answer.id)) is not None and attempt.rejudged and attempt.rejudged.expected:
            item, defaults = expected_item(attempt, item, turn), attempt.rejudged.expected.get("default_evaluators")
        own, *turns = _expectation(item)
        return [own, turns[turn] if turns else None], _evaluators(defaults)

    def has_verdict(self, cells: Mapping[CellKey, Answer], keys: Collection[str]) -> bool:
        """Whether one of these evaluators judged one of these answers."""
        return any(answer.id in self.scores.get(key, ()) for key in keys for answer in cells.values())

    def item_keys(self, items: Iterable[int], same_document: bool) -> list[ItemKey]:
        """The keys that identify each asked item; its position if all runs have the same document."""
        return [
            ItemKey(self._test_id(n), str(n) if same_document else _content_hash(self.items[n]), n)
            for n in sorted(items)
        ]

    def _test_id(self, number: int) -> str | None:
        test_id = self.items[number].get("testId")
        return test_id if isinstance(test_id, str) else None


def _used(parts: Sequence[Spent]) -> Usage:
    totals = [part.totals for part in parts]
    latencies = [one for part in parts for one in part.latencies]
    return Usage(
        answers=sum(one.total for one in totals),
        cached=sum(one.cached for one in totals),
        cost=sum(one.cost + one.judge_cost for one in totals),
        unpriced=sum(one.unpriced for one in totals),
        input_tokens=sum(one.input_tokens for one in totals),
        output_tokens=sum(one.output_tokens for one in totals),
        latency=median(latencies) / 1000 if latencies else None,
        perhaps=sum(one.may_cost for one in totals),
    )


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
    """A common number for each name of each run: equal for equal names, or if each run has only one."""
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
    """The expectation of an item's answers: the right texts, its own evaluators, and its threshold."""
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
    """The hash of question and expectation."""
    turns = item.get("turns")
    units = [item, *(turns if isinstance(turns, list) else ())]
    parts = [{name: unit[name] for name in _CONTENT if unit.get(name) is not None} for unit in units]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
