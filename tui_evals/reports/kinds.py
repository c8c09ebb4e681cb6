"""The one table of what can be written of a run, or of runs compared, and of the file endings that stand for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_evals.store.reader import Reader
    from tui_evals.store.records import RunRow

Writer = Callable[["Reader", Sequence["RunRow"], bool], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of report; the first of its endings is the one its files get."""

    endings: tuple[str, ...]
    write: Writer


def _html(reader: Reader, runs: Sequence[RunRow], raw: bool) -> str:
    from .html import page

    return page(reader, runs)


def _markdown(reader: Reader, runs: Sequence[RunRow], raw: bool) -> str:
    from .markdown import summary

    return summary(reader, runs)


def _junit(reader: Reader, runs: Sequence[RunRow], raw: bool) -> str:
    from .junit import suites

    return suites(reader, runs)


def _csv(reader: Reader, runs: Sequence[RunRow], raw: bool) -> str:
    from . import comparison, results

    if len(runs) > 1:
        return comparison.table(reader, runs, raw=raw)
    return results.table(reader, runs[0], raw=raw)


def _json(reader: Reader, runs: Sequence[RunRow], raw: bool) -> str:
    from . import comparison, results

    return comparison.json_text(reader, runs) if len(runs) > 1 else results.json_text(reader, runs[0])


def _json_lines(reader: Reader, runs: Sequence[RunRow], raw: bool) -> str:
    from . import comparison, results

    return "".join(comparison.json_lines(reader, runs) if len(runs) > 1 else results.json_lines(reader, runs[0]))


def _oaieval_log(reader: Reader, runs: Sequence[RunRow], raw: bool) -> str:
    from . import oaieval as oaieval_log

    return "".join(oaieval_log.text(reader, run) for run in runs)


KINDS: Mapping[str, Kind] = {
    "html": Kind((".html", ".htm"), _html),
    "md": Kind((".md",), _markdown),
    "junit": Kind((".xml",), _junit),
    "csv": Kind((".csv",), _csv),
    "json": Kind((".json",), _json),
    "jsonl": Kind((".jsonl",), _json_lines),
    "oaieval-log": Kind((".log",), _oaieval_log),
}
_BY_ENDING = {ending: name for name, kind in KINDS.items() for ending in kind.endings}
ENDINGS = ", ".join(_BY_ENDING)
"""Every ending, for sentences."""


def kind_of(file: Path) -> str | None:
    """The kind that the ending of a file stands for."""
    return _BY_ENDING.get(file.suffix.lower())


def write(kind: str, reader: Reader, runs: Sequence[RunRow], *, raw: bool = False) -> str:
    """The report as text that is UTF-8; `raw` leaves formulas in CSV as they are."""
    text = KINDS[kind].write(reader, runs, raw)
    # Half a surrogate pair becomes its escape, which is what JSON calls it too.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
