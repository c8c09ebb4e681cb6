"""One answer as the page shows it: what was said, what it cost, what the evaluators and people made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.compare.diff import Span
from tui_evals.runs.prompting import asked_text
from tui_evals.store.records import AnswerRecord, AnswerRow, ScoreRecord
from tui_evals.store.rows import Label
from tui_evals.text import strictjson
from tui_evals.text.figures import money

from .texts import Text, marks, optional, same, text
from .words import GLYPHS, duration, number, pretty

Labels = Mapping[int, Sequence[Label]]
_RESULTS: Mapping[str | None, str] = {"pass": "pass", "fail": "fail", "error": "error"}
_USUAL = (None, "", "stop")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a person said."""

    verdict: str
    glyph: str
    author: str
    about: str
    note: Text | None


@dataclass(frozen=True, slots=True)
class Score:
    """What one evaluator made of an answer."""

    key: str
    kind: str
    """The evaluator, where the key is another name."""
    result: str
    glyph: str
    value: str
    threshold: str
    label: str
    reason: Text | None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the target wanted called."""

    name: str
    arguments: Text | None


@dataclass(frozen=True, slots=True)
class Said:
    """One answer with all that belongs to it."""

    status: str
    glyph: str
    score: str
    text: Text | None
    expected: Text | None
    as_expected: bool
    waiting: str
    error: Text | None
    chips: tuple[str, ...]
    facts: tuple[str, ...]
    calls: tuple[Call, ...]
    scores: tuple[Score, ...]
    together: tuple[Score, ...]
    """What was found of all answers to the same, where it stands beside each of them."""
    opinions: tuple[Opinion, ...]
    diagnostics: Text | None


def said(
    row: AnswerRow,
    record: AnswerRecord | None,
    scores: Iterable[ScoreRecord],
    labels: Iterable[Label],
    reference: str,
    spans: Sequence[Span] | None = None,
    together: Iterable[ScoreRecord] = (),
) -> Said:
    """An answer marked against what was expected, or with the marks that are given."""
    answer = record.text if record else None
    found = marks(reference, answer) if spans is None and answer is not None else None
    if spans is None:
        spans = found.right if found else ()
    equal = bool(reference) and answer is not None and same(reference, answer)
    return Said(
        status=row.status,
        glyph=GLYPHS[row.status],
        score=number(row.score),
        text=None if answer is None else text(answer, spans),
        expected=None if equal or not reference.strip() else text(reference, found.left if found else ()),
        as_expected=equal,
        waiting=_waiting(row, answer),
        error=_error(record),
        chips=tuple(_chips(row)),
        facts=tuple(_facts(row, record)),
        calls=tuple(_call(call) for call in (record.tool_calls if record else ())),
        scores=tuple(map(score, scores)),
        together=tuple(map(score, together)),
        opinions=tuple(map(_opinion, labels)),
        diagnostics=text(pretty(record.diagnostics)) if record and record.diagnostics else None,
    )


def score(record: ScoreRecord) -> Score:
    """A score in words."""
    result = _RESULTS.get(record.result, "none")
    return Score(
        key=record.key,
        kind=record.evaluator if record.evaluator != record.key else "",
        result=record.result or "scored",
        glyph=GLYPHS.get(result, "–"),
        value=number(record.score),
        threshold=number(record.threshold),
        label=record.label or "",
        reason=optional(record.reason),
    )


def prompt_of(unit: Mapping[str, Any], record: AnswerRecord | None) -> str:
    """What a turn asks: its prompt, else the last thing the user said."""
    prompt = unit.get("prompt")
    if isinstance(prompt, str):
        return prompt
    sent = record.request.get("messages") if record else None
    return asked_text(tuple(one for one in sent if isinstance(one, dict))) if isinstance(sent, list) else ""


def _waiting(row: AnswerRow, answer: str | None) -> str:
    if row.status == "pending":
        return "Nobody has been asked yet."
    if row.status == "running":
        return "The target has been asked and has not answered yet."
    return "The answer is empty." if answer is not None and not answer.strip() else ""


def _error(record: AnswerRecord | None) -> Text | None:
    if record is None or not (record.code or record.message):
        return None
    return text(f"{record.code or 'error'}: {record.message or 'no more is known'}")


def _chips(row: AnswerRow) -> Iterator[str]:
    if row.scripted:
        yield "scripted, not a model"
    if row.from_cache:
        yield "from the cache"


def _facts(row: AnswerRow, record: AnswerRecord | None) -> Iterator[str]:
    if row.latency_ms is not None and not row.from_cache:
        yield duration(row.latency_ms / 1000)
    if row.input_tokens is not None or row.output_tokens is not None:
        yield f"{row.input_tokens or 0:,} tokens in, {row.output_tokens or 0:,} out"
    if record is not None and not record.code and not row.scripted and not row.from_cache:
        yield "unpriced" if row.cost is None else money(row.cost)
    if record is not None and record.model and not row.scripted:
        yield f"answered by {record.model}"
    if row.attempts > 1:
        yield f"{row.attempts} attempts"
    if record is not None and record.finish_reason not in _USUAL:
        yield f"ended with {record.finish_reason}"


def _call(call: Mapping[str, Any]) -> Call:
    inner = call.get("function")
    inner = inner if isinstance(inner, dict) else call
    given = inner.get("arguments")
    if isinstance(given, str):
        try:
            given = pretty(strictjson.loads(given))
        except (strictjson.JsonError, RecursionError):
            return Call(str(inner.get("name")), optional(given))
        return Call(str(inner.get("name")), optional(given))
    return Call(str(inner.get("name")), None if given is None else text(pretty(given)))


def _opinion(label: Label) -> Opinion:
    about = f"says {label.verdict} for {label.evaluator}" if label.evaluator else f"says {label.verdict}"
    return Opinion(label.verdict, GLYPHS[label.verdict], label.author, about, optional(label.note))
