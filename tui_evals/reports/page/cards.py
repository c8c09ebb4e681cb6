"""The cards of one run, one for each item; a large run shows some of them and a line for every answer."""

from __future__ import annotations

import base64
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from markupsafe import Markup

from tui_evals.light_records import dataclass
from tui_evals.present.answers import (
    answer_name,
    answer_reason,
    expected_text,
    preview,
    preview_text,
    prompt_text,
    reference_text,
)
from tui_evals.present.figures import short_number
from tui_evals.present.status import ANSWER_LOOKS, BAD, WORST_FIRST
from tui_evals.reports.page.texts import AnswerBlock, Labels, Score, Text, answer_block, optional, score
from tui_evals.reports.results import AnswerEntry, conversations
from tui_evals.runs.scoring import column_scores
from tui_evals.store import run_figures
from tui_evals.store.details import failing_scores, group_scores
from tui_evals.store.filters import parse_filter
from tui_evals.store.lookup import Item
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, AnswerStatus, RunRow, ScoreRecord
from tui_evals.store.rows import GroupScore, Label
from tui_evals.text.chats import question_text
from tui_evals.text.model_output import ENDINGS
from tui_evals.text.safe import safe_line
from tui_evals.text.strictjson import one_line


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
    """The position in the order of the worst."""
    category: str
    tags: tuple[str, ...]
    notes: Text | None
    preview: str
    prompt: Text | None
    """The prompt, where every answer is to the same question."""
    expected: Text | None
    context: Text | None
    several: bool
    """Whether it is a conversation with several turns."""
    talks: tuple[Talk, ...]
    together: tuple[Score, ...]
    """The scores of all its answers together."""
    groups: str
    """The filter groups of each conversation."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of cards; numbers replace names in the page."""

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
    """The cards in the order of the dataset; of these answers, if they are given."""
    labels = labels_of(reader, run)
    together: defaultdict[int, list[GroupScore]] = defaultdict(list)
    for record in group_scores(reader, run.id):
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
    """The filter words besides its status that find an answer."""
    record = answered.record
    if answered.row.ending in ENDINGS:
        yield answered.row.ending
    if answered.row.incomplete:
        yield "incomplete"
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
        # While a run continues, an evaluator may come up that was not there when the page was begun.
        *(f"e{place}" for place, key in enumerate(filters.evaluators) if key in failed),
    ]
    return " ".join(tokens)


WHOLE = 5_000
"""Answers up to which every item has a card."""
_WRONG, _OTHERS = 400, 100
_TOGETHER = 500
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """The items that have a card, and of how many they are."""

    items: frozenset[int]
    wrong: int
    wrong_of: int
    others: int
    others_of: int


def choice(reader: Reader, run: RunRow) -> Choice:
    """Items that did not pass, as many as a page can hold, and a few of the others, each evenly over the dataset."""
    wrong = reader.items(run.id, BAD)
    others = sorted(set(reader.items(run.id, WORST_FIRST)).difference(wrong))
    chosen_wrong, chosen_others = _evenly(wrong, _WRONG), _evenly(others, _OTHERS)
    chosen = frozenset((*chosen_wrong, *chosen_others))
    return Choice(chosen, len(chosen_wrong), len(wrong), len(chosen_others), len(others))


def _evenly(items: Sequence[int], most: int) -> Sequence[int]:
    return items if len(items) <= most else [items[number * len(items) // most] for number in range(most)]


def packed(
    reader: Reader, run: RunRow, items: Sequence[Item], filters: Filters, words: Iterable[str], full: Collection[int]
) -> Iterator[Markup]:
    """Every answer of a run in a line, as the table of the page shows it."""
    return squeezed(_json(reader, run, items, filters, words, full))


def squeezed(pieces: Iterable[str]) -> Iterator[Markup]:
    """Text, compressed and in Base64, which nothing in it can leave."""
    squeeze = zlib.compressobj(6, zlib.DEFLATED, 31)
    left = b""
    for piece in pieces:
        left += squeeze.compress(piece.encode("utf-8", "backslashreplace"))
        whole = len(left) // 3 * 3
        yield Markup(base64.b64encode(left[:whole]).decode())
        left = left[whole:]
    yield Markup(base64.b64encode(left + squeeze.flush()).decode())


def _json(
    reader: Reader, run: RunRow, items: Sequence[Item], filters: Filters, words: Iterable[str], full: Collection[int]
) -> Iterator[str]:
    """The document piece by piece: the names that numbers in the lines mean, then the lines."""
    head = {
        "statuses": [[status, ANSWER_LOOKS[status].glyph] for status in WORST_FIRST],
        "words": (names := list(words)),
        "categories": [safe_line(name) for name in filters.categories],
        "columns": [safe_line(name) for name in filters.columns.values()],
    }
    yield one_line(head)[:-1] + ', "rows": ['
    lines = _lines(reader, run, items, filters, names, full)
    joint = ""
    while page := list(islice(lines, _TOGETHER)):
        yield joint + one_line(page)[1:-1]
        joint = ", "
    yield "]}"


def _lines(
    reader: Reader, run: RunRow, items: Sequence[Item], filters: Filters, words: Sequence[str], full: Collection[int]
) -> Iterator[list[object]]:
    """A line for each answer: its item, name, status, score, column, category, what failed it, words, texts, card."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, key in enumerate(filters.evaluators):
        places[key].append(place)
    together: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for group in group_scores(reader, run.id):
        if group.record.result == "fail":
            together[group.item, group.turn].add(group.record.key)
    found = [frozenset(reader.ids(run.id, parse_filter(word))) for word in words]
    columns = {column: place for place, column in enumerate(filters.columns)}
    categories = {name: place for place, name in enumerate(filters.categories)}
    repeated = run_figures.repeated(reader, run.id)
    number = -1
    item: Item = {}
    for row, wrong in failing_scores(reader, run, reader.all_rows(run.id)):
        if row.item != number:
            number, item = row.item, items[row.item]
        failed = {score.key for score in wrong if score.result == "fail"} | together.get((row.item, row.turn), set())
        yield [
            row.item + 1,
            answer_name(row, "turns" in item, repeated),
            WORST_FIRST.index(row.status),
            short_number(row.score),
            columns[row.prompt, row.target],
            categories[row.category],
            sorted(place for key in failed for place in places.get(key, ())),
            [place for place, ids in enumerate(found) if row.id in ids],
            _question(row, item),
            "" if row.code else safe_line(preview_text(row), _LONGEST),
            safe_line(answer_reason(row.preview if row.code else "", wrong), _LONGEST) if row.code or wrong else "",
            int(row.item in full),
        ]


def _question(row: AnswerRow, item: Item) -> str:
    unit = (item.get("turns") or [item])[row.turn]
    messages = unit.get("messages")
    asked = prompt_text(unit, None) or (question_text(messages) if isinstance(messages, list) else "")
    return safe_line(preview(asked), _LONGEST)
