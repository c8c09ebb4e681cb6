"""A run in two lines: how far it is, how fast it goes, what came of it, what it cost; a third for a stop or a wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tui_evals.compare.statistics import wilson
from tui_evals.present.causes import cause_line
from tui_evals.present.columns import cell_width
from tui_evals.present.figures import duration
from tui_evals.present.pace import pace_parts, wait_sentence
from tui_evals.present.runs import (
    judging_sentence,
    overshoot_sentence,
    rejudged_sentence,
    run_cost,
    run_duration,
    stop_reason,
)
from tui_evals.present.status import FINAL, final_count, rateless, run_look, status_counts
from tui_evals.store.records import AnswerRow, AnswerStatus, FailureCause, RunRow, Totals
from tui_evals.tui.rows import Piece, Row, fit, row, tone_style

_STUCK = 30.0
_AFTER_ERRORS: tuple[AnswerStatus, ...] = ("partial", "unjudged", "scored", "answered", "running", "pending")


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
        for answer in rows:
            if answer.status in FINAL and answer.seq > self._seq:
                self._later[answer.id] = answer
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
            unjudged=counted_totals.unjudged + counts["unjudged"],
            scored=counted_totals.scored + counts["scored"],
            cost=counted_totals.cost + sum(row.cost or 0.0 for row in paid),
            unpriced=counted_totals.unpriced
            + sum(row.cost is None and not row.code and not row.scripted for row in paid),
        )


def totals_rows(
    run: RunRow,
    totals: Totals | None,
    rate: float | None,
    now: float,
    width: int,
    measures: Sequence[str] = (),
    causes: Sequence[FailureCause] = (),
) -> list[Row]:
    """The two lines, with as much of each as fits, then why answers are missing, why it stopped or waits, and gates.

    The `measures` stand in the place of the pass rate where nothing can fail.
    """
    look = run_look(run)
    took = run_duration(run)
    state = Piece(f"{look.text} in {took}" if took else look.text, tone_style(look.tone))
    waits = wait_sentence(run, now)
    first = [[state], *([] if waits else _stuck(run, now))]
    second: list[list[Piece]] = []
    if totals is None:
        first.append([Piece(f"{run.total:,} answers", "dim")])
    else:
        first += _progress(run, totals, None if waits else rate, width)
        second += [*_counts(totals), *([Piece(measure, "strong")] for measure in measures), *_money(run, totals)]
    name = fit(run.name, min(24, max(width // 4, 6)), "strong")
    first.append([Piece(name.text.rstrip(), "strong"), Piece(f" {run.key}", "dim")])
    reason = stop_reason(run)
    stopped = [row(fit(f"stopped: {reason}", width, "error"))] if reason else []
    stopped += [row(fit(waits, width, "warn"))] if waits else []
    judging = "" if reason else judging_sentence(run)
    stopped += [row(fit(f"{judging}; the earlier scores count until it is whole", width, "warn"))] if judging else []
    edited = rejudged_sentence(run)
    stopped += [row(fit(edited, width, "warn"))] if edited else []
    met = run.verdict.startswith("met")
    verdict = [row(fit(f"gates {run.verdict}", width, "" if met else "error"))] if run.verdict else []
    missing = [row(fit(cause_line(causes), width, "error"))] if causes else []
    return [join_fitting(first, width), join_fitting(second, width), *missing, *stopped, *verdict]


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
    if run.status == "running":
        groups += [[Piece(part)] for part in pace_parts(rate, totals.total - ready)]
    return groups


def _counts(totals: Totals) -> Iterable[list[Piece]]:
    judged = totals.passed + totals.failed
    # Of what there is no room for, answers that nobody could judge are missed least.
    for one in sorted(status_counts(totals), key=lambda one: one.status in _AFTER_ERRORS):
        if one.count or (one.status in ("pass", "fail") and not rateless(totals)):
            yield [Piece(f"{one.short} {one.status}", tone_style(one.look.tone) if one.count else "dim")]
        if one.status == "fail" and (interval := wilson(totals.passed, judged)) is not None:
            share = 100 * totals.passed / judged
            ends = f" ({100 * interval.low:.0f}–{100 * interval.high:.0f})"
            yield [Piece(f"{share:.1f} % pass", "strong"), Piece(ends)]


def _money(run: RunRow, totals: Totals) -> Iterable[list[Piece]]:
    cost = run_cost(totals)
    yield [Piece(cost.text, "warn" if cost.unpriced else "")]
    if over := overshoot_sentence(run, totals):
        yield [Piece(over, "warn")]
    if cost.judge_text:
        yield [Piece(cost.judge_text, "dim")]


def join_fitting(groups: Iterable[Sequence[Piece]], width: int) -> Row:
    """The groups one after another: the first, and of the others those that fit whole."""
    pieces: list[Piece] = []
    used = 0
    for group in groups:
        text = "".join(piece.text for piece in group)
        size = cell_width(text) + (2 if pieces else 0)
        if pieces and used + size > width:
            continue
        if pieces:
            pieces.append(Piece("  "))
        pieces += group
        used += size
    return Row(tuple(pieces))
