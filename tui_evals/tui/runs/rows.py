"""The list of runs: a header with the trend of each suite, a row for each run, and a few lines about one of them."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import overload

from tui_evals.compare.statistics import percent
from tui_evals.present.columns import GAP, Column, Names, cell_width, fit_columns, names_of
from tui_evals.present.figures import age
from tui_evals.present.runs import change_lines, progress, run_cost, stop_reason
from tui_evals.present.status import rateless, run_look, short_counts, waiting_count
from tui_evals.store.records import RunRow, Totals
from tui_evals.text.safe import safe_line
from tui_evals.tui.rows import Piece, Row, Style, fit, row, tone_style, wrapped

from .history import ListedRun, RunList

BASELINE = "⚑ baseline"
"""What stands beside the run that the others of its dataset are measured against."""

TREND = "trend"
"""The key of the line that opens how the runs of the dataset did."""

_TREND = 12
_REASON = 16
"""Cells from which something can be read of why a run stopped."""
_MARKS = 2
_MOST = 200
"""Cells beyond which nobody measures."""


def runs_by_suite(listed: Sequence[ListedRun]) -> dict[str, list[ListedRun]]:
    """The runs of each suite, the suite with the latest run first."""
    by_suite: dict[str, list[ListedRun]] = {}
    for one in listed:
        by_suite.setdefault(one.suite, []).append(one)
    return by_suite


class RunRows(Sequence[Row]):
    """The list; each row is made when it comes into view."""

    def __init__(
        self, runs: RunList, width: int, shown: int | None, marks: Sequence[int], now: float | None = None
    ) -> None:
        self._width = width
        self._shown = shown
        self._marks = marks
        self._entries: list[ListedRun | tuple[str, list[ListedRun]]] = []
        for suite, members in runs_by_suite(runs.listed).items():
            self._entries += [(suite, members), *members]
        self._columns = run_columns(runs.listed, width, time.time() if now is None else now)
        self._numbers = {one.run.id: number for number, one in enumerate(self._entries) if isinstance(one, ListedRun)}
        self._last = (row(("  earlier runs come when you go on", "dim")),) if runs.more else ()

    def __len__(self) -> int:
        return len(self._entries) + len(self._last)

    @overload
    def __getitem__(self, number: int) -> Row: ...
    @overload
    def __getitem__(self, number: slice) -> list[Row]: ...
    def __getitem__(self, number: int | slice) -> Row | list[Row]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if number >= len(self._entries):
            return self._last[number - len(self._entries)]
        entry = self._entries[number]
        if isinstance(entry, ListedRun):
            shown, marked = entry.run.id == self._shown, entry.run.id in self._marks
            return run_line(entry, self._columns, shown, marked)
        return suite_line(*entry, self._width)

    def find(self, key: Hashable) -> int | None:
        """The row of a run."""
        return self._numbers.get(key) if isinstance(key, int) else None


def suite_line(name: str, runs: Sequence[ListedRun], width: int) -> Row:
    """The header of a suite: its name and how its last finished runs went, the oldest left, baselines flagged."""
    # Imported when it is wanted, because it would hold up every first picture.
    from tui_evals.compare.trend import draw_bars

    finished = [one for one in runs if one.run.status == "finished" and one.rate is not None]
    line = "".join(BASELINE[0] * one.baseline + draw_bars([one.rate]) for one in reversed(finished[:_TREND]))
    room = max(width - len(line) - 2, 1)
    return row(fit(name, room, "title"), " ", (line, "accent"), " ", ground="title")


@dataclass(frozen=True, slots=True)
class RunColumns:
    """The columns of some runs, how their names are written, and when that is."""

    columns: Sequence[Column]
    names: Names
    now: float


def run_columns(runs: Sequence[ListedRun], width: int, now: float) -> RunColumns:
    """What of each run is told in a width, the columns as wide as what stands in them."""
    told, names = [run_cells(one, now) for one in runs], names_of(one.run.name for one in runs)

    def column(by: str, importance: int, least: int | None = None, *, rest: bool = False) -> Column:
        wanted = max((cell_width(safe_line(cells[by].text, _MOST)) for cells in told), default=0)
        return Column(by, "", wanted, importance, least, right=by in ("rate", "cost"), rest=rest)

    columns = (
        column("age", 98),
        column("key", 95),
        Column("name", "", names.wanted, 99, 14),
        column("signs", 97, 3),
        column("status", 100),
        column("rate", 96),
        column("counts", 90),
        column("cost", 89),
        column("reason", 87, _REASON),
        column("more", 88, 6, rest=True),
    )
    return RunColumns(fit_columns(columns, width - _MARKS), names, now)


def run_cells(listed: ListedRun, now: float) -> dict[str, Piece]:
    """What there is to tell of a run, but for its name, by the column it stands in."""
    run, totals, look = listed.run, listed.totals, run_look(listed.run)
    return {
        "age": Piece(age(now - run.created), "dim"),
        "key": Piece(run.key, "dim"),
        "signs": Piece(_signs(listed) + (BASELINE if listed.baseline else ""), "accent"),
        "status": Piece(f"{look.text} {progress(run, totals)}".rstrip(), tone_style(look.tone)),
        "rate": _rate_piece(listed),
        "counts": Piece(_counts(totals), "dim"),
        "cost": Piece("…" if totals is None else run_cost(totals).short),
        "reason": Piece(stop_reason(run), "error"),
        "more": Piece(_tags_and_targets(run), "dim"),
    }


def run_line(listed: ListedRun, shape: RunColumns, shown: bool, marked: bool) -> Row:
    """One run in these columns."""
    cells = run_cells(listed, shape.now)
    pieces = [Piece("▪" if marked else " ", "mark"), Piece("›" if shown else " ", "accent")]
    for number, column in enumerate(shape.columns):
        pieces += [Piece(" " * GAP)] * bool(number)
        if column.by == "name":
            name = shape.names.fit(listed.run.name, column.width)
            pieces.append(Piece(name, "strong" if listed.run.status != "finished" else ""))
            continue
        text, style = cells[column.by]
        if column.by == "signs" and listed.baseline and cell_width(text) > column.width:
            text = text.replace(BASELINE, BASELINE[0])
        pieces.append(fit(text, column.width, style, right=column.right))
    return Row(tuple(pieces), listed.run.id)


def _signs(listed: ListedRun) -> str:
    return ("↳" if listed.run.parent is not None else "") + ("✎" if listed.run.note else "")


def _rate_piece(listed: ListedRun) -> Piece:
    """The share that passed; of a run that goes on its progress is told instead, for its rate may still be anything."""
    if listed.totals is None:
        return Piece("…", "dim")
    if listed.live:
        return Piece("")
    style: Style = "dim" if listed.rate is None else "pass" if listed.rate == 1 else "fail" if listed.rate < 0.5 else ""
    return Piece("–" if listed.rate is None else percent(listed.rate, 0), style)


def _counts(totals: Totals | None) -> str:
    """How many of all answers passed, or how many are there yet."""
    if totals is None:
        return ""
    waiting = waiting_count(totals)
    if rateless(totals):
        return short_counts(totals)
    return f"({totals.total - waiting}/{totals.total})" if waiting else f"({totals.passed}/{totals.total})"


def _tags_and_targets(run: RunRow) -> str:
    return " ".join([*(f"#{tag}" for tag in run.tags), " · ".join(run.targets)])


def about_lines(listed: ListedRun | None, parent: str, width: int) -> list[Row]:
    """The run under the cursor in full: what does not fit into its row."""
    if listed is None:
        return []
    run, totals = listed.run, listed.totals
    facts = [run.key, " · ".join(run.targets)]
    facts += ["…"] if totals is None else [short_counts(totals), run_cost(totals).text]
    rows = [row(fit(run.name, width, "strong")), *(row((line, "dim")) for line in wrapped(" · ".join(facts), width))]
    if reason := stop_reason(run):
        rows += [row((line, "error")) for line in wrapped(f"! {reason.rstrip('.')}; p lets it go on", width)]
    rows += [row((line, "dim")) for change in change_lines(run) for line in wrapped(change, width)]
    if listed.baseline:
        rows.append(row(fit(f"{BASELINE} of {listed.dataset}", width, "accent"), key=TREND))
    elif listed.dataset:
        rows.append(row(fit(f"trend of {listed.dataset}", width, "dim"), key=TREND))
    if run.tags or parent:
        tags = " ".join(f"#{tag}" for tag in run.tags)
        rows.append(row((tags, "accent"), f"{'  ' if tags and parent else ''}{f'↳ {parent}' if parent else ''}"))
    if run.note:
        rows += [row(line) for line in wrapped(f"✎ {run.note}", width)]
    return rows


def empty_lines(text: str, width: int) -> list[Row]:
    """What belongs here, and the key that makes one."""
    if text.strip():
        none_fits = f"No run has all of these words: {text}"
        return [row((line, "dim")) for line in wrapped(none_fits, width)] + [row(("esc", "key"), " shows all runs")]
    message = (
        "No runs yet. Each time a dataset is asked, the run and its answers are kept here, wherever it was started."
    )
    return [
        *(row((line, "dim")) for line in wrapped(message, width)),
        row(("r", "key"), " starts one"),
        row(("O", "key"), " imports one from another tool"),
    ]
