"""Edits of a large dataset in this process: what a copy, an undo and a typed letter cost, and the memory they leave."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from tests.bench.screen_pane import memory
from tests.bench.screen_stores import FILE, figure, project
from tests.tui.story import Person, at_the_workbench
from tui_evals.tui import editing
from tui_evals.tui.workspace import Workspace


def edits(count: int, times: int) -> None:
    """Copies and undos without a screen, then with one; typing last."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project(folder, count)
        _without_a_screen(folder, count, times)
        asyncio.run(_on_screen(folder, count, times))


def _without_a_screen(folder: Path, count: int, times: int) -> None:
    space = Workspace(folder, folder / "none.db")
    space.configure()
    space.open_file(folder / FILE)
    space.go(("items", count // 2))
    start = time.process_time()
    space.check()
    figure(f"check of {count:,} items", _milliseconds(start), "ms CPU")
    before = memory()
    for what, act in (("copy", lambda: editing.duplicate(space)), ("undo", lambda: space.step(-1))):
        start = time.process_time()
        for _ in range(times):
            act()
        figure(f"{what} among {count:,} items", _milliseconds(start) / times, "ms CPU", "goal ≤ 20")
        start = time.process_time()
        space.check()
        figure("  check after them", _milliseconds(start), "ms CPU")
    figure(f"memory after {times} copies and {times} undos", memory() - before, "MiB")


async def _on_screen(folder: Path, count: int, times: int) -> None:
    async with at_the_workbench(folder, dataset=FILE, size=(160, 45)) as person:
        await person.until(lambda: person.app.workspace.report)
        await person.press("j")
        before = memory()
        for key, what in (("d", "copy"), ("u", "undo")):
            start = time.process_time()
            for _ in range(times):
                await person.press(key)
            figure(f"{what} among {count:,} items, all panes on screen", _milliseconds(start) / times, "ms CPU")
        await person.app.keep_drafts()
        figure("  memory after them", memory() - before, "MiB")
        await _typing(person, count)


async def _typing(person: Person, count: int) -> None:
    """Letters into a prompt while everything that goes along with an edit goes on; what holds up the loop meanwhile."""
    await person.press("2", "enter")
    longest, over = 0.0, False

    async def feel() -> None:
        nonlocal longest
        while not over:
            start, used = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.001)
            # The time of other threads and processes is not ours, but a call that keeps them all out is.
            longest = max(longest, min(time.perf_counter() - start, 0.001 + time.thread_time() - used))

    feeling = asyncio.create_task(feel())
    await asyncio.sleep(0.02)
    longest, start = 0.0, time.process_time()
    for letter in "words that somebody types into it":
        await person.type(letter)
        await asyncio.sleep(0.1)
    await person.app.keep_drafts()
    over = True
    await feeling
    figure(f"a letter among {count:,} items", _milliseconds(start) / 33, "ms CPU")
    figure("  the loop stood still at most for", 1000 * longest, "ms CPU", "goal ≤ 50")


def _milliseconds(start: float) -> float:
    return 1000 * (time.process_time() - start)
