"""Keeps the rules of the open dataset and what came of their tests current, read away from the screen's thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.widget import Widget
from textual.worker import Worker

from tui_evals.store.database import StoreError
from tui_evals.tui.watch import Watch
from tui_evals.tui.workspace import Workspace

from .rates import CollectedVerdicts, VerdictBoard, VerdictReader, verdict_board
from .state import RuleFiles, RuleSheet, read_rule_files, read_sheet

_SHARE = 4  # reading verdicts takes a fifth of the time at most


class Rulebook:
    """The sheet of the open dataset and its board; `changed` is called when one of them is another."""

    def __init__(self, widget: Widget, workspace: Workspace, watch: Watch, changed: Callable[[], None]) -> None:
        self.sheet = RuleSheet()
        self.board: VerdictBoard | None = None
        self.origin = RuleFiles()
        self.problem = ""
        """Why nothing can be said of the runs."""
        self._widget = widget
        self._workspace = workspace
        self._watch = watch
        self._changed = changed
        self._rater = VerdictReader(workspace.database, workspace.root)
        self._rates = CollectedVerdicts()
        self._read: object = None
        self._rated: object = None
        self._touched = 0
        self._busy = False
        self._work: Worker[None] | None = None
        self._rest = 0.0
        """Until when the verdicts are not read again, though others may have come."""

    @property
    def differs(self) -> bool:
        """Whether the files beside the dataset hold other rules than it does."""
        return self.origin.texts is not None and self.origin.texts != self.sheet.texts

    @property
    def ready(self) -> bool:
        """Whether the sheet is that of the dataset as it is now."""
        return self._read is not None and self._read == self._mark

    @property
    def _mark(self) -> object:
        """What the sheet depends on."""
        editing = self._workspace.editing
        return (id(editing), editing.version, editing.document.digest, self._touched) if editing else None

    def touch(self) -> None:
        """The files beside the dataset have changed."""
        self._touched += 1
        self.soon()

    def soon(self) -> None:
        """Read what is no longer as it was read."""
        if not self._busy and self._stale():
            self._busy = True
            self._work = self._widget.run_worker(
                self._go_on(), group="rules", name="reading the rules", exit_on_error=False
            )

    async def settled(self) -> None:
        """Wait until the rules are those of now."""
        while self._work is not None and not self.ready and not self._work.is_finished:
            await self._work.wait()

    def _stale(self) -> bool:
        if self._mark is None or (self.ready and time.monotonic() < self._rest):
            return False
        return self._rated != (self._mark, self._watch.reader.data_version())

    async def _go_on(self) -> None:
        """Read until the rules are those of now; the verdicts once, for while a run goes on they always change."""
        try:
            while self._mark is not None and not self.ready:
                await self._sheet()
            await self._verdicts()
        finally:
            self._busy = False
        self._again()

    def _again(self) -> None:
        if not self.ready:
            self.soon()

    async def _sheet(self) -> None:
        mark, editing = self._mark, self._workspace.editing
        if editing is None:
            return
        data, file = editing.data, editing.document.file
        origin, sheet, new_board = await asyncio.to_thread(_read, data, file, self._rates)
        if mark == self._mark:
            another = self._read is None or not isinstance(self._read, tuple) or self._read[0] != id(editing)
            self.origin, self.sheet, self._read = origin, sheet, mark
            self.board = None if another else new_board
            self._changed()

    async def _verdicts(self) -> None:
        editing, sheet, mark = self._workspace.editing, self.sheet, self._read
        if editing is None:
            return
        version, began = (mark, self._watch.reader.data_version()), time.monotonic()
        try:
            rates = await asyncio.to_thread(self._rater.read, editing.document.file)
            new_board = await asyncio.to_thread(verdict_board, sheet, rates)
        except StoreError as problem:
            self.problem = str(problem)
        else:
            self.problem = ""
            self._rest = time.monotonic() + _SHARE * (time.monotonic() - began)
            if mark == self._read:
                self._rates, self.board, self._rated = rates, new_board, version
        self._changed()


def _read(data: dict[str, Any], file: Path, rates: CollectedVerdicts) -> tuple[RuleFiles, RuleSheet, VerdictBoard]:
    origin = read_rule_files(file)
    sheet = read_sheet(data, origin.most)
    return origin, sheet, verdict_board(sheet, rates)
