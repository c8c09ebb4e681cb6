"""`tui-evals report --overview`: how far models keep to the rules of their prompt, on the screen or as a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tui_evals.reports.kinds import kind_of
from tui_evals.reports.overview import NotFromRules, read_overview
from tui_evals.reports.overview_rows import Overview, csv_text, json_text, named, table
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line

from . import tables
from .finishing import write_report
from .output import Stop, columns, say, say_data
from .project import evaluators, store_path
from .tables import size, wrapped

KINDS = ("csv", "json")
_GAP = 2


def overview(reader: Reader, runs: Sequence[RunRow], kind: str | None, output: Path | None, raw_csv: bool) -> None:
    """Print the table, or write what was asked for and say where."""
    on_screen = output == Path("-")
    if kind is None and output is not None and not on_screen:
        kind = kind_of(output)
        if kind not in KINDS:
            raise Stop(f"{output}: an overview is written as .csv or .json; leave -o out to see it here")
    if kind is not None and kind not in KINDS:
        raise Stop(f"an overview is written as csv or json, not as {kind}; leave --to out to see it here")
    unjudged = {name for name, one in evaluators().by_name.items() if not one.judged}
    try:
        found = read_overview(reader, runs, unjudged)
    except NotFromRules as problem:
        raise Stop(str(problem)) from None
    if kind is None:
        _say(found)
        return
    written = csv_text(found, raw=raw_csv) if kind == "csv" else json_text(found)
    # Half a surrogate pair becomes its escape, which is what JSON calls it too.
    text = written.encode("utf-8", "backslashreplace").decode()
    if on_screen:
        say_data(text)
        return
    name = "-".join(run.key for run in runs) + f"-overview.{kind}"
    file = output or store_path().parent / "results" / name
    write_report(file, lambda: text)
    say(f"wrote {file}", fg="green")


def _say(found: Overview) -> None:
    """The table with a row for each model; where the terminal is too narrow, with a column for each."""
    room = columns()
    headings, rows = table(found)
    cells = [[safe_line(text) for text in line] for line in (headings, *rows)]
    if room is None or _width(cells) <= room:
        numeric = range(len(named(found)), len(headings))
        _say_table(tables.table(cells, right=numeric, room=None))
    else:
        for part in _beside([list(line) for line in zip(*cells, strict=True)], room):
            _say_table(tables.table(part, right=range(1, len(part[0])), elastic=range(len(part[0])), room=room))
            say()
    for note in found.notes:
        for line in wrapped(note, room):
            say(line, dim=True)


def _width(cells: Sequence[Sequence[str]]) -> int:
    return sum(max(map(size, column)) + _GAP for column in zip(*cells, strict=True)) - _GAP


def _beside(lines: Sequence[Sequence[str]], room: int) -> Iterator[list[list[str]]]:
    """Headings with as many models beside them as there is room for, then with the next ones."""
    start, many = 1, len(lines[0])
    while start < many:
        stop = start + 1
        while stop < many and _width([[line[0], *line[start : stop + 1]] for line in lines]) <= room:
            stop += 1
        yield [[line[0], *line[start:stop]] for line in lines]
        start = stop


def _say_table(lines: Sequence[str]) -> None:
    for number, line in enumerate(lines):
        say(line, dim=not number)
