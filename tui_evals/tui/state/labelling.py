"""What labelling blind reads and writes, away from the screen: the sample, one answer, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.compare.agreeing import Told, verdicts
from tui_evals.compare.blind import Part, Sample, draw, sheet
from tui_evals.compare.labels import standings
from tui_evals.store.reader import Reader


@dataclass(frozen=True, slots=True)
class Drawn:
    """The answers that somebody labels, and the items that were asked."""

    sample: Sample
    items: Sequence[Mapping[str, Any]]


def read_sample(database: Path, run: int, size: int, author: str) -> Drawn:
    """Draw a sample, the one that the command line draws; LookupError if the run is gone."""
    with Reader(database) as reader:
        digest = reader.run(run).snapshot
        items = reader.snapshot(digest).get("items", ()) if digest else ()
        return Drawn(draw(reader, run, size, author=author), items)


def read_sheet(database: Path, drawn: Drawn, answer: int) -> tuple[Part, ...]:
    """What is read of one answer; LookupError if it is gone."""
    with Reader(database) as reader:
        return sheet(reader, drawn.items, answer)


def read_agreement(database: Path, run: int) -> list[Told]:
    """How far the evaluators agree with what people said; LookupError if the run is gone."""
    with Reader(database) as reader:
        row = reader.run(run)
        return list(verdicts(standings(reader, row), row.key))
