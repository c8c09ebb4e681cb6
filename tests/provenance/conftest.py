import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.store.helpers import cells, judged, new_run, said
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord, RunRow
from tui_evals.store.verifying import Verified, verify
from tui_evals.store.writer import Writer

NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Store:
    """A store with one run, whose answers, verdicts, calls and labels are all there."""

    path: Path
    run: RunRow

    def verify(self) -> Verified:
        return verify(self.path, self.run.key)

    def writer(self) -> Writer:
        return Writer(self.path)

    def execute(self, statement: str, *values: object) -> int:
        """What somebody does to the file who knows SQL; how many rows it was."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, values).rowcount

    def ask(self, query: str, *values: object) -> list[tuple]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query, values).fetchall()

    def answers(self) -> list[int]:
        with Reader(self.path) as reader:
            return list(reader.ids(self.run.id))


async def fill(writer: Writer, run: RunRow, ids: list[int], number: int = 1) -> None:
    for answer, name in zip(ids, NAMES, strict=False):
        spent = {"latency_ms": 20.0, "input_tokens": 3, "output_tokens": 2, "cost": 0.001}
        writer.call(
            CallRecord(answer=answer, kind="target", target="demo", attempt=1, started=1_000.0, **spent), run.id
        )
        record = said(f"answer to {name}", cost=0.001, input_tokens=3, output_tokens=2, latency_ms=20.0)
        await writer.answered(answer, record, "answered")
        await writer.scored(answer, number, [judged("Match", 1.0, reason="as expected")], "pass", 1.0)


def finished_store(path: Path) -> Store:
    with Writer(path) as writer, Reader(path) as reader:
        document = {"items": [{"testId": name, "prompt": f"ask {name}"} for name in NAMES]}
        snapshot = writer.snapshot(document, "evals.json")
        planned = [cell.__class__(n, n, 0, 0, 0, 0, NAMES[n]) for n, cell in enumerate(cells(len(NAMES)))]
        run = writer.plan(new_run(snapshot=snapshot, config={"terms": {"max_cost": None}}), planned)
        ids = list(reader.ids(run.id))
        writer.run_status(run.id, "running", started=1_000.0, pid=1, host="here")
        asyncio.run(fill(writer, run, ids))
        asyncio.run(writer.group_scored(run.id, 1, 0, 0, judged("Together", 0.5)))
        writer.label(ids[1], "fail", "alice", note="wrong")
        writer.run_status(run.id, "finished", finished=2_000.0)
        writer.sign(run.id, "end")
    return Store(path, run)


@pytest.fixture
def store(path):
    return finished_store(path)
