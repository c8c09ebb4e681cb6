"""Throughput through litellm, in one process and on worker processes: `python -m tests.bench.throughput`.

The real command line against the counting server in a process of its own, each way in turn. The rate is of the answers
between a fifth and four fifths of a run; CPU shares are of the same time, so that start and end count in neither.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.bench.runs import project
from tests.server import Server, running

_TICKS = os.sysconf("SC_CLK_TCK")
_PAUSE = 0.25
PARTS = ("driver", "workers", "litellm", "server")
Shares = Mapping[str, float]


class Tried(NamedTuple):
    """One run: seconds in all, answers a second in its middle, and how much of a core each part took there."""

    wall: float
    rate: float
    shares: Shares


def parents() -> dict[int, tuple[int, float]]:
    """Every process: who started it, and the CPU seconds it took by now."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(stat.parent.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def role(process: int) -> str:
    """What a process is there for, as its command line tells."""
    try:
        line = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return ""
    words = {b"tests.server": "server", b"through_litellm": "litellm", b"spawn_main": "workers", b"tui_evals": "driver"}
    return next((name for word, name in words.items() if word in line), "")


def machine() -> float:
    """The CPU seconds that all of this machine took by now."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICKS


class Watch(threading.Thread):
    """Notes from time to time how much CPU the processes below this one have taken."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[float, dict[str, float]]] = []
        self._roles: dict[int, str] = {}
        self._over = threading.Event()

    def run(self) -> None:
        """Look until it is over."""
        while not self._over.wait(_PAUSE):
            self._look()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self.join()

    def _look(self) -> None:
        found, sums = parents(), defaultdict(float)
        for process, (_, seconds) in found.items():
            above = process
            while above in found and above != os.getpid():
                above = found[above][0]
            if above == os.getpid() != process:
                # A process just forked has the command line of its parent, so one is only sure of the last look.
                self._roles[process] = role(process) or self._roles.get(process, "")
                sums[self._roles[process]] += seconds
        self.seen.append((time.time(), {**sums, "all": machine()}))

    def between(self, start: float, end: float) -> Shares:
        """How much of a core each part took from one moment to another."""
        first = min(self.seen, key=lambda look: abs(look[0] - start))
        last = min(self.seen, key=lambda look: abs(look[0] - end))
        spent = last[0] - first[0]
        shares = (
            {name: (last[1][name] - first[1].get(name, 0.0)) / spent for name in last[1]} if spent else {"all": 0.0}
        )
        everything = shares.pop("all")
        return {**shares, "others": max(0.0, everything - sum(shares.values()))}


def middle(store: Path) -> tuple[float, float, int]:
    """When a fifth and four fifths of the calls of a store had ended, and how many ended between."""
    with sqlite3.connect(store) as connection:
        rows = connection.execute("SELECT started + latency_ms / 1000 FROM calls ORDER BY 1").fetchall()
    ends = [ended for (ended,) in rows]
    first, last = len(ends) // 5, 4 * len(ends) // 5
    return ends[first], ends[last], last - first


def tried(server: Server, items: int, concurrency: int, via: str, cluster: str) -> Tried:
    """One run of so many items in a project of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project(folder, server.url, items, concurrency, via)
        command = [sys.executable, "-m", "tui_evals", "run", "data.json", "--target", "main", "--quiet", "--no-cache"]
        command += ["--cluster", cluster] if cluster else []
        watch = Watch()
        watch.start()
        began = time.perf_counter()
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
        wall = time.perf_counter() - began
        watch.end()
        start, end, count = middle(folder / ".evals" / "evals.db")
    return Tried(wall, count / (end - start), watch.between(start, end))


def show(name: str, items: int, tries: list[Tried]) -> None:
    """A line of the table: medians, and milliseconds of CPU that each part takes for a call."""
    wall, rate = median(one.wall for one in tries), median(one.rate for one in tries)
    parts = "  ".join(f"{part} {1000 * took:.2f}" for part, took in spent(tries).items())
    server, others = (100 * median(one.shares.get(part, 0.0) for one in tries) for part in ("server", "others"))
    print(f"{name:<10} {wall:6.1f} s  {items / wall:5.0f} items/s in all  {rate:5.0f} calls/s  ms of a call: {parts}")
    print(
        f"{'':<10} the server takes {server:.0f}% of a core, what has nothing to do with this {others:.0f}%", flush=True
    )


def spent(tries: list[Tried]) -> dict[str, float]:
    """CPU seconds of each part for one call."""
    return {part: median(one.shares.get(part, 0.0) / one.rate for one in tries) for part in PARTS}


def possible(parts: Mapping[str, float], processes: int) -> float:
    """Calls a second by CPU time alone: what all cores can do, and what the processes that run litellm can."""
    return min((os.cpu_count() or 1) / sum(parts.values()), processes / parts["litellm"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=6_000)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--via", choices=["auto", "litellm"], default="litellm")
    parser.add_argument("--cluster", default="local:2")
    chosen = parser.parse_args()
    os.environ["BENCH_KEY"] = "bench-key"
    ways: dict[str, list[Tried]] = {"": [], chosen.cluster: []}
    with running("--latency", str(chosen.latency)) as server:
        for _ in range(chosen.repeats):
            for cluster, tries in ways.items():
                tries.append(tried(server, chosen.items, chosen.concurrency, chosen.via, cluster))
                show(cluster or "in-process", chosen.items, tries[-1:])
    print(f"medians of {chosen.repeats}, {chosen.items} items via {chosen.via}, {chosen.concurrency} at once")
    for cluster, tries in ways.items():
        show(cluster or "in-process", chosen.items, tries)
    pairs = list(zip(*ways.values(), strict=True))
    whole = median(here.wall / there.wall for here, there in pairs)
    steady = median(there.rate / here.rate for here, there in pairs)
    print(f"{chosen.cluster} against one process: {steady:.2f} x the rate, {whole:.2f} x in all")
    if chosen.via == "litellm":
        processes = int(chosen.cluster.partition(":")[2] or os.cpu_count() or 1)
        here, there = (
            possible(spent(tries), count) for tries, count in zip(ways.values(), (1, processes), strict=True)
        )
        print(
            f"by CPU time, were nothing else running here: {there:.0f} against {here:.0f} calls/s, {there / here:.2f} x"
        )


if __name__ == "__main__":
    main()
