"""The answers of one run as a comparison needs them: by item, small, and with columns numbered like the other run's."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.store.records import AnswerRow, AnswerStatus, RunRow

from .match import Entry, ItemKey

Cell = tuple[int, int, int, int]
"""Repeat, prompt, target and turn."""

_ASKED = ("prompt", "expected_response", "ideal", "context", "messages", "variables", "tools", "response_format")


@dataclass(frozen=True, slots=True)
class Answer:
    """One side of a pair: enough to list it; answers of the same text look the same, the converse need not hold."""

    id: int
    status: AnswerStatus
    score: float | None
    look: int


class Answers:
    """The answers of a run by item; `prompts` and `targets` say under which numbers the other run knows its columns."""

    def __init__(
        self,
        rows: Iterable[AnswerRow],
        document: Mapping[str, Any],
        run: RunRow,
        prompts: Mapping[int, int],
        targets: Mapping[int, int],
    ) -> None:
        self.items: Sequence[Mapping[str, Any]] = document["items"]
        self.names: dict[int, str] = {}
        self.cells: defaultdict[int, dict[Cell, Answer]] = defaultdict(dict)
        self.columns = {
            (prompts[p], targets[t]): " · ".join(name for name in (target, prompt) if name)
            for p, prompt in enumerate(run.prompts)
            for t, target in enumerate(run.targets)
        }
        self.statuses: Counter[AnswerStatus] = Counter()
        self._sum, self._scored = 0.0, 0
        for row in rows:
            self.names[row.item] = row.name
            answer = Answer(row.id, row.status, row.score, hash((row.preview, row.code)))
            self.cells[row.item][row.repeat, prompts[row.prompt], targets[row.target], row.turn] = answer
            self.statuses[row.status] += 1
            if row.score is not None:
                self._sum += row.score
                self._scored += 1

    @property
    def mean(self) -> float | None:
        """The mean score of the answers that have one."""
        return self._sum / self._scored if self._scored else None

    def entries(self, known: bool) -> list[Entry]:
        """The items that were asked, by what they can be recognised by; in a `known` document that is their place."""
        return [
            Entry(ItemKey(self._test_id(n), str(n) if known else _asked(self.items[n]), n), ())
            for n in sorted(self.cells)
        ]

    def _test_id(self, number: int) -> str | None:
        found = self.items[number].get("testId")
        return found if isinstance(found, str) else None


def facing(left: Sequence[str], right: Sequence[str]) -> tuple[dict[int, int], dict[int, int]]:
    """One number for each name of two runs, the same where the names are, or where each run has a single one."""
    before = {number: number for number in range(len(left))}
    if len(left) == len(right) == 1:
        return before, {0: 0}
    free: defaultdict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(left):
        free[name].append(number)
    extra = len(left)
    return before, {n: free[name].pop(0) if free[name] else extra + n for n, name in enumerate(right)}


def _asked(item: Mapping[str, Any]) -> str:
    """The hash of what is asked and expected."""
    turns = item.get("turns")
    units = [item, *(turns if isinstance(turns, list) else ())]
    parts = [{name: unit[name] for name in _ASKED if unit.get(name) is not None} for unit in units]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
