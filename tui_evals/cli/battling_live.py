"""A battle on its way: how far it is, and two ways of Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from tui_evals.runs.battle import Battle
from tui_evals.runs.budget import Budget
from tui_evals.runs.engine import Outcome

from .output import cell, columns, rewind, say, warn
from .watching import Pace

_EVERY = 0.5
_PLAIN_EVERY = 5.0


async def alive(battle: Battle, budget: Budget, judge: str, *, quiet: bool) -> tuple[Outcome, bool]:
    """Fight with Ctrl-C at hand: the first lets what is in flight finish, the second stops now."""
    work = asyncio.create_task(battle.fight())
    live = _Live(battle, budget, judge)
    presses = 0

    def pressed() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            warn("\nfinishing what is in flight; Ctrl-C again stops now. The same command goes on later")
            live.leave()
            battle.stop()
        else:
            work.cancel()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, pressed)
    while not work.done():
        await asyncio.wait([work], timeout=_EVERY)
        if not quiet:
            live.show(over=work.done())
    try:
        return work.result(), presses > 0
    except asyncio.CancelledError:
        return Outcome(False, "stopped before the end"), presses > 0


class _Live:
    """How far a battle is: one line that renews itself on a terminal, one now and then elsewhere."""

    def __init__(self, battle: Battle, budget: Budget, judge: str) -> None:
        self._battle = battle
        self._budget = budget
        self._judge = judge
        self._live = sys.stdout.isatty()
        self._pace = Pace()
        self._said: float | None = None

    def leave(self) -> None:
        """Let the line stand where it is, because something else was said below it."""
        self._said = None

    def show(self, *, over: bool) -> None:
        """Say how far it is, where that is due."""
        now, battle = time.monotonic(), self._battle
        self._pace.note(now, battle.done)
        if not self._live and not over and self._said is not None and now - self._said < _PLAIN_EVERY:
            return
        if self._live and self._said is not None:
            rewind(1)
        self._said = now
        undecided = f" · {battle.undecided} without a verdict" if battle.undecided else ""
        pace = self._pace.sentence(battle.total - battle.done)
        line = f"{self._judge}: {battle.done}/{battle.total} bouts{undecided}{pace} · {self._budget.spent:.4f} USD"
        say(cell(line, (columns() or 1000) - 1))
