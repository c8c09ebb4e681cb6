"""The workbench under load: `python -m tests.bench.screen [--rows 100000] [--seconds 10] [--only open live]`.

Opening, sorting and filtering are timed in this process, from the call to the moment the screen is drawn. What goes on
live is measured from outside: the panes run on a real pty in a process of their own while another process writes
results into the store; the bytes are those that leave the pty, the CPU time is what the kernel counted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import quantiles

from textual.app import App, ComposeResult

import tui_evals.tui
from tests.store.helpers import cells, judged, new_run, process, said
from tests.tui.terminal import Terminal
from tui_evals.store import results
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.runlock import hold, run_lock
from tui_evals.store.writer import Writer
from tui_evals.tui.panes.pane import Pane
from tui_evals.tui.panes.results import ResultsPane
from tui_evals.tui.state.pen import Pen
from tui_evals.tui.state.watch import Order, Watch
from tui_evals.tui.state.workspace import Workspace

ROOT = Path(__file__).parents[2]
STYLES = Path(tui_evals.tui.__file__).parent / "styles" / "app.tcss"
SIZE = (120, 40)
BATCH = 5_000
KEYS = ("Includes", "PartialMatch", "Relevance")
WORDS = ("the", "model", "says", "a", "lot", "of", "words", "before", "it", "comes", "to", "the", "point")


def figure(name: str, value: float, unit: str, goal: str = "") -> None:
    """A line of the table."""
    print(f"{name:<58} {value:>9.2f} {unit:<6} {goal}", flush=True)


# -- stores


def store(folder: Path, rows: int, finished: int) -> tuple[Path, int]:
    """A store with one run of so many answers, of which the first are answered and judged."""
    path = open_store(folder / ".evals" / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(name="bench"), cells(rows))
        ids = reader.ids(run.id)[:finished]
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            answers = [writer._answered(answer, reply(answer), "answered", None) for answer in part]
            writer._door.call(partial(results.answered, rows=answers))
            writer._door.call(partial(results.scored, rows=[verdict(writer, answer) for answer in part]))
        writer.run_status(run.id, "finished" if finished == rows else "interrupted", started=1.0, finished=90.0)
    return path, run.id


def reply(number: int):
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


# -- an app with some panes


class Bench(App[None]):
    """Panes beside each other over one store, looked at ten times a second as the workbench does."""

    CSS_PATH = STYLES
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, path: Path, run: int | None, panes: tuple[type[Pane], ...]) -> None:
        super().__init__()
        self.animation_level = "none"
        self.watching = Watch(path)
        if run is not None:
            self.watching.open_run(run)
        shared = (Workspace(path.parent.parent, path), self.watching, Pen(path, dict))
        self.panes = [pane(*shared) for pane in panes]

    def compose(self) -> ComposeResult:
        yield from self.panes

    def on_mount(self) -> None:
        self.set_interval(0.1, self.look)
        self.panes[0].focus_lines()

    def look(self) -> None:
        pulse = self.watching.poll()
        if pulse:
            for pane in self.panes:
                pane.pulse(pulse)

    async def drawn(self) -> None:
        """Wait until what was asked for is on the screen."""
        done = asyncio.Event()
        self.call_after_refresh(done.set)
        await done.wait()


PANES: dict[str, tuple[type[Pane], ...]] = {"results": (ResultsPane,)}


# -- opening


def memory() -> float:
    """Megabytes this process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def opening(rows: int, seconds: float) -> None:
    """A run of many answers is opened, sorted and filtered."""
    with tempfile.TemporaryDirectory() as name:
        path, run = store(Path(name), rows, rows)
        app = Bench(path, None, (ResultsPane,))
        pane = app.panes[0]
        assert isinstance(pane, ResultsPane)
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause()
            before = memory()

            async def opened() -> None:
                app.watching.open_run(run)
                pane.sync()

            await timed(app, f"open {rows:,} answers", opened, "≤ 100")
            await app.workers.wait_for_complete()
            await pilot.pause()
            figure("  memory it took", memory() - before, "MiB")
            for order in (Order(sort="latency_ms", descending=True), Order(sort="evaluator:Relevance")):
                await timed(app, f"sort by {order.sort}", partial(pane._arrange, order, to_top=True), "≤ 150")
            for text in ("failed", "words score:<50"):
                await timed(app, f"filter {text!r}", partial(pane._arrange, Order(text)), "≤ 150")
            await timed(app, "plain again", partial(pane._arrange, Order()), "≤ 150")
            await timed(app, "the next failure", pane.do_next_failure, "≤ 150")
            await timed(app, "to the end", partial(pressed, pilot, "G"), "≤ 50")
            figure("  memory after all of it", memory() - before, "MiB")


async def pressed(pilot, key: str) -> None:
    pilot.app.panes[0]._lines.action_edge(1)


async def timed(app: Bench, what: str, act: Callable[[], Awaitable[None]], goal: str) -> None:
    """From the call until it is on the screen, and the longest time the screen was held up by it."""
    longest = 0.0
    over = False

    async def feel() -> None:
        nonlocal longest
        while not over:
            start = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - start - 0.001)

    feeling = asyncio.create_task(feel())
    await asyncio.sleep(0.02)
    longest = 0.0
    start = time.perf_counter()
    await act()
    await app.drawn()
    took = time.perf_counter() - start
    await asyncio.sleep(0.02)
    over = True
    await feeling
    figure(what, 1000 * took, "ms", f"goal {goal}; the screen stood still for {1000 * longest:.0f} ms at most")


# -- live


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
    await writer._door.wait(results.scored, verdict(writer, answer))


def cpu(pid: int) -> float:
    """Seconds of CPU a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def fed(path: Path, run: int, first: int, rate: float, seconds: float) -> Iterator[None]:
    """While another process writes results."""
    code = "import asyncio, json, sys; from pathlib import Path; from tests.bench.screen import feed; "
    code += "path, *rest = json.loads(sys.argv[1]); asyncio.run(feed(Path(path), *rest))"
    feeder = process(code, json.dumps([str(path), run, first, rate, seconds]))
    try:
        assert feeder.stdout is not None
        assert feeder.stdout.readline() == "ready\n", feeder.stderr and feeder.stderr.read()
        yield
        assert feeder.wait(timeout=30) == 0, feeder.stderr and feeder.stderr.read()
    finally:
        feeder.kill()
        feeder.communicate()


def live(rows: int, seconds: float, rate: float, panes: str, keys: str, what: str) -> None:
    """Results arrive while the panes are on a terminal; some keys before, and then a row down now and then."""
    first = rows // 3
    with tempfile.TemporaryDirectory() as name:
        path, run = store(Path(name), rows, first)
        command = [sys.executable, "-m", "tests.bench.screen", "--show", str(path), str(run), panes]
        with Terminal(command, ROOT, size=SIZE) as terminal, fed(path, run, first, rate, seconds + 4):
            terminal.wait(r"#\d")
            terminal.press(keys)
            pause(terminal, 2.0)
            size, used, begun = len(terminal.raw), cpu(terminal.pid), time.monotonic()
            pause(terminal, seconds / 2)
            span = time.monotonic() - begun
            name = f"{rate:.0f}/s into {rows:,}, {what}"
            figure(name, 100 * (cpu(terminal.pid) - used) / span, "% CPU", "goal ≤ 3")
            figure("  on the wire", (len(terminal.raw) - size) / span / 1024, "KiB/s", "goal ≤ 10")
            if not keys:
                latency(terminal, seconds / 2)


def pause(terminal: Terminal, seconds: float) -> None:
    """Read for a while."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        assert terminal.read(left), terminal.shown[-2000:]


def latency(terminal: Terminal, seconds: float) -> None:
    """From a key to the row it moves to, which nothing else draws: it was finished long ago."""
    chance = random.Random(1)
    found: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pause(terminal, chance.uniform(0.02, 0.12))
        since, start = len(terminal.raw), time.monotonic()
        terminal.press("j")
        wanted = f"#{len(found) + 2} ".encode()
        while wanted not in terminal.raw[since:]:
            assert terminal.read(1.0) and time.monotonic() - start < 5, terminal.shown[-2000:]
        found.append(1000 * (time.monotonic() - start))
    cuts = quantiles(found, n=100)
    figure(f"  key to screen, median of {len(found)}", cuts[49], "ms")
    figure("  key to screen, 99th percentile", cuts[98], "ms", "goal ≤ 50")


def opened(chosen: argparse.Namespace) -> None:
    asyncio.run(opening(chosen.rows, chosen.seconds))


def lively(chosen: argparse.Namespace) -> None:
    for rows in (10_000, chosen.rows):
        live(rows, chosen.seconds, chosen.rate, "results", "", "results at rest")
        live(rows, chosen.seconds, chosen.rate, "results", "f", "results, following")


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {"open": opened, "live": lively}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS], default=[*SECTIONS])
    parser.add_argument("--show", nargs=3, metavar=("STORE", "RUN", "PANES"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.show:
        path, run, panes = chosen.show
        Bench(Path(path), int(run), PANES[panes]).run()
        return
    for name in chosen.only:
        SECTIONS[name](chosen)


if __name__ == "__main__":
    main()
