"""What differs between two texts: lines or sentences side by side, and the words that changed inside them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from operator import itemgetter
from typing import Literal

from tui_evals.compare import canonical
from tui_evals.compare.align import Pairs, Work, facing, gaps, matches
from tui_evals.text import strictjson

Kind = Literal["same", "changed", "removed", "added"]
Unit = Literal["line", "sentence", "json"]

_MAX_PIECES = 65_536  # lines of a text, or words of a line, that are told apart; the rest is one piece
_MAX_JSON = 1_000_000  # characters
_MAX_CHANGES = 1_000
_LONG_LINE = 400  # characters; a line beyond it is a paragraph, which is read by sentences
_ALIKE = 0.5  # share of characters in equal words from which two units count as versions of one
_NOISE = 0.25  # share in equal words below which marking single words confuses more than it tells
_ROW, _CHARACTER = 60_000, 500  # what comparing a row and each of its characters costs, in cells of a table

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SENTENCE = re.compile(
    r"""[^\n]*?(?:(?<!^[0-9])(?<!^[0-9][0-9])[.!?…]["'”’)\]*_]*[^\S\n]+|[。！？]|\n)|[^\n]+""", re.MULTILINE
)
_WORD = re.compile(  # a sign of a script without spaces is a word of its own
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff][^\S\n]*|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+[^\S\n]*|\s+"
)
_TEXT, _FLAG = itemgetter(0), itemgetter(1)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line, and whether the other side lacks it."""

    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Side:
    """One line or sentence with its number, counted from 1."""

    number: int
    spans: tuple[Span, ...]

    @property
    def text(self) -> str:
        """The line as it stands in its text, with its line break."""
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class Row:
    """What faces what; a side is None where the other has nothing to face."""

    left: Side | None
    right: Side | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows left out of a unified diff because nothing changes near them."""

    count: int


@dataclass(frozen=True, slots=True)
class Diff:
    """Two texts aligned; the spans of a side, joined, are that text (for `json`, its canonical lines)."""

    rows: tuple[Row, ...]
    unit: Unit
    coarse: bool
    """Some of it was too much work: rows face each other in order only or are marked whole, changes are left out,
    or JSON was compared as text."""
    changes: tuple[canonical.Change, ...] = ()
    """The places that differ, when JSON was compared as JSON."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return all(row.kind == "same" for row in self.rows)


@dataclass(frozen=True, slots=True)
class TurnText:
    """One turn of a conversation, as text."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class TurnDiff:
    """Two turns that face each other, by their numbers from 1; None where a side has no such turn."""

    left: int | None
    right: int | None
    kind: Kind
    prompt: Diff
    answer: Diff


def side_by_side(left: str, right: str) -> Diff:
    """Two texts aligned by lines, or by sentences where one of them runs in long paragraphs."""
    return _text_diff(left, right, Work())


def diff_json(left: str, right: str) -> Diff:
    """Two JSON objects or arrays aligned whatever their spacing and key order; anything else as text."""
    return _json_diff(left, right, Work())


def diff_turns(left: Sequence[TurnText], right: Sequence[TurnText]) -> tuple[TurnDiff, ...]:
    """Two conversations turn by turn: turns with the same prompt face each other, those between them in order."""
    work = Work()
    same_prompt = matches([turn.prompt for turn in left], [turn.prompt for turn in right], work)
    found = []
    for i, j in facing(same_prompt, len(left), len(right)):
        one = TurnText("", "") if i is None else left[i]
        other = TurnText("", "") if j is None else right[j]
        prompt, answer = _text_diff(one.prompt, other.prompt, work), _json_diff(one.answer, other.answer, work)
        kind: Kind = "same" if prompt.same and answer.same else "changed"
        kind = "added" if i is None else "removed" if j is None else kind
        found.append(TurnDiff(None if i is None else i + 1, None if j is None else j + 1, kind, prompt, answer))
    return tuple(found)


def unified(diff: Diff, context: int = 3) -> tuple[Row | Gap, ...]:
    """The rows as one column: what was removed before what was added, and only so many unchanged rows around them."""
    found: list[Row | Gap] = []
    blocks = [(same, list(block)) for same, block in groupby(diff.rows, key=lambda row: row.kind == "same")]
    for number, (same, block) in enumerate(blocks):
        head = context if number else 0
        tail = len(block) - (context if number < len(blocks) - 1 else 0)
        if not same:
            found += [Row(row.left, None, "removed") for row in block if row.left]
            found += [Row(None, row.right, "added") for row in block if row.right]
        elif tail - head <= 1:  # a gap would take a row itself
            found += block
        else:
            found += [*block[:head], Gap(tail - head), *block[tail:]]
    return tuple(found)


def _text_diff(left: str, right: str, work: Work) -> Diff:
    texts = [_LINE.findall(text) for text in (left, right)]
    if all(len(line) <= _LONG_LINE for text in texts for line in text):
        return _compare(texts[0], texts[1], "line", work)
    return _compare(_SENTENCE.findall(left), _SENTENCE.findall(right), "sentence", work)


def _json_diff(left: str, right: str, work: Work) -> Diff:
    if max(len(left), len(right)) > _MAX_JSON:
        return replace(_text_diff(left, right, work), coarse=True)
    try:
        one, other = strictjson.loads(left), strictjson.loads(right)
        if not (isinstance(one, dict | list) and isinstance(other, dict | list)):
            return _text_diff(left, right, work)
        lines, other_lines = canonical.lines(one), canonical.lines(other)
        changes = tuple(islice(canonical.changes(one, other), _MAX_CHANGES + 1))
    except (ValueError, RecursionError):  # not JSON, or nested too deeply to write back: text like any other
        return _text_diff(left, right, work)
    diff = _compare(lines, other_lines, "json", work)
    return replace(diff, changes=changes[:_MAX_CHANGES], coarse=diff.coarse or len(changes) > _MAX_CHANGES)


def _compare(left: list[str], right: list[str], unit: Unit, work: Work) -> Diff:
    work.coarse = False
    left, right = _cut(left, work), _cut(right, work)
    equal = matches(left, right, work)
    alike = [
        (a + i, b + j)
        for a, to_a, b, to_b in gaps(equal, len(left), len(right))
        for i, j in _alike(left[a:to_a], right[b:to_b], work)
    ]
    pairs = facing(sorted(equal + alike), len(left), len(right))
    return Diff(tuple(_row(left, right, i, j, work) for i, j in pairs), unit, work.coarse)


def _row(left: list[str], right: list[str], i: int | None, j: int | None, work: Work) -> Row:
    if i is None or j is None:
        one = None if i is None else Side(i + 1, (Span(left[i], True),))
        other = None if j is None else Side(j + 1, (Span(right[j], True),))
        return Row(one, other, "added" if i is None else "removed")
    if left[i] == right[j]:
        spans = (Span(left[i], False),)
        return Row(Side(i + 1, spans), Side(j + 1, spans), "same")
    before, after = _word_spans(left[i], right[j], work)
    return Row(Side(i + 1, before), Side(j + 1, after), "changed")


def _word_spans(left: str, right: str, work: Work) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Two versions of a line in spans; what is not marked reads the same on both sides."""
    head, tail = _ends(left, right)
    middle, other = left[head : len(left) - tail], right[head : len(right) - tail]
    pieces, others, equal = [middle], [other], list[tuple[int, int]]()
    if work.spend(_ROW + _CHARACTER * (len(middle) + len(other))):
        pieces, others = _cut(_WORD.findall(middle), work), _cut(_WORD.findall(other), work)
        equal = matches(_bare(pieces), _bare(others), work)
    else:
        work.coarse = True
    same, other_same = [0] * len(pieces), [0] * len(others)
    for i, j in equal:
        same[i] = other_same[j] = len(pieces[i] if pieces[i] == others[j] else pieces[i].rstrip())
    if head + sum(same) + tail < _NOISE * min(len(left), len(right)):
        return (Span(left, True),), (Span(right, True),)
    ends = left[:head], left[len(left) - tail :]
    return _spans(ends, pieces, same), _spans(ends, others, other_same)


def _ends(left: str, right: str) -> tuple[int, int]:
    """How many characters of whole words both begin with, and both end with behind them."""
    from rapidfuzz.distance import Postfix, Prefix

    head = left.rfind(" ", 0, Prefix.similarity(left, right)) + 1
    start = len(left) - Postfix.similarity(left[head:], right[head:])
    space = left.find(" ", start)
    return head, 0 if space < 0 else len(left) - space


def _spans(ends: tuple[str, str], pieces: list[str], same: list[int]) -> tuple[Span, ...]:
    """Pieces joined to spans; of each so many characters are the same: the space behind an equal word may differ."""
    parts = [(ends[0], False)]
    for piece, length in zip(pieces, same, strict=True):
        parts += ((piece[:length], False), (piece[length:], True))
    parts.append((ends[1], False))
    filled = (part for part in parts if part[0])
    return tuple(Span("".join(map(_TEXT, run)), flag) for flag, run in groupby(filled, key=_FLAG))


def _alike(left: list[str], right: list[str], work: Work) -> Pairs:
    """The unequal units of a block that are versions of each other: each shares most of its words with the other."""
    if len(left) * len(right) <= 1:
        return []
    if not work.spend(_CHARACTER * (sum(map(len, left)) + sum(map(len, right)))):
        work.coarse = True
        return []
    (words, owner), (others, other_owner) = _owned(left), _owned(right)
    shared: Counter[tuple[int, int]] = Counter()
    for i, j in matches(words, others, work):
        shared[owner[i], other_owner[j]] += len(words[i])
    # Equal words rise on both sides, so pairs that are the best for both of their members rise too.
    best = _best(((i, j), size) for (i, j), size in shared.items())
    other_best = _best(((j, i), size) for (i, j), size in shared.items())
    return [
        (i, j)
        for i, j in sorted(best.items())
        if other_best[j] == i and 2 * shared[i, j] >= _ALIKE * (len(left[i]) + len(right[j]))
    ]


def _best(votes: Iterable[tuple[tuple[int, int], int]]) -> dict[int, int]:
    """For each voter the choice with the most votes, the first of equals."""
    return {voter: choice for (voter, choice), _ in sorted(votes, key=lambda vote: (vote[1], -vote[0][1]))}


def _owned(units: list[str]) -> tuple[list[str], list[int]]:
    """The words of all units in a row, and the unit each belongs to."""
    split = [_WORD.findall(unit) for unit in units]
    owners = [number for number, words in enumerate(split) for _ in words]
    return [word for words in split for word in _bare(words)], owners


def _bare(pieces: list[str]) -> list[str]:
    """The words without the space behind them, which is no reason to tell words apart."""
    return [piece.rstrip() or piece for piece in pieces]


def _cut(pieces: list[str], work: Work) -> list[str]:
    if len(pieces) <= _MAX_PIECES:
        return pieces
    work.coarse = True
    return [*pieces[:_MAX_PIECES], "".join(pieces[_MAX_PIECES:])]
