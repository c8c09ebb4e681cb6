"""Following a run from the store: one live line per target on a terminal, plain lines elsewhere, events as JSON."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path

from tui_evals.datasets.discover import project_root
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.workers import Crew

from . import project
from .opening import Opening, need_terminal
from .output import Stop, cell, columns, rewind, say, say_json_line
from .watching_workers import crew_lines, event

_EVERY = 0.5
_PLAIN_EVERY = 5.0
_RATE_OVER = 20.0
_ENOUGH = 5
_OVER = ("finished", "interrupted")


class Pace:
    """How fast answers come, from the last seconds only, and how long the rest will take."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now: float, done: int) -> None:
        """Remember how many were done by now."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _RATE_OVER:
            self._seen.popleft()

    def sentence(self, left: int) -> str:
        """The rate, and the time left once there is enough to tell."""
        (first, before), (last, done) = self._seen[0], self._seen[-1]
        if done - before < _ENOUGH or last <= first:
            return ""
        rate = (done - before) / (last - first)
        seconds = int(left / rate)
        shown = f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
        return f" · {rate:.1f}/s · {shown} left" if left else f" · {rate:.1f}/s"


class Progress:
    """Shows a run that goes on somewhere."""

    def __init__(self, run: RunRow, *, quiet: bool = False, as_json: bool = False) -> None:
        self._run = run
        self._quiet = quiet
        self._as_json = as_json
        self._live = sys.stdout.isatty() and not quiet and not as_json
        self._lines = 0
        self._paces: dict[str, Pace] = {}
        self._crew = Crew()
        self._seq = 0
        self._said = 0.0

    def leave(self) -> None:
        """Let what is shown stand where it is, because something else was said below it."""
        self._lines = 0

    async def follow(self, path: Path, work: asyncio.Task[object] | None = None) -> RunRow:
        """Show the run until it is over, or until the work is."""
        run = self._run
        with Reader(path) as reader:
            if self._as_json:
                say_json_line({"event": "start", "run": run.key, "total": run.total})
            elif not self._quiet:
                say(f"run {run.key} · {run.total} answers")
            while True:
                over = work.done() if work is not None else False
                run = reader.find_run(run.key)
                over = over or (work is None and run.status in _OVER)
                if not self._quiet:
                    self._show(reader, run, over)
                if over:
                    return run
                waiting = asyncio.sleep(_EVERY)
                if work is None:
                    await waiting
                else:
                    waiting.close()
                    await asyncio.wait([work], timeout=_EVERY)

    def _show(self, reader: Reader, run: RunRow, over: bool) -> None:
        if self._as_json:
            self._events(reader, run)
            return
        now = time.monotonic()
        if not self._live and not over and now - self._said < _PLAIN_EVERY:
            return
        self._said = now
        totals = reader.totals_by(run.id, "target").items()
        self._crew.look(reader, run)
        room = (columns() or 1000) - 1
        lines = [self._line(run.targets[target], found, now) for target, found in totals]
        lines += crew_lines(self._crew, self._live, room)
        if self._live:
            rewind(self._lines)
            self._lines = len(lines)
        for line in lines:
            say(cell(line, room))

    def _line(self, name: str, found: Totals, now: float) -> str:
        done = found.passed + found.failed + found.partial + found.errored
        pace = self._paces.setdefault(name, Pace())
        pace.note(now, done)
        counts = f"✓ {found.passed} ✗ {found.failed} ! {found.errored + found.partial}"
        cost = f" · {found.cost + found.judge_cost:.4f} USD"
        flying = f" · {found.running} in flight" if found.running else ""
        return f"{name}: {done}/{found.total}  {counts}{flying}{pace.sentence(found.total - done)}{cost}"

    def _events(self, reader: Reader, run: RunRow) -> None:
        if self._crew.look(reader, run):
            say_json_line(event(self._crew))
        for row in reader.changed(self._seq, run.id):
            self._seq = max(self._seq, row.seq)
            if row.status not in ("pending", "running"):
                say_json_line({"event": "answer", **asdict(row), "target": run.targets[row.target]})


def watch(word: str, as_json: bool) -> int:
    """`tui-evals watch`."""
    run = _named(word)
    try:
        run = asyncio.run(Progress(run, as_json=as_json).follow(project.store_path()))
    except KeyboardInterrupt:
        say(f"\nno longer watching; {run.key} goes on")
        return 0
    if not as_json:
        say(f"run {run.key} is {run.status}")
    return 0


def opening_on(word: str, as_json: bool, mouse: bool) -> Opening:
    """`tui-evals watch --tui`: the workbench on a run."""
    if as_json:
        raise Stop("give --json or --tui, not both")
    need_terminal("`tui-evals watch RUN` follows a run without one")
    root, database = project_root(Path.cwd()), project.store_path()
    return Opening(root, database, run=_named(word).key, mouse=mouse)


def _named(word: str) -> RunRow:
    with project.reader() as reader:
        return project.run_named(reader, word)
