"""Comparing by CPU time: `python -m tests.bench.compare [--items 10000] [--words 20000] [--tries 5] [--profile]`.

CPU seconds hold where other work shares the machine; each line is the median of the tries, between the least and the
most of them. The two runs differ in what passes, in scores, and in texts whose beginnings are alike.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from tests.bench.screen_stores import BATCH, WORDS, figure, name_of
from tests.store.helpers import cells, judged, new_run, said
from tui_evals.compare.diff import side_by_side
from tui_evals.compare.runs import read_comparison
from tui_evals.compare.trend import pass_rate_trend
from tui_evals.store import results
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

_ALIKE = "so that these answers begin alike, what tells them apart stands far behind: " * 2


def store(folder: Path, items: int) -> tuple[Path, list[int]]:
    """Two runs of so many items with two evaluators."""
    path = open_store(folder / ".evals" / "evals.db")
    asked = [{"testId": name_of(n), "prompt": f"question {n}", "expected_response": "yes"} for n in range(items)]
    runs = []
    with Writer(path) as writer, Reader(path) as reader:
        snapshot = writer.snapshot({"items": asked}, "data.json")
        for share in (0.80, 0.82):
            random = Random(share)
            planned = [
                replace(cell, name=name_of(n), category=f"category {n % 5}") for n, cell in enumerate(cells(items))
            ]
            run = writer.plan(new_run(snapshot=snapshot), planned)
            ids = reader.ids(run.id)
            for start in range(0, items, BATCH):
                rows = [
                    _answered(writer, answer, random.random() < share, random) for answer in ids[start : start + BATCH]
                ]
                for row, verdict in rows:
                    writer._thread.put(results.answered, row)
                    writer._thread.put(results.scored, verdict)
                writer.flush()
            writer.run_status(run.id, "finished", started=1.0, finished=90.0)
            runs.append(run.id)
    return path, runs


def _answered(writer: Writer, answer: int, good: bool, random: Random) -> tuple[results.Answered, results.Scored]:
    """An answer, and what two evaluators made of it."""
    said_of_it = said(_ALIKE + ("yes" if good else f"no, {random.random()}"))
    relevance = min(5.0, max(1.0, random.gauss(4 if good else 3, 1)))
    records = [judged("Match", float(good), threshold=0.5), judged("Relevance", relevance, threshold=3.0)]
    verdict = results.Scored(answer, 1, tuple(map(writer._score, records)), "pass" if good else "fail", 100.0 * good)
    return writer._answered(answer, said_of_it, "answered", None), verdict


def texts(words: int) -> tuple[str, str]:
    """Two long texts, the second with a word in twenty another, some left out and some put in."""
    random = Random(1)
    left = [f"{random.choice(WORDS)}{random.randrange(40)}" for _ in range(words)]
    right: list[str] = []
    for word in left:
        what = random.random()
        right += [] if what < 0.01 else [f"other{random.randrange(99)}"] if what < 0.05 else [word]
        right += ["and", "more"] if what > 0.99 else []
    return _lines(left), _lines(right)


def _lines(words: list[str]) -> str:
    return "\n".join(" ".join(words[start : start + 12]) for start in range(0, len(words), 12))


def cpu(work: Callable[[], object], tries: int) -> list[float]:
    """Milliseconds of CPU of each try, after one that is not counted."""
    work()
    found = []
    for _ in range(tries):
        started = time.process_time()
        work()
        found.append(1000 * (time.process_time() - started))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="say where comparing spends its time")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path, runs = store(Path(name), chosen.items)
        with Reader(path) as reader:
            work = partial(read_comparison, reader, runs)
            figure(f"comparing two runs of {chosen.items:,} items", cpu(work, chosen.tries), "ms CPU", "goal < 1000")
            rows = [reader.run(run) for run in runs]
            trend = pass_rate_trend(reader, rows)
            figure(
                "  the rates of a trend over both", cpu(partial(pass_rate_trend, reader, rows), chosen.tries), "ms CPU"
            )
            last = partial(lambda: list(trend.first_and_last(reader, rows)))
            figure("  its last run against its first", cpu(last, chosen.tries), "ms CPU")
            if chosen.profile:
                profile = cProfile.Profile()
                profile.runcall(work)
                pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    left, right = texts(chosen.words)
    figure(
        f"diff of two texts of {chosen.words:,} words",
        cpu(partial(side_by_side, left, right), chosen.tries),
        "ms CPU",
        "goal < 200",
    )
    one, other = left.replace("\n", " "), right.replace("\n", " ")
    figure(
        "  the same without line breaks", cpu(partial(side_by_side, one, other), chosen.tries), "ms CPU", "goal < 200"
    )


if __name__ == "__main__":
    main()
