"""Writing into the store from the workbench: opened with the first write, and never on the screen's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tui_evals.present.stores import read_only_note
from tui_evals.targets.config import Settings

if TYPE_CHECKING:
    from tui_evals.store.writer import Writer

Written = TypeVar("Written")


class StoreWriter:
    """The writing door of the workbench; nothing that looks like a secret of the environment passes it."""

    def __init__(
        self, database: Path, variables: Callable[[], Mapping[str, str]], settings: Callable[[], Settings] = Settings
    ) -> None:
        self._database = database
        self._variables = variables
        self._settings = settings
        self._writer: Writer | None = None
        self._opening = asyncio.Lock()
        self.read_only = read_only_note(database)
        """Why nothing can be written; empty where it can."""

    async def write(self, step: Callable[[Writer], Written]) -> Written:
        """Do a step with the writer and wait until it is committed; StoreError says why it could not be."""
        async with self._opening:
            if self._writer is not None and self._writer.is_elsewhere:  # another store stands at its path by now
                await self.close()
            if self._writer is None:
                self._writer = await asyncio.to_thread(self._opened)
        return await asyncio.to_thread(step, self._writer)

    def _opened(self) -> Writer:
        # Imported when it is wanted, because nothing is written before the first picture.
        from tui_evals.store.redact import secrets_of
        from tui_evals.store.writer import Writer

        return Writer(self._database, secrets_of(self._variables()), durable=self._settings().durable)

    async def close(self) -> None:
        """Commit what is left and end."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await asyncio.to_thread(writer.close)
