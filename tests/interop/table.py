"""The counts of every door whose verdicts were compared with those of the real package.

`python -m tests.interop.table` prints the table, out of what is recorded beside the tests; it stands in
tui_evals/help/formats.md too, where a test compares it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.interop.evals_compare import compared as evals_compared
from tests.interop.promptfoo_set import compared, recorded
from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.registry import built_in
from tui_evals.imports.bench import read as read_bench

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "tui_evals" / "help" / "formats.md"
_HEADS = ("door", "files", "rows", "verdicts", "equal", "different", "changed", "left out")
_ROWS = re.compile(r"(?P<eval>\S+): (?P<rows>\d+) rows, ")
_FOLDER = "colours-parts.dev.v0"  # the package numbers the samples of a folder as the file system lists its files


@dataclass(slots=True)
class Counts:
    """What was compared at one door; a verdict is equal, different, changed or left out."""

    door: str
    files: int = 0
    rows: int = 0
    verdicts: int = 0
    different: int = 0
    changed: int = 0
    left_out: int = 0

    def cells(self) -> tuple[str, ...]:
        """The counts as a row of the table."""
        equal = self.verdicts - self.different - self.changed - self.left_out
        numbers = (self.files, self.rows, self.verdicts, equal, self.different, self.changed, self.left_out)
        return (self.door, *(f"{number:,}" for number in numbers))


def promptfoo() -> Counts:
    """Every assertion of every recorded configuration."""
    counts = Counts("promptfoo, configurations")
    for file in recorded():
        found = compared(file)
        counts.files += 1
        counts.rows += found.rows
        counts.verdicts += found.asserted
        counts.different += len(found.different)
        counts.changed += found.changed
        counts.left_out += found.left_out
    return counts


def openai_evals() -> Counts:
    """The rows of every eval that the package could run."""
    place = TESTS / "imports" / "registries"
    counts = Counts("OpenAI Evals, evals")
    real = json.loads((place / "example.json").read_text(encoding="utf-8"))
    said = [line for line in evals_compared(place / "example", real) if _FOLDER not in line]
    for match in filter(None, map(_ROWS.match, said)):
        counts.files += 1
        counts.rows += int(match["rows"])
    counts.verdicts = counts.rows
    counts.different = sum(line.startswith("DIFFERS") for line in said)
    return counts


def arthur_bench() -> Counts:
    """The scores of every recorded run."""
    counts = Counts("Arthur Bench, runs")
    for run in read_bench(TESTS / "imports" / "recordings" / "bench_runs")[1]:
        ((name, options),) = run.document["default_evaluators"].items()
        counts.files += 1
        for one in run.answers:
            counts.rows += 1
            counts.verdicts += 1
            kind = built_in().get(name)
            if kind is None:
                counts.left_out += 1
                continue
            item = run.document["items"][one.item]
            given = Evidence(
                prompt=item["prompt"], response=one.answer.text or "", expected=item.get("expected_response")
            )
            ours = asyncio.run(evaluate(kind(kind.Options.model_validate(dict(options))), given)).score
            theirs = one.scores[0].score
            counts.different += ours is None or theirs is None or abs(ours - theirs) > 1e-9
    return counts


def lines() -> list[str]:
    """The table, a line for each door."""
    rows = [_HEADS, *(count().cells() for count in (promptfoo, openai_evals, arthur_bench))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_line(row, widths) for row in rows]


def in_page(page: str) -> list[str]:
    """The table as a page of the manual has it."""
    found = [line.strip() for line in page.split("\n")]
    start = next(number for number, line in enumerate(found) if line.startswith(_HEADS[0] + "  "))
    return found[start : start + 4]


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells: Iterator[str] = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join((row[0].ljust(widths[0]), *cells))


if __name__ == "__main__":
    print("\n".join(lines()))
