"""The one table of what can be written of a run, or of runs compared, and of the file endings that stand for it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tui_evals.light_records import dataclass
from tui_evals.plugins import Plugins, installed, installed_named, offered
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

Write = Callable[[Reader, Sequence[RunRow], bool], str | Iterable[str] | Iterable[bytes]]
"""A report of one run or of several compared: piece by piece, so that no run is too large for it, or as one text.

Where it is a table, True leaves formulas as they are.
"""


@dataclass(frozen=True, slots=True)
class ReportKind:
    """A kind of report, which the module that writes it declares under its name in `KINDS`.

    An installed package adds one through the entry-point group `tui_evals.reports`, under the name of the kind. The
    first of its endings is the one its files get.
    """

    endings: tuple[str, ...]
    write: Write
    missing: Callable[[], str | None] = lambda: None
    """Why it cannot be written on this machine, and what mends that; None where it can."""
    is_text: bool = True
    """Whether it can be shown, and not only be written into a file."""
    has_companion: bool = False
    """Whether an importer reads it, so that a file next to it keeps what it has no place for."""
    about: str = ""
    """What it is for, in a few words."""


GROUP = "tui_evals.reports"
_BUILT_IN = {
    "html": "page",
    "md": "markdown",
    "junit": "junit",
    "csv": "comparison",
    "json": "comparison",
    "jsonl": "comparison",
    "parquet": "comparison",
    "oaieval-log": "oaieval",
    "inspect": "inspect_log",
}
"""The module that declares each kind; it is imported when that kind is wanted, for some of them take their time."""


def names() -> list[str]:
    """The names of all kinds; those of installed packages may still turn out to be unusable."""
    return list(dict.fromkeys((*_BUILT_IN, *(point.name for point in offered(GROUP)))))


def report_kind(name: str) -> ReportKind:
    """The kind of a name; UnusablePlugin where an installed package cannot be used, LookupError where there is none."""
    if name in _BUILT_IN:
        kind: ReportKind = importlib.import_module(f".{_BUILT_IN[name]}", __package__).KINDS[name]
        return kind
    added = installed_named(GROUP, name, ReportKind, "report")
    if added is None:
        raise LookupError(f"there is no kind of report {name}")
    return added


def kind_of(file: Path) -> str | None:
    """The name of the kind that the ending of a file stands for; a built-in one keeps its endings."""
    ending = file.suffix.lower()
    alike = ending.removeprefix(".")
    longer = "".join(file.suffixes[-2:]).lower()
    if longer != ending and (named := next((name for name, kind in _every_kind() if longer in kind.endings), None)):
        return named
    if alike in _BUILT_IN and ending in report_kind(alike).endings:
        return alike
    return next((name for name, kind in _every_kind() if ending in kind.endings), None)


def endings() -> str:
    """Every ending, for sentences, and what keeps an installed package from adding its own."""
    known = dict.fromkeys(ending for _, kind in _every_kind() for ending in kind.endings)
    return "; ".join((", ".join(known), *_added().problems))


_TOGETHER = 2**16
"""Characters that are handed on together, for writers give a piece for each answer."""


def write(name: str, reader: Reader, runs: Sequence[RunRow], *, raw: bool = False) -> Iterator[str | bytes]:
    """The report in pieces, text of which is UTF-8; `raw` leaves formulas in CSV as they are."""
    made = report_kind(name).write(reader, runs, raw)
    return together([made] if isinstance(made, str) else made)


def together(made: Iterable[str] | Iterable[bytes]) -> Iterator[str | bytes]:
    """Small pieces in larger ones, text as UTF-8 can hold it."""
    pieces: list[str] = []
    size = 0
    for piece in made:
        if isinstance(piece, bytes):
            yield piece
            continue
        pieces.append(piece)
        size += len(piece)
        if size >= _TOGETHER:
            yield _as_utf8(pieces)
            pieces, size = [], 0
    if pieces:
        yield _as_utf8(pieces)


def _as_utf8(pieces: Iterable[str]) -> str:
    # Half a surrogate pair becomes its escape, which is what JSON calls it too.
    return "".join(pieces).encode("utf-8", "backslashreplace").decode("utf-8")


def _every_kind() -> Iterator[tuple[str, ReportKind]]:
    yield from ((name, report_kind(name)) for name in _BUILT_IN)
    yield from _added().by_name.items()


def _added() -> Plugins[ReportKind]:
    return installed(GROUP, ReportKind, "report", _BUILT_IN)
