"""Stores with runs in them, as small as a test needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.store.helpers import judged, new_run, said
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, PlannedAnswer, ScoreRecord
from tui_evals.store.writer import Writer


@dataclass(frozen=True)
class Given:
    """What came of one answer; without a record it is pending."""

    record: AnswerRecord | None = None
    status: str = "pass"
    scores: tuple[ScoreRecord, ...] = ()


def good(text: str = "yes") -> Given:
    return Given(said(text, latency_ms=1_500.0, cost=0.01), "pass", (judged(reason="as expected"),))


def bad(text: str = "no", reason: str = "not the same", key: str = "Match") -> Given:
    return Given(said(text, latency_ms=20.0), "fail", (judged(key, 0.0, reason=reason, threshold=0.5),))


def unjudged(text: str = "perhaps") -> Given:
    score = ScoreRecord(key="Judge", evaluator="Judge", score=None, result="error", reason="the judge is silent")
    return Given(said(text), "partial", (score,))


def errored(code: str = "timeout", message: str = "nobody answered") -> Given:
    return Given(said(None, code=code, message=message), "error")


@dataclass(frozen=True)
class Ran:
    """A run to be: its items, and what came of each answer."""

    items: Sequence[dict[str, Any]]
    answer: Callable[[AnswerRow], Given]
    targets: tuple[str, ...] = ("demo",)
    prompts: tuple[str, ...] = ("",)
    repeats: int = 1
    name: str = "nightly"
    source: str = "evals.json"


def every(given: Given) -> Callable[[AnswerRow], Given]:
    return lambda row: given


def store(folder: Path, *runs: Ran) -> Path:
    """A store that holds these runs, numbered from 1."""
    path = open_store(folder / ".evals" / "evals.db")
    with Writer(path) as writer:
        for ran in runs:
            asyncio.run(_fill(path, writer, ran))
    return path


async def _fill(path: Path, writer: Writer, ran: Ran) -> None:
    snapshot = writer.snapshot({"items": list(ran.items)}, ran.source)
    new = new_run(snapshot=snapshot, source=ran.source, targets=ran.targets, prompts=ran.prompts, name=ran.name)
    run = writer.plan(new, _cells(ran))
    with Reader(path) as reader:
        rows = list(reader.all_rows(run.id))
    await keep(writer, rows, ran.answer)
    writer.run_status(run.id, "finished")


async def keep(writer: Writer, rows: Sequence[AnswerRow], answer: Callable[[AnswerRow], Given]) -> None:
    """Answers and then their scores, each together in few commits."""
    found = [(row.id, given) for row in rows if (given := answer(row)).record is not None]
    await asyncio.gather(
        *(writer.answered(one, it.record, "answered" if it.scores else it.status) for one, it in found)
    )
    await asyncio.gather(
        *(
            writer.scored(one, 1, list(it.scores), it.status, 100.0 if it.status == "pass" else 0.0)
            for one, it in found
            if it.scores
        )
    )


def _cells(ran: Ran) -> list[PlannedAnswer]:
    cells = []
    columns = [(p, t) for p in range(len(ran.prompts)) for t in range(len(ran.targets))]
    for number, item in enumerate(ran.items):
        for prompt, target in columns:
            for repeat in range(ran.repeats):
                cell = len(cells)
                name = item.get("testId") or f"#{number + 1}"
                category = item.get("category", "")
                for turn in range(len(item.get("turns", [item]))):
                    cells.append(PlannedAnswer(cell, number, turn, prompt, target, repeat, name, category))
    return cells
