"""On the driver: cuts cells into shards for workers, and keeps track of what has come back committed."""

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
    """Cells that one task holds; `open` has the answers that are not judged yet, with their cell."""

    target: int
    cells: dict[int, Cell]
    open: dict[int, int]
    scored: set[int]
    new: bool
    """No worker has held these cells before, so nothing of them can be committed meanwhile."""
    worker: str | None = None


class Shards:
    """The cells of a run: handed out in shards, and taken back where a shard ends before they are finished."""

    def __init__(
        self,
        cells: Mapping[int, Iterator[Cell]],
        concurrency: Sequence[int],
        known: Callable[[Cell], Mapping[int, AnswerRecord]],
    ) -> None:
        self._cells = dict(cells)
        self._room = [CELLS_PER_CALL * number for number in concurrency]
        self._known = known
        self._returned: deque[list[Cell]] = deque()
        self._held = dict.fromkeys(range(len(concurrency)), 0)
        """How many cells of each target are out."""
        self._number = 0
        self._shard_of: dict[int, int] = {}
        """The last shard of each answer that is not judged yet."""
        self._late: set[int] = set()
        """Answers that were judged after their shard had ended."""
        self.out: dict[int, Shard] = {}

    def next_shard(self, slots: int) -> int | None:
        """The number of a new shard; None while enough cells are out, or when there are no more."""
        if self._returned:
            return self._hand_out(self._returned.popleft(), new=False)
        for target in sorted(self._cells, key=lambda target: self._held[target] / self._room[target]):
            if self._held[target] >= max(self._room[target], slots):
                continue
            size = min(MAX_SHARD, max(1, -(-self._room[target] // max(slots, 1))))
            if cells := list(islice(self._cells[target], size)):
                return self._hand_out(cells, new=True)
            del self._cells[target]
        return None

    @property
    def exhausted(self) -> bool:
        """Whether every cell has been handed out at least once."""
        return not self._cells and not self._returned

    def contents(self, number: int, worker: str) -> list[Cell]:
        """What is left of a shard, as the store knows it now, for the worker that holds it from now on."""
        shard = self.out.get(number)
        if shard is None:
            return []
        shard.worker = worker
        if shard.new:
            shard.new = False
            return list(shard.cells.values())
        return [self._as_committed(shard, cell) for cell in shard.cells.values()]

    def answered(self, answer: int, record: AnswerRecord) -> None:
        """Note a committed answer; one that failed is not judged."""
        if record.text is None:
            self.scored(answer)

    def scored(self, answer: int) -> bool:
        """Note that an answer is scored; False when it was already."""
        if (number := self._shard_of.pop(answer, None)) is None:
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

    def take_back(self, number: int) -> list[Cell]:
        """Take a shard back; returns its cells that are not finished."""
        shard = self.out.pop(number)
        self._held[shard.target] -= len(shard.cells)
        return [self._as_committed(shard, cell) for cell in shard.cells.values()]

    def put_back(self, cells: Sequence[Cell], *, singly: bool = False, parts: int = 1) -> None:
        """Have cells handed out again: one by one where one of them may kill its worker, else in so many parts."""
        size = 1 if singly else max(1, -(-len(cells) // parts))
        self._returned.extend(list(cells[start : start + size]) for start in range(0, len(cells), size))

    def _hand_out(self, cells: list[Cell], *, new: bool) -> int:
        self._number += 1
        places: dict[int, int] = {}
        for cell in cells:
            for turn, answer in enumerate(cell.answers):
                failed = turn in cell.known and cell.known[turn].text is None
                if turn not in cell.final and not failed and answer not in self._late:
                    places[answer] = cell.answers[0]
        waiting = set(places.values())
        cells_waiting = {cell.answers[0]: cell for cell in cells if cell.answers[0] in waiting}
        late = {answer for cell in cells for answer in cell.answers if answer in self._late}
        self.out[self._number] = Shard(cells[0].target, cells_waiting, places, late, new)
        self._held[cells[0].target] += len(cells_waiting)
        self._shard_of |= dict.fromkeys(places, self._number)
        return self._number

    def _as_committed(self, shard: Shard, cell: Cell) -> Cell:
        final = {turn for turn, answer in enumerate(cell.answers) if answer in shard.scored}
        return replace(cell, known=self._known(cell), final=cell.final | final)
