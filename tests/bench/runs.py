"""Whole runs against a bare loop on the same server: `python -m tests.bench.runs [--items 1000 10000]`.

With `--via http` an HTTP target of the configuration stands beside the OpenAI client, both asking the same endpoint.

Each figure is of a whole process, start included: wall seconds, CPU milliseconds per item, peak memory. The two are
timed in turn, so that a drift of the machine touches both; the ratio is what holds elsewhere. What an item costs beyond
the start is taken from the first and the last number of items.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.server import running


class Figure(NamedTuple):
    wall: float
    cpu: float
    memory: float


def timed(command: list[str], folder: Path) -> Figure:
    """Wall and CPU seconds and peak megabytes of a process and its children."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Figure(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def project(folder: Path, url: str, items: int, concurrency: int, via: str) -> None:
    """A dataset of plain questions with one text evaluator, and a target at the server."""
    rows = [{"prompt": f"question {number}", "expected_response": f"question {number}"} for number in range(items)]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": rows}
    (folder / "data.json").write_text(json.dumps(document))
    (folder / ".evals").mkdir()
    (folder / ".evals" / "config.toml").write_text(
        (HTTP if via == "http" else MODEL).format(url=url, concurrency=concurrency, via=via)
    )


MODEL = """
[targets.main]
model = "openai/test-model"
base_url = "{url}"
concurrency = {concurrency}
via = "{via}"
api_key = "env:BENCH_KEY"
"""
HTTP = """
[targets.main]
concurrency = {concurrency}
[targets.main.http]
url = "{url}/chat/completions"
headers = {{ Authorization = "Bearer env:BENCH_KEY" }}
body = {{ model = "test-model", messages = "{{{{ messages }}}}" }}
answer = "$.choices[0].message.content"
usage = "$.usage"
"""
RUN = [sys.executable, "-m", "tui_evals", "run", "data.json", "--target", "main", "--quiet", "--no-cache"]


def timed_run(url: str, items: int, concurrency: int, via: str) -> Figure:
    """A run in a project of its own."""
    with tempfile.TemporaryDirectory() as name:
        project(Path(name), url, items, concurrency, via)
        return timed(RUN, Path(name))


def compare(items: int, latency: float, concurrency: int, repeats: int, via: str) -> tuple[float, float]:
    """One row: our run, the bare loop, and the ratio pair by pair; returns the CPU seconds of both."""
    ours, floors = [], []
    root = Path(__file__).parents[2]
    with running("--latency", str(latency)) as server:
        for _ in range(repeats):
            ours.append(timed_run(server.url, items, concurrency, via))
            if via == "http":
                floors.append(timed_run(server.url, items, concurrency, "auto"))
                continue
            floor = "tests.bench.floor" if via == "auto" else "tests.bench.floor_litellm"
            floors.append(timed([sys.executable, "-m", floor, server.url, str(items), str(concurrency)], root))
    ratio = median(mine.wall / bare.wall for mine, bare in zip(ours, floors, strict=True))
    cpu_ratio = median(mine.cpu / bare.cpu for mine, bare in zip(ours, floors, strict=True))
    for name, figures in (("tui-evals run", ours), ("OpenAI client" if via == "http" else "bare loop", floors)):
        wall, cpu, memory = (median(part) for part in zip(*figures, strict=True))
        print(
            f"{items:>6} items {latency * 1000:>3.0f} ms {concurrency} at once via {via:<8} {name:<14} "
            f"{wall:7.2f} s wall  {items / wall:7.0f} items/s  {1000 * cpu / items:6.3f} ms CPU/item  {memory:5.0f} MB"
        )
    print(f"{'':>48} wall ratio {ratio:.2f}, CPU ratio {cpu_ratio:.2f}", flush=True)
    return median(mine.cpu for mine in ours), median(bare.cpu for bare in floors)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--latency", type=float, nargs="+", default=[0.0, 0.05])
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--via", nargs="+", default=["auto", "http", "litellm"])
    chosen = parser.parse_args()
    os.environ["BENCH_KEY"] = "bench-key"
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    for via in chosen.via:
        for latency in chosen.latency:
            cpu = [compare(items, latency, chosen.concurrency, chosen.repeats, via) for items in chosen.items]
            if len(cpu) > 1:
                more = chosen.items[-1] - chosen.items[0]
                ours, bare = (1000 * (last - first) / more for first, last in zip(cpu[0], cpu[-1], strict=True))
                print(f"{'':>48} beyond the start {ours:.3f} and {bare:.3f} ms CPU/item, ratio {ours / bare:.2f}")


if __name__ == "__main__":
    main()
