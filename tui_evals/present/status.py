"""The names and looks of statuses, which of them are live or over, and how they are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from tui_evals.light_records import dataclass
from tui_evals.store.records import LIVE_STATUSES, OVER_STATUSES, AnswerStatus, RunRow, RunStatus, Totals

Tone = Literal["", "ok", "bad", "warn", "error", "busy", "dim"]
"""The tones that interfaces map to colors."""


class Look(NamedTuple):
    """A status or kind as every face shows it: glyph, word, and the tone that colours them."""

    glyph: str
    word: str
    tone: Tone

    @property
    def text(self) -> str:
        """Glyph and word."""
        return f"{self.glyph} {self.word}"


LIVE = LIVE_STATUSES
"""Statuses of a run that a process executes."""
OVER = OVER_STATUSES
"""Runs with these statuses make no progress unless they are resumed; `planned` is neither live nor over."""
FINAL: frozenset[AnswerStatus] = frozenset(("pass", "fail", "partial", "error", "unjudged", "scored"))
"""Such an answer changes no more."""
BAD: tuple[AnswerStatus, ...] = ("error", "fail", "partial")
"""Answers to look at, the worst first."""
WORST_FIRST: tuple[AnswerStatus, ...] = (
    *("error", "partial", "fail", "running", "pending", "answered", "unjudged", "pass", "scored"),
)
"""The order that determines the common status of several answers."""

ANSWER_LOOKS: Mapping[AnswerStatus, Look] = {
    "pass": Look("✓", "pass", "ok"),
    "fail": Look("✗", "fail", "bad"),
    "partial": Look("◐", "partial", "warn"),
    "error": Look("!", "error", "error"),
    "unjudged": Look("○", "unjudged", "warn"),
    "scored": Look("–", "scored", "dim"),
    "answered": Look("…", "answered", "busy"),
    "running": Look("▸", "running", "busy"),
    "pending": Look("·", "pending", "dim"),
}
RUN_LOOKS: Mapping[RunStatus, Look] = {
    "planned": Look("·", "planned", "dim"),
    "running": Look("▸", "running", "busy"),
    "paused": Look("‖", "paused", "warn"),
    "stopping": Look("□", "stopping", "warn"),
    "interrupted": Look("!", "interrupted", "error"),
    "finished": Look("■", "finished", ""),
}
_STOPPED = Look("□", "stopped", "warn")
_RESULTS: Mapping[str | None, Look] = {name: ANSWER_LOOKS[name] for name in ("pass", "fail", "error")}
_CONTROLS = {"pause": "pausing", "stop": "stopping"}
_LEFT = "interrupted"
"""The word for answers that are missing because the run has ended."""
_PHRASES: Mapping[AnswerStatus, str] = {
    "partial": "could not be judged",
    "error": "without an answer",
    "answered": "answered, not judged",
    "running": "in flight",
}


def run_look(run: RunRow) -> Look:
    """The status of a run, including a pending order; a run stopped by the user is not an error."""
    if is_stopped_by_person(run):
        return _STOPPED
    look = RUN_LOOKS[run.status]
    word = _CONTROLS.get(run.control, "judging" if run.staged_pass else None) if run.status == "running" else None
    return look if word is None else look._replace(word=word)


def is_stopped_by_person(run: RunRow) -> bool:
    """Whether a run ended early because it was told to."""
    return run.status == "interrupted" and run.code == "asked"


def result_look(result: str | None) -> Look:
    """The verdict of one evaluator."""
    return _RESULTS.get(result) or Look("–", result or "scored", "dim")


def status_phrase(status: AnswerStatus) -> str:
    """The meaning of a status, for a sentence that counts answers."""
    return _PHRASES.get(status, status)


@dataclass(frozen=True, slots=True)
class StatusCount:
    """How many answers have a status."""

    status: AnswerStatus
    count: int
    over: bool = False
    """Whether no process executes the run."""

    @property
    def look(self) -> Look:
        """How the status is shown."""
        return ANSWER_LOOKS[self.status]

    @property
    def phrase(self) -> str:
        """The count in words."""
        left = self.over and self.status == "pending"
        return f"{self.count:,} {_LEFT if left else status_phrase(self.status)}"

    @property
    def short(self) -> str:
        """The count with its glyph alone."""
        return f"{self.look.glyph} {self.count:,}"


def status_counts(totals: Totals, *, over: bool = False) -> tuple[StatusCount, ...]:
    """The number of answers with each status; missing answers and unjudged ones are separate.

    In a run that is over, nothing is in flight, whatever was counted before.
    """
    if over:
        totals = replace(totals, pending=totals.pending + totals.running, running=0)
    counts: Mapping[AnswerStatus, int] = {
        "pass": totals.passed,
        "fail": totals.failed,
        "partial": totals.partial,
        "error": totals.errored,
        "unjudged": totals.unjudged,
        "scored": totals.scored,
        "answered": totals.answered,
        "running": totals.running,
        "pending": totals.pending,
    }
    return tuple(StatusCount(status, count, over) for status, count in counts.items())


def short_counts(totals: Totals) -> str:
    """The numbers of final answers by glyph; pass and fail are always shown unless nothing can pass or fail."""
    counts = (one for one in status_counts(totals) if one.status in FINAL)
    shown = () if rateless(totals) else ("pass", "fail")
    return " ".join(one.short for one in counts if one.count or one.status in shown)


def rateless(totals: Totals) -> bool:
    """Whether answers are final but none of them could pass or fail, so there is no rate."""
    return not totals.passed + totals.failed and bool(totals.unjudged + totals.scored)


def final_count(totals: Totals) -> int:
    """How many answers are judged, or will never be."""
    return totals.passed + totals.failed + totals.partial + totals.errored + totals.unjudged + totals.scored


def waiting_count(totals: Totals) -> int:
    """How many answers are not there or not judged yet."""
    return totals.pending + totals.running + totals.answered
