"""Answers of all runs by what stands in them: one types words, chooses among what was found, and is taken there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from textual.app import App

from tui_evals.present.answers import preview_text
from tui_evals.present.figures import counted
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.text.safe import safe_line
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu

_MOST = 300
"""Answers that are listed; of more than that nobody reads on without another word."""

Found = tuple[AnswerRow, RunRow]


def answers_with(database: Path, text: str) -> list[Found]:
    """The latest answers of all runs that a filter lets through, each with its run; FilterError, StoreError."""
    where = parse_filter(text)
    with Reader(database) as reader:
        rows = reader.search(where, _MOST)
        runs = {number: reader.run(number) for number in {row.run for row in rows}}
    return [(row, runs[row.run]) for row in rows]


async def find_answer(app: App[object], database: Path, before: str) -> tuple[str, tuple[int, int] | None]:
    """What was searched for, and the run and the answer that were chosen; StoreError if the store cannot be read."""
    hint = "words that stand in an answer or its item, or a filter: status:fail score:<0.5 id:refund"
    text = await app.push_screen_wait(Ask("find answers of all runs", before, hint=hint, check=_problem))
    if text is None or not text.strip():
        return before, None
    found = await asyncio.to_thread(answers_with, database, text)
    chosen = await app.push_screen_wait(
        Menu(_title(found, text), _entries(found), empty="no answer of any run fits", does="opens run and answer")
    )
    return text, chosen


def _title(found: Sequence[Found], text: str) -> str:
    latest = "the latest " if len(found) == _MOST else ""
    return f"{latest}{counted(len(found), 'answer')} with “{safe_line(text, 40)}”"


def _entries(found: Sequence[Found]) -> list[Entry]:
    return [
        Entry(
            (run.id, row.id),
            f"{run.name} {run.key} · {row.name}",
            f"{ANSWER_LOOKS[row.status].text}  {preview_text(row)}",
        )
        for row, run in found
    ]


def _problem(text: str) -> str | None:
    try:
        parse_filter(text)
    except FilterError as problem:
        return str(problem)
    return None
