"""`tui-evals report`: a run, or runs compared, as a page to hand on, and as annotations of a pull request."""

from __future__ import annotations

import os
from pathlib import Path

from tui_evals.compare.runs import MOST
from tui_evals.datasets.discover import project_root
from tui_evals.reports.kinds import KINDS, write
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from . import project
from .finishing import kind_named, write_results
from .output import Stop, say, say_data


def report(
    words: str, *, kind: str | None, output: Path | None, raw_csv: bool, annotations: bool, overview: bool
) -> None:
    """Write what was asked for and say where; with nothing but annotations, print those."""
    if overview:
        _overview(words, kind, output, raw_csv, annotations)
        return
    on_screen = output == Path("-")
    if annotations and on_screen:
        raise Stop("annotations are printed, so the report needs a file: give -o FILE, or leave --annotations out")
    with project.reader() as reader:
        runs = _named(reader, words)
        if annotations:
            _annotate(reader, runs)
            if kind is None and output is None:
                return
        if kind is None:
            kind = "html" if output is None or on_screen else kind_named(output)
        if output is not None and on_screen:
            say_data(write(kind, reader, runs, raw=raw_csv))
            return
        name = "-".join(run.key for run in runs) + KINDS[kind].endings[0]
        file = output or project.store_path().parent / "results" / name
        write_results(reader, runs, file, kind, raw_csv)
    say(f"wrote {file}", fg="green")


def _overview(words: str, kind: str | None, output: Path | None, raw_csv: bool, annotations: bool) -> None:
    from .overview import overview

    if annotations:
        raise Stop("annotations say what failed in a run, an overview counts it; leave one of the two options out")
    with project.reader() as reader:
        overview(reader, _named(reader, words, None), kind, output, raw_csv)


def _named(reader: Reader, words: str, most: int | None = MOST) -> list[RunRow]:
    """The runs that a person means by names with commas between them."""
    names = [word.strip() for word in words.split(",") if word.strip()]
    if not names or (most is not None and len(names) > most):
        several = "several" if most is None else f"up to {most}"
        raise Stop(f"name one run, or {several} with commas between them: `tui-evals report A,B`")
    runs = project.runs_meant(reader, names)
    if len({run.id for run in runs}) < len(runs):
        raise Stop(f"{words} names the same run twice; compare a run with another one")
    return runs


def _annotate(reader: Reader, runs: list[RunRow]) -> None:
    from tui_evals.reports.annotations import commands

    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    for line in commands(reader, runs, project_root(Path.cwd()), workspace):
        say(line)
