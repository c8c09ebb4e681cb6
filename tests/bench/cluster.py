"""The driver of a cluster of virtual workers: `python -m tests.bench.cluster [--cases 100:50000] [--long] [--profile]`.

Planner, shards, leases, desk, letters (packed as Dask packs them) and commits into a store are the real ones; workers
and their targets are modelled, and so is time, which leaps over idle waiting and passes while the driver works. What
crossing a real network takes (sockets, TLS) is not in the figures. Each case is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.cluster_virtual import Clock, VirtualClient
from tui_evals.datasets.model import Dataset
from tui_evals.evaluators.registry import Registry, built_in
from tui_evals.runs.engine import Engine
from tui_evals.runs.execution import Terms
from tui_evals.runs.executors import Executor
from tui_evals.runs.executors.cluster.executor import ClusterExecutor
from tui_evals.runs.judges import opened
from tui_evals.runs.limits import Budget
from tui_evals.runs.plan import Plan
from tui_evals.runs.start import store_plan
from tui_evals.runs.status import Status
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.store.writer import Writer
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.opening import Later

CASES = ("10:10000", "100:50000", "1000:10000", "1000:100000", "1000:1000000:200000", "4000:400000:200000")
LONG = ("1000:10000000:200000",)
ITEMS = 10_000


class Case(NamedTuple):
    """So many workers, cells planned, and cells asked before the run is stopped."""

    workers: int
    cells: int
    asked: int

    @staticmethod
    def of(text: str) -> Case:
        """WORKERS:CELLS, or WORKERS:CELLS:ASKED."""
        numbers = [int(number) for number in text.split(":")]
        return Case(numbers[0], numbers[1], numbers[-1])


@dataclass
class Gauge:
    """What was spent when a share of the answers was there."""

    clock: Clock
    client: VirtualClient
    marks: list[tuple[float, float, float, int]] = field(default_factory=list)

    def mark(self) -> None:
        """Now: modelled seconds, CPU seconds of the driver's loop and of its other threads, letters."""
        mine = time.thread_time()
        rest = time.process_time() - mine
        self.marks.append((self.clock.time(), mine - self.clock.elsewhere, rest, self.client.network.letters))


class Counting(Engine):
    """The engine, which notes when a fifth and four fifths are answered, and what waits for a commit."""

    clock: Clock
    gauge: Gauge
    most: int
    count = 0

    async def answered(self, answer: int, record: AnswerRecord, cache_key: str | None, target: str) -> bool:
        """Commit an answer."""
        self.clock.waited += 1
        try:
            return await super().answered(answer, record, cache_key, target)
        finally:
            self.clock.waited -= 1
            self.count += 1
            if self.count in (self.most // 5, 4 * self.most // 5):
                self.gauge.mark()
            if self.count == self.most < self._run.total:
                self.stop()

    async def scored(self, answer: int, records: Sequence[ScoreRecord], status: Status, score: float | None) -> None:
        """Commit scores."""
        self.clock.waited += 1
        try:
            await super().scored(answer, records, status, score)
        finally:
            self.clock.waited -= 1


def document(cells: int) -> dict[str, Any]:
    """A dataset that is asked so many times in all."""
    items = [{"prompt": f"question {number} " + "of many words " * 20} for number in range(min(ITEMS, cells))]
    return {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}


def memory() -> float:
    """The most megabytes this process has held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(case: Case, latency: float, places: int, size: int, profile: cProfile.Profile | None) -> dict[str, float]:
    """Plan and execute one case in this process."""
    clock = Clock()
    asyncio.set_event_loop(clock)
    written = document(case.cells)
    config = TargetConfig(name="main", model="openai/test-model", concurrency=places * case.workers)
    repeats = max(1, case.cells // ITEMS)
    plan = Plan(Dataset.model_validate(written), (config,), Registry(built_in()), repeats=repeats)
    with tempfile.TemporaryDirectory() as name:
        path = open_store(Path(name) / "evals.db")
        with Writer(path) as writer, Reader(path) as reader:
            began, took = time.perf_counter(), time.process_time()
            run = store_plan(plan, written, Terms(), writer, {}, name="bench", source="data.json")
            planned = time.perf_counter() - began, time.process_time() - took, memory()
            budget = Budget(None)
            asked = [opened(config, "target", budget, {}, Path(name), target=Later(_nobody))]
            client = VirtualClient(case.workers, clock, latency, size)

            @asynccontextmanager
            async def elsewhere(engine: Engine) -> AsyncIterator[Executor]:
                yield ClusterExecutor(client, engine, asked, "{}", budget)

            engine = Counting(plan, run, writer, reader, asked, {}, elsewhere=elsewhere)
            engine.clock, engine.most, engine.gauge = clock, case.asked, Gauge(clock, client)
            if profile is not None:
                profile.enable()
            outcome = clock.run_until_complete(engine.execute())
            if profile is not None:
                profile.disable()
            assert outcome.finished or case.asked < case.cells, outcome
            store = sum(file.stat().st_size for file in path.parent.glob("evals.db*"))
    return figures(case, planned, engine.gauge.marks, store)


def _nobody() -> Any:
    raise AssertionError("the driver of a cluster asks no target")


def figures(
    case: Case, planned: tuple[float, float, float], marks: list[tuple[float, float, float, int]], store: int
) -> dict[str, float]:
    """The middle of the run in numbers, per cell and per second."""
    (start, loop, rest, letters), (end, loop_end, rest_end, letters_end) = marks
    cells, seconds = 4 * case.asked // 5 - case.asked // 5, end - start
    return {
        "planned": planned[0],
        "plan_cpu": 1e6 * planned[1] / case.cells,
        "plan_memory": planned[2],
        "rate": cells / seconds,
        "loop": 1e6 * (loop_end - loop) / cells,
        "rest": 1e6 * (rest_end - rest) / cells,
        "busy": (loop_end - loop) / seconds,
        "letters": (letters_end - letters) / seconds,
        "memory": memory(),
        "store": store / 1e6,
    }


def show(case: Case, offered: float, found: dict[str, float]) -> None:
    """A line of the table."""
    print(
        f"{case.workers:>7,} {case.cells:>10,} {case.asked:>9,} {offered:>7,.0f} {found['rate']:>7,.0f} "
        f"{found['loop']:>6.0f} {found['rest']:>6.0f} {100 * found['busy']:>5.0f}% {found['letters']:>7,.0f} "
        f"{found['rate'] / found['letters']:>6.1f} {found['memory']:>6,.0f} "
        f"{found['planned']:>7.1f} {found['plan_cpu']:>6.1f} {found['plan_memory']:>6,.0f} {found['store']:>7,.0f}",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=CASES, help="WORKERS:CELLS, or WORKERS:CELLS:ASKED")
    parser.add_argument("--long", action="store_true", help="plan ten million cells as well")
    parser.add_argument("--latency", type=float, default=2.0, help="median seconds of a call")
    parser.add_argument("--places", type=int, default=10, help="calls at once for each worker")
    parser.add_argument("--size", type=int, default=1_200, help="characters of an answer")
    parser.add_argument("--profile", action="store_true", help="say what the driver's loop spends its time on")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    settings = chosen.latency, chosen.places, chosen.size
    if chosen.one:
        print(json.dumps(measure(Case.of(chosen.cases[0]), *settings, None)))
        return
    if chosen.profile:
        profile = cProfile.Profile()
        measure(Case.of(chosen.cases[0]), *settings, profile)
        for order in ("tottime", "cumtime"):
            pstats.Stats(profile).sort_stats(order).print_stats(45)
        return
    print(
        f"{'workers':>7} {'planned':>10} {'asked':>9} {'offered':>7} {'cells/s':>7} {'loop':>6} {'writer':>6} "
        f"{'busy':>6} {'letters':>7} {'cells':>6} {'peak':>6} {'plan':>7} {'µs of':>6} {'then':>6} {'store':>7}\n"
        f"{'':>7} {'cells':>10} {'cells':>9} {'cells/s':>7} {'':>7} {'µs of a cell':>13} {'loop':>6} "
        f"{'a s':>7} {'each':>6} {'MB':>6} {'s':>7} {'a cell':>6} {'MB':>6} {'MB':>7}"
    )
    for text in (*chosen.cases, *(LONG if chosen.long else ())):
        case = Case.of(text)
        command = [sys.executable, "-m", "tests.bench.cluster", "--one", "--cases", text]
        command += ["--latency", str(chosen.latency), "--places", str(chosen.places), "--size", str(chosen.size)]
        said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        show(case, case.workers * chosen.places / (1.133 * chosen.latency), json.loads(said))


if __name__ == "__main__":
    main()
