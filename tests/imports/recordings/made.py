"""Recordings and stores for the tests of importers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.store.helpers import judged, said
from tui_evals.imports.recording import RecordedAnswer, Recording, store_recording
from tui_evals.store.database import open_store
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.targets.config import Settings

ITEMS: list[dict[str, Any]] = [
    {"testId": "one", "prompt": "1?", "expected_response": "1", "category": "sums"},
    {"testId": "talk", "turns": [{"prompt": "Hello"}, {"prompt": "And?"}]},
]


def answer(item: int = 0, text: str | None = "yes", *scores, **given) -> RecordedAnswer:
    status = given.pop("status", None)
    place = {name: given.pop(name) for name in ("turn", "prompt", "target", "repeat") if name in given}
    return RecordedAnswer(item=item, answer=said(text, **given), scores=scores, status=status, **place)


def recording(*answers: RecordedAnswer, **given: Any) -> Recording:
    fields: dict[str, Any] = {
        "by": "Elsewhere",
        "digest": "d1",
        "document": {"schemaVersion": "1.11.0", "default_evaluators": {}, "items": ITEMS},
        "source": "elsewhere.log",
        "name": "nightly",
        "targets": ("gpt", "llama"),
        "answers": answers or (answer(0, "1", judged()), answer(1, "Hi"), answer(1, "No", turn=1)),
    }
    return Recording(**{**fields, **given})


@contextmanager
def store(folder: Path) -> Iterator[tuple[Writer, Reader]]:
    """An empty store, open."""
    path = open_store(folder / ".evals" / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        yield writer, reader


def keep(writer: Writer, reader: Reader, given: Recording):
    return store_recording(writer, reader, given, Settings(), {})


def table(reader: Reader, run) -> list[tuple[Any, ...]]:
    """Everything of a run's answers that is seen of them."""
    scores: dict[int, list[Any]] = {}
    for number, record in read_scores(reader, run.id):
        scores.setdefault(number, []).append(record)
    found = []
    for row in reader.all_rows(run.id):
        place = (row.cell, row.name, row.turn, row.prompt, row.target, row.repeat)
        found.append((*place, row.status, row.score, reader.detail(row.id).answer, scores.get(row.id, [])))
    return found


_PLAIN = {
    "prompt_idx": "promptIdx",
    "test_idx": "testIdx",
    "error": "error",
    "failure_reason": "failureReason",
    "latency_ms": "latencyMs",
    "cost": "cost",
}
_PARTS = {
    "test_case": "testCase",
    "prompt": "prompt",
    "provider": "provider",
    "response": "response",
    "grading_result": "gradingResult",
}


def promptfoo_database(file: Path, evals: Sequence[dict[str, Any]]) -> None:
    """A database of promptfoo with the evals of its files of results."""
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE evals (id, created_at, config, prompts)")
        database.execute(f"CREATE TABLE eval_results ({', '.join(('eval_id', *_PLAIN, 'success', *_PARTS))})")
        for number, data in enumerate(evals):
            results = data["results"]
            made = (data["evalId"], 1790000000000 + number, json.dumps(data["config"]), json.dumps(results["prompts"]))
            database.execute("INSERT INTO evals VALUES (?, ?, ?, ?)", made)
            for row in results["results"]:
                parts = [json.dumps(row[key]) for key in _PARTS.values()]
                values = [data["evalId"], *map(row.get, _PLAIN.values()), int(row["success"]), *parts]
                database.execute(f"INSERT INTO eval_results VALUES ({', '.join('?' * len(values))})", values)
