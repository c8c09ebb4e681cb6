"""Metrics of an installed library against our own evaluators: `python -m tests.bench.libraries PYTHON [--items 1000]`.

PYTHON is one in which autoevals is installed. A metric that only computes is to cost no more than 3 s above its own
import, and one that asks a judge (of 50 ms, 50 at a time) no more than half as much again as ours with the same prompt.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.server import running

from .runs import timed

REPLY = json.dumps({"reasons": "the same", "choice": "C"})
CONFIG = """
[targets.main]
model = "demo"
[targets.judge]
model = "openai/judge"
base_url = "{url}"
concurrency = 50
price = {{ input_per_million = 0, output_per_million = 0 }}
[judge]
target = "judge"
"""
RUN = [sys.executable, "-m", "tui_evals", "run", "data.json", "--target", "main", "--quiet", "--no-cache", "--trust"]


def timed_run(url: str, items: int, evaluator: dict[str, Any]) -> float:
    """Seconds of a whole run in a project of its own."""
    rows = [{"prompt": f"question {number}", "expected_response": f"answer {number}"} for number in range(items)]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Measured": evaluator}, "items": rows}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".evals").mkdir()
        (folder / ".evals" / "config.toml").write_text(CONFIG.format(url=url))
        (folder / "data.json").write_text(json.dumps(document))
        return timed([*RUN, "--concurrency", "50"], folder).wall


def import_seconds(python: str) -> float:
    """What importing the library takes."""
    started = time.perf_counter()
    subprocess.run([python, "-c", "import autoevals"], check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python")
    parser.add_argument("--items", type=int, default=1000)
    given = parser.parse_args()
    with running() as server:
        server.behave(model="judge", say=REPLY, latency=0.05, markers=False)
        code = timed_run(server.url, given.items, {"type": "autoevals:Levenshtein", "python": given.python})
        none = timed_run(server.url, given.items, {"type": "Levenshtein"})
        theirs = timed_run(server.url, given.items, {"type": "autoevals:Factuality", "python": given.python})
        server.behave(model="judge", say="the same\n\nC", latency=0.05, markers=False)
        ours = timed_run(server.url, given.items, {"type": "ModelGraded", "spec": "fact"})
    loading = import_seconds(given.python)
    print(f"code: {code:.2f} s, of that import {loading:.2f} s; our Levenshtein {none:.2f} s")
    print(f"judged: {theirs:.2f} s, ours {ours:.2f} s, ratio {theirs / ours:.2f}")


if __name__ == "__main__":
    main()
