"""The failures of a run: a row for each verdict that is a fail or an error, grouped by reason.

Reasons are grouped without a model. Reasons that are equal without numbers and quotations are the same. Other sentences
of judges are the same if most of their words are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from tui_evals.garbage import foreground
from tui_evals.light_records import dataclass
from tui_evals.text.names import cause_of

from .ledger import Ask, pages
from .records import RunRow
from .rows import loads

RULES = 1
"""Increase this when the grouping changes, so that groups of earlier rules are not shown."""

MADE_AHEAD = 10_000
"""Answers from which the groups of a run are kept in the store, and are read over several connections at once."""
_LONGEST = 400
"""Characters of a reason that tell it from others."""
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_VARYING = re.compile(f"({_QUOTED.pattern}|{_NUMBER.pattern})")
_COMPARED = 1_000
"""The most different reasons of a group that are compared for their shared text."""
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
_KEY = 12
_MOST_REASONS = 12
"""The most reasons of one evaluator that are separated by their words; others become `other reasons`."""
_SMALL = 0.02
"""Judges' reasons that are a smaller share of the failures of their evaluator go to the other reasons."""


class Failure(NamedTuple):
    """A reason why an answer does not pass; a run may have hundreds of thousands, so it is a plain tuple."""

    answer: int
    prompt: int
    target: int
    category: str
    cost: float | None
    """The cost of asking the target; that of judges is read separately."""
    evaluator: str
    """The key of the evaluator; empty if the answer is missing."""
    code: str
    """The cause of an error; empty for a verdict."""
    reason: str


def failed_verdicts(ask: Ask, run: RunRow) -> Iterator[Failure]:
    """A row for each reason why an answer of a run does not pass, in the order of the plan, paged."""
    place = "a.id, a.prompt, a.target, a.category, a.cost"
    query = (
        f"SELECT * FROM (SELECT {place}, '' AS key, a.code, ifnull(json_extract(b.answer, '$.message'), ''), a.pos "
        "FROM answers a JOIN bodies b ON b.id = a.body WHERE a.run = ?1 AND a.pos >= ?2 AND a.pos < ?3 "
        f"AND a.code IS NOT NULL UNION ALL SELECT {place}, s.key, "
        "CASE s.result WHEN 'error' THEN ifnull(json_extract(s.details, '$.code'), 'error') ELSE '' END, "
        "s.reason, a.pos FROM answers a JOIN scores s ON s.answer = a.id AND s.pass = ?4 "
        "WHERE a.run = ?1 AND a.pos >= ?2 AND a.pos < ?3 AND a.code IS NULL AND s.result IN ('fail', 'error')) "
        "ORDER BY pos, key"
    )
    for first, end in pages(ask, run.id):
        yield from (Failure._make(row[:8]) for row in ask(query, [run.id, first, end, run.scoring_pass]))


def judged_counts(ask: Ask, run: RunRow) -> dict[str, int]:
    """How many answers each evaluator passed, failed or could not judge; under '' how many were asked."""
    query = (
        "SELECT s.key, count(*) FROM answers a JOIN scores s ON s.answer = a.id AND s.pass = ?2 WHERE a.run = ?1 "
        "AND a.code IS NULL AND s.result IN ('pass', 'fail', 'error') GROUP BY s.key "
        "UNION ALL SELECT '', count(*) FROM answers WHERE run = ?1 AND status NOT IN ('pending', 'running')"
    )
    return dict(ask(query, [run.id, run.scoring_pass]))


def judge_costs(ask: Ask, run: int) -> dict[int, float]:
    """The costs of judging each answer that was judged by a paid judge."""
    query = (
        "SELECT answer, sum(cost) FROM calls WHERE run = ? AND answer IS NOT NULL AND kind = 'judge' AND cost > 0 "
        "GROUP BY answer"
    )
    return dict(ask(query, [run]))


def number_before(ask: Ask, run: int) -> int | None:
    """The number of the latest finished run of the same dataset before `run`, or None."""
    query = (
        "SELECT e.id FROM runs r JOIN runs e ON e.source = r.source AND e.id < r.id AND e.status = 'finished' "
        "AND e.total > 0 WHERE r.id = ? ORDER BY e.id DESC LIMIT 1"
    )
    return next((number for (number,) in ask(query, [run])), None)


# -- failures for one reason


@dataclass(slots=True)
class FailureGroup:
    """The failures of one evaluator for one reason, or the errors of one cause."""

    evaluator: str
    code: str
    sign: str
    """The reason without what tells one answer from another; empty for reasons that are like no other."""
    failures: list[Failure] = field(default_factory=list)

    @property
    def key(self) -> str:
        """A digest of the reason, equal in every run."""
        text = "\0".join((self.evaluator, self.code, self.sign))
        return sha256(text.encode("utf-8", "replace")).hexdigest()[:_KEY]

    @property
    def reason(self) -> str:
        """The reason of the first failure, without the numbers and quotations that differ in others."""
        reasons = dict.fromkeys(one.reason for one in self.failures if one.reason) if self.sign else {}
        return _shared(islice(reasons, _COMPARED))


def _shared(reasons: Iterable[str]) -> str:
    """The first reason, with `…` for each number or quotation that differs in another with the same words."""
    parts: list[str] = []
    for reason in reasons:
        of_this = _VARYING.split(reason)
        if not parts:
            parts = of_this
        elif len(of_this) == len(parts) and of_this[::2] == parts[::2]:
            parts[1::2] = [one if one == other else "…" for one, other in zip(parts[1::2], of_this[1::2], strict=True)]
    return "".join(parts)


class FailureGroups:
    """Groups of failures, and which of them a failure of another run belongs to."""

    def __init__(self, failures: Iterable[Failure]) -> None:
        self._signs: dict[tuple[bool, str], str] = {}
        found: dict[tuple[str, str], dict[str, list[Failure]]] = {}
        for failure in failures:
            signs = found.setdefault((failure.evaluator, failure.code), {})
            signs.setdefault(self._sign(failure), []).append(failure)
        self._kinds = {kind: _Kind(*kind, signs) for kind, signs in found.items()}

    def __iter__(self) -> Iterator[FailureGroup]:
        return (group for kind in self._kinds.values() for group in kind.groups.values())

    def find(self, failure: Failure) -> FailureGroup | None:
        """The group that a failure would be in."""
        kind = self._kinds.get((failure.evaluator, failure.code))
        return None if kind is None else kind.group_of(self._sign(failure))

    def _sign(self, failure: Failure) -> str:
        key = (bool(failure.code), failure.reason)
        sign = self._signs.get(key)
        if sign is None:
            text = failure.reason[:_LONGEST]
            sign = cause_of(text) if failure.code else _NUMBER.sub("#", _QUOTED.sub("…", text))
            self._signs[key] = sign
        return sign


class _Kind:
    """The groups of one evaluator, or of one code of errors."""

    def __init__(self, evaluator: str, code: str, signs: dict[str, list[Failure]]) -> None:
        self._of = (evaluator, code)
        self._bits: dict[str, int] = {}
        self._deciding = sum(self._bits.setdefault(word, 1 << len(self._bits)) for word in _DECIDING_WORDS)
        self._leaders: list[tuple[str, int]] = []
        self._known: dict[str, str] = {}
        self.groups: dict[str, FailureGroup] = {}
        for sign in sorted(signs, key=lambda sign: (-len(signs[sign]), sign)):
            leader = self._leader(sign)
            if leader is None and (code or len(self._leaders) < _MOST_REASONS):
                leader = sign
                self._leaders.append((sign, self._words(sign)))
            self._known[sign] = leader or ""
            self._add(leader or "", signs[sign])
        if len(self.groups) < len(signs) and not code:
            self._join_small()

    def _add(self, sign: str, failures: Sequence[Failure]) -> None:
        if sign not in self.groups:
            self.groups[sign] = FailureGroup(*self._of, sign)
        self.groups[sign].failures += failures

    def _join_small(self) -> None:
        """Reasons of judges that few failures share go together; an evaluator without a judge has a few in all."""
        least = _SMALL * sum(len(one.failures) for one in self.groups.values())
        for sign, _ in self._leaders:
            if len(self.groups[sign].failures) < least:
                self._add("", self.groups.pop(sign).failures)

    def group_of(self, sign: str) -> FailureGroup | None:
        """The group of a reason; if it is like no other, the group of other reasons."""
        if sign not in self._known:
            self._known[sign] = self._leader(sign) or ""
        return self.groups.get(self._known[sign]) or self.groups.get("")

    def _leader(self, sign: str) -> str | None:
        if self._of[1]:
            return next((one for one, _ in self._leaders if one == sign), None)
        foreground.give_way()
        words = self._words(sign)
        return next((one for one, own in self._leaders if one == sign or self._alike(words, own)), None)

    def _words(self, sign: str) -> int:
        """The words of a reason that say something, without their endings, each as its bit."""
        found = 0
        for word in _WORD.findall(sign.lower()):
            if word not in _EMPTY_WORDS:
                found |= self._bits.setdefault(_stem(word), 1 << len(self._bits))
        return found

    def _alike(self, one: int, other: int) -> bool:
        shared, all_words = (one & other).bit_count(), (one | other).bit_count()
        return shared > _ALIKE * all_words and not (one ^ other) & self._deciding


@lru_cache(maxsize=10_000)
def _stem(word: str) -> str:
    if word in _DECIDING_WORDS:
        return word
    endings = (ending for ending in ("ing", "ed", "es", "s", "e") if word.endswith(ending))
    return next((word.removesuffix(ending) for ending in endings if len(word) > len(ending) + 3), word)


# -- groups of a large run, kept in the store until something changes

State = Sequence[int | None]


def failures_state(ask: Ask, run: int) -> State:
    """Differs whenever an answer, a verdict or a call of a run changed, or the rules of grouping did."""
    query = (
        "SELECT scoring_pass, (SELECT max(seq) FROM answers WHERE run = r.id), "
        "(SELECT max(id) FROM calls WHERE run = r.id) FROM runs r WHERE id = ?"
    )
    return [RULES, *next(iter(ask(query, [run])), ())]


def kept_name(run: int) -> str:
    """The name in the session under which the groups of a run are kept."""
    return f"failures of {run}"


def kept_groups(ask: Ask, run: int) -> dict[str, Any] | None:
    """The kept groups of a run, if nothing has changed since."""
    (text,) = next(iter(ask("SELECT v FROM session WHERE k = ?", [kept_name(run)])), (None,))
    kept = None if text is None else loads(text)
    return kept if isinstance(kept, dict) and kept.get("state") == failures_state(ask, run) else None


def _kept_answers(kept: Mapping[str, Any] | None, number: int, key: str) -> set[int] | None:
    if kept is None or kept["state"][1] != number:
        return None
    try:
        return {int(one) for group in kept["groups"] if group["key"].startswith(key) for one in group["answers"]}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # something else was written there, so the answers are grouped again


def answers_of_group(ask: Ask, run: RunRow, key: str, kept: Mapping[str, Any] | None) -> list[int]:
    """The answers of groups whose key starts with `key`, in a run; from `kept` groups if there are any."""
    if (answers := _kept_answers(kept, run.scoring_pass, key)) is not None:
        return sorted(answers)
    groups = FailureGroups(failed_verdicts(ask, run))
    return sorted({one.answer for group in groups if group.key.startswith(key) for one in group.failures})
