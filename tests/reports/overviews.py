"""Runs of datasets that were made from rules, with whatever their judges found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.reports.stores import Given, Ran, _cells, keep
from tests.store.helpers import judged, new_run, said
from tests.store.passes import new_pass
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.store.writer import Writer

JUDGE = {"judge": {"name": "gpt"}}


def item(name: str, **made: Any) -> dict[str, Any]:
    """An item made from a rule, unless the words say otherwise."""
    made = made or {"rule": "Be brief.", "ruleid": 1}
    return {"testId": name, "prompt": f"ask {name}", "extensions": {"promptpex": made}}


def ruled(count: int, *, inverse: bool = False, **made: Any) -> list[dict[str, Any]]:
    kind = "inverse" if inverse else "rule"
    return [item(f"{kind}-{n}", rule="Be brief.", ruleid=1, inverse=inverse, **made) for n in range(count)]


def baseline(count: int) -> list[dict[str, Any]]:
    return [item(f"baseline-{n}", baseline=True) for n in range(count)]


def compliance(good: bool | None, key: str = "Compliance") -> ScoreRecord:
    """What Compliance says; None could not be judged."""
    if good is None:
        return ScoreRecord(key=key, evaluator="Compliance", score=None, result="error", reason="the judge is silent")
    return judged(key, float(good), evaluator="Compliance", label="ok" if good else "err")


def metric(score: float | None, key: str = "nice", evaluator: str = "nice", **given: Any) -> ScoreRecord:
    """What a metric without a threshold gives."""
    return judged(key, score, evaluator=evaluator, **{"result": None, **given})


def answered(*scores: ScoreRecord, status: str = "pass") -> Given:
    return Given(said("a text"), status, scores)


def run(
    folder: Path,
    items: Sequence[dict[str, Any]],
    answer: Callable[[AnswerRow], Given],
    *,
    evaluators: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] = JUDGE,
    **given: Any,
) -> RunRow:
    """Keep a finished run in the store of a folder."""
    path = open_store(folder / ".evals" / "evals.db")
    document = {"default_evaluators": evaluators or {"Compliance": {}}, "items": list(items)}
    ran = Ran(items, answer, **given)
    with Writer(path) as writer, Reader(path) as reader:
        snapshot = writer.snapshot(document, ran.source)
        new = new_run(
            snapshot=snapshot,
            source=ran.source,
            targets=ran.targets,
            prompts=ran.prompts,
            name=ran.name,
            config=config,
        )
        made = writer.plan(new, _cells(ran))
        asyncio.run(keep(writer, list(reader.all_rows(made.id)), answer))
        writer.run_status(made.id, "finished")
        return reader.run(made.id)


def again(folder: Path, run: RunRow, answer: Callable[[AnswerRow], Given], config: Mapping[str, Any]) -> RunRow:
    """Score the answers of a run once more."""
    path = folder / ".evals" / "evals.db"
    with Writer(path) as writer, Reader(path) as reader:
        number = new_pass(writer, run.id, config)

        async def score() -> None:
            found = [(row.id, answer(row)) for row in reader.all_rows(run.id)]
            await asyncio.gather(*(writer.scored(one, number, list(it.scores), it.status, 0.0) for one, it in found))

        asyncio.run(score())
        return reader.run(run.id)


GOLDEN = {
    "gpt-4o-mini": (21, 21, 42),
    "gemma2:9b": (21, 19, 41),
    "qwen2.5:3b": (20, 21, 39),
    "llama3.2:1b": (1, 3, 1),
}
"""Of 21 tests, 21 inverse tests and 42 baseline tests, how many answers of each model comply."""


def golden(folder: Path) -> RunRow:
    """The recorded run of the speech tagger, as counts."""
    sizes = (21, 21, 42)
    items = [*ruled(21), *ruled(21, inverse=True), *baseline(42)]
    models = tuple(GOLDEN)

    def answer(row: AnswerRow) -> Given:
        kind = 0 if row.item < 21 else 1 if row.item < 42 else 2
        good = row.item - sum(sizes[:kind]) < GOLDEN[models[row.target]][kind]
        return answered(compliance(good), status="pass" if good else "fail")

    return run(folder, items, answer, targets=models)
