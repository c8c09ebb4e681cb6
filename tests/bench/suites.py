"""A suite of many cases, made, opened and run, and its run imported: `python -m tests.bench.suites [--rows 100000]`.

Each step is timed in one process as a program of a user's would take it: from a frame (pandas where it is installed,
else lists) to the scores in hand, everything stored. CPU seconds are of the whole process, which others on the machine
cannot lengthen by much.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tui_evals.bench import Scorer, TestSuite
from tui_evals.imports.recording import RecordedAnswer, Recording, digest_of, store_recording
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.store.writer import Writer
from tui_evals.targets.config import Settings

GOALS = {"make the suite": "<= 10 s", "open it": "<= 10 s", "run by exact_match": "<= 10 s"}


class Length(Scorer):
    """How long an answer is, computed in batches."""

    @staticmethod
    def name() -> str:
        """What the suite keeps."""
        return "length"

    def run_batch(self, candidate_batch: list[str], *_: Any) -> list[float]:
        """The characters of each."""
        return [float(len(text)) for text in candidate_batch]


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print what a step took."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:<28} {GOALS.get(what, ''):>8} {wall:>8.1f} s {cpu:>8.1f} s CPU {peak:>6.0f} MB peak", flush=True)


def columns(rows: int) -> dict[str, list[str]]:
    """The cases and their candidates, a third of which are wrong."""
    inputs = [f"What is the number after {number}, in one word or in figures?" for number in range(rows)]
    right = [str(number + 1) for number in range(rows)]
    said = [text if number % 3 else "no" for number, text in enumerate(right)]
    return {"input": inputs, "reference_output": right, "candidate_output": said}


def recording(table: dict[str, list[str]]) -> Recording:
    """The same cases as a finished run of another tool."""
    pairs = list(zip(table["input"], table["reference_output"], table["candidate_output"], strict=True))
    answers = tuple(
        RecordedAnswer(
            item=number,
            answer=AnswerRecord(text=said, request={"messages": [{"role": "user", "content": asked}]}),
            scores=(
                ScoreRecord(key="exact", evaluator="exact", score=1.0, result="pass" if said == right else "fail"),
            ),
        )
        for number, (asked, right, said) in enumerate(pairs)
    )
    items = [{"prompt": asked, "expected_response": right} for asked, right, _ in pairs]
    document = {"schemaVersion": "1.11.0", "items": items}
    name = "recorded"
    return Recording(
        by="bench", digest=digest_of(name), document=document, source=name, name=name, targets=("m",), answers=answers
    )


def main() -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    chosen = parser.parse_args()
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{chosen.rows:,} rows, {os.cpu_count()} cores, load {load}")
    table = columns(chosen.rows)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        name = f"{chosen.rows} rows: yes/no?"
        given: dict[str, Any] = {"input_text_list": table["input"], "reference_output_list": table["reference_output"]}
        said: dict[str, Any] = {"candidate_output_list": table["candidate_output"]}
        if find_spec("pandas"):
            import pandas

            frame = pandas.DataFrame(table)
            given, said = {"reference_data": frame}, {"candidate_data": frame}
        with timed("make the suite"):
            TestSuite(name, "exact_match", **given)
        with timed("open it"):
            suite = TestSuite(name, "exact_match")
        with timed("run by exact_match"):
            assert suite.run("first", **said).average is not None
        own = TestSuite("own", Length(), **given)
        with timed("run by a scorer of one's own"):
            own.run("first", batch_size=100, **said)
        given_run = recording(table)
        store = open_store(Path("imported.db").absolute())
        with timed("import it as a recording"), Writer(store) as writer, Reader(store) as reader:
            store_recording(writer, reader, given_run, Settings(), {})
    os.chdir("/")


if __name__ == "__main__":
    main()
