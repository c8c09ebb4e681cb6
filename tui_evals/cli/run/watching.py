"""`tui-evals watch`, the workers of a run, and `run --watch`, which runs again when a file changes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.opening import Opening, need_terminal
from tui_evals.cli.output import (
    Stop,
    cell,
    clear_screen,
    columns,
    has_reader,
    redraws,
    rewind,
    say,
    say_end,
    say_json_line,
    warn,
)
from tui_evals.cli.run.ending import baseline_lines, say_gates
from tui_evals.datasets.discover import ENDINGS, project_root
from tui_evals.interpreter import python_command
from tui_evals.present.gates import gates_data
from tui_evals.present.runs import (
    Cost,
    Pace,
    RunWorkers,
    WorkerTotals,
    judging_sentence,
    line_names,
    next_step,
    pace_parts,
    run_budget,
    run_cost,
    stop_reason,
    store_wait_sentence,
    stored_again_sentence,
    wait_sentence,
)
from tui_evals.present.status import OVER, final_count, run_look, short_counts, status_phrase
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, StoreWait, Totals, Wait, WorkerRow
from tui_evals.text.measures import counted, money
from tui_evals.text.safe import safe_line

_MOST = 6
_ORDER = {"alive": 0, "silent": 1, "gone": 2}
_GLYPHS = {"alive": "●", "silent": "◌", "gone": "○"}


def crew_lines(crew: RunWorkers, live: bool, room: int | None) -> list[str]:
    """The lines about workers: one for each on a live screen, else one for all."""
    if not crew.rows:
        return []
    if live and crew.totals.alive + crew.totals.silent:
        return worker_lines(crew.rows, crew.totals, room)
    return [summary(crew.totals)]


def worker_lines(rows: Sequence[WorkerRow], totals: WorkerTotals, room: int | None) -> list[str]:
    """A line for each of the busiest workers, by name; where there are more, one for all of them."""
    from tui_evals.present.columns import table  # its tables of widths take a while, and few runs have workers

    busiest_rows = sorted(busiest(rows), key=lambda row: row.name)
    cells = [
        [
            row.name,
            f"{_GLYPHS[row.state]} {row.state}",
            counted(row.cells, "cell"),
            f"{row.rate:,.1f} calls/s",
            counted(row.calls, "call"),
            counted(row.errors, "error"),
        ]
        for row in busiest_rows
    ]
    lines = table(cells, right=(2, 3, 4, 5), room=room)
    left = len(rows) - len(busiest_rows)
    return [*lines, f"… and {left:,} more; all: {summary(totals)}"] if left else lines


def busiest(rows: Sequence[WorkerRow]) -> list[WorkerRow]:
    """The workers that are most worth a line: those that are there, then those that hold most."""
    return sorted(rows, key=lambda row: (_ORDER[row.state], -row.cells, -row.calls, row.name))[:_MOST]


def summary(totals: WorkerTotals) -> str:
    """All workers in one line; their totals once all are gone."""
    errors = counted(totals.errors, "error")
    if not totals.alive + totals.silent:
        return " · ".join([counted(totals.gone, "worker"), counted(totals.calls, "call"), errors])
    parts = [
        f"{counted(totals.alive, 'worker')} alive",
        counted(totals.cells, "cell"),
        f"{totals.rate:,.1f} calls/s",
        errors,
    ]
    absent = {"silent": totals.silent, "gone": totals.gone}
    return " · ".join([*parts, *(f"{count:,} {word}" for word, count in absent.items() if count)])


def event(crew: RunWorkers) -> dict[str, Any]:
    """All workers as one event."""
    return {"event": "workers", "workers": [asdict(row) for row in crew.rows]}


_EVERY = 0.5
_PLAIN_EVERY = 5.0


class Progress:
    """Shows a run that is running somewhere."""

    def __init__(self, run: RunRow, *, quiet: bool = False, as_json: bool = False, verbose: bool = False) -> None:
        self._run = run
        self._verbose = verbose and not quiet and not as_json
        self._quiet = quiet
        self._as_json = as_json
        self._live = redraws() and not quiet and not as_json
        self._lines = 0
        self._pace = Pace()
        self._crew = RunWorkers()
        self._seq = 0
        self._last_shown = 0.0
        self._wait: Wait | None = None
        self._store_wait: StoreWait | None = None

    def leave(self) -> None:
        """Keep the lines, because something else was printed below them."""
        self._lines = 0

    async def follow(
        self,
        path: Path,
        work: asyncio.Task[object] | None = None,
        store_wait: Callable[[], StoreWait | None] = lambda: None,
    ) -> RunRow:
        """Show the run until it or the work is over; `store_wait` returns a wait that the work cannot store."""
        run = self._run
        with Reader(path) as reader:
            if self._as_json:
                say_json_line({"event": "start", "run": run.key, "total": run.total})
            elif not self._quiet:
                say(f"run {run.key} · {run.total} answers")
            while True:
                over = work.done() if work is not None else False
                try:
                    run = reader.find_run(run.key)
                    run = replace(run, waiting=store_wait() or run.waiting)
                    self._tell_store_wait(run, over)
                    over = over or (work is None and run.status in OVER)
                    if not self._quiet:
                        self._show(reader, run, over)
                except (StoreError, LookupError):
                    if work is None:
                        raise
                    run = replace(run, waiting=store_wait())  # the work itself reports trouble with the store
                    self._tell_store_wait(run, over)
                if over or (work is None and not has_reader()):
                    return run
                waiting = asyncio.sleep(_EVERY)
                if work is None:
                    await waiting
                else:
                    waiting.close()
                    await asyncio.wait([work], timeout=_EVERY)

    def _tell_store_wait(self, run: RunRow, over: bool) -> None:
        """Print once that the store is not writable, and once that the run continues."""
        wait = run.waiting if isinstance(run.waiting, StoreWait) else None
        before, self._store_wait = self._store_wait, wait
        if wait == before or (wait is None and (before is None or over)):
            return
        said = store_wait_sentence(wait, time.time()) if wait else stored_again_sentence(before) if before else ""
        if self._as_json:
            about = asdict(wait) if wait else {}
            say_json_line({"event": "wait" if wait else "goes_on", "run": run.key, "message": said, **about})
            return
        self.leave()
        with suppress(OSError):  # the output may go to the full disk
            warn(said)

    def _show(self, reader: Reader, run: RunRow, over: bool) -> None:
        if self._as_json:
            self._events(reader, run)
            return
        if self._verbose:
            self._say_answers(reader, run)
        now = time.monotonic()
        if not self._live and not over and now - self._last_shown < _PLAIN_EVERY:
            return
        self._last_shown = now
        names, totals = line_names(run), reader.totals_by(run.id, "column")
        judged = run.staged if run.staged_pass else sum(map(final_count, totals.values()))
        self._pace.note(now, judged, run.status == "running")
        self._crew.look(reader, run)
        room = (columns() or 1000) - 1
        budget = run_budget(run) if len(totals) == 1 else None
        lines = [" · ".join(_line(safe_line(names[column]), one, budget)) for column, one in totals.items()]
        if run.staged_pass:
            lines = [judging_sentence(run)]
        lines = self._with_pace(run, lines, list(totals.values()))
        lines += crew_lines(self._crew, self._live, room)
        if self._live:
            rewind(self._lines)
            self._lines = len(lines)
        for line in lines:
            say(cell(line, room))

    def _say_answers(self, reader: Reader, run: RunRow) -> None:
        """A line for each answer that is final since the last look, above the lines that are drawn over."""
        from tui_evals.cli.look.show import answer_columns, say_row  # few runs are watched like that

        rows = [row for row in reader.changed(self._seq, run) if row.seq > self._seq]
        self._seq = max((row.seq for row in rows), default=self._seq)
        over = [row for row in rows if row.status not in ("pending", "running", "answered")]
        if over and self._live:
            rewind(self._lines)
            self._lines = 0
        shape = answer_columns(over, {run.id: run})
        for row in over:
            say_row(row, run, shape)

    def _with_pace(self, run: RunRow, lines: list[str], totals: Sequence[Totals]) -> list[str]:
        """The lines of the targets with the run's wait or pace, after one line or below several."""
        left = sum(target_totals.total - final_count(target_totals) for target_totals in totals)
        waits = wait_sentence(run, time.time())
        pace = [waits] if waits else pace_parts(self._pace.rate(), left) if run.status == "running" else []
        if len(lines) == 1:
            return [" · ".join([*lines, *pace])]
        costs, budget = [run_cost(target_totals) for target_totals in totals], run_budget(run)
        spent, perhaps = sum(cost.amount for cost in costs), sum(cost.perhaps for cost in costs)
        together = [*pace, *([Cost(spent, perhaps=perhaps, budget=budget).text] if budget else [])]
        return [*lines, " · ".join(["all", *together])] if together and lines else lines

    def _events(self, reader: Reader, run: RunRow) -> None:
        if self._crew.look(reader, run):
            say_json_line(event(self._crew))
        if isinstance(run.waiting, Wait) and run.waiting != self._wait:
            self._wait = run.waiting
            about = wait_sentence(run, time.time())
            say_json_line({"event": "wait", "run": run.key, "message": about, **asdict(self._wait)})
        for row in reader.changed(self._seq, run):
            self._seq = max(self._seq, row.seq)
            if row.status not in ("pending", "running"):
                say_json_line({"event": "answer", **asdict(row), "target": run.targets[row.target]})


def _line(name: str, totals: Totals, budget: float | None) -> list[str]:
    """The results of one column so far; the budget is that of the whole run."""
    flying = [f"{totals.running:,} {status_phrase('running')}"] if totals.running else []
    return [
        f"{name}: {final_count(totals)}/{totals.total}  {short_counts(totals)}",
        *flying,
        run_cost(totals, budget=budget).text,
    ]


def watch(word: str, as_json: bool) -> int:
    """`tui-evals watch`."""
    run = _run_or_stop(word)
    try:
        run = asyncio.run(Progress(run, as_json=as_json).follow(project.store_path()))
    except KeyboardInterrupt:
        (warn if as_json else say)(f"\nstopped watching; {run.key} continues")
        if as_json:
            say_end(run.key, run.status, "no longer watching", 0)
        return 0
    if as_json:
        about = {"verdict": run.verdict or None, "gates": gates_data(run.gates)}
        say_end(run.key, run.status, stop_reason(run), 0, **about)
        return 0
    say(f"run {run.key} is {run_look(run).word}")
    for line in filter(None, (stop_reason(run), next_step(run), run.verdict)):
        say(line)
    say_gates(run.gates)
    with Reader(project.store_path()) as reader:  # that it can only be read has been said
        for line in baseline_lines(reader, run):
            say(line)
    return 0


def opening_on(word: str, as_json: bool, mouse: bool) -> Opening:
    """`tui-evals watch --tui`: the workbench on a run."""
    if as_json:
        raise Stop("give --json or --tui, not both")
    need_terminal("`tui-evals watch RUN` follows a run without one")
    root, database = project_root(Path.cwd()), project.store_path()
    return Opening(root, database, run=_run_or_stop(word).key, mouse=mouse)


def _run_or_stop(word: str) -> RunRow:
    with project.reader() as reader:
        return project.run_named(reader, word)


_WATCHED = (*ENDINGS, ".toml", ".prompty", ".md", ".txt", ".py", ".js", ".mjs", ".j2")
_LEFT_OUT = frozenset(("node_modules", "__pycache__", "site-packages", "results"))
_DEEPEST = 6
"""Seconds between two looks at the files."""
_RESUMABLE, _INTERRUPTED = 4, 130
_MOST_LISTED = "10"

Files = Mapping[Path, tuple[int, int]]


def run_on_change(words: Sequence[str], options: Mapping[str, Any]) -> int:
    """Run, wait for a change, and run again until Ctrl-C; the exit code is that of the last run."""
    for name in ("detach", "interactive", "as_json", "plan_only"):
        if options[name]:
            flag = {"as_json": "json", "plan_only": "plan"}.get(name, name)
            raise Stop(f"--watch runs again and again here; leave out --{flag}")
    root = project_root(Path.cwd())
    written = {Path(file).absolute() for file in options["outputs"]}
    given = [*words, *(["--summary"] if options["summary"] is None else [])]
    limit, spent = options["max_cost"], 0.0
    before = _last_run()[0]
    files = watched_files(root, written)
    code = 0
    try:
        while True:
            code = _tui_evals("run", *given, *([] if limit is None else ["--max-cost", str(limit - spent)]))
            run, cost = _last_run()
            if run is not None and (before is None or run.key != before.key):
                spent += cost
                if before is not None and before.source == run.source:
                    _tui_evals("compare", before.key, run.key, "--limit", _MOST_LISTED, "--no-pager")
                before = run
            if code == _INTERRUPTED:
                return code
            if limit is not None and spent >= limit:
                warn(f"stopped: {money(spent)} of --max-cost {money(limit)} are spent")
                return _RESUMABLE
            said = f"; {money(spent)} of {money(limit)} spent" if limit is not None else ""
            say(f"waiting for a change in {root}{said}. Ctrl-C ends", dim=True)
            changed, files = _next_change(root, files, written)
            clear_screen()
            say(f"changed: {', '.join(changed[:5])}{' and more' if len(changed) > 5 else ''}", bold=True)
    except KeyboardInterrupt:
        say()
        return code


def watched_files(root: Path, written: set[Path]) -> Files:
    """The time and size of each file that can change a run: data, prompts, experiments, settings and code."""
    return {file: state for file in _candidates(root) if file not in written and (state := _state(file)) is not None}


def _candidates(root: Path) -> Iterator[Path]:
    yield root / ".evals" / "config.toml"
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        deep = len(here.relative_to(root).parts) >= _DEEPEST
        folders[:] = [name for name in folders if not (deep or name.startswith(".") or name in _LEFT_OUT)]
        yield from (here / name for name in names if name.lower().endswith(_WATCHED))


def _state(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:  # an editor replaces it just now
        return None
    return found.st_mtime_ns, found.st_size


def _next_change(root: Path, before: Files, written: set[Path]) -> tuple[list[str], Files]:
    """The files that differ from `before`, by name, once two looks agree on them; waits until there are some."""
    pause, last = threading.Event(), before
    while True:
        now = watched_files(root, written)
        if now == last and now != before:
            names = sorted(file for file in {*now, *before} if now.get(file) != before.get(file))
            return [str(file.relative_to(root)) for file in names], now
        last = now
        pause.wait(_EVERY)


def _tui_evals(*words: str) -> int:
    """The exit code of a command in a process of its own; Ctrl-C is for that process while it runs."""
    hears = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(python_command("-m", "tui_evals", *words), check=False).returncode
    finally:
        signal.signal(signal.SIGINT, hears)


def _last_run() -> tuple[RunRow | None, float]:
    """The newest run of the project and its cost, including judges."""
    with Reader(project.store_path()) as reader:
        run = next(iter(reader.runs(limit=1)), None)
        totals = None if run is None else reader.totals(run.id)
    return run, 0.0 if totals is None else totals.cost + totals.judge_cost
