"""What the benchmarks of the workbench look at: projects, stores with runs in them, a process that goes on writing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from tests.store.helpers import cells, judged, new_run, process, said
from tui_evals.store import results
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord
from tui_evals.store.writer import Writer

FILE = "data.json"
BATCH = 5_000
KEYS = ("Includes", "PartialMatch", "Relevance")
WORDS = ("the", "model", "says", "a", "lot", "of", "words", "before", "it", "comes", "to", "the", "point")


def figure(name: str, values: float | Sequence[float], unit: str, goal: str = "") -> None:
    """A line of the table: the median of the tries, and between what they lie."""
    tries = [values] if isinstance(values, float | int) else sorted(values)
    spread = f"{tries[0]:.1f} … {tries[-1]:.1f}" if len(tries) > 1 else ""
    print(f"{name:<62} {median(tries):>9.2f} {unit:<6} {spread:<17} {goal}", flush=True)


def name_of(number: int) -> str:
    """How the item of a row is called, from 0."""
    return f"q-{number:06}"


def project(folder: Path, count: int) -> dict[str, Any]:
    """A dataset of so many items in a folder of its own."""
    items = [
        {
            "testId": name_of(number),
            "prompt": f"question {number}: what do {' '.join(WORDS[number % 7 :])} come to?",
            "expected_response": " ".join(WORDS[number % 5 :]),
            "category": f"category {number % 5}",
        }
        for number in range(count)
    ]
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}, "PartialMatch": {}}, "items": items}
    (folder / FILE).write_text(json.dumps(data, indent=1), encoding="utf-8")
    return data


def store(folder: Path, rows: int, finished: int, data: dict[str, Any] | None = None) -> tuple[Path, int]:
    """A store with one run of so many answers, of which the first are answered and judged."""
    path = open_store(folder / ".evals" / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        snapshot = writer.snapshot(data, FILE) if data else ""
        planned = [replace(cell, name=name_of(number)) for number, cell in enumerate(cells(rows))]
        run = writer.plan(new_run(name="bench", snapshot=snapshot, source=FILE), planned)
        ids = reader.ids(run.id)[:finished]
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            for answer in part:
                writer._thread.put(results.answered, writer._answered(answer, reply(answer), "answered", None))
                writer._thread.put(results.scored, verdict(writer, answer))
            writer.flush()
        writer.run_status(run.id, "finished" if finished == rows else "interrupted", started=1.0, finished=90.0)
    return path, run.id


def answered(path: Path, run: int, texts: Sequence[str]) -> None:
    """The run is over, and these are its answers."""
    with Writer(path) as writer, Reader(path) as reader:
        for answer, text in zip(reader.ids(run), texts, strict=True):
            writer._thread.put(results.answered, writer._answered(answer, said(text), "answered", None))
        writer.run_status(run, "finished", started=1.0, finished=90.0)


def reply(number: int) -> AnswerRecord:
    """An answer whose length, price and time vary."""
    text = " ".join(WORDS[number % 5 : 5 + number % 13])
    numbers = {"input_tokens": 40 + number % 200, "output_tokens": number % 97, "latency_ms": number * 37 % 2900}
    return said(text, cost=number % 97 / 1e5, **numbers)


def verdict(writer: Writer, answer: int) -> results.Scored:
    """What three evaluators made of an answer; one in seven fails."""
    good = answer % 7 > 0
    records = [judged(key, 1.0 if good else 0.25, threshold=0.5) for key in KEYS]
    scores = tuple(writer._score(record) for record in records)
    return results.Scored(answer, 1, scores, "pass" if good else "fail", 100.0 if good else 0.0)


# -- a run that goes on


async def feed(path: Path, run: int, first: int, rate: float, seconds: float) -> None:
    """Be a run: so many answers a second, each asked, answered and judged in commits of its own."""
    with Reader(path) as reader, Writer(path) as writer, hold(run_lock(path, reader.run(run).key)):
        writer.run_status(run, "running", started=time.time())
        ids = reader.ids(run)[first:]
        writer.running(ids[:20], time.time())
        print("ready", flush=True)
        begun = time.monotonic()
        waiting = set()
        for count in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, begun + count / rate - time.monotonic()))
            waiting.add(task := asyncio.create_task(one(writer, ids[count])))
            task.add_done_callback(waiting.discard)
            writer.running([ids[count + 20]], time.time())
            if count % int(rate) == 0:
                writer.heartbeat(run)
        await asyncio.gather(*waiting)


async def one(writer: Writer, answer: int) -> None:
    """One answer of it."""
    await writer.answered(answer, reply(answer), "answered")
    await writer._thread.wait(results.scored, verdict(writer, answer))


@contextmanager
def fed(path: Path, run: int, first: int, rate: float, seconds: float) -> Iterator[None]:
    """While another process writes results; it is ended with what it is there for."""
    code = "import asyncio, json, sys; from pathlib import Path; from tests.bench.screen_stores import feed; "
    code += "path, *rest = json.loads(sys.argv[1]); asyncio.run(feed(Path(path), *rest))"
    feeder = process(code, json.dumps([str(path), run, first, rate, seconds]))
    try:
        assert feeder.stdout is not None
        assert feeder.stdout.readline() == "ready\n", feeder.stderr and feeder.stderr.read()
        yield
        assert feeder.poll() is None, "the results ended before the measurement did"
    finally:
        feeder.kill()
        feeder.communicate()
