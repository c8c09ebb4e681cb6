"""The one table of what can be written of a run, or of runs compared, and of the file endings that stand for it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui_evals.plugins import Plugins, installed, installed_named, offered

if TYPE_CHECKING:
    from tui_evals.store.reader import Reader
    from tui_evals.store.records import RunRow

    from .base import ReportKind

GROUP = "tui_evals.reports"
_BUILT_IN = {
    "html": "html",
    "md": "markdown",
    "junit": "junit",
    "csv": "comparison",
    "json": "comparison",
    "jsonl": "comparison",
    "parquet": "parquet",
    "oaieval-log": "oaieval",
    "inspect": "inspect_log",
}
"""The module that declares each kind; it is imported when that kind is wanted, for some of them take their time."""


def names() -> list[str]:
    """The names of all kinds; those of installed packages may still turn out to be unusable."""
    return list(dict.fromkeys((*_BUILT_IN, *(point.name for point in offered(GROUP)))))


def report_kind(name: str) -> ReportKind:
    """The kind of a name; UnusablePlugin where an installed package cannot be used, LookupError where there is none."""
    from .base import ReportKind

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
    return _pieces([made] if isinstance(made, str) else made)


def _pieces(made: Iterable[str] | Iterable[bytes]) -> Iterator[str | bytes]:
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
    from .base import ReportKind

    return installed(GROUP, ReportKind, "report", _BUILT_IN)
