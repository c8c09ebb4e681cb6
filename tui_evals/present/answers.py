"""What there is to say of one answer: its facts, why it did not pass, what was asked and what was expected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tui_evals.store.records import AnswerRecord, AnswerRow, CallRecord, ScoreRecord
from tui_evals.store.rows import EarlierAttempt, Label, references
from tui_evals.text.chats import attachment_text, question_text
from tui_evals.text.endings import BLOCKED, ENDINGS, ending_word
from tui_evals.text.measures import parse_measure, plain_number, score_figures
from tui_evals.text.money import money
from tui_evals.text.safe import safe_line
from tui_evals.text.tokens import tokens_per_second

from .causes import plain_reason
from .figures import duration, exact_time, local_time, number, short_number, tokens
from .status import ANSWER_LOOKS, result_look

Unit = Mapping[str, Any]
"""An item, or a turn of one."""

FAILING = ("fail", "error")
"""Verdicts of an evaluator for which an answer does not pass."""
_BADGE = 24
_INLINE = 72
_PREVIEW = 160


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What is known of how an answer came about, each as a few words; empty where there is nothing to say."""

    scripted: str = ""
    cached: str = ""
    duration: str = ""
    first_token: str = ""
    pace: str = ""
    tokens: str = ""
    cost: str = ""
    model: str = ""
    steps: str = ""
    attempts: str = ""
    calls: str = ""
    ending: str = ""
    judged: str = ""

    @property
    def origin(self) -> tuple[str, ...]:
        """Where the answer comes from, if not from a model that was asked for it."""
        return tuple(part for part in (self.scripted, self.cached) if part)

    @property
    def figures(self) -> tuple[str, ...]:
        """All the others, in the order in which they are always listed."""
        times = (self.duration, self.first_token, self.tokens, self.pace)
        parts = (*times, self.cost, self.model, self.steps, self.attempts, self.calls, self.ending, self.judged)
        return tuple(part for part in parts if part)

    @property
    def text(self) -> str:
        """All of them in a line."""
        return " · ".join((*self.origin, *self.figures))


def answer_facts(
    row: AnswerRow, record: AnswerRecord | None, calls: int = 0, rejudged: EarlierAttempt | None = None
) -> AnswerFacts:
    """The facts of an answer; what did not happen (a call, a price) is not among them.

    `rejudged` is what it was before somebody had it judged again, where that counts.
    """
    if record is None:
        return AnswerFacts(attempts=_several(row.attempts, "attempts"))
    asked = not row.from_cache and row.latency_ms is not None
    return AnswerFacts(
        scripted="scripted, not a model" if row.scripted else "",
        cached="from the cache" if row.from_cache else "",
        duration=duration(row.latency_ms / 1000) if asked and row.latency_ms is not None else "",
        first_token=_first_token(record) if asked else "",
        tokens=tokens(row) or _uncounted(record),
        pace=_pace(row, record) if asked else "",
        cost=_paid(row),
        model=f"answered by {record.model}" if record.model and not row.scripted else "",
        steps=_several(len(record.steps), "steps"),
        attempts=_several(row.attempts, "attempts"),
        calls=_several(calls, "calls in all"),
        ending=ending_text(row.ending or ending_word(record.finish_reason)),
        judged=rejudged_text(rejudged) if rejudged is not None else "",
    )


def ending_text(word: str) -> str:
    """How an answer ended, where that is not as usual."""
    return ENDINGS.get(word) or (f"ended with {word}" if word not in ("", "stop") else "")


def rejudged_text(attempt: EarlierAttempt) -> str:
    """When an answer was judged again, and whether by what its run is judged by."""
    edited = attempt.rejudged is not None and attempt.rejudged.expected is not None
    return f"judged again {local_time(attempt.time)}" + (" by an edited expectation" if edited else "")


def _first_token(record: AnswerRecord) -> str:
    """How long the first piece took of an answer that was streamed."""
    return "" if record.first_token_ms is None else f"first token after {duration(record.first_token_ms / 1000)}"


def _pace(row: AnswerRow, record: AnswerRecord) -> str:
    """How fast an answer came that was streamed."""
    pace = tokens_per_second(row.output_tokens, row.latency_ms)
    return "" if record.first_token_ms is None or pace is None else f"{plain_number(pace)} tokens/s"


def _paid(row: AnswerRow) -> str:
    if row.from_cache or row.scripted:
        return ""
    if row.cost is not None:
        return money(row.cost)
    return "" if row.code else "unpriced"


def _uncounted(record: AnswerRecord) -> str:
    """That the provider stated counts which cannot be any."""
    note = (record.diagnostics or {}).get("usage")
    return f"tokens {note}" if isinstance(note, str) else ""


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}" if count > 1 else ""


def answer_name(row: AnswerRow, conversation: bool, repeated: bool, joint: str = " ") -> str:
    """The item, with the turn of a conversation, and the repeat where items are asked several times."""
    turn = f"turn {row.turn + 1}" if conversation else ""
    return joint.join(
        part for part in (safe_line(row.name), turn, f"repeat {row.repeat + 1}" if repeated else "") if part
    )


def earlier_text(attempt: EarlierAttempt) -> str:
    """What an answer was before it was asked or judged again, on one line."""
    when = f"before {local_time(attempt.time)}"
    if attempt.answer is not None:
        return f"{when}: {safe_line(error_text(attempt.answer))}"
    if (was := attempt.rejudged) is not None:
        score = "" if was.score is None else f" {number(was.score)}"
        verdict = f"{when}: {ANSWER_LOOKS[was.status].text}{score}"
        return " · ".join((verdict, *(f"{score_text(one)} {one.result or ''}".rstrip() for one in attempt.scores)))
    return f"{when}: " + "; ".join(
        f"{score.key} could not judge: {safe_line(score.reason)}" for score in attempt.scores
    )


def rejudged_change(before: AnswerRow, now: AnswerRow, edited: bool) -> str:
    """What judging a single answer again came to, in a line."""
    verdicts = " → ".join(
        f"{ANSWER_LOOKS[row.status].text}{'' if row.score is None else f' {number(row.score)}'}"
        for row in (before, now)
    )
    return f"{safe_line(now.name, 60)}: {verdicts}, judged again" + (" by an edited expectation" if edited else "")


def prompt_text(unit: Unit, record: AnswerRecord | None) -> str:
    """What an item or turn asks: its prompt or simulated user, else what the chat asks that was sent."""
    prompt, files = unit.get("prompt"), unit.get("attachments")
    if isinstance(prompt, str):
        return "\n".join([prompt, *map(attachment_text, files if isinstance(files, list) else ())])
    if isinstance(user := unit.get("user"), dict):
        return "\n".join(f"{name}: {user[name]}" for name in ("persona", "goal", "opening") if name in user)
    sent = record.request.get("messages") if record else None
    return question_text([one for one in sent if isinstance(one, dict)]) if isinstance(sent, list) else ""


def expected_texts(unit: Unit) -> tuple[str, ...]:
    """Everything that would be right: the expected response and the ideals, each once."""
    return tuple(dict.fromkeys(references(unit)))


def expected_text(unit: Unit) -> str:
    """All of it as one text, a line each; empty where nothing is expected."""
    return "\n".join(expected_texts(unit))


def reference_text(unit: Unit, answer: str | None) -> str | None:
    """What an answer is held against: the expected text that it says, else all of them; None where there is none."""
    texts = expected_texts(unit)
    said = None if answer is None else answer.strip()
    return next((text for text in texts if text.strip() == said), "\n".join(texts)) if texts else None


def missing_text(row: AnswerRow, record: AnswerRecord | None) -> str:
    """Why there is no text of an answer that has none; empty where there is one, or an error says it."""
    if record is None:
        if row.status == "running":
            return "The target has been asked and has not answered yet."
        return "Nobody has been asked yet." if row.status == "pending" else "There is no answer in the store."
    if record.text is None or record.text.strip():
        return ""
    blocked = (record.diagnostics or {}).get(BLOCKED)
    if isinstance(blocked, str):
        return f"The answer is empty: {blocked}."
    return f"The answer is empty: {ENDINGS[row.ending]}." if row.ending in ENDINGS else "The answer is empty."


def attempt_text(call: CallRecord) -> str:
    """One call of a target or a judge in a line: whom, when, how long, what it took, and what came of it."""
    parts = [
        f"{'!' if call.code else '✓'} {call.kind} {call.target}",
        exact_time(call.started) if call.started else "",
        f"attempt {call.attempt}" if call.attempt > 1 else "",
        "from the cache" if call.from_cache else duration(call.latency_ms / 1000),
        tokens(call),
        f"perhaps {money(call.may_cost)}" if call.may_cost else "" if call.cost is None else money(call.cost),
        safe_line(f"{call.code}: {call.message or ''}") if call.code else "",
    ]
    return " · ".join(part for part in parts if part)


def preview_text(row: AnswerRow) -> str:
    """The beginning of an answer for a list; an empty one is said to be."""
    given = row.status not in ("pending", "running") and row.code is None
    return row.preview if row.preview.strip() or not given else "(empty)"


def error_text(record: AnswerRecord | None) -> str:
    """The error that there is instead of an answer; empty where there is none."""
    if record is None or not (record.code or record.message):
        return ""
    return f"{record.code or 'error'}: {record.message or 'no more is known'}"


def score_text(record: ScoreRecord) -> str:
    """An evaluator with its number and what that was held against, or that it was skipped."""
    return f"{record.key} {'skipped' if record.result == 'skipped' else figures_text(record)}".rstrip()


def figures_text(record: ScoreRecord) -> str:
    """A score with what was wanted of it; empty where there is no number."""
    return score_figures(record.score, record.threshold, record.result, record.measure)


def failing_first(scores: Iterable[ScoreRecord]) -> list[ScoreRecord]:
    """The scores of an answer: first those for which somebody has to look at it."""
    return sorted(scores, key=lambda score: score.result not in FAILING)


def badge_text(record: ScoreRecord) -> str:
    """An evaluator as a badge: the sign of its verdict, its name, and its number where that says more."""
    plain = record.result is not None and record.threshold is None and record.score in (0, 1)
    figure = "" if record.score is None or plain else _badge_figure(record.score, record.measure)
    word = "skipped" if record.result == "skipped" else record.label if record.result is None else ""
    given = figure or word or ""
    return f"{result_look(record.result).glyph} {safe_line(record.key, _BADGE)} {safe_line(given, _BADGE)}".rstrip()


def _badge_figure(score: float, measure: str) -> str:
    known = parse_measure(measure)
    return known.texts(score)[0] if known.unit else short_number(score)


def answer_reason(message: str, scores: Iterable[ScoreRecord]) -> str:
    """Why an answer did not pass, in a line: its error, else what could not judge it, else what failed it first.

    Where everything that was to judge it was skipped, why the first was.
    """
    if message:
        return plain_reason(message)
    by_result = {score.result: score for score in reversed(list(scores))}
    score = by_result.get("error") or by_result.get("fail")
    if score is not None:
        return next(complaints(None, [score]))
    return skipped_text(by_result["skipped"]) if by_result.keys() == {"skipped"} else ""


def skipped_text(score: ScoreRecord) -> str:
    """Which evaluator found nothing to judge, and why."""
    return f"{score.key} skipped: {score.reason or 'no reason was given'}"


def complaints(record: AnswerRecord | None, scores: Iterable[ScoreRecord]) -> Iterator[str]:
    """Why an answer is not good: the error it is, and the evaluators that failed or could not judge."""
    if record is not None and record.code:
        yield error_text(record)
    for score in scores:
        if score.result in FAILING:
            failed = " could not judge" if score.result == "error" else ""
            number = f" {figures_text(score)}".rstrip()
            yield f"{score.key}{failed}{number}: {score.reason or 'no reason was given'}"


def opinion(label: Label) -> str:
    """What a person said of an answer, without who and why."""
    return f"says {label.verdict} for {label.evaluator}" if label.evaluator else f"says {label.verdict}"


def shortened(text: str, limit: int) -> str:
    """At most so many characters of a text, with a word of how many more there are."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} more characters"


def preview(text: str) -> str:
    """The beginning of a text in one line."""
    head = " ".join(text[: 2 * _PREVIEW].split())
    return head if len(head) <= _PREVIEW and len(text) <= 2 * _PREVIEW else head[:_PREVIEW].rstrip() + "…"


def pretty_json(value: object) -> str:
    """A value as JSON a person can read: on one line where it is short."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _INLINE else json.dumps(value, ensure_ascii=False, indent=2)
