"""`tui-evals convert`: a dataset written as a file of another format."""

from __future__ import annotations

from pathlib import Path

from tui_evals.cli import inputs
from tui_evals.cli.output import Stop, say, warn
from tui_evals.cli.output_files import is_output, write_file
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.prompts import prompt_of
from tui_evals.datasets.validate import dataset_of
from tui_evals.imports.convert import converted


def convert_file(file: Path, kind: str, output: Path | None, raw_csv: bool) -> None:
    """Write a dataset as another format, to a new file or to standard output."""
    source = inputs.read(file)
    try:
        registry = inputs.evaluators(prompt=prompt_of(source))
        dataset_of(source, registry.catalogue, registry.own)
        text, lost = converted(source, kind, registry.own, raw_csv=raw_csv)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    file = output or Path("-")
    write_file(file, [text], new=True)
    if not is_output(file):
        say(f"wrote {file}", fg="green")
    for line in lost:
        warn(f"note: {line}")
