"""What a kind of report is: the endings that stand for it, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

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
