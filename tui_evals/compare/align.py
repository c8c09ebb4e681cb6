"""Which pieces of two sequences belong together, found with bounded work.

Every step takes from one allowance. Past it the alignment gets coarser and says so, so that no input, however it is
made, holds a screen up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

Pairs = list[tuple[int, int]]
"""Positions left and right that belong together, rising on both sides."""

MAX_TABLE = 2**27  # cells of one alignment table, a bit each: 16 MB
WORK = 2**29  # cells of all tables together; one costs about 0.4 ns
CALL = 5_000  # what starting a table costs, in cells
GRAMS = (1, 4, 16)  # pieces in a row that are looked for where a table would be too large


@dataclass(slots=True)
class Work:
    """What may still be spent, and whether something had to be left undone."""

    left: int = WORK
    coarse: bool = False

    def spend(self, cost: int) -> bool:
        """Take so much if there is as much; what cannot be paid is not done."""
        if cost > self.left:
            return False
        self.left -= cost
        return True


def matches(left: Sequence[str], right: Sequence[str], work: Work) -> Pairs:
    """Equal pieces in equal order, as many as can be while the work allows it."""
    if (len(right), right) < (len(left), left):
        # Equally good alignments are many; with one order for both directions swapped texts get the same one.
        return [(i, j) for j, i in matches(right, left, work)]
    start = next((k for k, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))
    end = next((k for k in range(len(left) - start) if left[-1 - k] != right[-1 - k]), len(left) - start)
    both = set(left[start : len(left) - end]) & set(right[start : len(right) - end])
    ids = {piece: number for number, piece in enumerate(sorted(both))}
    rows = [i for i in range(start, len(left) - end) if left[i] in ids]
    columns = [j for j in range(start, len(right) - end) if right[j] in ids]
    inner = _longest([ids[left[i]] for i in rows], [ids[right[j]] for j in columns], GRAMS, work)
    tail = zip(range(len(left) - end, len(left)), range(len(right) - end, len(right)), strict=True)
    return [*((k, k) for k in range(start)), *((rows[i], columns[j]) for i, j in inner), *tail]


def gaps(pairs: Pairs, n: int, m: int) -> Iterator[tuple[int, int, int, int]]:
    """The stretches before, between and after pairs: from and to on the left, from and to on the right."""
    i = j = 0
    for a, b in [*pairs, (n, m)]:
        yield i, a, j, b
        i, j = a + 1, b + 1


def facing(pairs: Pairs, n: int, m: int) -> Iterator[tuple[int | None, int | None]]:
    """Every position once: pairs face each other, what lies between them in order."""
    for number, (i, a, j, b) in enumerate(gaps(pairs, n, m)):
        yield from zip_longest(range(i, a), range(j, b))
        if number < len(pairs):
            yield a, b


def _longest(left: list[int], right: list[int], grams: tuple[int, ...], work: Work) -> Pairs:
    """A longest common subsequence; where its table is too large, one through what stands once on each side."""
    if not left or not right:
        return []
    cells = len(left) * len(right)
    if cells <= MAX_TABLE and work.spend(cells + CALL):
        from rapidfuzz.distance import LCSseq

        same = (code for code in LCSseq.opcodes(left, right) if code.tag == "equal")
        return [
            (code.src_start + k, code.dest_start + k) for code in same for k in range(code.src_end - code.src_start)
        ]
    if not grams:
        work.coarse = True
        return [(k, k) for k, (a, b) in enumerate(zip(left, right, strict=False)) if a == b]
    anchors = _anchors(_grams(left, grams[0]), _grams(right, grams[0]))
    found: Pairs = []
    for number, (i, a, j, b) in enumerate(gaps(anchors, len(left), len(right))):
        found += ((i + x, j + y) for x, y in _longest(left[i:a], right[j:b], grams[1:], work))
        found += anchors[number : number + 1]
    return found


def _grams(pieces: list[int], size: int) -> list[tuple[int, ...]]:
    return list(zip(*(pieces[k:] for k in range(size)), strict=False))


def _anchors(left: list[tuple[int, ...]], right: list[tuple[int, ...]]) -> Pairs:
    """The longest rising run of what stands once on each side."""
    count, other = Counter(left), Counter(right)
    where = {gram: j for j, gram in enumerate(right) if other[gram] == 1 == count[gram]}
    tops: list[int] = []  # the smallest right position that ends a run of each length
    ends: list[int] = []  # and where in `runs` that end is
    runs: list[tuple[int, int, int]] = []  # left, right, the run it continues
    for i, gram in enumerate(left):
        if (j := where.get(gram)) is not None:
            length = bisect_left(tops, j)
            tops[length : length + 1] = [j]
            ends[length : length + 1] = [len(runs)]
            runs.append((i, j, ends[length - 1] if length else -1))
    pairs: Pairs = []
    at = ends[-1] if ends else -1
    while at >= 0:
        i, j, at = runs[at]
        pairs.append((i, j))
    return pairs[::-1]
