"""What stands at the end of a run: why answers are missing, and the result files that commands write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tui_evals.cli.output import Stop, say
from tui_evals.cli.output_files import is_output, write_file
from tui_evals.present.causes import cause_texts
from tui_evals.reports.kinds import endings, kind_of, report_kind, write
from tui_evals.store.reader import Reader
from tui_evals.store.records import FailureCause, RunRow


def say_causes(run: RunRow, causes: Sequence[FailureCause], most: int | None = None) -> None:
    """Print each cause with what lists its answers, and its remedy below."""
    for told in cause_texts(run, causes)[:most]:
        say(f"{told.text} – `{told.command}`")
        say(f"    {told.remedy}", dim=True)
    if most is not None and len(causes) > most:
        say(f"and {len(causes) - most} more causes; `tui-evals show {run.key}` lists all")


def write_results(
    reader: Reader, runs: Sequence[RunRow], file: Path, kind: str | None = None, raw: bool = False
) -> None:
    """Write a run, or runs compared, as a report of the given kind or of the file's ending."""
    kind = kind or kind_named(file)
    if why := report_kind(kind).missing():
        raise Stop(why)
    if is_output(file) and not report_kind(kind).is_text:
        raise Stop(f"a {kind} report is no text that could be printed; name a file with -o FILE")
    write_report(file, write(kind, reader, runs, raw=raw))


def write_report(file: Path, pieces: Iterable[str | bytes]) -> None:
    """Write a report piece by piece to a file in a folder that need not be there, or end the command.

    Answers are as private in it as in the store: a new file is its owner's alone, one that is there keeps its mode.
    """
    write_file(file, pieces, private=True, after="; -o names another place, the run is kept")


def kind_named(file: Path) -> str:
    """The kind of report that the ending of a file names, or the end of the command."""
    kind = kind_of(file)
    if kind is None:
        raise Stop(f"{file}: the ending says what is written, and must be one of {endings()}")
    if why := report_kind(kind).missing():
        raise Stop(f"{file}: {why}")
    return kind
