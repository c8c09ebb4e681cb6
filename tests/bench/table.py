"""One table of what runs and their reading cost, each against its goal: `python -m tests.bench [--rows 100000]`.

Runs are timed in turn with a bare aiohttp loop on the same server, and the ratio is taken pair by pair, so that a
machine that others use as well touches both. What has no such floor is told in CPU seconds of its whole process, the
start of Python included. Of several tries the best counts, for whatever else runs can only add to a figure.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from tests.bench.reports import fill
from tests.bench.runs import Figure, project, timed
from tests.server import Server, running

_ROOT = Path(__file__).parents[2]
_RUN = ("run", "data.json", "--target", "main", "--quiet", "--no-cache")


class Row(NamedTuple):
    """A line of the table; what is measured without a floor has none."""

    what: str
    goal: str
    measured: str
    floor: str = ""

    def say(self) -> None:
        """Print it."""
        print(f"{self.what:<58} {self.goal:>16} {self.measured:>22} {self.floor:>22}", flush=True)


def program(*words: str) -> list[str]:
    """A command of ours."""
    return [sys.executable, "-m", "tui_evals", *words]


class Pair(NamedTuple):
    """A run and the bare loop in the same moments: what each took, and when the run made its first call."""

    ours: Figure
    bare: Figure
    first: float


def pair(server: Server, items: int, concurrency: int, evaluators: Sequence[str] = ("Includes",)) -> Pair:
    """One run of so many items in a new project, then the bare loop."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project(folder, server.url, items, concurrency, "auto")
        judge_by(folder, evaluators)
        started = time.time()
        ours = timed(program(*_RUN), folder)
        with sqlite3.connect(folder / ".evals" / "evals.db") as store:
            ((first,),) = store.execute("SELECT min(started) FROM calls").fetchall()
    bare = timed([sys.executable, "-m", "tests.bench.floor", server.url, str(items), str(concurrency)], _ROOT)
    return Pair(ours, bare, first - started)


def judge_by(folder: Path, evaluators: Sequence[str]) -> None:
    """Have the dataset of a project judged by these."""
    file = folder / "data.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "default_evaluators": {key: {} for key in evaluators}}))


def runs(tries: int) -> None:
    """What whole runs take."""
    with running("--latency", "0.05") as server:
        small = [pair(server, 1_000, 50) for _ in range(tries)]
        one = [pair(server, 1, 50) for _ in range(tries)]
        large = [pair(server, 10_000, 50) for _ in range(max(1, tries // 2))]
    first, bare = min(one, key=lambda found: found.first), min(found.bare.wall for found in one)
    Row("from Enter to the first call, wall", "<= 0.40 s", f"{first.first:.2f} s", f"all of it {bare:.2f} s").say()
    started, floor = min(found.ours.cpu for found in one), min(found.bare.cpu for found in one)
    Row("  a run of one item, CPU of the process", "", f"{started:.2f} s", f"{floor:.2f} s").say()
    ratio_row("1,000 items at 50 ms x 50, wall", "<= 1.25 x", small)
    ratio_row("10,000 items at 50 ms x 50, wall", "<= 1.05 x", large)
    each = (min(found.ours.cpu for found in large) - started) / 10_000
    bare_each = (min(found.bare.cpu for found in large) - floor) / 10_000
    Row("  CPU an item, start taken off", "<= 0.5 ms", f"{1000 * each:.2f} ms", f"{1000 * bare_each:.2f} ms").say()
    with running("--latency", "0") as server:
        ratio_row("3,000 items at 0 ms x 100, wall", "<= 1.8 x", [pair(server, 3_000, 100) for _ in range(tries)])
        judged = ("Includes", "PartialMatch", "ExactMatch")
        three = [pair(server, 3_000, 100, judged) for _ in range(tries)]
        ratio_row("  the same with three evaluators", "", three)


def ratio_row(what: str, goal: str, pairs: Sequence[Pair]) -> None:
    """The pair with the best ratio."""
    ours, bare, _ = min(pairs, key=lambda found: found.ours.wall / found.bare.wall)
    Row(what, goal, f"{ours.wall / bare.wall:.2f} x ({ours.wall:.2f} s)", f"{bare.wall:.2f} s").say()


def large_run(rows: int) -> None:
    """What a run of so many items takes, and looking at it and at another of it."""
    with tempfile.TemporaryDirectory() as name, running("--latency", "0") as server:
        folder = Path(name)
        apart(project, folder, server.url, rows, 100, "auto")
        for evaluators, goal in ((("Includes",), "<= 200 MB"), (("Includes", "PartialMatch"), "")):
            apart(judge_by, folder, evaluators)
            figure = timed(program(*_RUN), folder)
            per_item = f"{figure.memory:.0f} MB, {1000 * figure.cpu / rows:.2f} ms"
            Row(f"a run of {rows:,}, {len(evaluators)} evaluators: peak, CPU an item", goal, per_item).say()
        with sqlite3.connect(folder / ".evals" / "evals.db") as store:
            keys = [key for (key,) in store.execute("SELECT key FROM runs ORDER BY id")]
        for words, goal in ((("show", "last"), "<= 0.5 s"), (("runs",), "<= 0.2 s")):
            Row(f"  {' '.join(words)}, CPU", goal, f"{best(program(*words), folder).cpu:.2f} s").say()
        compared = best(program("compare", *keys), folder, 2)
        Row(
            "  compare of both, CPU and peak", "<= 3 s, 300 MB", f"{compared.cpu:.2f} s, {compared.memory:.0f} MB"
        ).say()


def apart(step: Callable[..., None], *given: object) -> None:
    """Do something in a process of its own: what this one has held counts into the peak of whatever it starts."""
    process = get_context("spawn").Process(target=step, args=given)
    process.start()
    process.join()
    assert process.exitcode == 0, step


def best(command: list[str], folder: Path, tries: int = 4) -> Figure:
    """The try that took the least CPU."""
    return min((timed(command, folder) for _ in range(tries)), key=lambda figure: figure.cpu)


def reports(rows: int) -> None:
    """What writing a run with three evaluators takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apart(fill, folder, rows)
        for kind, goal in (("html", "<= 6 s"), ("csv", "<= 5 s"), ("json", "<= 5 s"), ("jsonl", "<= 5 s")):
            figure = best(program("report", "last", "--to", kind, "-o", f"out.{kind}", "--bare"), folder, 2)
            what = f"{kind} of {rows:,} answers, 3 evaluators: CPU, peak"
            Row(what, goal, f"{figure.cpu:.1f} s, {figure.memory:.0f} MB").say()
        figure = best(program("report", "last", "--to", "csv", "-o", "out.csv"), folder, 2)
        Row("  csv with the whole run next to it", "", f"{figure.cpu:.1f} s, {figure.memory:.0f} MB").say()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--only", choices=["runs", "large", "reports"], action="append")
    chosen = parser.parse_args()
    parts = chosen.only or ["runs", "large", "reports"]
    os.environ["BENCH_KEY"] = "bench-key"
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} cores, load {load}")
    Row("figure", "goal", "measured", "floor").say()
    if "runs" in parts:
        runs(chosen.tries)
    if "large" in parts:
        large_run(chosen.rows)
    if "reports" in parts:
        reports(chosen.rows)
