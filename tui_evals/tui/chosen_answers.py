"""The answers that an action applies to together: those of marked items, else those the filter shows."""

from __future__ import annotations

import shlex
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path

from tui_evals.light_records import dataclass
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.text.measures import counted

_PAGE = 5_000


@dataclass(frozen=True, slots=True)
class ChosenAnswers:
    """Some answers of a run, and which they are in words, such as `the 48 answers the filter shows`."""

    run: RunRow
    ids: array[int]
    items: Mapping[int, str]
    """The names of their items, by position."""
    says: str
    text: str = ""
    """The filter that shows them, where they are not marked."""

    @property
    def words(self) -> list[str]:
        """The command-line options that select the same answers."""
        return ["--only", self.text] if self.text else ["--items", _ranges(self.items)]

    @property
    def commands(self) -> dict[str, str]:
        """The commands that list and export the answers, if a filter selects them."""
        only = f"--only {shlex.quote(self.text)}"
        if not self.text:
            return {}
        return {
            "command that lists them": f"tui-evals show {self.run.key} {only}",
            "command that exports them": f"tui-evals export {self.run.key} --to csv {only}",
        }


def chosen_answers(
    database: Path, run: RunRow, marks: frozenset[int], text: str, shown: array[int] | None
) -> ChosenAnswers | None:
    """The answers of the marked items, otherwise the filtered ones; None if nothing is marked or filtered."""
    if not marks and (not text or shown is None):
        return None
    with Reader(database) as reader:
        if marks:
            rows = reader.answers_to(run.id, marks)
            says = f"the {counted(len(rows), 'answer')} to {counted(len(marks), 'marked item')}"
            return ChosenAnswers(run, array("q", [row.id for row in rows]), _names(rows), says)
        assert shown is not None
        return ChosenAnswers(
            run, shown, items_of(reader, shown), f"the {counted(len(shown), 'answer')} the filter shows", text
        )


def items_shown(database: Path, run: RunRow, shown: array[int] | None) -> dict[int, str]:
    """The names of the items of `shown` answers by position; of all items of the run if it is None."""
    with Reader(database) as reader:
        return _names(reader.all_rows(run.id)) if shown is None else items_of(reader, shown)


def items_of(reader: Reader, ids: array[int]) -> dict[int, str]:
    """The names of the items of some answers, by position."""
    pages = (reader.rows(ids[start : start + _PAGE]) for start in range(0, len(ids), _PAGE))
    return _names(row for page in pages for row in page)


def _names(rows: Iterable[AnswerRow]) -> dict[int, str]:
    return {row.item: row.name for row in rows}


def _ranges(items: Iterable[int]) -> str:
    """Positions from 1 as `--items` has them: 1,4-9."""
    parts: list[list[int]] = []
    for number in sorted(item + 1 for item in items):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(start) if start == stop else f"{start}-{stop}" for start, stop in parts)
