"""Commands that open the rules or generate a dataset with rules, and the messages at the end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from tui_evals.datasets.paths import get_at
from tui_evals.store.battles import ActivityRow, activities
from tui_evals.store.database import StoreError
from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.messages import StateChanged
from tui_evals.tui.opening import enter_file, why_none_open

_SCREEN = "rules"


def open_rules(desk: Desk) -> None:
    """Show the rules; the screen keeps its state."""
    if not desk.is_screen_installed(_SCREEN):
        # Imported when needed, to keep the start fast.
        from tui_evals.tui.rules.screen import RulesScreen

        desk.install_screen(RulesScreen(desk), _SCREEN)
    desk.push_screen(_SCREEN)


async def generate(desk: Desk) -> None:
    """Make a dataset of a prompt file."""
    from tui_evals.tui.rules.screen import generate_from_prompt

    await generate_from_prompt(desk)


_LATEST = 20
"""Generations that are looked at: more do not end between two looks."""


class Generations:
    """Announces the end of generations, whichever process started them, and opens their datasets."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._live: set[str] = set()
        self._newest: int | None = None
        """The latest generation seen; those before the first check are not announced."""

    def look(self) -> None:
        """Look which generations ended since."""
        with suppress(StoreError):  # the look at the runs says why the store cannot be read
            rows = activities(self._desk.watching.reader, "generation", most=_LATEST)
            newest = self._newest
            over = [row for row in rows if not row.is_live]
            ended = [row for row in over if row.key in self._live or (newest is not None and row.id > newest)]
            self._live = {row.key for row in rows if row.is_live}
            self._newest = max([newest or 0, *(row.id for row in rows)])
            for row in ended:
                if not _NO_DATASET & row.request.keys():
                    name = "saying what was generated"
                    self._desk.run_worker(_announce(self._desk, row), name, "generated", exit_on_error=False)


_NO_DATASET = frozenset(("again", "invert", "until"))
"""Keys of requests that regenerate a part, which the rules pane shows, or that stop before the dataset exists."""


async def _announce(desk: Desk, row: ActivityRow) -> None:
    """Announce how a generation ended; open its dataset if none is open and no dialog is shown."""
    # Imported when needed, to keep the start fast.
    from tui_evals.generate.folder import GenerationFolder, UnreadableFile
    from tui_evals.present.battles import gaps_text

    try:
        file = await asyncio.to_thread(lambda: GenerationFolder(Path(row.about)).dataset)
    except UnreadableFile as problem:
        desk.tell(str(problem), "error")
        return
    if row.control and row.status != "finished":
        desk.tell(f"{file.name}: stopped. What was made is kept, and 8 continues", "warn")
        return
    if row.status != "finished":
        desk.tell(f"{file.name} could not be made: {row.message or 'its process ended'}", "error")
        return
    desk.workspace.look()
    desk.post_message(StateChanged())
    gaps = gaps_text(row)
    more = f", 8 retries what failed. {gaps}" if gaps else ""
    opened = desk.workspace.editing is None and not desk.writing and await enter_file(desk, file)
    keys = ": 7 shows its rules, r runs its tests" if opened else "; o opens it"
    desk.tell(f"{file.name} is made{keys}{more}", "warn" if gaps else "info")


def why_no_rules(desk: Desk) -> str | None:
    """The open dataset was not made from rules; the screen says how such a dataset is made."""
    rules = get_at(desk.workspace.data, ("extensions", "promptpex", "rules"))
    return None if rules else "this dataset has no rules"


COMMANDS: Commands = {"rules": Command(open_rules, why_none_open, why_no_rules), "generate": Command(generate)}
