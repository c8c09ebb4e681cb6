"""On the driver: which cells go to workers, in which shards, and what of them has come back committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tui_evals.runs.executors.base import Cell
from tui_evals.store.records import AnswerRecord

CELLS_PER_CALL = 4
"""Conversations handed out for each call a target takes at once, as in one process."""
MAX_SHARD = 50


@dataclass(slots=True)
class Shard:
    """Cells that one task holds; `open` has the answers nobody has judged yet, with their cell."""

    target: int
    cells: dict[int, Cell]
    open: dict[int, int]
    scored: set[int]
    new: bool
    """Nobody has held these cells before, so they are as they were read."""
    worker: str | None = None


class Shards:
    """The cells of a run on their way: taken in shards, and taken back where a shard ends before they do."""

    def __init__(
        self,
        cells: Mapping[int, Iterator[Cell]],
        concurrency: Sequence[int],
        known: Callable[[Cell], Mapping[int, AnswerRecord]],
    ) -> None:
        self._cells = dict(cells)
        self._room = [CELLS_PER_CALL * number for number in concurrency]
        self._known = known
        self._again: deque[list[Cell]] = deque()
        self._held = dict.fromkeys(range(len(concurrency)), 0)
        """How many cells of each target are out."""
        self._number = 0
        self._where: dict[int, int] = {}
        """The shard that an answer nobody has judged yet was last in."""
        self._late: set[int] = set()
        """Answers that were done with after their shard had ended."""
        self.out: dict[int, Shard] = {}

    def next(self, slots: int) -> int | None:
        """The number of a new shard; None while enough cells are out, or when there are no more."""
        if self._again:
            return self._put(self._again.popleft(), new=False)
        for target in sorted(self._cells, key=lambda target: self._held[target] / self._room[target]):
            if self._held[target] >= max(self._room[target], slots):
                continue
            size = min(MAX_SHARD, max(1, -(-self._room[target] // max(slots, 1))))
            if found := list(islice(self._cells[target], size)):
                return self._put(found, new=True)
            del self._cells[target]
        return None

    @property
    def exhausted(self) -> bool:
        """Whether every cell has been handed out at least once."""
        return not self._cells and not self._again

    def contents(self, number: int, worker: str) -> list[Cell]:
        """What is left of a shard, as the store knows it now, for the worker that holds it from now on."""
        shard = self.out.get(number)
        if shard is None:
            return []
        shard.worker = worker
        if shard.new:
            shard.new = False
            return list(shard.cells.values())
        return [self._fresh(shard, cell) for cell in shard.cells.values()]

    def answered(self, answer: int, record: AnswerRecord) -> None:
        """An answer is committed; one that failed is not judged."""
        if record.text is None:
            self.scored(answer)

    def scored(self, answer: int) -> bool:
        """The scores of an answer are there, whoever sent them; False when others were before."""
        if (number := self._where.pop(answer, None)) is None:
            return False
        if (shard := self.out.get(number)) is None:
            self._late.add(answer)
            return True
        first = shard.open.pop(answer)
        shard.scored.add(answer)
        if all(other not in shard.open for other in shard.cells[first].answers):
            del shard.cells[first]
            self._held[shard.target] -= 1
        return True

    def ended(self, number: int) -> list[Cell]:
        """Take a shard back; returns its cells that are not finished."""
        shard = self.out.pop(number)
        self._held[shard.target] -= len(shard.cells)
        return [self._fresh(shard, cell) for cell in shard.cells.values()]

    def again(self, cells: Sequence[Cell], *, singly: bool = False, parts: int = 1) -> None:
        """Hand cells out once more: one by one where one of them may be deadly, else in so many parts."""
        size = 1 if singly else max(1, -(-len(cells) // parts))
        self._again.extend(list(cells[start : start + size]) for start in range(0, len(cells), size))

    def _put(self, cells: list[Cell], *, new: bool) -> int:
        self._number += 1
        places: dict[int, int] = {}
        for cell in cells:
            for turn, answer in enumerate(cell.answers):
                failed = turn in cell.known and cell.known[turn].text is None
                if turn not in cell.final and not failed and answer not in self._late:
                    places[answer] = cell.answers[0]
        waiting = set(places.values())
        held = {cell.answers[0]: cell for cell in cells if cell.answers[0] in waiting}
        late = {answer for cell in cells for answer in cell.answers if answer in self._late}
        self.out[self._number] = Shard(cells[0].target, held, places, late, new)
        self._held[cells[0].target] += len(held)
        self._where |= dict.fromkeys(places, self._number)
        return self._number

    def _fresh(self, shard: Shard, cell: Cell) -> Cell:
        final = {turn for turn, answer in enumerate(cell.answers) if answer in shard.scored}
        return replace(cell, known=self._known(cell), final=cell.final | final)
