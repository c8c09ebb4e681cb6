"""Runs that were made some day: a store in the current folder with whatever answers a test needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.store.helpers import judged, new_run, said
from tui_evals.store import results
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer, RunRow, ScoreRecord
from tui_evals.store.writer import Writer


@dataclass(frozen=True)
class Said:
    """An answer of a run, by default the only turn of an item that passes one evaluator."""

    item: str = "a"
    status: str = "pass"
    text: str | None = "yes"
    turn: int = 0
    target: int = 0
    repeat: int = 0
    category: str = ""
    prompt: int = 0
    scores: Sequence[ScoreRecord] | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    def judged(self) -> Sequence[ScoreRecord]:
        if self.scores is not None:
            return self.scores
        return [judged("Match", float(self.status == "pass"))] if self.status in ("pass", "fail") else []


def past(
    *answers: Said, items: Sequence[Mapping[str, Any]] | None = None, status: str = "finished", **run: Any
) -> RunRow:
    """Keep a run in the store of the current folder; items are made from the answers when none are given."""
    names = list(dict.fromkeys(answer.item for answer in answers))
    items = items or [{"testId": name, "prompt": f"ask {name}", "expected_response": "yes"} for name in names]
    path = open_store(Path.cwd() / ".evals" / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        cells: dict[tuple[Any, ...], int] = {}
        planned = [
            PlannedAnswer(
                cells.setdefault((one.item, one.prompt, one.target, one.repeat), len(cells)),
                names.index(one.item),
                one.turn,
                one.prompt,
                one.target,
                one.repeat,
                one.item,
                one.category,
            )
            for one in answers
        ]
        made = writer.plan(new_run(snapshot=writer.snapshot({"items": items}, "evals.json"), **run), planned)
        for number, answer in zip(reader.ids(made.id), answers, strict=True):
            _keep(writer, number, answer)
        writer.run_status(made.id, status)
        return reader.run(made.id)


def _keep(writer: Writer, number: int, answer: Said) -> None:
    if answer.status == "pending":
        return
    failed = answer.status == "error"
    record = said(answer.text, **{**({"code": "refused", "message": "no"} if failed else {}), **answer.record})
    row = writer._answered(number, record, "error" if failed else "answered", None)
    writer._thread.put(results.answered, row)
    if not failed:
        scores = tuple(map(writer._score, answer.judged()))
        verdict = results.Scored(number, 1, scores, answer.status, 100.0 * (answer.status == "pass"))
        writer._thread.put(results.scored, verdict)


def passing(count: int, good: int, **given: Any) -> list[Said]:
    """So many items, of which the first ones pass."""
    return [Said(f"t{n}", "pass" if n < good else "fail", "yes" if n < good else "no", **given) for n in range(count)]
