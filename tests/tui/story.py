"""A person at the workbench: presses keys, reads the screen, waits for what must come."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.events import Key, Paste
from textual.keys import _character_to_key, key_to_character
from textual.pilot import Pilot

from tui_evals.store.database import open_store
from tui_evals.tui.app import Workbench
from tui_evals.tui.keyboard import wait_until_handled
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.lines import Lines


@dataclass
class Person:
    """Somebody who has only a keyboard and a screen."""

    pilot: Pilot[Any]
    app: Workbench

    async def press(self, *keys: str) -> None:
        """Press keys, each once the workbench says that it is done with the one before."""
        for key in keys:
            self.app.post_message(pressed(key))
            await wait_until_handled([self.app])
            await self.app.key_queue.idle.wait()
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        named = {" ": "space", "\n": "enter"}
        await self.press(*(named.get(character, character) for character in text))

    async def paste(self, text: str) -> None:
        """Paste a text as a terminal hands it over, and wait until it is taken."""
        self.app.post_message(Paste(text))
        await wait_until_handled([self.app])
        await self.app.key_queue.idle.wait()

    def screen(self) -> str:
        """Everything that is drawn now, as plain text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    def said(self) -> str:
        return str(self.app.query_one(Status).render())

    def keys(self) -> str:
        return str(self.app.query_one(Keys).render())

    def rows(self, place: str) -> list[str]:
        lines = self.app.query_one(f"#{place}").query(Lines).last()
        return ["".join(piece.text for piece in row.pieces).rstrip() for row in lines.rows]

    async def until(self, condition: Callable[[], Any], seconds: float = 240.0) -> None:
        """Wait for something to come true; the bound only keeps a broken test from hanging."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"it never came true; the screen:\n{self.screen()}"
            await asyncio.sleep(0.02)  # to ask every widget whether it is done costs more than all they do
        await self.pilot.pause(0.02)

    async def sees(self, text: str, seconds: float = 240.0) -> None:
        await self.until(lambda: text in self.screen(), seconds)


def pressed(key: str) -> Key:
    """The event that a driver sends for a key, which is named as Textual does or by its character."""
    name = key if len(key) > 1 or key.isalnum() else _character_to_key(key)
    return Key(name, key if len(key) == 1 else key_to_character(name))


@asynccontextmanager
async def at_the_workbench(
    folder: Path, *, size: tuple[int, int] = (120, 40), dataset: str | None = None, run: str | None = None
) -> AsyncIterator[Person]:
    """Open the workbench on a project as the program does, and leave it as a person does."""
    (folder / ".evals").mkdir(exist_ok=True)
    database = open_store(folder / ".evals" / "evals.db")
    app = Workbench(folder, database, dataset=folder / dataset if dataset else None, run=run)
    async with app.run_test(size=size, notifications=True) as pilot:
        person = Person(pilot, app)
        await pilot.pause()
        yield person
        await app.writer.close()


def write(file: Path, data: object) -> Path:
    file.write_text(json.dumps(data, indent=2), encoding="utf-8")
    return file


def configure(folder: Path, text: str) -> None:
    (folder / ".evals").mkdir(exist_ok=True)
    (folder / ".evals" / "config.toml").write_text(text, encoding="utf-8")
