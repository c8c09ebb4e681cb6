"""What failed in a run: failures of one evaluator for one reason together, held against an earlier run.

Reasons are grouped without a model. What two of them share when numbers and quotations are left out is the same
reason. Sentences of judges that still differ are the same where most of their words are. The reasons of both runs are
grouped together, so a cluster that both have is the same cluster.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, get_args

from tui_evals.store.baselines import baseline_of
from tui_evals.store.failures import Failure
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.error_text import cause_of

Dimension = Literal["prompt", "target", "category"]
_DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

_LONGEST = 400
"""Characters of a reason that tell it from others."""
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD = re.compile(r"[^\W\d_]+")
_WORDS_OF_NO_WEIGHT = (
    "a an and are as at be been but by for from had has have i in is it its of on or so that the their there these "
    "they this to was were which will with would response answer output model user question"
)
_DECIDING = (
    "above after before below fewer greater higher less longer lower missing more never no none not over shorter "
    "too under without"
)
_EMPTY_WORDS = frozenset(_WORD.findall(_WORDS_OF_NO_WEIGHT))
_DECIDING_WORDS = frozenset(_WORD.findall(_DECIDING))
"""Words in which two reasons that are the same agree."""
_ALIKE = 0.5
"""The share of their words, of all that either has, from which on two reasons are the same."""
_MOST_REASONS = 24
"""How many reasons of one evaluator are told apart by their words; what fits none of them is `other reasons`."""
_SMALL = 0.02
"""Judges' reasons that are a smaller share of the failures of their evaluator go to the other reasons."""
_HELD = 0.8
"""The share of a cluster that the values named with it hold."""
_MORE_THAN_ALL = 1.3
"""How much larger that share is than the share of these values in the whole run."""


@dataclass(frozen=True, slots=True)
class Concentration:
    """The few values of a dimension that most failures of a cluster have in common."""

    dimension: Dimension
    values: tuple[str, ...]
    failures: int
    """How many failures of the cluster they have."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failures of one evaluator for one reason."""

    key: str
    """The same in every run that has the cluster."""
    evaluator: str
    """Empty where there is no answer that could be judged."""
    code: str
    """The cause of an error; empty for a verdict."""
    reason: str
    """In the words of the first failure; empty for reasons that are like no other."""
    answers: Sequence[int]
    """Their ids, in the order of the plan."""
    judged: int
    """How many answers its evaluator judged; of errors of a target, how many were asked."""
    cost: float | None
    """What asking and judging these answers cost; None where no price is known."""
    concentrations: tuple[Concentration, ...] = ()
    before: int | None = None
    """How many failures the earlier run has of it; None without an earlier run, or where that judged nothing alike."""
    judged_before: int = 0

    @property
    def count(self) -> int:
        """How many answers it has."""
        return len(self.answers)

    @property
    def share(self) -> float:
        """The part of what was judged that failed so."""
        return self.count / self.judged if self.judged else 0.0

    @property
    def is_new(self) -> bool:
        """Whether the earlier run judged the same and has none of it."""
        return self.before == 0

    @property
    def more(self) -> int | None:
        """By how many failures it grew; None where the earlier run judged more or fewer answers."""
        return self.count - self.before if self.before is not None and self.judged == self.judged_before else None

    @property
    def more_share(self) -> float | None:
        """By how much its share grew; None without an earlier run."""
        if self.before is None or not self.judged_before:
            return None
        return self.share - self.before / self.judged_before


@dataclass(frozen=True, slots=True)
class FailureMap:
    """What failed in a run, the largest cluster first."""

    run: RunRow
    clusters: tuple[Cluster, ...]
    failing: int
    """Answers that fail at least once; one with several failures is in several clusters."""
    failures: int
    asked: int
    earlier: RunRow | None = None
    """The run it is held against: the baseline of the dataset, else the finished run before."""
    is_baseline: bool = False


@dataclass(slots=True)
class _Reason:
    """What is collected of one reason while failures are read."""

    answers: array[int] = field(default_factory=lambda: array("q"))
    before: int = 0
    text: str = ""
    cost: float | None = None
    places: Mapping[Dimension, Counter[int | str]] = field(
        default_factory=lambda: {by: Counter() for by in _DIMENSIONS}
    )

    def add(self, failure: Failure, judging: float | None) -> None:
        self.answers.append(failure.answer)
        self.text = self.text or failure.reason
        self.places["prompt"][failure.prompt] += 1
        self.places["target"][failure.target] += 1
        self.places["category"][failure.category] += 1
        if failure.cost is not None or judging is not None:
            self.cost = (self.cost or 0.0) + (failure.cost or 0.0) + (judging or 0.0)

    def merge(self, other: _Reason) -> None:
        self.answers.extend(other.answers)
        self.before += other.before
        self.text = self.text or other.text
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost
        for by, counts in other.places.items():
            self.places[by].update(counts)


_Kind = tuple[str, str]
"""An evaluator and the code of an error."""


def read_failure_map(reader: Reader, run: RunRow, source: str = "") -> FailureMap:
    """The failures of a run against the baseline of its dataset (`source` is its key), or the finished run before."""
    earlier, is_baseline = _earlier_run(reader, run, source)
    costs, judged = reader.judge_costs(run), reader.judged_counts(run)
    reasons: defaultdict[_Kind, dict[str, _Reason]] = defaultdict(dict)
    signature = _signatures()
    failing, failures = set[int](), 0
    for failure in reader.failed_verdicts(run):
        kind, sign = (failure.evaluator, failure.code), signature(failure)
        reasons[kind].setdefault(sign, _Reason()).add(failure, costs.get(failure.answer))
        failing.add(failure.answer)
        failures += 1
    judged_before: Mapping[str, int] = {}
    if earlier is not None:
        judged_before = reader.judged_counts(earlier)
        for failure in reader.failed_verdicts(earlier):
            kind = (failure.evaluator, failure.code)
            reasons[kind].setdefault(signature(failure), _Reason()).before += 1
    asked = {by: _asked(reader, run, by) for by in _DIMENSIONS}
    answered = {by: Counter(counts) for by, counts in asked.items()}
    for reason in (one for kind, found in reasons.items() if not kind[0] for one in found.values()):
        for by, counts in reason.places.items():
            answered[by] -= counts
    clusters = [
        _cluster(run, kind, sign, reason, judged, judged_before, answered if kind[0] else asked)
        for kind, found in reasons.items()
        for sign, reason in _grouped(kind, found).items()
        if reason.answers
    ]
    clusters.sort(key=lambda one: (-one.count, one.evaluator, one.reason))
    return FailureMap(run, tuple(clusters), len(failing), failures, judged.get("", 0), earlier, is_baseline)


def _asked(reader: Reader, run: RunRow, by: Dimension) -> Counter[int | str]:
    return Counter({value: totals.total for value, totals in reader.totals_by(run.id, by).items()})


def _earlier_run(reader: Reader, run: RunRow, source: str) -> tuple[RunRow | None, bool]:
    chosen = baseline_of(reader, source) if source else None
    if chosen is not None and chosen.run != run.id:
        try:
            return reader.run(chosen.run), True
        except LookupError:
            pass  # The baseline was deleted; the run before says more than nothing.
    return reader.run_before(run), False


def _signatures() -> Callable[[Failure], str]:
    """What reasons have in common that are one: each text is looked at once."""
    known: dict[tuple[bool, str], str] = {}

    def signature(failure: Failure) -> str:
        key = (bool(failure.code), failure.reason)
        found = known.get(key)
        if found is None:
            text = failure.reason[:_LONGEST]
            found = known[key] = cause_of(text) if failure.code else _pattern(text)
        return found

    return signature


def _pattern(reason: str) -> str:
    """A reason without the numbers and quotations that tell one answer from another."""
    return _NUMBER.sub("#", _QUOTED.sub("…", reason))


def _grouped(kind: _Kind, reasons: Mapping[str, _Reason]) -> dict[str, _Reason]:
    """The reasons of one kind with those together that are the same in other words."""
    if len(reasons) == 1 or kind[1]:
        return dict(reasons)
    order = sorted(reasons, key=lambda sign: (-len(reasons[sign].answers) - reasons[sign].before, sign))
    leaders: list[tuple[str, frozenset[str]]] = []
    groups: dict[str, _Reason] = {}
    known: dict[frozenset[str], str] = {}
    for sign in order:
        words = _words(sign)
        leader = known.get(words)
        if leader is None:
            leader = next((one for one, own in leaders if _alike(words, own)), None)
            if leader is None and len(leaders) < _MOST_REASONS:
                leader = sign
                leaders.append((sign, words))
            leader = known[words] = leader or ""
        groups.setdefault(leader, _Reason()).merge(reasons[sign])
    least = _SMALL * sum(len(one.answers) + one.before for one in groups.values())
    if len(groups) == len(order):  # each reason is one of its own, as those of an evaluator without a judge are
        return groups
    for sign, _ in leaders:
        if len(groups[sign].answers) + groups[sign].before < least:
            groups.setdefault("", _Reason()).merge(groups.pop(sign))
    return groups


def _words(sign: str) -> frozenset[str]:
    """The words of a reason that say something, without their endings."""
    return frozenset(
        word if word in _DECIDING_WORDS else _stem(word)
        for word in _WORD.findall(sign.lower())
        if word not in _EMPTY_WORDS
    )


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word.removesuffix(ending)
    return word


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    shared = len(one & other)
    if shared <= _ALIKE * (len(one) + len(other) - shared):
        return False
    return one & _DECIDING_WORDS == other & _DECIDING_WORDS


def _cluster(
    run: RunRow,
    kind: _Kind,
    sign: str,
    reason: _Reason,
    judged: Mapping[str, int],
    judged_before: Mapping[str, int],
    whole: Mapping[Dimension, Counter[int | str]],
) -> Cluster:
    evaluator, code = kind
    same = evaluator in judged_before
    return Cluster(
        key=sha256("\0".join((evaluator, code, sign)).encode("utf-8", "replace")).hexdigest()[:12],
        evaluator=evaluator,
        code=code,
        reason=reason.text if sign else "",
        answers=array("q", sorted(reason.answers)),
        judged=judged.get(evaluator, 0),
        cost=reason.cost,
        concentrations=tuple(_concentrations(run, reason, whole)),
        before=reason.before if same else None,
        judged_before=judged_before.get(evaluator, 0),
    )


def _concentrations(
    run: RunRow, reason: _Reason, whole: Mapping[Dimension, Counter[int | str]]
) -> Iterator[Concentration]:
    names: Mapping[Dimension, Sequence[str]] = {"prompt": run.prompts, "target": run.targets}
    for by, counts in reason.places.items():
        values = _concentrated(counts, whole[by])
        if values:
            named = (names[by][value] if isinstance(value, int) else value or "(none)" for value in values)
            yield Concentration(by, tuple(named), sum(counts[value] for value in values))


def _concentrated(counts: Counter[int | str], whole: Counter[int | str]) -> Sequence[int | str]:
    """The fewest values that hold most of a cluster; none where that is what they hold of the whole run too."""
    if len(whole) < 2:
        return ()
    wanted, held = _HELD * counts.total(), 0
    values: list[int | str] = []
    for value, count in counts.most_common():
        values.append(value)
        held += count
        if held >= wanted:
            break
    share = held / counts.total()
    usual = sum(whole[value] for value in values) / max(whole.total(), 1)
    return values if share >= _MORE_THAN_ALL * usual and 2 * len(values) <= len(whole) else ()


def cluster_of(failures: FailureMap, key: str) -> Cluster | None:
    """A cluster by its key, or by the beginning of one."""
    return next((one for one in failures.clusters if one.key.startswith(key)), None)


def in_clusters(failures: FailureMap, answers: Iterable[int]) -> Mapping[int, Sequence[Cluster]]:
    """The clusters that each of some answers is in."""
    wanted = set(answers)
    found: defaultdict[int, list[Cluster]] = defaultdict(list)
    for cluster in failures.clusters:
        for answer in wanted.intersection(cluster.answers):
            found[answer].append(cluster)
    return found
