"""`python -m tests.hostile.zoo [--clones 320] [--seed 1] [--seconds 600] [--only FILE:MALICE:SEED… -- COMMAND…]`."""

from __future__ import annotations

import argparse
import gc
import importlib
import multiprocessing
import os
import pkgutil
import sys
import tempfile
import time
from pathlib import Path

import tui_evals

from .animals import Animal, acts_on
from .keeper import Enclosure, Round, Tally, keep

_LEFT_OUT = (
    "tui_evals.__main__",
    "tui_evals.api.pytest_plugin",
    "tui_evals.evaluators.child",
    "tui_evals.evaluators.libraries.child",
    "tui_evals.runs.executors.cluster",
    "tui_evals.targets.through_litellm",
)


def import_everything() -> None:
    """What the commands and the workbench import, before the first child is forked."""
    for module in pkgutil.walk_packages(tui_evals.__path__, "tui_evals."):
        if not module.name.startswith(_LEFT_OUT):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clones", type=int, default=320)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--screens", type=int, default=24, help="in how many of the clones the workbench is opened")
    parser.add_argument("--at-once", type=int, default=3, help="the most animals in one clone")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", nargs="+", default=(), help="animals, as a finding names them")
    parser.add_argument("command", nargs="*", help="with --only: what is done, after --")
    given = parser.parse_args()
    import_everything()
    with tempfile.TemporaryDirectory(prefix="tui-evals-zoo-") as folder:
        if given.only:
            return _show(Path(folder), [Animal.named(name) for name in given.only], tuple(given.command))
        began, total = time.monotonic(), Tally()
        names = ("seed", "clones", "seconds", "screens", "at_once", "workers")
        wanted = Round(**{name: getattr(given, name) for name in names})
        tasks = [(Path(folder) / str(mine), wanted, mine) for mine in range(given.workers)]
        with multiprocessing.get_context("fork").Pool(given.workers) as pool:
            for tally in pool.starmap(keep, tasks, chunksize=1):
                total.add(tally)
    print(f"{total.clones} clones of seed {given.seed}, {total.acts} acts in {time.monotonic() - began:.0f} s")
    print(f"slowest {total.slowest[0]:.1f} s: {total.slowest[1]}")
    print(f"largest {total.largest[0] / 2**20:.0f} MB: {total.largest[1]}")
    print(f"{len(total.findings)} laws broken")
    return 1 if total.findings else 0


def _show(folder: Path, animals: list[Animal], act: tuple[str, ...]) -> int:
    """Do one thing on one clone, and print what came of it."""
    broken = False
    enclosure = Enclosure(folder)
    for sight in enclosure.show(animals, [act] if act else acts_on(animals, 1)):
        print(f"$ {' '.join(sight.act)}   {sight.seconds:.2f} s, {sight.peak / 2**20:.0f} MB")
        print(sight.output.decode("utf-8", "replace")[-3000:].encode("unicode_escape").decode().replace("\\r\\n", "\n"))
        for breach in sight.breaches:
            print(f"BROKEN {breach.law}: {breach.seen}")
            broken = True
    enclosure.close()
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
