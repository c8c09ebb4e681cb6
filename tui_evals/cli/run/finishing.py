"""The end of a run: what came of it, the files that were asked for, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tui_evals.cli.output import Stop, say, say_json_line, warn
from tui_evals.datasets.save import CannotSave, write_atomically
from tui_evals.reports.kinds import endings, kind_of, write
from tui_evals.reports.words import sentence
from tui_evals.runs.engine import Outcome
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from .gating import GateResults, Gates, check_gates


def finish(
    reader: Reader,
    run: RunRow,
    outcome: Outcome,
    interrupted: bool,
    go_on: str,
    gates: Gates,
    *,
    quiet: bool,
    as_json: bool,
) -> int:
    """Write what was asked for, say how it went, and return the exit code."""
    run = reader.find_run(run.key)
    for file in gates.outputs:
        write_results(reader, [run], file)
    total = reader.totals(run.id)
    found = check_gates(reader, run, total, gates) if outcome.finished else GateResults()
    if as_json:
        more = found.event() if gates.asked else {}
        say_json_line({"event": "end", "run": run.key, "status": run.status, "totals": asdict(total), **more})
    elif not quiet:
        _say_end(reader, run, found)
    if not outcome.finished:
        said = outcome.message if outcome.message.endswith("?") else f"{outcome.message.rstrip('.')}."
        warn(f"{run.key} stopped: {said} {go_on}")
        return 130 if interrupted else 3 if outcome.configuration else 1
    for check in found.checks:
        for said in check.says:
            warn(said)
    return 0 if found.met else 1


def _say_end(reader: Reader, run: RunRow, found: GateResults) -> None:
    for target, totals in reader.totals_by(run.id, "target").items():
        say(f"{run.targets[target]}: {sentence(totals)}")
    say(f"run {run.key} {run.status}; `tui-evals show {run.key} --only failed` shows what failed")
    if found.verdict:
        say(f"against {found.baseline}: {found.verdict}")
    met = [check.gate for check in found.checks if check.met]
    if met:
        say(f"met: {', '.join(met)}")


def write_results(
    reader: Reader, runs: Sequence[RunRow], file: Path, kind: str | None = None, raw: bool = False
) -> None:
    """Write a run, or runs compared, as the kind of report that is asked for or that the file's ending names."""
    kind = kind or kind_named(file)
    write_report(file, lambda: write(kind, reader, runs, raw=raw))


def write_report(file: Path, made: Callable[[], str]) -> None:
    """Write a text to a file in a folder that need not be there, or end the command."""
    try:
        if file.parent.exists() and not file.parent.is_dir():
            raise Stop(f"{file} could not be written: {file.parent} is a file, not a folder; the run is kept", 1)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, made().encode())
    except OSError as problem:
        raise Stop(f"{file} could not be written: {problem.strerror}; the run is kept", 1) from None
    except CannotSave as problem:
        raise Stop(f"{problem}; the run is kept", 1) from None


def kind_named(file: Path) -> str:
    """The kind of report that the ending of a file names, or the end of the command."""
    kind = kind_of(file)
    if kind is None:
        raise Stop(f"{file}: the ending says what is written, and must be one of {endings()}")
    return kind
