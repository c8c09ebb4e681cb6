"""The same items in two or more runs, and what became of each."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tui_evals.store.records import AnswerStatus

Kind = Literal["fixed", "broken", "changed", "same", "new", "gone", "not comparable"]
How = Literal["testId", "content", "position"]
Verdict = Literal["pass", "fail", "unjudged", "errored"]

_WEAKNESS: dict[How, int] = {"testId": 0, "content": 1, "position": 2}
_BY_POSITION = (
    "Matched by position only: it has no testId that is unique in these runs, and its content differs. "
    "Check that it is the same item; a testId makes sure."
)


@dataclass(frozen=True, slots=True)
class ItemKey:
    """What an item can be recognised by; the hash is of what is asked and expected, without the testId."""

    test_id: str | None
    content_hash: str
    position: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one turn of one repeat; equal answers have equal hashes."""

    turn: int
    repeat: int
    status: AnswerStatus
    score: float | None
    answer_hash: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An item in one column of one run, with every answer it got there."""

    key: ItemKey
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One item across runs: an entry per run, None where it is missing, and a kind per run after the first."""

    entries: tuple[Entry | None, ...]
    kinds: tuple[Kind | None, ...]
    """Each against the first run; None where neither of the two has the item."""
    how: How | None
    """The weakest of what it was matched by; None when only one run has it."""

    @property
    def note(self) -> str:
        """What to know before trusting the match; empty when there is no doubt."""
        return _BY_POSITION if self.how == "position" else ""


@dataclass(frozen=True, slots=True)
class TurnGroup:
    """One turn of an item across runs, with kinds as in its group."""

    turn: int
    kinds: tuple[Kind | None, ...]


def match(runs: Sequence[Sequence[Entry]]) -> tuple[Group, ...]:
    """Every item of the runs once: those of the first run in its order, then what each later one adds."""
    counts = [Counter(entry.key.test_id for entry in run) for run in runs]
    repeated = {test_id for count in counts for test_id, times in count.items() if times > 1}
    found: list[_Found] = []
    for number, run in enumerate(runs):
        waiting = list(run)
        for how, key in _recognised_by(repeated):
            waiting = _place(waiting, number, found, how, key)
        found += (_Found({number: entry}) for entry in waiting)
    return tuple(_group(one, len(runs)) for one in found)


def turns(group: Group) -> tuple[TurnGroup, ...]:
    """What became of each turn of an item."""
    by_turn: dict[int, list[list[Outcome]]] = defaultdict(lambda: [[] for _ in group.entries])
    for run, entry in enumerate(group.entries):
        for outcome in entry.outcomes if entry else ():
            by_turn[outcome.turn][run].append(outcome)
    return tuple(TurnGroup(turn, _kinds([side or None for side in by_turn[turn]])) for turn in sorted(by_turn))


def verdict(outcomes: Sequence[Outcome]) -> Verdict:
    """Pass when most of the repeats that could be judged pass; a repeat is as good as the worst of its judged turns."""
    repeats: dict[int, set[AnswerStatus]] = defaultdict(set)
    for outcome in outcomes:
        repeats[outcome.repeat].add(outcome.status)
    whole = [statuses for statuses in repeats.values() if statuses <= {"pass", "fail", "answered"}]
    judged = [statuses for statuses in whole if statuses != {"answered"}]
    if judged:
        return "pass" if 2 * sum("fail" not in statuses for statuses in judged) > len(judged) else "fail"
    return "unjudged" if whole else "errored"


def by_repeat(outcomes: Iterable[Outcome]) -> list[Verdict]:
    """What became of each repeat, which is as good as the worst of its turns."""
    repeats: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        repeats[outcome.repeat].append(outcome)
    return [verdict(turns) for turns in repeats.values()]


@dataclass(slots=True)
class _Found:
    entries: dict[int, Entry]
    how: How | None = None

    def add(self, run: int, entry: Entry, how: How) -> None:
        self.entries[run] = entry
        if self.how is None or _WEAKNESS[how] > _WEAKNESS[self.how]:
            self.how = how


def _recognised_by(repeated: set[str | None]) -> tuple[tuple[How, Callable[[ItemKey], Hashable]], ...]:
    """The ways to recognise an item, surest first; a key of None does not recognise it."""

    def by_id(key: ItemKey) -> str | None:
        return key.test_id if key.test_id and key.test_id not in repeated else None

    def by_position(key: ItemKey) -> int | None:
        # Two unique testIds name two items even where their positions agree.
        return key.position if by_id(key) is None else None

    return ("testId", by_id), ("content", lambda key: key.content_hash), ("position", by_position)


def _place(
    waiting: list[Entry], run: int, found: list[_Found], how: How, key: Callable[[ItemKey], Hashable]
) -> list[Entry]:
    """Put each entry to the first item with its key that lacks this run; those that find none are returned."""
    free: dict[Hashable, deque[_Found]] = defaultdict(deque)
    for one in found:
        if run not in one.entries:
            for known in {key(entry.key) for entry in one.entries.values()} - {None}:
                free[known].append(one)
    left = []
    for entry in waiting:
        candidates = free[key(entry.key)]
        while candidates and run in candidates[0].entries:
            candidates.popleft()
        if candidates:
            candidates[0].add(run, entry, how)
        else:
            left.append(entry)
    return left


def _group(found: _Found, runs: int) -> Group:
    entries = tuple(found.entries.get(run) for run in range(runs))
    return Group(entries, _kinds([entry.outcomes if entry else None for entry in entries]), found.how)


def _kinds(sides: Sequence[Sequence[Outcome] | None]) -> tuple[Kind | None, ...]:
    return tuple(_kind(sides[0], side) for side in sides[1:])


def _kind(before: Sequence[Outcome] | None, after: Sequence[Outcome] | None) -> Kind | None:
    """What became of an item or turn; repeats are compared as a bag, because their order means nothing."""
    if before is None or after is None:
        return "gone" if before is not None else "new" if after is not None else None
    was, now = verdict(before), verdict(after)
    if "errored" in (was, now) or (was == "unjudged") != (now == "unjudged"):
        return "not comparable"
    if was != now:
        return "fixed" if now == "pass" else "broken"
    return "same" if _bag(before) == _bag(after) else "changed"


def _bag(outcomes: Sequence[Outcome]) -> Counter[tuple[int, AnswerStatus, float | None, str]]:
    return Counter((one.turn, one.status, one.score, one.answer_hash) for one in outcomes)
