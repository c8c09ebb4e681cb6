"""The cards of one run: an item each, with everything that was answered to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from tui_evals.present.answers import expected_text, preview, prompt_text, reference_text
from tui_evals.present.figures import short_number
from tui_evals.present.status import ANSWER_LOOKS, WORST_FIRST
from tui_evals.reports.results import AnswerEntry, conversations
from tui_evals.runs.scoring import column_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, AnswerStatus, RunRow, ScoreRecord
from tui_evals.store.rows import GroupScore, Label
from tui_evals.text.endings import ENDINGS

from .texts import AnswerBlock, Labels, Score, Text, answer_block, optional, score


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a conversation."""

    number: int
    prompt: Text | None
    preview: str
    context: Text | None
    answer: AnswerBlock


@dataclass(frozen=True, slots=True)
class Talk:
    """One target's conversation about an item: a cell of the run."""

    name: str
    status: AnswerStatus
    glyph: str
    score: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """An item with the answers to it."""

    number: int
    name: str
    title: str
    status: AnswerStatus
    glyph: str
    score: str
    rank: float
    """Where it stands among the worst."""
    category: str
    tags: tuple[str, ...]
    notes: Text | None
    preview: str
    prompt: Text | None
    """The prompt, where every answer is to the same question."""
    expected: Text | None
    context: Text | None
    several: bool
    """It is a conversation of more than one turn."""
    talks: tuple[Talk, ...]
    together: tuple[Score, ...]
    """The scores of all its answers together."""
    groups: str
    """For each conversation what it can be filtered by."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What cards can be filtered by; numbers stand for names in the page."""

    categories: tuple[str, ...]
    columns: Mapping[tuple[int, int], str]
    evaluators: tuple[str, ...]


def cards(
    reader: Reader,
    run: RunRow,
    items: Sequence[Mapping[str, Any]],
    filters: Filters,
    rows: Iterable[AnswerRow] | None = None,
) -> Iterator[Card]:
    """The cards in the order of the dataset, one after the other; of these answers, if they are given."""
    labels = labels_of(reader, run)
    together: defaultdict[int, list[GroupScore]] = defaultdict(list)
    for record in reader.group_scores(run.id):
        together[record.item].append(record)
    cells = conversations(reader, run, items, rows, requests=True)
    for place, group in groupby(cells, key=lambda cell: cell[0].row.item):
        yield _card(place, list(group), run, filters, labels, together.get(place, ()))


def labels_of(reader: Reader, run: RunRow) -> Labels:
    """The labels people gave, by answer."""
    by_answer: defaultdict[int, list[Label]] = defaultdict(list)
    for label in reader.labels(run.id):
        by_answer[label.answer].append(label)
    return by_answer


def group_score_blocks(records: Iterable[GroupScore]) -> tuple[Score, ...]:
    """The scores of groups of answers in words; each names its turn where there are several."""
    group_scores = list(records)
    several = len({group_score.turn for group_score in group_scores}) > 1
    return tuple(
        replace(score(group_score.record), kind=f"turn {group_score.turn + 1}")
        if several
        else score(group_score.record)
        for group_score in group_scores
    )


def _card(
    place: int,
    cells: Sequence[Sequence[AnswerEntry]],
    run: RunRow,
    filters: Filters,
    labels: Labels,
    together: Sequence[GroupScore],
) -> Card:
    first = cells[0][0]
    item = first.item
    turns = max(map(len, cells))
    shared = turns == 1
    reference = expected_text(first.unit) if shared and len(cells) > 1 else None
    talks = tuple(_talk(cell, run, filters, labels, len(cells) > 1, shared) for cell in cells)
    status = worst(talk.status for talk in talks)
    scores = [value for cell in cells if (value := _cell_score(cell)) is not None]
    mean = sum(scores) / len(scores) if scores else None
    prompt = prompt_text(first.unit, first.record)
    title = item.get("name")
    return Card(
        number=place + 1,
        name=first.row.name,
        title=title if isinstance(title, str) and title != first.row.name else "",
        status=status,
        glyph=ANSWER_LOOKS[status].glyph,
        score=short_number(mean),
        rank=WORST_FIRST.index(status) * 1000 + (100.0 if mean is None else mean),
        category=first.row.category,
        tags=tuple(tag for tag in item.get("tags") or () if isinstance(tag, str)),
        notes=optional(item.get("notes")),
        preview=preview(prompt),
        prompt=optional(prompt) if shared else None,
        expected=optional(reference),
        context=optional(item.get("context")) if shared else None,
        several=not shared,
        talks=talks,
        together=group_score_blocks(together),
        groups="|".join(_filter_tokens(cell, talk, filters) for cell, talk in zip(cells, talks, strict=True)),
    )


def _talk(
    cell: Sequence[AnswerEntry], run: RunRow, filters: Filters, labels: Labels, several: bool, shared: bool
) -> Talk:
    row = cell[0].row
    status = worst(answered.row.status for answered in cell)
    name = filters.columns[row.prompt, row.target]
    name += f" · repeat {row.repeat + 1}" if _has_repeats(run, row) or row.repeat else ""
    return Talk(
        name if several else "",
        status,
        ANSWER_LOOKS[status].glyph,
        short_number(_cell_score(cell)),
        tuple(_turn(answered, labels, shared, several) for answered in cell),
    )


def _has_repeats(run: RunRow, row: AnswerRow) -> bool:
    repeats = run.config.get("repeats")
    return isinstance(repeats, int) and repeats > 1


def _turn(answered: AnswerEntry, labels: Labels, shared: bool, several: bool) -> Turn:
    prompt = "" if shared else prompt_text(answered.unit, answered.record)
    answer = answer_block(
        answered.row,
        answered.record,
        answered.scores,
        labels.get(answered.row.id, ()),
        reference_text(answered.unit, answered.record.text if answered.record else None) or "",
        rejudged=answered.rejudged,
    )
    if shared and several:
        answer = replace(answer, expected=None)
    return Turn(
        answered.row.turn + 1,
        optional(prompt),
        preview(prompt),
        None if shared else optional(answered.unit.get("context")),
        answer,
    )


def worst(statuses: Iterable[AnswerStatus]) -> AnswerStatus:
    """The status of several answers together."""
    distinct = set(statuses)
    return next(status for status in WORST_FIRST if status in distinct)


def _cell_score(cell: Sequence[AnswerEntry]) -> float | None:
    """The score of a conversation, whose turns pool their evaluators."""
    if len(cell) == 1:
        return cell[0].row.score
    rows = [replace(answered.row, item=0) for answered in cell]
    scores: dict[int, Sequence[ScoreRecord]] = {answered.row.id: answered.scores for answered in cell}
    return next(iter(column_scores(rows, scores, [{}]).values()))


def _words(answered: AnswerEntry) -> Iterator[str]:
    """The filter words beside its status that find an answer."""
    record = answered.record
    if answered.row.ending in ENDINGS:
        yield answered.row.ending
    if record is not None and record.text is not None and not record.text.strip() and not record.tool_calls:
        yield "empty"


def _filter_tokens(cell: Sequence[AnswerEntry], talk: Talk, filters: Filters) -> str:
    row = cell[0].row
    failed = {
        record.key for answered in cell for record in (*answered.scores, *answered.together) if record.result == "fail"
    }
    tokens = [
        f"s-{talk.status}",
        f"t{list(filters.columns).index((row.prompt, row.target))}",
        f"c{filters.categories.index(row.category)}",
        *(f"w-{word}" for word in sorted({word for answered in cell for word in _words(answered)})),
        # While a run goes on, an evaluator may come up that was not there when the page was begun.
        *(f"e{place}" for place, key in enumerate(filters.evaluators) if key in failed),
    ]
    return " ".join(tokens)
