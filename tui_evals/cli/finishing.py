"""The end of a run: what came of it, the files that were asked for, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tui_evals.compare.statistics import wilson
from tui_evals.datasets.save import CannotSave, write_atomically
from tui_evals.reports import results
from tui_evals.runs.columns import column_scores
from tui_evals.runs.engine import Outcome
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord, Totals

from .output import Stop, say, say_json_line, warn

_BAD = {"fail": ("failed", "partial", "errored"), "partial": ("partial", "errored"), "error": ("errored",)}


@dataclass(frozen=True, slots=True)
class Gates:
    """What a script asks of a run, and where it wants the results."""

    fail_under: float | None = None
    fail_on: str | None = None
    outputs: tuple[Path, ...] = ()


def finish(
    reader: Reader,
    run: RunRow,
    outcome: Outcome,
    interrupted: bool,
    gates: Gates,
    *,
    quiet: bool,
    as_json: bool,
) -> int:
    """Write what was asked for, say how it went, and return the exit code."""
    run = reader.find_run(run.key)
    for file in gates.outputs:
        write_results(reader, run, file)
    total = reader.totals(run.id)
    if as_json:
        say_json_line({"event": "end", "run": run.key, "status": run.status, "totals": asdict(total)})
    elif not quiet:
        for target, found in reader.totals_by(run.id, "target").items():
            say(f"{run.targets[target]}: {sentence(found)}")
        say(f"run {run.key} {run.status}; `tui-evals show {run.key} --only failed` shows what failed")
    if not outcome.finished:
        warn(f"{run.key} stopped: {outcome.message.rstrip('.')}. `tui-evals resume {run.key}` goes on")
        return 130 if interrupted else 3 if outcome.configuration else 1
    return _code(reader, run, total, gates)


def _code(reader: Reader, run: RunRow, total: Totals, gates: Gates) -> int:
    if not any(row.preview for row in reader.all_rows(run.id) if row.code is None):
        warn("there is not a single answer")
        return 1
    missed = False
    if gates.fail_on and (bad := sum(getattr(total, name) for name in _BAD[gates.fail_on])):
        warn(f"{bad} answers are {gates.fail_on} or worse (--fail-on {gates.fail_on})")
        missed = True
    for column, score in _columns(reader, run).items() if gates.fail_under is not None else ():
        if score is None or score < (gates.fail_under or 0):
            shown = "n/a" if score is None else f"{score:.1f}"
            warn(f"{column} scores {shown}, less than {gates.fail_under:g} (--fail-under)")
            missed = True
    return 1 if missed else 0


def _columns(reader: Reader, run: RunRow) -> dict[str, float | None]:
    """The score of each column by its name."""
    scores: dict[int, list[ScoreRecord]] = {}
    for answer, record in reader.scores(run.id):
        scores.setdefault(answer, []).append(record)
    found = column_scores(reader.all_rows(run.id), scores, reader.snapshot(run.snapshot)["items"])
    several = len(run.prompts) > 1
    return {
        run.targets[target] + (f" with {run.prompts[prompt]}" if several else ""): score
        for (prompt, target), score in found.items()
    }


def sentence(found: Totals) -> str:
    """Totals in a line: how many passed with the interval of the rate, what else happened, what it cost."""
    judged = found.passed + found.failed
    parts = [f"{found.passed} of {judged} pass"]
    if (interval := wilson(found.passed, judged)) is not None:
        rate = 100 * found.passed / judged
        parts[0] += f" ({rate:.1f} %, 95 % interval {100 * interval.low:.1f} to {100 * interval.high:.1f})"
    counts: Mapping[str, int] = {
        "could not be judged": found.partial,
        "without an answer": found.errored,
        "pending": found.pending + found.running + found.answered,
    }
    parts += [f"{count} {what}" for what, count in counts.items() if count]
    money = f"{found.cost + found.judge_cost:.4f} USD"
    parts.append(f"{money} and {found.unpriced} unpriced" if found.unpriced else money)
    return " · ".join(parts)


def write_results(reader: Reader, run: RunRow, file: Path, kind: str | None = None, raw: bool = False) -> None:
    """Write the results of a run in the format that the file's ending names."""
    kind = kind or file.suffix.removeprefix(".")
    writers: dict[str, Any] = {
        "json": lambda: results.json_text(reader, run),
        "csv": lambda: results.table(reader, run, raw=raw),
        "jsonl": lambda: "".join(results.json_lines(reader, run)),
    }
    if kind not in writers:
        raise Stop(f"{file}: results are written as .json, .csv or .jsonl")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, writers[kind]().encode("utf-8", "surrogatepass"))
    except (OSError, CannotSave) as problem:
        raise Stop(f"{file} could not be written: {problem}; the run is kept", 1) from None
