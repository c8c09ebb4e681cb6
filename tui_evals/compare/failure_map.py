"""The failure map of a run: its groups of failures, their common traits, and their change since an earlier run.

Changed lines of a comparison are grouped by the same reasons.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, field
from math import fsum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

from tui_evals.compare.runs import Comparison
from tui_evals.compare.sides import Kind
from tui_evals.light_records import dataclass
from tui_evals.store.baselines import baseline_of
from tui_evals.store.failures import (
    MADE_AHEAD,
    Failure,
    FailureGroup,
    FailureGroups,
    failed_verdicts,
    failures_state,
    judge_costs,
    judged_counts,
    kept_name,
)
from tui_evals.store.reader import Reader
from tui_evals.store.records import OVER_STATUSES, RunRow

if TYPE_CHECKING:
    from tui_evals.store.writer import Writer

Dimension = Literal["prompt", "target", "category"]
_DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

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
    """Equal in every run that has the cluster."""
    evaluator: str
    """Empty if the answer is missing."""
    code: str
    """The cause of an error; empty for a verdict."""
    reason: str
    """The reason of the first failure; empty for reasons that are like no other."""
    answers: Sequence[int]
    """Their ids, in the order of the plan."""
    judged: int
    """How many answers its evaluator judged; for errors of a target, how many were asked."""
    cost: float | None
    """The cost of asking and judging these answers; None without a known price."""
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
        """Its share of the judged answers."""
        return self.count / self.judged if self.judged else 0.0

    @property
    def is_new(self) -> bool:
        """Whether the earlier run judged the same and has none of it."""
        return self.before == 0

    @property
    def more(self) -> int | None:
        """By how many failures it grew; None if the earlier run judged more or fewer answers."""
        return self.count - self.before if self.before is not None and self.judged == self.judged_before else None

    @property
    def more_share(self) -> float | None:
        """By how much its share grew; None without an earlier run."""
        if self.before is None or not self.judged_before:
            return None
        return self.share - self.before / self.judged_before


@dataclass(frozen=True, slots=True)
class FailureMap:
    """The failures of a run, the largest cluster first."""

    run: RunRow
    clusters: tuple[Cluster, ...]
    failing: int
    """Answers that fail at least once; one with several failures is in several clusters."""
    failures: int
    asked: int
    earlier: RunRow | None = None
    """The run it is held against: the baseline of the dataset, else the finished run before."""
    is_baseline: bool = False
    unkept: Mapping[str, Any] | None = field(default=None, compare=False)
    """The data to keep for the next read; None if it is kept already or not worth it."""


def read_failure_map(reader: Reader, run: RunRow, source: str = "") -> FailureMap:
    """The failures of a run against the baseline of its dataset (`source` is its key), or the finished run before."""
    earlier, is_baseline = _earlier_run(reader, run, source)
    large = run.total >= MADE_AHEAD
    if large and (kept := _kept_map(reader, run, earlier, is_baseline)) is not None:
        return kept
    unkept = None
    if large and run.status in OVER_STATUSES:
        unkept = {"state": failures_state(reader.query, run.id), "since": _since(reader, earlier)}
    runs = [run] if earlier is None else [run, earlier]
    (failures, *failures_before), (judged, *judged_of_earlier) = _read_at_once(reader, runs)
    groups = list(found := FailureGroups(failures))
    before: Counter[str] = Counter()
    judged_before: Mapping[str, int] = {}
    if earlier is not None:
        (judged_before,) = judged_of_earlier
        alike = (found.find(failure) for failure in failures_before[0])
        counts = Counter(id(group) for group in alike if group is not None)
        before = Counter({group.key: counts[id(group)] for group in groups})
    asked = {by: _asked(reader, run, by) for by in _DIMENSIONS}
    answered = {by: Counter(counts) for by, counts in asked.items()}
    for group in groups:
        for by in _DIMENSIONS if not group.evaluator else ():
            answered[by] -= _places(group, by)
    costs = judge_costs(reader.query, run.id)
    clusters = [
        Cluster(
            key=group.key,
            evaluator=group.evaluator,
            code=group.code,
            reason=group.reason,
            answers=array("q", sorted(one.answer for one in group.failures)),
            judged=judged.get(group.evaluator, 0),
            cost=_cost(group, costs),
            concentrations=tuple(_concentrations(run, group, answered if group.evaluator else asked)),
            before=before[group.key] if group.evaluator in judged_before else None,
            judged_before=judged_before.get(group.evaluator, 0),
        )
        for group in groups
    ]
    clusters.sort(key=lambda one: (-one.count, one.evaluator, one.reason))
    failing = [one.answer for group in groups for one in group.failures]
    return FailureMap(
        run, tuple(clusters), len(set(failing)), len(failing), judged.get("", 0), earlier, is_baseline, unkept
    )


def keep_failure_map(writer: Writer, failures: FailureMap) -> None:
    """Keep a map in the store that takes long to make, until an answer or a verdict of either run changes."""
    if failures.unkept is not None:
        clusters = [{**asdict(one), "answers": list(one.answers)} for one in failures.clusters]
        counts = {"failing": failures.failing, "failures": failures.failures, "asked": failures.asked}
        writer.session_put(kept_name(failures.run.id), {**failures.unkept, **counts, "groups": clusters})


def _kept_map(reader: Reader, run: RunRow, earlier: RunRow | None, is_baseline: bool) -> FailureMap | None:
    """The map that was kept of a run, where it is held against this earlier run as that is now."""
    kept = reader.kept_failures(run)
    try:
        if kept is None or kept["since"] != _since(reader, earlier):
            return None
        clusters = []
        for each in kept["groups"]:
            mostly = tuple(Concentration(**{**one, "values": tuple(one["values"])}) for one in each["concentrations"])
            clusters.append(Cluster(**{**each, "answers": array("q", each["answers"]), "concentrations": mostly}))
        return FailureMap(run, tuple(clusters), kept["failing"], kept["failures"], kept["asked"], earlier, is_baseline)
    except (KeyError, TypeError):
        return None  # something else was written there, so the map is made again


def _since(reader: Reader, earlier: RunRow | None) -> Sequence[int | None]:
    return [] if earlier is None else [earlier.id, *failures_state(reader.query, earlier.id)]


def _read_at_once(reader: Reader, runs: Sequence[RunRow]) -> tuple[list[Sequence[Failure]], list[Mapping[str, int]]]:
    """The failures of each run, and its judged counts: SQLite counts on one core while it lists on another."""
    if sum(run.total for run in runs) < MADE_AHEAD:
        every: list[Sequence[Failure]] = [list(failed_verdicts(reader.query, run)) for run in runs]
        return every, [judged_counts(reader.query, run) for run in runs]

    def failed(run: RunRow) -> Sequence[Failure]:
        with Reader(reader.path) as own:
            return list(failed_verdicts(own.query, run))

    def judged(run: RunRow) -> Mapping[str, int]:
        with Reader(reader.path) as own:
            return judged_counts(own.query, run)

    with ThreadPoolExecutor() as pool:
        counts = pool.map(judged, runs)
        return list(pool.map(failed, runs)), list(counts)


def _places(group: FailureGroup, by: Dimension) -> Counter[int | str]:
    """How many failures each prompt, target or category has."""
    return Counter(map(attrgetter(by), group.failures))


def _cost(group: FailureGroup, judging: Mapping[int, float]) -> float | None:
    spent = [*(one.cost for one in group.failures), *(judging.get(one.answer) for one in group.failures)]
    known = [cost for cost in spent if cost is not None]
    return fsum(known) if known else None


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


def _concentrations(
    run: RunRow, group: FailureGroup, whole: Mapping[Dimension, Counter[int | str]]
) -> Iterator[Concentration]:
    names: Mapping[Dimension, Sequence[str]] = {"prompt": run.prompts, "target": run.targets}
    for by in _DIMENSIONS:
        counts = _places(group, by)
        values = _concentrated(counts, whole[by])
        if values:
            named = (names[by][value] if isinstance(value, int) else value or "(none)" for value in values)
            yield Concentration(by, tuple(named), sum(counts[value] for value in values))


def _concentrated(counts: Counter[int | str], whole: Counter[int | str]) -> Sequence[int | str]:
    """The fewest values that cover most of a cluster; empty if they cover as much of the whole run."""
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


# -- what changed between runs


@dataclass(frozen=True, slots=True)
class Change:
    """Lines of a comparison that broke, or were fixed, for one reason."""

    evaluator: str
    """Empty if one of the two runs has no judgeable answer."""
    code: str
    reason: str
    lines: Mapping[int, str]
    """The numbers of the lines in their order, each with the reason in its own words."""
    columns: tuple[str, ...]
    """The few columns that hold most of them; empty where no few do."""


Changes = Mapping[Kind, Sequence[Change]]
"""The changes by kind, the most frequent reason first; a line is in one change of its kind."""

_VERDICT_KINDS: tuple[Kind, ...] = ("broken", "fixed")


def read_changes(reader: Reader, comparison: Comparison) -> Changes:
    """The broken and fixed lines, by the evaluators with another verdict and their reasons."""
    failing: dict[Kind, dict[int, int]] = {kind: {} for kind in _VERDICT_KINDS}
    passing: dict[int, int] = {}
    wanted: defaultdict[int, set[int]] = defaultdict(set)
    for number, line in enumerate(comparison.lines):
        for kind in _VERDICT_KINDS:
            if kind not in line.kinds:
                continue
            later = line.kinds.index(kind) + 1
            failed, passed = (later, 0) if kind == "broken" else (0, later)
            one, other = line.answers[failed], line.answers[passed]
            if one is not None and other is not None:
                failing[kind][one.id] = number
                passing[one.id] = other.id
                wanted[failed].add(one.id)
                wanted[passed].add(other.id)
    failures: defaultdict[int, list[Failure]] = defaultdict(list)
    for place, ids in wanted.items():
        for failure in failed_verdicts(reader.query, comparison.sides[place].run):
            if failure.answer in ids:
                failures[failure.answer].append(failure)
    otherwise = {answer: _judged_otherwise(failures[answer], failures[other]) for answer, other in passing.items()}
    return {
        kind: _changes(comparison, numbers, [one for answer in numbers for one in otherwise[answer]])
        for kind, numbers in failing.items()
        if numbers
    }


def _judged_otherwise(failed: Sequence[Failure], passed: Sequence[Failure]) -> Sequence[Failure]:
    """The failures of one answer that the other does not have; all of them if there is no difference."""
    both = {one.evaluator for one in passed}
    return [one for one in failed if one.evaluator not in both] or failed


def _changes(comparison: Comparison, numbers: Mapping[int, int], failures: Iterable[Failure]) -> Sequence[Change]:
    changes: list[Change] = []
    taken: set[int] = set()
    whole = Counter[int | str](line.column for line in comparison.lines)
    for group in sorted(FailureGroups(failures), key=lambda one: -len(one.failures)):
        own = {numbers[one.answer]: one.reason for one in group.failures if numbers[one.answer] not in taken}
        taken |= own.keys()
        if own:
            columns = _concentrated(Counter[int | str](comparison.lines[number].column for number in own), whole)
            lines = dict(sorted(own.items()))
            changes.append(Change(group.evaluator, group.code, group.reason, lines, tuple(map(str, columns))))
    return sorted(changes, key=lambda one: (-len(one.lines), min(one.lines)))
