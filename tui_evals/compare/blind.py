"""Blind labeling: which answers are drawn, what a person sees of each, and their order."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from tui_evals.light_records import dataclass
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow
from tui_evals.store.rows import references

Verdict = Literal["pass", "fail"]
SAMPLE = 50
"""How many answers are drawn by default."""

SYSTEM_ROLES = ("system", "developer")
_ANSWERED = ("answered", "pass", "fail", "partial", "unjudged", "scored")


@dataclass(frozen=True, slots=True)
class Sample:
    """The answers to label, in the order they are shown."""

    answers: tuple[int, ...]
    done: frozenset[int]
    """The answers that the author has already labelled."""
    pool: int
    """How many there were to draw from."""


class BlindText(NamedTuple):
    """A titled text to read before the verdict."""

    title: str
    text: str


def answers_by_evaluator(reader: Reader, run: int) -> dict[str, frozenset[int]]:
    """The answers on which each evaluator has a verdict, in the pass that counts."""
    answers: dict[str, set[int]] = {}
    for score in run_figures.judged(reader, run):
        if score.result in ("pass", "fail"):
            answers.setdefault(score.key, set()).add(score.answer)
    return {key: frozenset(ids) for key, ids in sorted(answers.items())}


def draw_sample(
    reader: Reader,
    run: int,
    size: int = SAMPLE,
    *,
    seed: int = 0,
    targets: Collection[int] | None = None,
    evaluator: str | None = None,
    author: str,
) -> Sample:
    """A plain random sample of a run; the same seed draws the same, and a larger sample begins with a smaller one."""
    pool = [row.id for row in _pool(reader, run, evaluator) if targets is None or row.target in targets]
    answers = tuple(sorted(pool, key=lambda answer: _draw_order(seed, answer))[:size])
    labels = reader.labels(run)
    own_labels = frozenset(one.answer for one in labels if one.author == author and one.evaluator == evaluator)
    return Sample(answers, own_labels.intersection(answers), len(pool))


def _pool(reader: Reader, run: int, evaluator: str | None) -> list[AnswerRow]:
    """The answers with a verdict to compare a label with; if there are none, all with a text."""
    judged = answers_by_evaluator(reader, run)
    if evaluator is not None:
        known = judged.get(evaluator, frozenset())
        return [row for row in reader.all_rows(run) if row.id in known]
    rows = [row for row in reader.all_rows(run) if row.status in _ANSWERED]
    known = frozenset().union(*judged.values())
    return [row for row in rows if row.id in known and row.status in ("pass", "fail")] or rows


def _draw_order(seed: int, answer: int) -> bytes:
    return blake2b(f"{seed}:{answer}".encode(), digest_size=8).digest()


class LabellingSession:
    """One person's way through a sample: forward with every verdict, and back again."""

    def __init__(self, sample: Sample) -> None:
        self._todo = tuple(answer for answer in sample.answers if answer not in sample.done)
        self._place = 0
        self.total = len(sample.answers)
        self.before = len(sample.done)
        """How many were labelled in earlier sessions."""
        self.given: dict[int, Verdict] = {}
        self.notes: dict[int, str] = {}

    @property
    def answer(self) -> int | None:
        """The answer to look at; None at the end."""
        return self._todo[self._place] if self._place < len(self._todo) else None

    @property
    def previous(self) -> int | None:
        """The answer before, which an undo goes back to."""
        return self._todo[self._place - 1] if self._place else None

    @property
    def number(self) -> int:
        """The number of the answer in the sample, from 1."""
        return self.before + self._place + 1

    @property
    def done(self) -> int:
        """How many answers of the sample are labelled."""
        return self.before + len(self.given)

    def note(self) -> str:
        """The note on the current answer."""
        return self.notes.get(self._todo[self._place], "")

    def go_on(self, verdict: Verdict | None) -> None:
        """To the next answer, after a verdict that is kept, or without one."""
        if verdict is not None:
            self.given[self._todo[self._place]] = verdict
        self._place += 1

    def go_back(self) -> None:
        """To the answer before, which has no verdict any more."""
        self._place -= 1
        self.given.pop(self._todo[self._place], None)


def labelling_parts(reader: Reader, items: Sequence[Mapping[str, Any]], answer: int) -> tuple[BlindText, ...]:
    """The texts that a person reads about an answer, without target and verdicts; `items` are those asked.

    Texts that all items share, such as the system message, come last, below the answer.
    """
    detail = reader.detail(answer)
    item = items[detail.row.item] if detail.row.item < len(items) else {}
    turns = item.get("turns")
    unit = turns[detail.row.turn] if isinstance(turns, list) and detail.row.turn < len(turns) else item
    record = detail.answer
    sent = record.request.get("messages") if record is not None else None
    messages = [one for one in sent if isinstance(one, Mapping)] if isinstance(sent, list) else []
    parts = [_message_part(one) for one in messages] or [BlindText("user", _content_text(unit.get("prompt")))]
    last = [part for part in parts if part.title in SYSTEM_ROLES]
    parts = [part for part in parts if part.title not in SYSTEM_ROLES]
    parts += [BlindText("context", _content_text(unit.get("context")))]
    parts += [BlindText(title, text) for title, text in _expected(unit)]
    parts += [BlindText("answer", (answer_and_calls(record) if record is not None else "") or "(nothing)"), *last]
    return tuple(part for part in parts if part.text.strip())


def answer_and_calls(answer: AnswerRecord) -> str:
    """The text of an answer and the tools it called."""
    return "\n".join([*([answer.text] if answer.text else ()), *map(_tool_call_text, answer.tool_calls)])


def _message_part(message: Mapping[str, Any]) -> BlindText:
    calls = message.get("tool_calls")
    called = [_tool_call_text(call) for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    words = _content_text(message.get("content"))
    return BlindText(str(message.get("role") or "user"), "\n".join([*([words] if words else ()), *called]))


def _expected(unit: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(dict.fromkeys(references(unit))):
        yield ("or expected" if number else "expected"), text


def _content_text(content: object) -> str:
    """The text of a message, from a string or a list of parts; other parts are named by their type."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    words = (str(part.get("text") or f"<{part.get('type')}>") for part in parts if isinstance(part, Mapping))
    return "\n".join(words)


def _tool_call_text(call: Mapping[str, Any]) -> str:
    inner = call.get("function")
    inner = inner if isinstance(inner, Mapping) else call
    arguments = inner.get("arguments", "")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f"→ {inner.get('name')}({text})"
