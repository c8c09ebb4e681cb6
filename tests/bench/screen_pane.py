"""Opening, sorting and filtering pane 4, and the matrix, in this process, from the call until the screen is drawn."""

from __future__ import annotations

import asyncio
import gc
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from textual.app import App, ComposeResult

import tui_evals.tui
from tests.bench.screen_stores import figure, project, store
from tui_evals.tui.matrix import MatrixScreen
from tui_evals.tui.results.failure_view import read_map
from tui_evals.tui.results.pane import ResultsPane
from tui_evals.tui.watch import AnswerOrder, Watch
from tui_evals.tui.workspace import StoreWriter, Workspace

STYLES = Path(tui_evals.tui.__file__).parent / "styles" / "app.tcss"
SIZE = (120, 40)


class Bench(App[None]):
    """Pane 4 over a store, looked at ten times a second as the workbench does."""

    CSS_PATH = STYLES
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.animation_level = "none"
        self.watching = Watch(path)
        self.results = ResultsPane(Workspace(path.parent.parent, path), self.watching, StoreWriter(path, dict))

    def compose(self) -> ComposeResult:
        yield self.results

    def on_mount(self) -> None:
        self.set_interval(0.1, self.look)
        self.results.focus_lines()

    def look(self) -> None:
        pulse = self.watching.poll()
        if pulse:
            self.results.pulse(pulse)

    async def drawn(self) -> None:
        """Wait until what was asked for is on the screen."""
        done = asyncio.Event()
        self.call_after_refresh(done.set)
        await done.wait()


def memory() -> float:
    """Megabytes this process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def opening(rows: int) -> None:
    """A run of many answers is opened, sorted and filtered."""
    with tempfile.TemporaryDirectory() as name:
        path, run = store(Path(name), rows, rows, project(Path(name), rows))
        app = Bench(path)
        pane = app.results
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause()
            before = memory()

            async def opened() -> None:
                app.watching.open_run(run)
                pane.sync()

            async def to_the_end() -> None:
                pane._lines.action_edge(1)

            await timed(app, f"open {rows:,} answers", opened, "≤ 50")
            await app.workers.wait_for_complete()
            await pilot.pause()
            figure("  memory it took", memory() - before, "MiB")
            for order in (AnswerOrder(sort="latency_ms", descending=True), AnswerOrder(sort="evaluator:Relevance")):
                await timed(app, f"sort by {order.sort}", partial(pane._arrange, order, to_top=True), "≤ 150")
            for text in ("failed", "words score:<50"):
                await timed(
                    app, f"filter as typed {text!r}", partial(pane._arrange_at_once, AnswerOrder(text)), "≤ 150"
                )
            await timed(app, "plain again", partial(pane._arrange, AnswerOrder()), "≤ 150")
            await timed(app, "the next failure", pane.do_next_failure, "≤ 150")
            await timed(app, "the failure map", partial(_map, app, path, run), "≤ 1,000")
            await timed(app, "to the end", to_the_end, "≤ 50")
            await timed(app, "the matrix", partial(_matrix, app, path, run), "≤ 300")
            figure("  memory after all of it", memory() - before, "MiB")


async def _map(app: Bench, path: Path, run: int) -> None:
    """What failed in the run, read away from the screen."""
    await asyncio.to_thread(read_map, path, path.parent.parent, app.watching.reader.run(run))


async def _matrix(app: Bench, path: Path, run: int) -> None:
    """The grid of the run until its rows are there."""
    figures = app.watching.figures
    screen = MatrixScreen(path, run, None, figures.names if figures else None)
    app.push_screen(screen)
    while not (screen.is_mounted and len(screen.lines.rows) > 1):
        await asyncio.sleep(0.001)


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
    start, used = time.perf_counter(), time.process_time()
    await act()
    await app.drawn()
    took, used = time.perf_counter() - start, time.process_time() - used
    await asyncio.sleep(0.02)
    over = True
    await feeling
    still = f"{1000 * used:.0f} ms of CPU; the screen stood still for {1000 * longest:.0f} ms at most"
    figure(what, 1000 * took, "ms", f"goal {goal}; {still}")
