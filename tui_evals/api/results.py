"""The results of a run as objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

from tui_evals.present.answers import cause_texts
from tui_evals.present.runs import counts_sentence, stop_reason
from tui_evals.runs.scoring import column_scores
from tui_evals.store.answer_facts import FACTS
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord, Totals, answer_steps, transcript_of
from tui_evals.store.rows import Told
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


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """A run in the store, which `tui-evals show KEY` and the workbench open as well."""

    key: str
    name: str
    status: str
    answers: tuple[Answer, ...]
    totals: Totals
    scores: Mapping[str, float | None]
    """The score of each column, from 0 to 100, by its target, and its prompt where there are several; None: n/a."""
    message: str = ""
    """Why it stopped; empty where it is finished."""
    causes: tuple[str, ...] = ()
    """Why answers are missing, cut or not judged, each with how many, the most frequent first."""
    store: Path = field(default=Path(), repr=False, compare=False)
    """The database it is kept in."""

    @property
    def passed(self) -> bool:
        """Whether the run is finished and every answer that something can fail passed, one at least."""
        rated = [answer for answer in self.answers if answer.status != "scored"]
        return self.status == "finished" and bool(rated) and all(answer.passed for answer in rated)

    @property
    def failures(self) -> tuple[Answer, ...]:
        """The answers that did not pass, those that nobody judged among them; what nothing can fail is none."""
        return tuple(answer for answer in self.answers if answer.status not in ("pass", "scored"))

    def only(self, words: str) -> tuple[Answer, ...]:
        """The answers that a filter finds, such as `error` or `fail score:<50`, in the words of `show --only`."""
        with Reader(self.store) as reader:
            ids = set(reader.ids(reader.find_run(self.key).id, parse_filter(words)))
        return tuple(answer for answer in self.answers if answer.id in ids)

    @property
    def score(self) -> float | None:
        """The mean of the columns' scores; None where nothing was judged."""
        scores = [score for score in self.scores.values() if score is not None]
        return sum(scores) / len(scores) if scores else None

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each answer: what was asked, expected and answered, and what each evaluator said.

        All rows have the same columns.
        """
        keys = list(dict.fromkeys(key for answer in self.answers for key in answer.scores))
        rows = []
        for answer in self.answers:
            row = {"run": self.key, **{name: getattr(answer, name) for name in _PLAIN}, **answer.facts}
            for key in keys:
                record = answer.scores.get(key)
                row |= {f"{key}.{part}": getattr(record, part, None) for part in ("score", "result", "reason")}
            rows.append(row)
        return rows

    def to_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
        """The rows as a frame of a library; ImportError where it is not installed."""
        import importlib

        if library == "polars":
            return importlib.import_module("polars").DataFrame(self.rows(), infer_schema_length=None)
        return importlib.import_module("pandas").DataFrame(self.rows())

    def __repr__(self) -> str:
        return f"<Run {self.key} {self.name!r}: {self._summary}>"

    def _repr_html_(self) -> str:
        """How a notebook shows the run: its result, and its answers as a table."""
        cells = ("item", "target", "status", "score", "text")
        lines = [
            "<tr>" + "".join(f"<td>{escape(_cell(getattr(answer, name)))}</td>" for name in cells) + "</tr>"
            for answer in self.answers[:_SHOWN]
        ]
        more = len(self.answers) - _SHOWN
        rest = f"<p>… and {more:,} more answers</p>" if more > 0 else ""
        head = "".join(f"<th>{name}</th>" for name in cells)
        title = f"<p><b>{escape(safe_line(self.name))}</b> · run {escape(self.key)} · {escape(self._summary)}</p>"
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{rest}"

    @property
    def _summary(self) -> str:
        return f"{self.status}, {counts_sentence(self.totals, over=True)}"


_PLAIN = (
    *("item", "test_id", "turn", "target", "prompt", "repeat", "tags", "question", "expected"),
    *("status", "score", "text", "error"),
)
_SHOWN = 20
_LONGEST = 80


def _short(text: str) -> str:
    return safe_line(text, _LONGEST)


def _cell(value: object) -> str:
    return "" if value is None else _short(str(value))


def read_run(reader: Reader, run: RunRow) -> Run:
    """A run of the store as it is now."""
    told = list(reader.told(run, reader.all_rows(run.id)))
    items = reader.snapshot(run.snapshot)["items"]
    scores = {one.row.id: one.scores for one in told}
    by_column = column_scores([one.row for one in told], scores, items)
    answers = tuple(_answer(run, one, items[one.row.item]) for one in told)
    named = {_column(run, *column): score for column, score in by_column.items()}
    return Run(
        key=run.key,
        name=run.name,
        status=run.status,
        answers=answers,
        totals=reader.totals(run.id),
        scores=named,
        message=stop_reason(run),
        causes=tuple(told.text for told in cause_texts(run, reader.causes(run.id))),
        store=reader.path,
    )


def _column(run: RunRow, prompt: int, target: int) -> str:
    name = run.targets[target]
    return f"{name} · {run.prompts[prompt]}" if len(run.prompts) > 1 else name


def _answer(run: RunRow, told: Told, item: Mapping[str, Any]) -> Answer:
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
