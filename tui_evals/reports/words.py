"""What reports call things: an answer, its column, what was asked and expected, and what evaluators made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tui_evals.compare.statistics import wilson
from tui_evals.compare.verdicts import interval_percent
from tui_evals.runs.prompting import asked_text
from tui_evals.store.records import AnswerRow, Totals
from tui_evals.store.rows import expected_of

from .results import AnswerEntry

BAD = ("error", "fail", "partial")
"""Statuses that somebody has to look at."""


def sentence(found: Totals, calls: int = 0) -> str:
    """Totals in a line: how many passed with the interval of the rate, what else happened, what it cost."""
    judged = found.passed + found.failed
    parts = [f"{found.passed} of {judged} pass"]
    if (interval := wilson(found.passed, judged)) is not None:
        rate = 100 * found.passed / judged
        parts[0] += f" ({rate:.1f} %, 95 % interval {interval_percent(interval)})"
    counts: Mapping[str, int] = {
        "could not be judged": found.partial,
        "without an answer": found.errored,
        "pending": found.pending + found.running + found.answered,
    }
    parts += [f"{count} {what}" for what, count in counts.items() if count]
    return " · ".join([*parts, money(found, calls)])


def money(found: Totals, calls: int = 0) -> str:
    """What was spent, and how much of it nobody knows the price of; `calls` are those of judges too, where known."""
    spent, unpriced = f"{found.cost + found.judge_cost:.4f} USD", max(found.unpriced, calls)
    return f"{spent} and {unpriced} unpriced" if unpriced else spent


def place(row: AnswerRow, item: Mapping[str, Any], repeated: bool) -> str:
    """The item, with the turn of a conversation, and the repeat where items are asked several times."""
    turn = f" turn {row.turn + 1}" if "turns" in item else ""
    return row.name + turn + (f" repeat {row.repeat + 1}" if repeated else "")


def asked(answered: AnswerEntry) -> str:
    """What the user said last."""
    prompt = answered.unit.get("prompt")
    if isinstance(prompt, str):
        return prompt
    return asked_text(answered.record.request.get("messages", ())) if answered.record else ""


def expected(unit: Mapping[str, Any]) -> str:
    """The expected response, which is the first ideal where none is given; empty where there is neither."""
    return expected_of(unit) or ""


def complaints(answered: AnswerEntry) -> Iterator[str]:
    """Why an answer is not good: the error it is, and the evaluators that failed or could not judge."""
    record = answered.record
    if record is not None and record.code:
        yield f"{record.code}: {record.message or 'no message'}"
    for score in answered.scores:
        if score.result in ("fail", "error"):
            number = "" if score.score is None else f" {score.score:g}"
            limit = "" if score.threshold is None else f" (threshold {score.threshold:g})"
            failed = " could not judge" if score.result == "error" else ""
            yield f"{score.key}{failed}{number}{limit}: {score.reason or 'no reason was given'}"


def cut(text: str, limit: int) -> str:
    """At most so many characters of a text, with a word of how many more there are."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} more characters"
