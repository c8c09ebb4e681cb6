"""The answers of a run as objects, and rows as frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tui_evals.store.answer_facts import FACTS
from tui_evals.store.records import RunRow, ScoreRecord, answer_steps, transcript_of
from tui_evals.store.rows import AnswerDetail
from tui_evals.text.safe import safe_line
from tui_evals.transcript import Transcript


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """A target's answer in one turn, with its scores; `text` is None where there is no answer."""

    item: str
    turn: int
    target: str
    prompt: str
    repeat: int
    status: str
    score: float | None
    text: str | None
    scores: Mapping[str, ScoreRecord]
    error: str | None = None
    traceback: str | None = None
    """Where the code of the target raised, where it did."""
    ending: str = ""
    """Why the target ended the answer, where that is unusual: length, content_filter, refusal, …"""
    latency_ms: float | None = None
    """How long the call took; of an answer from the cache, how long it took when it was asked."""
    first_token_ms: float | None = None
    """How long it took until the first piece came of an answer that was streamed."""
    cost: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    """Those of the input that the provider had cached."""
    reasoning_tokens: int = 0
    """Those of the output that the model thought with."""
    from_cache: bool = False
    steps: tuple[Mapping[str, Any], ...] = ()
    """The way to the answer, where it took tools: what the model said each time, its calls and what they gave."""
    transcript: Transcript = field(default_factory=Transcript, repr=False, compare=False)
    """All that was said and done for it: reasoning, calls with results, what was retrieved, media."""
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Every fact of the answer by its name, as the tables of exports have them."""
    id: int = field(default=0, repr=False, compare=False)
    """Its number in the store."""
    question: str | None = field(default=None, repr=False)
    """What the target was asked in this turn; None where the prompt under test made it."""
    expected: str | None = field(default=None, repr=False)
    """What was expected of it, as the dataset of the run says."""
    category: str | None = field(default=None, repr=False)
    tags: tuple[str, ...] = field(default=(), repr=False)
    test_id: str | None = field(default=None, repr=False)
    position: int = field(default=0, repr=False, compare=False)
    """The place of its item among all that the run could ask, from 0, after a matrix is expanded."""

    @property
    def passed(self) -> bool:
        """Whether every evaluator that judges let it pass."""
        return self.status == "pass"

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why each evaluator judged as it did, by its key."""
        return {key: record.reason for key, record in self.scores.items() if record.reason}

    def __repr__(self) -> str:
        of = f"{self.item!r} turn {self.turn + 1}" if self.turn else repr(self.item)
        return f"<Answer {of} of {self.target}: {self.status}, {_short(self.error or self.text or '')!r}>"


def _short(text: str) -> str:
    return safe_line(text, _LONGEST)


_LONGEST = 80


def frame_of(rows: list[dict[str, Any]], library: Literal["pandas", "polars"]) -> Any:
    """Flat rows as a frame of a library; ImportError where it is not installed."""
    import importlib

    if library == "polars":
        return importlib.import_module("polars").DataFrame(rows, infer_schema_length=None)
    return importlib.import_module("pandas").DataFrame(rows)


def answer_of(run: RunRow, told: AnswerDetail, item: Mapping[str, Any]) -> Answer:
    """An answer of a run as an object; `item` is its item in the dataset of the run."""
    row, record = told.row, told.answer
    turns = item.get("turns")
    unit = turns[row.turn] if isinstance(turns, list) and row.turn < len(turns) else item
    expected = unit.get("expected_response") or next(iter(unit.get("ideal") or ()), None)
    return Answer(
        item=row.name,
        turn=row.turn,
        target=run.targets[row.target],
        prompt=run.prompts[row.prompt],
        repeat=row.repeat,
        status=row.status,
        score=row.score,
        text=record.text if record is not None else None,
        scores={score.key: score for score in told.scores},
        error=record.message if record is not None else None,
        traceback=record.traceback if record is not None else None,
        ending=row.ending,
        latency_ms=row.latency_ms,
        first_token_ms=record.first_token_ms if record is not None else None,
        cost=row.cost,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cached_tokens=row.cached_tokens,
        reasoning_tokens=row.reasoning_tokens,
        from_cache=row.from_cache,
        steps=answer_steps(record) if record is not None else (),
        transcript=transcript_of(record) if record is not None else Transcript(),
        facts={fact.name: fact.value(row, record) for fact in FACTS},
        id=row.id,
        question=unit.get("prompt"),
        expected=expected,
        category=row.category or None,
        tags=tuple(item.get("tags") or ()),
        test_id=item.get("testId"),
        position=row.item,
    )
