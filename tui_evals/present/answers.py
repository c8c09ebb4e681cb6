"""One answer in words: its facts and steps, why it did not pass, and why answers are missing, with remedies."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.present.figures import exact_time, local_time, short_number
from tui_evals.present.status import ANSWER_LOOKS, result_look
from tui_evals.store.answer_facts import FACTS
from tui_evals.store.records import (
    AnswerRecord,
    AnswerRow,
    CallRecord,
    FailureCause,
    RunRow,
    ScoreRecord,
    step_count,
)
from tui_evals.store.rows import EarlierAttempt, Label, references
from tui_evals.text.chats import attachment_text, question_text
from tui_evals.text.measures import (
    counted,
    duration,
    money,
    number,
    parse_measure,
    score_figures,
    tokens,
)
from tui_evals.text.model_output import BLOCKED, ENDINGS
from tui_evals.text.names import own_words
from tui_evals.text.safe import safe_line

_PREFIXES = ("Agent request failed: ", "Evaluator failed: ")
_UNQUOTABLE = re.compile(r"[\"'`\\*$!]|\b\d+(?:\.\d+)*(?::\d+)?|[^ -~]+")
"""Characters that are special in a filter or a shell, and numbers, which differ between messages of one cause."""
_PHRASE = 60
_RAISED = " failed with "
_REMEDIES: Mapping[str, str] = {
    "agentRateLimited": "lower concurrency or set requests_per_minute; then {again}",
    "turnSkipped": "skipped because an earlier turn failed",
    "length": "raise max_tokens of the target; then {again}",
    "content_filter": "look at the question, or at the filter of the provider: {look}",
    **dict.fromkeys(("max_turns", "given_up"), "read the conversation: {look}"),
    "refusal": "look at the question: {look}",
    "evaluatorError": "{look} shows more. After fixing it: {again}",
    "evaluatorLoadError": "{look} shows more. After fixing it: {again}",
    "evaluatorConfigurationError": "fix the evaluator or the item, then {again}",
}


@dataclass(frozen=True, slots=True)
class CauseText:
    """A cause as every face tells it."""

    cause: FailureCause
    text: str
    """How many answers, and why."""
    remedy: str
    """The fix."""
    filter: str
    """The filter for its answers, in `--only` and in the workbench."""
    command: str
    """The command that lists them."""

    @property
    def data(self) -> dict[str, Any]:
        """The cause as plain data."""
        return {**asdict(self.cause), "remedy": self.remedy, "filter": self.filter, "command": self.command}


def cause_texts(run: RunRow, causes: Sequence[FailureCause]) -> tuple[CauseText, ...]:
    """The causes of a run in words, in the order they came."""
    return tuple(_text(run, cause, causes) for cause in causes)


def _text(run: RunRow, cause: FailureCause, causes: Sequence[FailureCause]) -> CauseText:
    condition = cause_filter(cause, causes)
    only = f"--only {shlex.quote(condition)}"
    again = f"`tui-evals rerun {run.key} {only}` asks again"
    if cause.evaluator:
        again = f"`tui-evals rescore {run.key}` judges again and asks no target"
    look = f"`tui-evals show {run.key} --item {shlex.quote(cause.item)}`"
    template = _REMEDIES.get(cause.code, "after fixing it: {again}")
    if _RAISED in cause.message:
        template = "{look} shows where it was raised. After fixing it: {again}"
    return CauseText(
        cause,
        f"{cause.count:,}× {cause_sentence(cause)}",
        template.format(again=again, look=look),
        condition,
        f"tui-evals show {run.key} {only}",
    )


def cause_sentence(cause: FailureCause) -> str:
    """Why, without how often."""
    who = f"{cause.evaluator} could not judge: " if cause.evaluator else ""
    return who + plain_reason(cause.message)


def plain_reason(message: str) -> str:
    """A stored message without the words before it that say only that it is an error."""
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    return message


def cause_filter(cause: FailureCause, causes: Sequence[FailureCause]) -> str:
    """The shortest filter that finds the answers of a cause and those of no other."""
    if cause.code in ENDINGS and not cause.evaluator:
        return cause.code
    alike = [one for one in causes if bool(one.evaluator) == bool(cause.evaluator) and one.code not in ENDINGS]
    if len(alike) == 1:
        return "partial" if cause.evaluator else "error"
    phrases = [*_phrases(cause.message)]
    words: list[tuple[str, ...]] = [(phrase,) for phrase in phrases]
    if not cause.evaluator:
        words = [(cause.code,), *words, *((cause.code, phrase) for phrase in phrases)]
    for key, among in (("cause", causes), ("partial cause" if cause.evaluator else "error", alike)):
        others = [f"{one.code} {one.message}".lower() for one in among if one is not cause]
        for parts in words:
            if not any(all(part.lower() in other for part in parts) for other in others):
                return " ".join(f"{key}:{part}" if part == cause.code else f'{key}:"{part}"' for part in parts)
    return f'cause:"{_UNQUOTABLE.sub("*", plain_reason(cause.message))}"'


def _phrases(message: str) -> Iterator[str]:
    """Parts of a message that can be typed into a filter unchanged, the most specific ones first."""
    if words := own_words(message):
        yield words
    parts = sorted((part.strip(" :,;()[]{}") for part in _UNQUOTABLE.split(plain_reason(message))), key=len)
    for part in reversed(parts):
        if part:
            yield part if len(part) <= _PHRASE else part[:_PHRASE].rpartition(" ")[0] or part[:_PHRASE]
            yield part


def cause_line(causes: Sequence[FailureCause]) -> str:
    """The most frequent cause and the number of others, for one line; empty without causes."""
    if not causes:
        return ""
    more = f"; {counted(len(causes) - 1, 'more cause')}" if len(causes) > 1 else ""
    return f"{causes[0].count:,}× {cause_sentence(causes[0]).rstrip('.')}{more}"


Unit = Mapping[str, Any]
"""An item, or a turn of one."""

FAILING = ("fail", "error")
"""Verdicts of an evaluator for which an answer does not pass."""
_BADGE = 24
_INLINE = 72
_PREVIEW = 160


@dataclass(frozen=True, slots=True)
class AnswerWords:
    """The facts about how an answer was produced, each in a few words."""

    origin: tuple[str, ...]
    """The origin of the answer, unless a model was asked for it."""
    figures: tuple[str, ...]
    """All the others, in the order in which they are always listed."""

    @property
    def text(self) -> str:
        """All of them in a line."""
        return " · ".join((*self.origin, *self.figures))


def answer_words(
    row: AnswerRow, record: AnswerRecord | None, calls: int = 0, rejudged: EarlierAttempt | None = None
) -> AnswerWords:
    """The facts about an answer, without those that did not happen (a call, a price).

    `rejudged` is the earlier verdict of an answer that was judged again, if that counts.
    """
    if record is None:
        return AnswerWords((), _said(_several(row.attempts, "attempts")))
    said = [(fact.is_origin, fact.words(row, record)) for fact in FACTS if fact.words is not None]
    return AnswerWords(
        _said("scripted, not a model" if row.scripted else "", *(text for is_origin, text in said if is_origin)),
        _said(
            *(text for is_origin, text in said if not is_origin),
            f"answered by {record.model}" if record.model and not row.scripted else "",
            _several(step_count(record), "steps"),
            _several(calls, "calls in all"),
            rejudged_text(rejudged) if rejudged is not None else "",
        ),
    )


def _said(*words: str) -> tuple[str, ...]:
    return tuple(word for word in words if word)


def rejudged_text(attempt: EarlierAttempt) -> str:
    """When an answer was judged again, and whether by what its run is judged by."""
    edited = attempt.rejudged is not None and attempt.rejudged.expected is not None
    return f"judged again {local_time(attempt.time)}" + (" by an edited expectation" if edited else "")


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}" if count > 1 else ""


def answer_name(row: AnswerRow, conversation: bool, repeated: bool, joint: str = " ") -> str:
    """The item, with the turn of a conversation, and the repeat where items are asked several times."""
    turn = f"turn {row.turn + 1}" if conversation else ""
    return joint.join(
        part for part in (safe_line(row.name), turn, f"repeat {row.repeat + 1}" if repeated else "") if part
    )


def earlier_text(attempt: EarlierAttempt) -> str:
    """The earlier state of an answer that was asked or judged again, on one line."""
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
    """The result of judging a single answer again, in a line."""
    verdicts = " → ".join(
        f"{ANSWER_LOOKS[row.status].text}{'' if row.score is None else f' {number(row.score)}'}"
        for row in (before, now)
    )
    return f"{safe_line(now.name, 60)}: {verdicts}, judged again" + (" by an edited expectation" if edited else "")


def prompt_text(unit: Unit, record: AnswerRecord | None) -> str:
    """The question of an item or turn: its prompt or simulated user, else that of the chat in the request."""
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
    """All expected texts as one, a line each; empty without any."""
    return "\n".join(expected_texts(unit))


def reference_text(unit: Unit, answer: str | None) -> str | None:
    """The reference of an answer: the expected text that it equals, else all of them; None without any."""
    texts = expected_texts(unit)
    said = None if answer is None else answer.strip()
    return next((text for text in texts if text.strip() == said), "\n".join(texts)) if texts else None


def missing_text(row: AnswerRow, record: AnswerRecord | None) -> str:
    """Why an answer has no text; empty if it has one, or an error explains it."""
    if record is None:
        if row.status == "running":
            return "The target has been asked and has not answered yet."
        return "Not asked yet." if row.status == "pending" else "There is no answer in the store."
    if record.text is None or record.text.strip():
        return ""
    blocked = (record.diagnostics or {}).get(BLOCKED)
    if isinstance(blocked, str):
        return f"The answer is empty: {blocked}."
    return f"The answer is empty: {ENDINGS[row.ending]}." if row.ending in ENDINGS else "The answer is empty."


def attempt_text(call: CallRecord) -> str:
    """One call of a target or a judge in a line: name, time, duration, tokens, cost and result."""
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
    """The beginning of an answer for a list; "(empty)" for an empty one."""
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


def origin_text(record: ScoreRecord) -> str:
    """Which earlier judging a score is kept from; empty where its own pass judged."""
    return f"kept from pass {record.origin}" if record.origin else ""


def figures_text(record: ScoreRecord) -> str:
    """A score with its threshold; empty if there is no number."""
    return score_figures(record.score, record.threshold, record.result, record.measure)


def failing_first(scores: Iterable[ScoreRecord]) -> list[ScoreRecord]:
    """The scores of an answer, first those that need attention."""
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
    """A person's verdict on an answer, without author and reason."""
    return f"says {label.verdict} for {label.evaluator}" if label.evaluator else f"says {label.verdict}"


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters of a text, with the number of the others."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {counted(len(text) - limit, 'more character')}"


def preview(text: str) -> str:
    """The beginning of a text in one line."""
    head = " ".join(text[: 2 * _PREVIEW].split())
    return head if len(head) <= _PREVIEW and len(text) <= 2 * _PREVIEW else head[:_PREVIEW].rstrip() + "…"


def pretty_json(value: object) -> str:
    """A value as readable JSON: on one line if it is short."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _INLINE else json.dumps(value, ensure_ascii=False, indent=2)
