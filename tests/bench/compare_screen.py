"""The compare screen with long answers: `python -m tests.bench.compare_screen [--words 20000]`.

Two runs hold one answer each of so many words. A line says how long it took until an act was on the screen, and for how
long the screen stood still meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from textual.app import App
from textual.pilot import Pilot

from tests.bench.compare import texts
from tests.bench.screen_stores import figure
from tests.tui.stored_runs import add_run, fresh
from tui_evals import tui
from tui_evals.tui.compare.screen import CompareScreen

_PAGES = 40


class Bench(App[None]):
    """Nothing but the compare screen."""

    CSS_PATH = Path(tui.__file__).parent / "styles" / "app.tcss"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def on_mount(self) -> None:
        """Compare both runs."""
        self.push_screen(CompareScreen(self._path, [1, 2]))


async def timed(what: str, act: Callable[[], Awaitable[object]], goal: str) -> None:
    """From the call until it is done, and the longest time the event loop was held up by it."""
    longest, over = 0.0, False

    async def feel() -> None:
        nonlocal longest
        while not over:
            start = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - start - 0.001)

    feeling = asyncio.create_task(feel())
    await asyncio.sleep(0.02)
    longest, start = 0.0, time.perf_counter()
    await act()
    took = time.perf_counter() - start
    over = True
    await feeling
    figure(what, 1000 * took, "ms", f"goal {goal}; the screen stood still for {1000 * longest:.0f} ms at most")


async def shown(pilot: Pilot[None], text: str) -> None:
    """Wait until the line on screen holds a text."""
    while text not in "\n".join(part.text for row in pilot.app.screen.line.rows[:40] for part in row.pieces):
        await asyncio.sleep(0.001)


async def scrolled(pilot: Pilot[None]) -> None:
    """Go through the text page by page."""
    for _ in range(_PAGES):
        await pilot.press("pagedown")


async def measure(words: int) -> None:
    """Open the screen, show the long answers over all of it, scroll, turn to the other layout."""
    left, right = texts(words)
    with tempfile.TemporaryDirectory() as name:
        path = fresh(Path(name))
        await add_run(path, [("pass", left)], name="before")
        await add_run(path, [("fail", right)], name="after")
        app = Bench(path)
        async with app.run_test(size=(160, 45)) as pilot:
            gc.collect()
            gc.freeze()  # as the workbench does after its first picture
            first = left.split()[0]
            await timed(f"two answers of {words:,} words beside each other", partial(shown, pilot, first), "≤ 200 ms")
            await pilot.press("enter")
            await shown(pilot, first)
            await timed(f"{_PAGES} pages of them, key by key", partial(scrolled, pilot), "no pause over 50 ms")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=20_000)
    asyncio.run(measure(parser.parse_args().words))


if __name__ == "__main__":
    main()
