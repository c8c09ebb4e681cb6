"""Compares two texts by lines, sentences and words, or as JSON: what belongs together, and what differs."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice, zip_longest
from operator import itemgetter
from typing import Any, Literal

from tui_evals.light_records import dataclass
from tui_evals.text import strictjson

MAX_DEPTH = 24  # deeper levels stay on one line

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class JsonChange:
    """One place where two JSON values differ, as a JSON path."""

    path: str
    kind: Literal["changed", "removed", "added"]


def canonical_lines(value: object) -> list[str]:
    """The value with sorted keys; without commas, or a line would differ because another follows it."""
    into: list[str] = []
    _append_lines(value, "", 0, into)
    return into


def json_changes(left: Any, right: Any, path: str = "$", depth: int = 0) -> Iterator[JsonChange]:
    """The deepest places that differ; elements of arrays are told apart by their position."""
    if _compact(left) == _compact(right):
        return
    if depth == MAX_DEPTH or type(left) is not type(right) or not isinstance(left, dict | list):
        yield JsonChange(path, "changed")
        return
    one, other = (value if isinstance(value, dict) else dict(enumerate(value)) for value in (left, right))
    for key in sorted(one.keys() | other.keys()):
        below = path + _path_step(key)
        if key in one and key in other:
            yield from json_changes(one[key], other[key], below, depth + 1)
        else:
            yield JsonChange(below, "removed" if key in one else "added")


def _path_step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _NAME.fullmatch(key) else f"[{key[:80]!r}]"


def _append_lines(value: Any, lead: str, depth: int, into: list[str]) -> None:
    indent = "  " * depth
    if depth == MAX_DEPTH or not isinstance(value, dict | list) or not value:
        into.append(f"{indent}{lead}{_compact(value)}\n")
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    into.append(f"{indent}{lead}{opening}\n")
    if isinstance(value, dict):
        for key in sorted(value):
            _append_lines(value[key], f"{_compact(key)}: ", depth + 1, into)
    else:
        for element in value:
            _append_lines(element, "", depth + 1, into)
    into.append(f"{indent}{closing}\n")


Pairs = list[tuple[int, int]]
"""Positions left and right that belong together, rising on both sides."""

MAX_TABLE = 2**27  # cells of one alignment table, a bit each: 16 MB
MAX_WORK = 2**29  # cells of all tables; one takes about 0.4 ns
TABLE_COST = 5_000  # what starting a table costs, in cells
GRAMS = (1, 4, 16)  # pieces in a row that are looked for where a table would be too large


@dataclass(slots=True)
class AlignBudget:
    """How much comparing may still be done, and whether something was left out for lack of it."""

    left: int = MAX_WORK
    coarse: bool = False

    def spend(self, cost: int) -> bool:
        """Whether so much is left; if so, it is taken."""
        if cost > self.left:
            return False
        self.left -= cost
        return True


def match_pieces(left: Sequence[str], right: Sequence[str], budget: AlignBudget) -> Pairs:
    """Equal pieces in the same order, as many as the budget allows to find."""
    if (len(right), right) < (len(left), left):
        # Equally good alignments are many; with one order for both directions swapped texts get the same one.
        return [(i, j) for j, i in match_pieces(right, left, budget)]
    start = next((k for k, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))
    end = next((k for k in range(len(left) - start) if left[-1 - k] != right[-1 - k]), len(left) - start)
    both = set(left[start : len(left) - end]) & set(right[start : len(right) - end])
    ids = {piece: number for number, piece in enumerate(sorted(both))}
    rows = [i for i in range(start, len(left) - end) if left[i] in ids]
    columns = [j for j in range(start, len(right) - end) if right[j] in ids]
    inner = _longest_common([ids[left[i]] for i in rows], [ids[right[j]] for j in columns], GRAMS, budget)
    tail = zip(range(len(left) - end, len(left)), range(len(right) - end, len(right)), strict=True)
    return [*((k, k) for k in range(start)), *((rows[i], columns[j]) for i, j in inner), *tail]


def gaps_between(pairs: Pairs, n: int, m: int) -> Iterator[tuple[int, int, int, int]]:
    """The stretches before, between and after pairs: from and to on the left, from and to on the right."""
    i = j = 0
    for a, b in [*pairs, (n, m)]:
        yield i, a, j, b
        i, j = a + 1, b + 1


def align_positions(pairs: Pairs, n: int, m: int) -> Iterator[tuple[int | None, int | None]]:
    """All positions in order: pairs next to each other, and the positions between them."""
    for number, (i, a, j, b) in enumerate(gaps_between(pairs, n, m)):
        yield from zip_longest(range(i, a), range(j, b))
        if number < len(pairs):
            yield a, b


def _longest_common(left: list[int], right: list[int], grams: tuple[int, ...], budget: AlignBudget) -> Pairs:
    """A longest common subsequence; if its table is too large, one through tokens that occur once on both sides."""
    if not left or not right:
        return []
    cells = len(left) * len(right)
    if cells <= MAX_TABLE and budget.spend(cells + TABLE_COST):
        from rapidfuzz.distance import LCSseq

        same = (code for code in LCSseq.opcodes(left, right) if code.tag == "equal")
        return [
            (code.src_start + k, code.dest_start + k) for code in same for k in range(code.src_end - code.src_start)
        ]
    if not grams:
        budget.coarse = True
        return [(k, k) for k, (a, b) in enumerate(zip(left, right, strict=False)) if a == b]
    anchors = _unique_anchors(_ngrams(left, grams[0]), _ngrams(right, grams[0]))
    pairs: Pairs = []
    for number, (i, a, j, b) in enumerate(gaps_between(anchors, len(left), len(right))):
        pairs += ((i + x, j + y) for x, y in _longest_common(left[i:a], right[j:b], grams[1:], budget))
        pairs += anchors[number : number + 1]
    return pairs


def _ngrams(pieces: list[int], size: int) -> list[tuple[int, ...]]:
    return list(zip(*(pieces[k:] for k in range(size)), strict=False))


def _unique_anchors(left: list[tuple[int, ...]], right: list[tuple[int, ...]]) -> Pairs:
    """The longest increasing sequence of tokens that occur exactly once on both sides."""
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


Kind = Literal["same", "changed", "removed", "added"]
Unit = Literal["line", "sentence", "json"]

_MAX_PIECES = 65_536  # lines of a text, or words of a line, that are told apart; the rest is one piece
_MAX_JSON = 1_000_000  # characters
_MAX_CHANGES = 1_000
_LONG_LINE = 400  # characters; a line beyond it is a paragraph, which is read by sentences
_SIMILAR = 0.5  # share of characters in equal words from which two units count as versions of one
_NOISE = 0.25  # share in equal words below which marking single words confuses more than it tells
_ROW_COST, _CHARACTER_COST = 60_000, 500  # what comparing a row and each of its characters costs, in cells of a table

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SENTENCE = re.compile(
    r"""[^\n]*?(?:(?<!^[0-9])(?<!^[0-9][0-9])[.!?…]["'”’)\]*_]*[^\S\n]+|[。！？]|\n)|[^\n]+""", re.MULTILINE
)
_WORD = re.compile(  # a sign of a script without spaces is a word of its own
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff][^\S\n]*|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+[^\S\n]*|\s+"
)
_TEXT, _FLAG = itemgetter(0), itemgetter(1)


@dataclass(frozen=True, slots=True)
class DiffSpan:
    """A piece of a line, and whether the other side lacks it."""

    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class DiffSide:
    """One line or sentence with its number, counted from 1."""

    number: int
    spans: tuple[DiffSpan, ...]

    @property
    def text(self) -> str:
        """The line with its line break."""
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A row of the left text next to its row of the right one; a side is None where the other has no counterpart."""

    left: DiffSide | None
    right: DiffSide | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class DiffGap:
    """Rows left out of a unified diff because nothing changes near them."""

    count: int


@dataclass(frozen=True, slots=True)
class Diff:
    """Two texts aligned; the spans of a side, joined, are that text (for `json`, its canonical lines)."""

    rows: tuple[DiffRow, ...]
    unit: Unit
    coarse: bool
    """Some of it was too much work: rows face each other in order only or are marked whole, changes are left out,
    or JSON was compared as text."""
    changes: tuple[JsonChange, ...] = ()
    """The places that differ, when JSON was compared as JSON."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return all(row.kind == "same" for row in self.rows)


def side_by_side(left: str, right: str) -> Diff:
    """Two texts aligned by lines, or by sentences if one of them has long paragraphs."""
    return _text_diff(left, right, AlignBudget())


def diff_json(left: str, right: str) -> Diff:
    """Two JSON objects or arrays aligned independent of spacing and key order; other values as text."""
    return _json_diff(left, right, AlignBudget())


def unified_diff(diff: Diff, context: int = 3) -> tuple[DiffRow | DiffGap, ...]:
    """The rows as one column: removed before added, with at most `context` unchanged rows around them."""
    shown: list[DiffRow | DiffGap] = []
    blocks = [(same, list(block)) for same, block in groupby(diff.rows, key=lambda row: row.kind == "same")]
    for number, (same, block) in enumerate(blocks):
        head = context if number else 0
        tail = len(block) - (context if number < len(blocks) - 1 else 0)
        if not same:
            shown += [DiffRow(row.left, None, "removed") for row in block if row.left]
            shown += [DiffRow(None, row.right, "added") for row in block if row.right]
        elif tail - head <= 1:  # a gap would take a row itself
            shown += block
        else:
            shown += [*block[:head], DiffGap(tail - head), *block[tail:]]
    return tuple(shown)


def _text_diff(left: str, right: str, budget: AlignBudget) -> Diff:
    texts = [_LINE.findall(text) for text in (left, right)]
    if all(len(line) <= _LONG_LINE for text in texts for line in text):
        return _diff_pieces(texts[0], texts[1], "line", budget)
    return _diff_pieces(_SENTENCE.findall(left), _SENTENCE.findall(right), "sentence", budget)


def _json_diff(left: str, right: str, budget: AlignBudget) -> Diff:
    if max(len(left), len(right)) > _MAX_JSON:
        return replace(_text_diff(left, right, budget), coarse=True)
    try:
        one, other = strictjson.loads(left), strictjson.loads(right)
        if not (isinstance(one, dict | list) and isinstance(other, dict | list)):
            return _text_diff(left, right, budget)
        lines, other_lines = canonical_lines(one), canonical_lines(other)
        changes = tuple(islice(json_changes(one, other), _MAX_CHANGES + 1))
    except (ValueError, RecursionError):  # not JSON, or nested too deeply to write back: text like any other
        return _text_diff(left, right, budget)
    diff = _diff_pieces(lines, other_lines, "json", budget)
    return replace(diff, changes=changes[:_MAX_CHANGES], coarse=diff.coarse or len(changes) > _MAX_CHANGES)


def _diff_pieces(left: list[str], right: list[str], unit: Unit, budget: AlignBudget) -> Diff:
    budget.coarse = False
    left, right = _limit_pieces(left, budget), _limit_pieces(right, budget)
    equal = match_pieces(left, right, budget)
    similar = [
        (a + i, b + j)
        for a, to_a, b, to_b in gaps_between(equal, len(left), len(right))
        for i, j in _similar_units(left[a:to_a], right[b:to_b], budget)
    ]
    pairs = align_positions(sorted(equal + similar), len(left), len(right))
    return Diff(tuple(_diff_row(left, right, i, j, budget) for i, j in pairs), unit, budget.coarse)


def _diff_row(left: list[str], right: list[str], i: int | None, j: int | None, budget: AlignBudget) -> DiffRow:
    if i is None or j is None:
        one = None if i is None else DiffSide(i + 1, (DiffSpan(left[i], True),))
        other = None if j is None else DiffSide(j + 1, (DiffSpan(right[j], True),))
        return DiffRow(one, other, "added" if i is None else "removed")
    if left[i] == right[j]:
        spans = (DiffSpan(left[i], False),)
        return DiffRow(DiffSide(i + 1, spans), DiffSide(j + 1, spans), "same")
    before, after = _word_spans(left[i], right[j], budget)
    return DiffRow(DiffSide(i + 1, before), DiffSide(j + 1, after), "changed")


def _word_spans(left: str, right: str, budget: AlignBudget) -> tuple[tuple[DiffSpan, ...], tuple[DiffSpan, ...]]:
    """Two versions of a line in spans; unmarked spans are equal on both sides."""
    head, tail = _common_ends(left, right)
    middle, other = left[head : len(left) - tail], right[head : len(right) - tail]
    pieces, others, equal = [middle], [other], list[tuple[int, int]]()
    if budget.spend(_ROW_COST + _CHARACTER_COST * (len(middle) + len(other))):
        pieces, others = _limit_pieces(_WORD.findall(middle), budget), _limit_pieces(_WORD.findall(other), budget)
        equal = match_pieces(_strip_words(pieces), _strip_words(others), budget)
    else:
        budget.coarse = True
    same, other_same = [0] * len(pieces), [0] * len(others)
    for i, j in equal:
        same[i] = other_same[j] = len(pieces[i] if pieces[i] == others[j] else pieces[i].rstrip())
    if head + sum(same) + tail < _NOISE * min(len(left), len(right)):
        return (DiffSpan(left, True),), (DiffSpan(right, True),)
    ends = left[:head], left[len(left) - tail :]
    return _join_spans(ends, pieces, same), _join_spans(ends, others, other_same)


def _common_ends(left: str, right: str) -> tuple[int, int]:
    """How many characters of whole words both begin with, and both end with behind them."""
    from rapidfuzz.distance import Postfix, Prefix

    head = left.rfind(" ", 0, Prefix.similarity(left, right)) + 1
    start = len(left) - Postfix.similarity(left[head:], right[head:])
    space = left.find(" ", start)
    return head, 0 if space < 0 else len(left) - space


def _join_spans(ends: tuple[str, str], pieces: list[str], same: list[int]) -> tuple[DiffSpan, ...]:
    """Pieces joined to spans; the first characters of each are equal, the space after them may differ."""
    parts = [(ends[0], False)]
    for piece, length in zip(pieces, same, strict=True):
        parts += ((piece[:length], False), (piece[length:], True))
    parts.append((ends[1], False))
    filled = (part for part in parts if part[0])
    return tuple(DiffSpan("".join(map(_TEXT, run)), flag) for flag, run in groupby(filled, key=_FLAG))


def _similar_units(left: list[str], right: list[str], budget: AlignBudget) -> Pairs:
    """The unequal units of a block that are versions of each other: each shares most of its words with the other."""
    if len(left) * len(right) <= 1:
        return []
    if not budget.spend(_CHARACTER_COST * (sum(map(len, left)) + sum(map(len, right)))):
        budget.coarse = True
        return []
    (words, owner), (others, other_owner) = _words_with_owners(left), _words_with_owners(right)
    shared: Counter[tuple[int, int]] = Counter()
    for i, j in match_pieces(words, others, budget):
        shared[owner[i], other_owner[j]] += len(words[i])
    # Equal words rise on both sides, so pairs that are the best for both of their members rise too.
    best = _best_choices(((i, j), size) for (i, j), size in shared.items())
    other_best = _best_choices(((j, i), size) for (i, j), size in shared.items())
    return [
        (i, j)
        for i, j in sorted(best.items())
        if other_best[j] == i and 2 * shared[i, j] >= _SIMILAR * (len(left[i]) + len(right[j]))
    ]


def _best_choices(votes: Iterable[tuple[tuple[int, int], int]]) -> dict[int, int]:
    """The choice with the most votes for each voter, the first one of equals."""
    return {voter: choice for (voter, choice), _ in sorted(votes, key=lambda vote: (vote[1], -vote[0][1]))}


def _words_with_owners(units: list[str]) -> tuple[list[str], list[int]]:
    """The words of all units in a row, and the unit each belongs to."""
    split = [_WORD.findall(unit) for unit in units]
    owners = [number for number, words in enumerate(split) for _ in words]
    return [word for words in split for word in _strip_words(words)], owners


def _strip_words(pieces: list[str]) -> list[str]:
    """The words without the space after them, so that it does not count as a difference."""
    return [piece.rstrip() or piece for piece in pieces]


def _limit_pieces(pieces: list[str], budget: AlignBudget) -> list[str]:
    if len(pieces) <= _MAX_PIECES:
        return pieces
    budget.coarse = True
    return [*pieces[:_MAX_PIECES], "".join(pieces[_MAX_PIECES:])]
