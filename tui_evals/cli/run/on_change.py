"""`tui-evals run --watch`: run again when a file of the project changes, and compare with the run before.

Each run is a process of its own, so that edited code is read anew. What an edit did not touch comes from the cache.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.output import Stop, clear_screen, say, warn
from tui_evals.datasets.discover import ENDINGS, project_root
from tui_evals.interpreter import python_command
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.measures import money

_WATCHED = (*ENDINGS, ".toml", ".prompty", ".md", ".txt", ".py", ".js", ".mjs", ".j2")
_LEFT_OUT = frozenset(("node_modules", "__pycache__", "site-packages", "results"))
_DEEPEST = 6
_EVERY = 0.5
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
    """The newest run of the project and what it cost, with its judges."""
    with Reader(project.store_path()) as reader:
        run = next(iter(reader.runs(limit=1)), None)
        totals = None if run is None else reader.totals(run.id)
    return run, 0.0 if totals is None else totals.cost + totals.judge_cost
