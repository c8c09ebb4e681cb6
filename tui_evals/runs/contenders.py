"""What a battle is about: the bouts that are due, the answers as the judge is shown them, and what it all takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui_evals.datasets.model import Dataset
from tui_evals.evaluators.base import CannotJudge
from tui_evals.evaluators.battling import Contender, battle_question
from tui_evals.store.bouts import Bout
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow
from tui_evals.targets.base import Price
from tui_evals.text.tokens import estimate_tokens

from .plan import Estimate

_VERDICT_TOKENS = 80
_READ_FOR_ESTIMATE = 200


@dataclass(frozen=True, slots=True)
class Due:
    """Two answers, by their ids, that are to be judged, and what an earlier battle left of it."""

    left: int
    right: int
    run: int
    """The later run of the two, which keeps the record of the calls."""
    known: Bout | None = None

    @property
    def calls(self) -> int:
        """How many questions are left."""
        return 2 if self.known is None else (self.known.first, self.known.second).count(None)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a judge is shown of a bout."""

    left: Contender
    right: Contender
    expected: tuple[str, ...]


class Material:
    """The answers of bouts with what was asked and expected, as the store has them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._datasets: dict[int, Dataset] = {}

    def of(self, due: Due) -> Shown:
        """What there is to show of a bout; LookupError when an answer is gone."""
        left, row = self._contender(due.left)
        right, _ = self._contender(due.right)
        unit = self._dataset(row.run).items[row.item].units[row.turn]
        expected = (*([unit.reference] if unit.reference else []), *(unit.ideal or ()))
        return Shown(left, right, tuple(dict.fromkeys(expected)))

    def _contender(self, answer: int) -> tuple[Contender, AnswerRow]:
        found = self._reader.detail(answer)
        if found.answer is None:
            raise LookupError(f"answer number {answer} is not in the store any more")
        chat = found.answer.request.get("messages", ())
        return Contender(chat, found.answer.text or "", found.answer.tool_calls), found.row

    def _dataset(self, run: int) -> Dataset:
        if run not in self._datasets:
            self._datasets[run] = Dataset.model_validate(self._reader.snapshot(self._reader.run(run).snapshot))
        return self._datasets[run]


def estimate_battle(due: Sequence[Due], criteria: str, reader: Reader, price: Price | None) -> Estimate:
    """How many calls the bouts take, and about how much money, from the texts of some of them."""
    calls = sum(one.calls for one in due)
    if price is None or not calls:
        return Estimate(0, calls, 0.0 if not calls else None)
    material, every = Material(reader), -(-len(due) // _READ_FOR_ESTIMATE)
    sizes = [_size(material.of(one), criteria) for one in due[::every]]
    read = calls * sum(sizes) / len(sizes)
    return Estimate(
        0, calls, (read * price.input_per_million + calls * _VERDICT_TOKENS * price.output_per_million) / 1e6
    )


def _size(shown: Shown, criteria: str) -> int:
    try:
        asked = battle_question(shown.left, shown.right, shown.expected, criteria)
    except CannotJudge:
        return 0
    return sum(estimate_tokens(message["content"]) for message in asked.messages)
