"""A run in two lines: how far it is, how fast it goes, what came of it, what it cost."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.cells import cell_len

from tui_evals.compare.statistics import wilson
from tui_evals.present.figures import duration, money
from tui_evals.store.records import AnswerRow, AnswerStatus, RunRow, Totals
from tui_evals.tui.rows import GLYPHS, Piece, Row, Style, fit

LIVE = frozenset(("planned", "running", "paused", "stopping"))
FINAL = frozenset(("pass", "fail", "partial", "error"))
_OVER = 10.0
_ENOUGH = 5
_STUCK = 30.0
_RUN_GLYPHS: dict[str, tuple[str, Style]] = {
    "planned": ("·", "dim"),
    "running": ("▸", "running"),
    "paused": ("‖", "warn"),
    "stopping": ("▪", "warn"),
    "interrupted": ("!", "error"),
    "finished": ("✓", "pass"),
}


def final_count(totals: Totals) -> int:
    """How many answers are judged, or will never be."""
    return totals.passed + totals.failed + totals.partial + totals.errored


class Pace:
    """How fast answers become final: over the last ten seconds, or longer where fewer than five came in them."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now: float, count: int) -> None:
        """Remember how many were final by now."""
        seen = self._seen
        if seen and count < seen[-1][1]:
            seen.clear()
        if len(seen) > 1 and seen[-1][1] == count == seen[-2][1]:
            seen.pop()
        seen.append((now, count))
        while len(seen) > 2 and now - seen[1][0] >= _OVER and count - seen[1][1] >= _ENOUGH:
            seen.popleft()

    def rate(self) -> float | None:
        """Answers per second; None until five have come."""
        if len(self._seen) < 2:
            return None
        (first, before), (last, now) = self._seen[0], self._seen[-1]
        return (now - before) / (last - first) if now - before >= _ENOUGH and last > first else None


class LiveTotals:
    """Totals that go on between two counts of the whole run, which take long for a large one."""

    def __init__(self) -> None:
        self._counted: Totals | None = None
        self._seq = 0
        self._later: dict[int, AnswerRow] = {}
        self._exact = False
        self._known: Totals | None = None
        """What they come to together, until something changes."""

    def counted(self, totals: Totals, seq: int, first_pass: bool) -> None:
        """A count that held at a sequence number; only in the first pass does an answer become final but once."""
        self._counted, self._seq, self._exact = totals, seq, not first_pass
        self._later = {key: row for key, row in self._later.items() if row.seq > seq}
        self._known = None

    def note(self, rows: Iterable[AnswerRow]) -> None:
        """Answers that changed."""
        for row in rows:
            if row.status in FINAL and row.seq > self._seq:
                self._later[row.id] = row
                self._known = None

    @property
    def totals(self) -> Totals | None:
        """The run as far as one knows."""
        counted_totals = self._counted
        if counted_totals is None or self._exact or not self._later:
            return counted_totals
        if self._known is None:
            self._known = self._together(counted_totals)
        return self._known

    def _together(self, counted_totals: Totals) -> Totals:
        rows = list(self._later.values())
        counts = Counter(row.status for row in rows)
        left = max(counted_totals.pending + counted_totals.running + counted_totals.answered - len(rows), 0)
        answered = min(counted_totals.answered, left)
        running = min(counted_totals.running, left - answered)
        paid = [row for row in rows if not row.from_cache]
        return replace(
            counted_totals,
            pending=left - answered - running,
            running=running,
            answered=answered,
            passed=counted_totals.passed + counts["pass"],
            failed=counted_totals.failed + counts["fail"],
            partial=counted_totals.partial + counts["partial"],
            errored=counted_totals.errored + counts["error"],
            cost=counted_totals.cost + sum(row.cost or 0.0 for row in paid),
            unpriced=counted_totals.unpriced
            + sum(row.cost is None and not row.code and not row.scripted for row in paid),
        )


def totals_rows(run: RunRow, totals: Totals | None, rate: float | None, now: float, width: int) -> list[Row]:
    """The two lines, with as much of each as fits."""
    first = [_state(run), *_stuck(run, now)]
    second: list[list[Piece]] = []
    if totals is None:
        first.append([Piece(f"{run.total:,} answers", "dim")])
    else:
        first += _progress(run, totals, rate, width)
        second += [*_counts(totals), _money(totals)]
    if run.status == "finished" and run.started is not None and run.finished is not None:
        first.append([Piece(f"took {duration(run.finished - run.started)}")])
    name = fit(run.name, min(24, max(width // 4, 6)), "strong")
    first.append([Piece(name.text.rstrip(), "strong"), Piece(f" {run.key}", "dim")])
    return [join_fitting(first, width), join_fitting(second, width)]


def _state(run: RunRow) -> list[Piece]:
    glyph, style = _RUN_GLYPHS[run.status]
    requested = {"pause": "pausing", "stop": "stopping"}.get(run.control, "") if run.status == "running" else ""
    return [Piece(f"{glyph} {requested or run.status}", style)]


def _stuck(run: RunRow, now: float) -> list[list[Piece]]:
    silent = now - run.heartbeat if run.heartbeat is not None else 0.0
    if run.status != "running" or silent <= _STUCK:
        return []
    return [[Piece(f"stuck? silent for {duration(silent)}", "warn")]]


def _progress(run: RunRow, totals: Totals, rate: float | None, width: int) -> list[list[Piece]]:
    ready = final_count(totals)
    cells = max(5, min(width // 6, 24))
    full = cells * ready // totals.total if totals.total else cells
    groups = [[Piece("▰" * full, "accent"), Piece("▱" * (cells - full), "dim"), Piece(f" {ready:,}/{totals.total:,}")]]
    if rate and run.status == "running":
        groups.append([Piece(f"{rate:.1f}/s")])
        left = totals.total - ready
        groups += [[Piece(f"{duration(left / rate)} left")]] if left else []
    return groups


def _counts(totals: Totals) -> Iterable[list[Piece]]:
    judged = totals.passed + totals.failed
    counts: Sequence[tuple[AnswerStatus, int, bool]] = (
        ("pass", totals.passed, True),
        ("fail", totals.failed, True),
        ("error", totals.errored, False),
        ("partial", totals.partial, False),
        ("answered", totals.answered, False),
        ("running", totals.running, False),
        ("pending", totals.pending, False),
    )
    for status, count, always in counts:
        glyph, style = GLYPHS[status]
        if count or always:
            yield [Piece(f"{glyph} {count:,} {status}", style if count else "dim")]
        if status == "fail" and (interval := wilson(totals.passed, judged)) is not None:
            share = 100 * totals.passed / judged
            yield [
                Piece(f"{share:.1f} % pass", "strong"),
                Piece(f" ({100 * interval.low:.0f}–{100 * interval.high:.0f})"),
            ]


def _money(totals: Totals) -> list[Piece]:
    pieces = [Piece(money(totals.cost))]
    if totals.judge_cost:
        pieces.append(Piece(f" + {money(totals.judge_cost)} judges"))
    if totals.unpriced:
        pieces.append(Piece(f" + {totals.unpriced:,} unpriced", "warn"))
    return pieces


def join_fitting(groups: Iterable[Sequence[Piece]], width: int) -> Row:
    """The groups one after another: the first, and of the others those that fit whole."""
    pieces: list[Piece] = []
    used = 0
    for group in groups:
        text = "".join(piece.text for piece in group)
        size = cell_len(text) + (2 if pieces else 0)
        if pieces and used + size > width:
            continue
        if pieces:
            pieces.append(Piece("  "))
        pieces += group
        used += size
    return Row(tuple(pieces))
