"""What the comparison of two runs shows, read away from the screen: the pairs, then one pair in full."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.compare.diff import Diff
from tui_evals.compare.runs import Comparison, Pair, read_comparison, same_answer, settled
from tui_evals.compare.sides import Answer
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, RunRow, ScoreRecord
from tui_evals.tui.views.diffs import compared


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs, the earlier one left."""

    left: RunRow
    right: RunRow
    found: Comparison
    settled: bool
    """Every text was read; before that, answers count as the same that begin alike."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What one evaluator made of the two answers of a pair."""

    key: str
    left: ScoreRecord | None
    right: ScoreRecord | None


@dataclass(frozen=True, slots=True)
class Faced:
    """One pair in full; the diff is None where only one run has the answer, which then stands in `text`."""

    pair: Pair
    asked: str
    text: str
    diff: Diff | None
    judged: tuple[Judged, ...]


def read_runs(database: Path, left: int, right: int) -> Compared:
    """Compare two runs by what their lists say; LookupError if one is gone."""
    with _uncollected(), Reader(database) as reader:
        return Compared(reader.run(left), reader.run(right), read_comparison(reader, left, right), False)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Make many objects in a thread; collecting among a million of them would hold the screen up, 200 ms each time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def read_texts(database: Path, known: Compared) -> Compared:
    """The same comparison once the texts that begin alike have been read."""
    with Reader(database) as reader:
        found = settled(known.found, lambda left, right: same_answer(reader, left, right))
    return Compared(known.left, known.right, found, True)


def read_pair(database: Path, runs: Compared, pair: Pair) -> Faced:
    """The texts and scores of a pair; LookupError if an answer is gone."""
    with Reader(database) as reader:
        one, asked, scores = _side(reader, pair.left, runs.left)
        other, asked_later, later = _side(reader, pair.right, runs.right)
    judged = tuple(Judged(key, scores.get(key), later.get(key)) for key in dict.fromkeys([*scores, *later]))
    if pair.left is None or pair.right is None:
        return Faced(pair, asked or asked_later, one + other, None, judged)
    return Faced(pair, asked_later or asked, "", compared(one, other), judged)


def _side(reader: Reader, answer: Answer | None, run: RunRow) -> tuple[str, str, Mapping[str, ScoreRecord]]:
    if answer is None:
        return "", "", {}
    detail = reader.detail(answer.id)
    scores = {record.key: record for record in detail.scores.get(run.scoring_pass, ())}
    if detail.answer is None:
        return "", "", scores
    return said(detail.answer), _asked(detail.answer.request.get("messages", ())), scores


def said(answer: AnswerRecord) -> str:
    """All that a target said, as one text: words, the calls it made, or why there is nothing."""
    parts = [answer.text] if answer.text else []
    parts += [f"→ {call.get('name')}({_spelled(call.get('arguments'))})" for call in answer.tool_calls]
    if answer.code:
        parts.append(f"{answer.code}: {answer.message or ''}")
    return "\n".join(parts)


def _spelled(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _asked(messages: Iterable[Any]) -> str:
    """What the user said last."""
    texts = [
        message.get("content") for message in messages if isinstance(message, Mapping) and message.get("role") == "user"
    ]
    last = texts[-1] if texts else ""
    return last if isinstance(last, str) else json.dumps(last, ensure_ascii=False)
