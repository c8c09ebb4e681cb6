"""The lines of a comparison that belong to one item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui_evals.compare.diff import Diff, DiffRow, DiffSpan, diff_json, side_by_side
from tui_evals.compare.runs import ComparedLine, Comparison
from tui_evals.light_records import dataclass
from tui_evals.present.answers import (
    answer_words,
    error_text,
    figures_text,
    missing_text,
    opinion,
    pretty_json,
)
from tui_evals.present.figures import short_number
from tui_evals.present.status import ANSWER_LOOKS, result_look
from tui_evals.present.transcripts import text_lines
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, ScoreRecord, step_count
from tui_evals.store.rows import EarlierAttempt, Label
from tui_evals.text import strictjson


def places_of(reader: Reader, comparison: Comparison) -> dict[int, int]:
    """Which item of its dataset each answer belongs to."""
    return {row.id: row.item for side in comparison.sides for row in reader.all_rows(side.run.id)}


def by_item(lines: Iterable[ComparedLine], items: Mapping[int, int]) -> Iterator[list[ComparedLine]]:
    """Neighbouring lines of one item together, by the places it has in the runs' datasets."""
    group: list[ComparedLine] = []
    places: dict[int, int] = {}
    for line in lines:
        own = {number: items[answer.id] for number, answer in enumerate(line.answers) if answer}
        if group and (group[0].item != line.item or any(places.get(run, at) != at for run, at in own.items())):
            yield group
            group, places = [], {}
        group.append(line)
        places |= own
    if group:
        yield group


MOST = 100_000
"""Characters of one text that the page holds."""

_HEAD, _SLACK = 1_500, 600
_LINES = 30
_COMPARED = 20_000  # characters of both texts together; comparing more of them takes long for thousands of items
_SHARED = 0.2  # share of the shorter text that must be in both for marks to be useful


@dataclass(frozen=True, slots=True)
class Text:
    """A text in spans, its beginning apart from the rest where it is long."""

    head: tuple[DiffSpan, ...]
    rest: tuple[DiffSpan, ...] = ()
    more: int = 0
    """Characters in the rest."""
    left_out: int = 0
    """Characters that are not on the page."""
    code: bool = False
    """Every space of it counts."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Two texts with the words marked that the other one lacks."""

    left: tuple[DiffSpan, ...]
    right: tuple[DiffSpan, ...]


def text(value: str, spans: Sequence[DiffSpan] = ()) -> Text:
    """A text to show, with the marks it has, if any."""
    pieces = tuple(spans) or (DiffSpan(value, False),)
    whole = sum(len(span.text) for span in pieces)
    code = value.lstrip()[:1] in ("{", "[") or "```" in value
    if whole > MOST:
        pieces, _ = _split(pieces, MOST)
    shown = min(whole, MOST)
    at = _fold_position("".join(span.text for span in pieces))
    if at is None:
        return Text(pieces, left_out=whole - shown, code=code)
    head, rest = _split(pieces, at)
    return Text(head, rest, shown - at, whole - shown, code)


def optional(value: object) -> Text | None:
    """The text if it is one and says something."""
    return text(value) if isinstance(value, str) and value.strip() else None


def same(left: str, right: str) -> bool:
    """Whether two texts are equal but for the space around them."""
    return left.strip() == right.strip()


def marks(left: str, right: str) -> Marks | None:
    """The differences, if they are useful: not between unrelated texts, and not in very long ones."""
    if not left.strip() or not right.strip() or len(left) + len(right) > _COMPARED or same(left, right):
        return None
    both = all(value.lstrip()[:1] in ("{", "[") for value in (left, right))
    diff = (diff_json if both else side_by_side)(left, right)
    marked = Marks(_side_spans(diff, "left"), _side_spans(diff, "right"))
    shared = sum(len(span.text.strip()) for span in marked.left if not span.changed)
    return marked if shared >= _SHARED * min(len(left.strip()), len(right.strip())) else None


def _side_spans(diff: Diff, side: str) -> tuple[DiffSpan, ...]:
    """One side of a diff as text: neighbors of a kind are joined, and spaces around words are unmarked."""
    joined: list[DiffSpan] = []
    for span in _row_spans(diff.rows, side):
        for part in _trim_mark(span):
            if joined and joined[-1].changed == part.changed:
                joined[-1] = DiffSpan(joined[-1].text + part.text, part.changed)
            elif part.text:
                joined.append(part)
    return tuple(joined)


def _trim_mark(span: DiffSpan) -> tuple[DiffSpan, ...]:
    """A marked piece without the mark on the space around it."""
    words = span.text.strip()
    if not span.changed or not words:
        return (span,)
    start = span.text.index(words)
    end = start + len(words)
    return DiffSpan(span.text[:start], False), DiffSpan(words, True), DiffSpan(span.text[end:], False)


def _row_spans(rows: Iterable[DiffRow], side: str) -> Iterable[DiffSpan]:
    for row in rows:
        part = row.left if side == "left" else row.right
        yield from part.spans if part else ()


def _fold_position(value: str) -> int | None:
    """The end of the visible beginning of a long text; None if all of it is visible."""
    end, lines = len(value), 0
    for index in range(min(end, _HEAD)):
        if value[index] == "\n":
            lines += 1
            if lines == _LINES:
                end = index + 1
                break
    at = min(end, _HEAD)
    if len(value) - at <= _SLACK and value.count("\n", at) < _LINES:
        return None
    if end > _HEAD:
        break_at = max(value.rfind("\n", _HEAD // 2, at), value.rfind(" ", _HEAD // 2, at)) + 1
        at = break_at or at
    return at


def _split(pieces: Sequence[DiffSpan], at: int) -> tuple[tuple[DiffSpan, ...], tuple[DiffSpan, ...]]:
    head: list[DiffSpan] = []
    rest: list[DiffSpan] = []
    for span in pieces:
        if at >= len(span.text):
            head.append(span)
        elif at <= 0:
            rest.append(span)
        else:
            head.append(DiffSpan(span.text[:at], span.changed))
            rest.append(DiffSpan(span.text[at:], span.changed))
        at -= len(span.text)
    return tuple(head), tuple(rest)


Labels = Mapping[int, Sequence[Label]]


@dataclass(frozen=True, slots=True)
class Opinion:
    """The label of a person."""

    verdict: str
    glyph: str
    author: str
    about: str
    note: Text | None


@dataclass(frozen=True, slots=True)
class Score:
    """The record of one evaluator about an answer."""

    key: str
    kind: str
    """The evaluator, where the key is another name."""
    result: str
    glyph: str
    value: str
    """The score with its threshold."""
    label: str
    reason: Text | None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the target called."""

    name: str
    arguments: Text | None


@dataclass(frozen=True, slots=True)
class AnswerBlock:
    """One answer with everything about it."""

    status: str
    glyph: str
    score: str
    text: Text | None
    expected: Text | None
    as_expected: bool
    waiting: str
    error: Text | None
    chips: tuple[str, ...]
    facts: tuple[str, ...]
    calls: tuple[Call, ...]
    steps: Text | None
    """The way to the answer, where it took tools; the calls are in it."""
    scores: tuple[Score, ...]
    together: tuple[Score, ...]
    """The scores of all answers to the same question, if they are with each of them."""
    opinions: tuple[Opinion, ...]
    diagnostics: Text | None


def answer_block(
    row: AnswerRow,
    record: AnswerRecord | None,
    scores: Iterable[ScoreRecord],
    labels: Iterable[Label],
    reference: str,
    spans: Sequence[DiffSpan] | None = None,
    together: Iterable[ScoreRecord] = (),
    rejudged: EarlierAttempt | None = None,
) -> AnswerBlock:
    """An answer marked against its expectation, or with the given marks."""
    answer = record.text if record else None
    marked = marks(reference, answer) if spans is None and answer is not None else None
    if spans is None:
        spans = marked.right if marked else ()
    equal = bool(reference) and answer is not None and same(reference, answer)
    facts = answer_words(row, record, rejudged=rejudged)
    return AnswerBlock(
        status=row.status,
        glyph=ANSWER_LOOKS[row.status].glyph,
        score=short_number(row.score),
        text=None if answer is None else text(answer, spans),
        expected=None if equal or not reference.strip() else text(reference, marked.left if marked else ()),
        as_expected=equal,
        waiting=missing_text(row, record),
        error=optional(error_text(record)),
        chips=facts.origin,
        facts=facts.figures,
        calls=tuple(_call(call) for call in (record.tool_calls if record and not step_count(record) else ())),
        steps=_steps(record),
        scores=tuple(map(score, scores)),
        together=tuple(map(score, together)),
        opinions=tuple(map(_opinion, labels)),
        diagnostics=text(pretty_json(record.diagnostics)) if record and record.diagnostics else None,
    )


def _steps(record: AnswerRecord | None) -> Text | None:
    """The steps to an answer, with no more text than the page holds."""
    kept: list[str] = []
    size = 0
    for line in text_lines(record):
        if size <= MOST:
            kept.append(line)
        size += len(line) + 1
    return replace(text("\n".join(kept)), left_out=max(size - 1 - MOST, 0)) if kept else None


def score(record: ScoreRecord) -> Score:
    """A score in words."""
    look = result_look(record.result)
    return Score(
        key=record.key,
        kind=record.evaluator if record.evaluator != record.key else "",
        result=look.word,
        glyph=look.glyph,
        value=figures_text(record),
        label=record.label or "",
        reason=optional(record.reason),
    )


def _call(call: Mapping[str, Any]) -> Call:
    inner = call.get("function")
    inner = inner if isinstance(inner, dict) else call
    given = inner.get("arguments")
    if isinstance(given, str):
        try:
            given = pretty_json(strictjson.loads(given))
        except (strictjson.JsonError, RecursionError):
            return Call(str(inner.get("name")), optional(given))
        return Call(str(inner.get("name")), optional(given))
    return Call(str(inner.get("name")), None if given is None else text(pretty_json(given)))


def _opinion(label: Label) -> Opinion:
    glyph = ANSWER_LOOKS[label.verdict].glyph
    return Opinion(label.verdict, glyph, label.author, opinion(label), optional(label.note))
