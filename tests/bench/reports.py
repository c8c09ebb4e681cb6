"""What writing a run costs: `python -m tests.bench.reports [--rows 100000] [--kinds html,csv] [--store FOLDER]`.

One run of so many answers with three evaluators each, of which one in seven fails. Every kind is written by a process
of its own; the CPU seconds and the peak of the memory are that process's, the start of Python included. A folder given
as `--store` is filled once and kept, so that two versions of the code write the same run.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tui_evals.reports.results import names, report_kind

_SELF = "tests.bench.reports"


def fill(folder: Path, rows: int) -> None:
    """Make the store."""
    from tests.bench.screen_stores import project, store

    folder.mkdir(parents=True, exist_ok=True)
    store(folder, rows, rows, project(folder, rows))


def measure(database: Path, kind: str, file: Path) -> None:
    """Write one kind, and print what it took: CPU seconds, seconds, peak in MB."""
    from tui_evals.cli.run.ending import write_results
    from tui_evals.store.reader import Reader

    started = time.perf_counter()
    with Reader(database) as reader:
        write_results(reader, [reader.find_run("last")], file, kind)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, time.perf_counter() - started, used.ru_maxrss / 1024)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kinds", default=",".join(names()))
    parser.add_argument("--store", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        database, kind, file = chosen.one
        measure(Path(database), kind, Path(file))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = chosen.store or Path(name)
        database = folder / ".evals" / "evals.db"
        if not database.exists():
            fill_here = (
                f"from {_SELF} import fill; from pathlib import Path; fill(Path({str(folder)!r}), {chosen.rows})"
            )
            subprocess.run([sys.executable, "-c", fill_here], check=True)
        print(f"{'kind':<12} {'rows':>8} {'CPU s':>7} {'wall s':>7} {'peak MB':>8} {'file MB':>8}", flush=True)
        for kind in chosen.kinds.split(","):
            file = Path(name) / f"report{report_kind(kind).endings[0]}"
            command = [sys.executable, "-m", _SELF, "--one", str(database), kind, str(file)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{kind:<12} not written: {done.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            cpu, wall, peak = map(float, done.stdout.split())
            size = file.stat().st_size / 2**20
            print(f"{kind:<12} {chosen.rows:>8,} {cpu:>7.1f} {wall:>7.1f} {peak:>8.0f} {size:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
