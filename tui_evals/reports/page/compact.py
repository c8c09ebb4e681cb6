"""A run too large for a card of each item: a choice of cards, and every answer in a line that the page unpacks."""

from __future__ import annotations

import base64
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from markupsafe import Markup

from tui_evals.present.answers import answer_name, answer_reason, preview, preview_text, prompt_text
from tui_evals.present.figures import short_number
from tui_evals.present.status import ANSWER_LOOKS, BAD, WORST_FIRST
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.snapshots import Item
from tui_evals.text.chats import question_text
from tui_evals.text.indented import one_line
from tui_evals.text.safe import safe_line

from .cards import Filters

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
    """The document piece by piece: what numbers in the lines stand for, then the lines."""
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
    for group in reader.group_scores(run.id):
        if group.record.result == "fail":
            together[group.item, group.turn].add(group.record.key)
    found = [frozenset(reader.ids(run.id, parse_filter(word))) for word in words]
    columns = {column: place for place, column in enumerate(filters.columns)}
    categories = {name: place for place, name in enumerate(filters.categories)}
    repeated = reader.repeated(run.id)
    number = -1
    item: Item = {}
    for row, wrong in reader.failures(run, reader.all_rows(run.id)):
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
