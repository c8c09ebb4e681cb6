"""The list of runs: a header with the trend of each suite, a row for each run, and a few lines about one of them."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import overload

from tui_evals.compare.statistics import percent
from tui_evals.present.columns import cell_width
from tui_evals.present.runs import run_cost, stop_reason
from tui_evals.present.status import rateless, run_look, short_counts, waiting_count
from tui_evals.store.records import RunRow, Totals
from tui_evals.tui.rows import Piece, Row, Style, fit, look_piece, row, wrapped

from .history import ListedRun, RunList

BASELINE = "⚑ baseline"
"""What stands beside the run that the others of its dataset are measured against."""

_TREND = 12
_STATUS = 14
_AGE = 7
_RATE = 6
_COUNT = 14
_COST = 10
_REASON = 16
"""Cells from which something can be read of why a run stopped."""


def age(seconds: float) -> str:
    """How long ago, in one unit."""
    for limit, size, unit in ((60, 1, "s"), (3_600, 60, "min"), (86_400, 3_600, "h"), (8_640_000, 86_400, "d")):
        if seconds < limit:
            return f"{max(int(seconds // size), 0)} {unit}"
    return f"{int(seconds // 31_557_600)} y" if seconds >= 31_557_600 else f"{int(seconds // 86_400)} d"


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
        self._now = time.time() if now is None else now
        self._entries: list[ListedRun | tuple[str, list[ListedRun]]] = []
        for suite, members in runs_by_suite(runs.listed).items():
            self._entries += [(suite, members), *members]
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
            return run_line(entry, self._width, entry.run.id == self._shown, entry.run.id in self._marks, self._now)
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


def run_line(listed: ListedRun, width: int, shown: bool, marked: bool, now: float) -> Row:
    """One run: as many of its facts as fit, the most important ones first."""
    run = listed.run
    mark: Style = "mark"
    pieces = [Piece("▪" if marked else " ", mark), Piece("›" if shown else " ", "accent")]
    tail = [look_piece(run_look(run), _STATUS), _rate_piece(listed)]
    left = width - 2 - _AGE - _STATUS - _RATE
    if left >= 16 + _COUNT:
        tail.append(fit(_counts(listed.totals), _COUNT, "dim"))
        left -= _COUNT
    if left >= 16 + _COST:
        tail.append(fit(_cost(listed.totals), _COST))
        left -= _COST
    more, reason = _tags_and_targets(run), stop_reason(run)
    name = min(max(left // 2, 24), left) if (more or reason) and left >= 30 else left
    room = left - name
    if reason and room >= _REASON:
        wide = min(cell_width(reason) + 2, room if not more else max(room - cell_width(more), room // 2))
        tail += [fit(reason, wide - 2, "error"), Piece("  ")]
        room -= wide
    tail.append(fit(more, room, "dim"))
    return Row((*pieces, fit(age(now - run.created), _AGE, "dim"), *_name(listed, name), *tail), run.id)


def _name(listed: ListedRun, width: int) -> tuple[Piece, Piece]:
    run, baseline = listed.run, BASELINE if width >= 2 * len(BASELINE) else BASELINE[0]
    signs = ("↳" if run.parent is not None else "") + ("✎" if run.note else "") + (baseline if listed.baseline else "")
    room = max(width - len(signs) - 1, 0)
    return fit(run.name, room, "strong" if run.status != "finished" else ""), fit(signs, width - room, "accent")


def _rate_piece(listed: ListedRun) -> Piece:
    if listed.totals is None:
        return fit("…", _RATE, "dim")
    style: Style = "dim" if listed.rate is None else "pass" if listed.rate == 1 else "fail" if listed.rate < 0.5 else ""
    return fit("–" if listed.rate is None else percent(listed.rate, 0), _RATE, style)


def _cost(totals: Totals | None) -> str:
    return "…" if totals is None else run_cost(totals).short


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
    if listed.baseline:
        rows.append(row(fit(f"{BASELINE} of {listed.dataset}", width, "accent")))
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
