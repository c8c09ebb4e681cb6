"""What stands at the end of a run: why answers are missing, and the result files that commands write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tui_evals.atomic_files import CannotSave, descriptor_of, write_atomically
from tui_evals.cli.output import Stop, say, say_data
from tui_evals.present.causes import cause_texts
from tui_evals.private_files import UnsafeFile, is_private, make_private_folder
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
    if is_output(file):
        say_data(piece for piece in pieces if isinstance(piece, str))
        return
    try:
        if file.parent.exists() and not file.parent.is_dir():
            raise Stop(f"{file} could not be written: {file.parent} is a file, not a folder; the run is kept", 1)
        if is_private(file):
            make_private_folder(file.parent)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, map(_as_bytes, pieces), private=True)
    except UnsafeFile as problem:
        raise Stop(f"{problem}; the run is kept", 1) from None
    except OSError as problem:
        raise Stop(f"{file} could not be written: {problem.strerror}; the run is kept", 1) from None
    except CannotSave as problem:
        raise Stop(f"{problem}; the run is kept", 1) from None


def _as_bytes(piece: str | bytes) -> bytes:
    return piece.encode() if isinstance(piece, str) else piece


def is_output(file: Path) -> bool:
    """Whether a name stands for the standard output, in which no word of ours may follow the data."""
    return file == Path("-") or descriptor_of(file) == 1


def kind_named(file: Path) -> str:
    """The kind of report that the ending of a file names, or the end of the command."""
    kind = kind_of(file)
    if kind is None:
        raise Stop(f"{file}: the ending says what is written, and must be one of {endings()}")
    if why := report_kind(kind).missing():
        raise Stop(f"{file}: {why}")
    return kind
