"""The end of a run: missing answers, gates, the baseline, totals of columns, and result files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tui_evals.cli.output import Stop, colour, columns, is_output, say, write_file
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.document import companion_of
from tui_evals.files import is_stream
from tui_evals.present.answers import cause_texts
from tui_evals.present.gates import gate_lines, gate_texts
from tui_evals.present.runs import Column, Cost, line_names, totals_sentence
from tui_evals.reports.results import endings, kind_of, report_kind, together, whole_runs, write
from tui_evals.store.reader import Reader
from tui_evals.store.records import CheckedGate, FailureCause, RunRow, Totals
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe_line


def say_causes(run: RunRow, causes: Sequence[FailureCause], most: int | None = None) -> None:
    """Print each cause with the command that lists its answers, and its remedy below."""
    for told in cause_texts(run, causes)[:most]:
        say(f"{told.text} – `{told.command}`")
        say(f"    {told.remedy}", dim=True)
    if most is not None and len(causes) > most:
        say(f"and {counted(len(causes) - most, 'more cause')}; `tui-evals show {run.key}` lists all")


def say_gates(gates: Sequence[CheckedGate]) -> None:
    """Print each gate with its verdict and its figure, and what other rules say of one that is met."""
    texts = gate_texts(gates)
    for number, line in enumerate(gate_lines(gates, columns())):
        say(line, dim=not number, fg=colour(texts[number - 1].look.tone) if number else None)
    for text in texts:
        if text.why and text.look.word == "met":
            say(f"{text.name}: {text.why}")


def write_results(
    reader: Reader,
    runs: Sequence[RunRow],
    file: Path,
    kind: str | None = None,
    raw: bool = False,
    *,
    bare: bool = True,
) -> bool:
    """Write a run, or compared runs, as a report of the given kind or of the file's ending.

    Unless `bare`, a companion next to it keeps what that kind cannot hold; returns whether one was written.
    """
    kind = kind or kind_named(file)
    if why := report_kind(kind).missing():
        raise Stop(why)
    if is_output(file) and not report_kind(kind).is_text:
        raise Stop(f"a {kind} report is no text that could be printed; name a file with -o FILE")
    digest = hashlib.sha256()
    write_report(file, _hashed(write(kind, reader, runs, raw=raw), digest.update))
    if bare or is_output(file) or is_stream(file) or not report_kind(kind).has_companion:
        return False
    write_report(companion_of(file), together(whole_runs(reader, runs, digest.hexdigest())))
    return True


def say_written(file: Path, whole: bool) -> None:
    """Print which file was written, and what its companion has."""
    if is_output(file):
        return
    say(f"wrote {file}", fg="green")
    if whole:
        what = "the whole run, with its dataset, prompts and requests"
        say(f"wrote {companion_of(file)}: {what}, for reading it back here (--bare writes none)")


def _hashed(pieces: Iterable[str | bytes], take: Callable[[bytes], object]) -> Iterator[bytes]:
    for piece in pieces:
        raw = piece if isinstance(piece, bytes) else piece.encode()
        take(raw)
        yield raw


def write_report(file: Path, pieces: Iterable[str | bytes]) -> None:
    """Write a report piece by piece to a file in a folder that need not be there, or end the command.

    Answers are as private in it as in the store: a new file is its owner's alone, one that is there keeps its mode.
    """
    write_file(file, pieces, private=True, after="; -o names another place, the run is kept")


def kind_named(file: Path) -> str:
    """The kind of report that the ending of a file names, or the end of the command."""
    kind = kind_of(file)
    if kind is None:
        raise Stop(f"{file}: unknown ending. Use one of {endings()}")
    if why := report_kind(kind).missing():
        raise Stop(f"{file}: {why}")
    return kind


def say_columns(
    run: RunRow, columns: Mapping[Column, Totals], measures: Mapping[Column, Sequence[str]], together: str, cost: Cost
) -> None:
    """A line for each prompt and target, and one for all of them, which have no rate together."""
    names, alone = line_names(run), len(columns) == 1
    for column, totals in columns.items():
        # The run also paid for calls without an answer, such as the one that asks whether a target is back.
        says = totals_sentence(run, totals, measures.get(column, ()), cost if alone else None)
        say(f"{safe_line(names[column])}: {says}")
    if not alone and columns:
        say(f"all {len(columns)} columns: {together}")


_MOST_CLUSTERS = 3
_MOST_COLUMNS = 4
_MOST_LINES = 17


def summary_lines(reader: Reader, run: RunRow, dataset: str, room: int | None) -> list[str]:
    """A summary after a run in at most 20 lines: what changed, what fails, and three commands."""
    # Imported when needed, so that a run does not wait for it.
    from tui_evals.compare.failure_map import read_failure_map
    from tui_evals.present.failure_map import map_lines

    failures = read_failure_map(reader, run, dataset)
    earlier = failures.earlier
    lines = [] if earlier is None else _since_lines(reader, run, earlier)
    lines += [line for line in map_lines(reader, failures, room=room, most=_MOST_CLUSTERS) if line]
    more = f"tui-evals compare {earlier.key} {run.key}" if earlier is not None else "tui-evals ci init --github"
    if failures.clusters:
        commands = [f"tui-evals show {run.key} --only fail", f"tui-evals rerun {run.key} --only '!pass'", more]
    else:
        commands = [f"tui-evals show {run.key}", "tui-evals baseline export -o evals/baseline.json", more]
    shown = lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], "…"]
    return [*shown, *(f"{word:<6}{command}" for word, command in zip(("next:", "", ""), commands, strict=True))]


def _since_lines(reader: Reader, run: RunRow, earlier: RunRow) -> list[str]:
    """How many answers passed in the earlier run, for each column that it has."""
    names, before = line_names(run), reader.totals_by(earlier.id, "column")
    known = {name: before[column] for column, name in line_names(earlier).items() if column in before}
    lines = []
    for column, now in reader.totals_by(run.id, "column").items():
        was = known.get(names[column])
        if was is not None and was.passed + was.failed and now.passed + now.failed:
            lines.append(
                f"{safe_line(names[column])}: {now.passed:,} of {now.passed + now.failed:,} pass, "
                f"{was.passed:,} of {was.passed + was.failed:,} in {safe_line(earlier.name, 40)} ({earlier.key})"
            )
    return lines[:_MOST_COLUMNS]


def baseline_lines(reader: Reader, run: RunRow) -> list[str]:
    """The difference of each column to the baseline, and whether it could be chance; empty without a baseline."""
    # Imported when needed, so that a run does not wait for it.
    from tui_evals.compare.baseline import BaselineComparison
    from tui_evals.present.comparisons import baseline_phrases

    against = BaselineComparison(project_root(Path.cwd())).measure(reader, run)
    if against is None:
        return []
    name = safe_line(against.baseline.name, 40)
    names = line_names(run)
    return [f"{names[column]}: {baseline_phrases(test, name)[0]}" for column, test in against.columns.items()]
