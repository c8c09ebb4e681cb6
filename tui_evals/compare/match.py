"""Recognises the same items in two or more runs, and says what an item came to in one of them."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tui_evals.store.records import AnswerStatus

Kind = Literal["fixed", "broken", "changed", "same", "new", "gone", "not comparable"]
How = Literal["testId", "content", "position"]
Verdict = Literal["pass", "fail", "unjudged", "errored"]

_WHOLE: frozenset[AnswerStatus] = frozenset(("pass", "fail", "answered", "unjudged", "scored"))
_WEAKNESS: dict[How, int] = {"testId": 0, "content": 1, "position": 2}


class ItemKey(NamedTuple):
    """What an item can be recognised by; the hash is of what is asked and expected, without the testId."""

    test_id: str | None
    content_hash: str
    position: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one turn of one repeat."""

    turn: int
    repeat: int
    status: AnswerStatus


class Group(NamedTuple):
    """One item across runs: its key in each run, None where it is missing."""

    keys: tuple[ItemKey | None, ...]
    how: How | None
    """The weakest of what it was matched by; None when only one run has it."""


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


def item_verdict(outcomes: Sequence[Outcome]) -> Verdict:
    """Pass when most of the repeats that could be judged pass; a repeat is as good as the worst of its judged turns."""
    repeats: dict[int, set[AnswerStatus]] = defaultdict(set)
    for outcome in outcomes:
        repeats[outcome.repeat].add(outcome.status)
    complete = [statuses for statuses in repeats.values() if statuses <= _WHOLE]
    judged = [statuses for statuses in complete if statuses & {"pass", "fail"}]
    if judged:
        return "pass" if 2 * sum("fail" not in statuses for statuses in judged) > len(judged) else "fail"
    return "unjudged" if complete else "errored"


def repeat_verdicts(outcomes: Iterable[Outcome]) -> list[Verdict]:
    """The verdict of each repeat, which is as good as the worst of its turns."""
    repeats: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        repeats[outcome.repeat].append(outcome)
    return [item_verdict(turns) for turns in repeats.values()]


def _same_everywhere(key: ItemKey, runs: int, repeated: Collection[str | None]) -> Group:
    """An item that stands at the same place in the same list of items everywhere, as of runs of one dataset."""
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
