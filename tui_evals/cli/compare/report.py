"""`tui-evals report --overview`: how far models keep to the rules of their prompt, on the screen or as a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tui_evals.cli import project
from tui_evals.cli.inputs import evaluators
from tui_evals.cli.output import Stop, columns, is_output, say, say_annotation
from tui_evals.cli.project import store_path
from tui_evals.cli.run.ending import kind_named, say_written, write_report, write_results
from tui_evals.cli.runs_named import runs_meant
from tui_evals.compare.runs import MAX_RUNS
from tui_evals.datasets.discover import project_root
from tui_evals.present import columns as layout
from tui_evals.present.columns import cell_width, wrap
from tui_evals.reports.overview import NotFromRules, Overview, csv_text, json_text, naming_columns, read_overview, table
from tui_evals.reports.results import kind_of, report_kind
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line

OVERVIEW_KINDS = ("csv", "json")
ONE_ROW_EACH = ("csv", "jsonl")
"""The kinds of report with one row for each answer, which can be filtered."""
_GAP = 2


def overview(reader: Reader, runs: Sequence[RunRow], kind: str | None, output: Path | None, raw_csv: bool) -> None:
    """Print the table, or write it to a file and say where."""
    on_screen = output is not None and is_output(output)
    if kind is None and output is not None and not on_screen:
        kind = kind_of(output)
        if kind not in OVERVIEW_KINDS:
            raise Stop(f"{output}: an overview is written as .csv or .json; leave -o out to see it here")
    if kind is not None and kind not in OVERVIEW_KINDS:
        raise Stop(f"an overview is written as csv or json, not as {kind}; leave --to out to see it here")
    unjudged = {name for name, kind_of_evaluator in evaluators().by_name.items() if not kind_of_evaluator.judged}
    try:
        table_data = read_overview(reader, runs, unjudged)
    except NotFromRules as problem:
        raise Stop(str(problem)) from None
    if kind is None:
        _say_overview(table_data)
        return
    written = csv_text(table_data, raw=raw_csv) if kind == "csv" else json_text(table_data)
    # Half a surrogate pair becomes its escape, which is what JSON calls it too.
    text = written.encode("utf-8", "backslashreplace").decode()
    name = "-".join(run.key for run in runs) + f"-overview.{kind}"
    file = output or store_path().parent / "results" / name
    write_report(file, [text])
    if not on_screen:
        say(f"wrote {file}", fg="green")


def _say_overview(overview: Overview) -> None:
    """The table with a row for each model; where the terminal is too narrow, with a column for each."""
    room = columns()
    headings, rows = table(overview)
    cells = [[safe_line(text) for text in line] for line in (headings, *rows)]
    if room is None or _width(cells) <= room:
        numeric = range(len(naming_columns(overview)), len(headings))
        _say_table(layout.table(cells, right=numeric, room=None))
    else:
        for part in _beside([list(line) for line in zip(*cells, strict=True)], room):
            _say_table(layout.table(part, right=range(1, len(part[0])), elastic=range(len(part[0])), room=room))
            say()
    for note in overview.notes:
        for line in wrap(note, room):
            say(line, dim=True)


def _width(cells: Sequence[Sequence[str]]) -> int:
    return sum(max(map(cell_width, column)) + _GAP for column in zip(*cells, strict=True)) - _GAP


def _beside(lines: Sequence[Sequence[str]], room: int) -> Iterator[list[list[str]]]:
    """Headings with as many models as there is room for, then with the next ones."""
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


def report(
    words: str,
    *,
    kind: str | None,
    output: Path | None,
    only: str | None,
    raw_csv: bool,
    bare: bool,
    annotations: bool,
    overview: bool,
) -> None:
    """Write the report and say where; with nothing but annotations, print those."""
    where = project.filter_or_stop(only)
    if where is not None and (annotations or overview):
        raise Stop("--only chooses the answers of a csv or jsonl file; leave it out, or the other option")
    if overview:
        _report_overview(words, kind, output, raw_csv, annotations)
        return
    on_screen = output is not None and is_output(output)
    if annotations and on_screen:
        raise Stop("annotations are printed, so the report needs a file: give -o FILE, or leave --annotations out")
    with ExitStack() as stack:
        reader = stack.enter_context(project.reader())
        runs = _report_runs(reader, words)
        if annotations:
            annotate(reader, runs)
            if kind is None and output is None:
                return
        if kind is None:
            kind = "html" if output is None or on_screen else kind_named(output)
        if where is not None:
            if kind not in ONE_ROW_EACH or len(runs) > 1:
                raise Stop("--only chooses the answers of one run for a csv or jsonl file; add --to csv or --to jsonl")
            reader = stack.enter_context(reader.only(where))
        name = "-".join(run.key for run in runs) + report_kind(kind).endings[0]
        file = output or project.store_path().parent / "results" / name
        whole = write_results(reader, runs, file, kind, raw_csv, bare=bare or len(runs) > 1)
    say_written(file, whole)


def _report_overview(words: str, kind: str | None, output: Path | None, raw_csv: bool, annotations: bool) -> None:

    if annotations:
        raise Stop("annotations say what failed in a run, an overview counts it; leave one of the two options out")
    with project.reader() as reader:
        overview(reader, _report_runs(reader, words, None), kind, output, raw_csv)


def _report_runs(reader: Reader, words: str, most: int | None = MAX_RUNS) -> list[RunRow]:
    """The runs in a list of names with commas between them."""
    names = [word.strip() for word in words.split(",") if word.strip()]
    if not names or (most is not None and len(names) > most):
        several = "several" if most is None else f"up to {most}"
        raise Stop(f"name one run, or {several} with commas between them: `tui-evals report A,B`")
    runs = runs_meant(reader, names)
    if len({run.id for run in runs}) < len(runs):
        raise Stop(f"{words} names the same run twice; compare a run with another one")
    return runs


def annotate(reader: Reader, runs: Sequence[RunRow]) -> None:
    """Print what failed, or broke, as annotations of GitHub."""
    from tui_evals.reports.junit import commands

    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    for line in commands(reader, runs, project_root(Path.cwd()), workspace):
        say_annotation(line)
