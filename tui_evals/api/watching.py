"""A run while it is executed, from Python: waiting, a call for each answer as an object, a progress bar, frames."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from tui_evals.present.status import short_counts
from tui_evals.runs.engine import Engine, ExecutionEnd
from tui_evals.runs.execution import Companion
from tui_evals.store.answer_facts import FACTS
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord, answer_steps, transcript_of
from tui_evals.store.rows import AnswerDetail
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe_line
from tui_evals.transcript import Transcript


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """A target's answer in one turn, with its scores; `text` is None if the answer is missing."""

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
    """The traceback of the target's code, if it raised."""
    ending: str = ""
    """Why the target ended the answer, where that is unusual: length, content_filter, refusal, …"""
    latency_ms: float | None = None
    """The duration of the call; for a cached answer, of the original call."""
    first_token_ms: float | None = None
    """How long it took until the first piece came of an answer that was streamed."""
    cost: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    """Input tokens that the provider read from its cache."""
    reasoning_tokens: int = 0
    """Output tokens that the model spent on reasoning."""
    from_cache: bool = False
    steps: tuple[Mapping[str, Any], ...] = ()
    """The steps to the answer if it took tools: the texts of the model, its calls and their results."""
    transcript: Transcript = field(default_factory=Transcript, repr=False, compare=False)
    """The whole transcript of the answer: reasoning, calls with results, retrieved texts, media."""
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Every fact of the answer by its name, as the tables of exports have them."""
    id: int = field(default=0, repr=False, compare=False)
    """Its number in the store."""
    question: str | None = field(default=None, repr=False)
    """The question of this turn; None if the prompt under test is the whole question."""
    expected: str | None = field(default=None, repr=False)
    """The expected response in the dataset of the run."""
    category: str | None = field(default=None, repr=False)
    tags: tuple[str, ...] = field(default=(), repr=False)
    test_id: str | None = field(default=None, repr=False)
    position: int = field(default=0, repr=False, compare=False)
    """The place of its item among all that the run could ask, from 0, after a matrix is expanded."""

    @property
    def passed(self) -> bool:
        """Whether every evaluator with a verdict passed it."""
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


OnAnswer = Callable[[Answer], Any]
"""A function that is called with each judged answer; an awaitable result is awaited."""
_EVERY = 0.1
_LINE_EVERY = 5.0
_UNFINISHED = ("pending", "running", "answered")


class _Bar(Protocol):
    """The part of tqdm's protocol that is used."""

    def update(self, n: int) -> object: ...

    def set_postfix_str(self, s: str) -> object: ...

    def close(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Watch:
    """How a caller watches a run."""

    on_answer: OnAnswer | None = None
    progress: bool | None = None
    """Whether a bar is shown; None where standard error is a terminal."""

    @property
    def shows_bar(self) -> bool:
        """Whether a bar is shown."""
        return sys.stderr.isatty() if self.progress is None else self.progress

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do while the run is executed."""
        return self.on_answer is not None or self.shows_bar

    def companion(self, run: RunRow, store: Path) -> Companion:
        """The work that goes with the execution of the run."""
        with Reader(store) as reader:
            since = reader.seq()  # before anything is asked

        async def follow(engine: Engine, work: asyncio.Task[ExecutionEnd]) -> None:
            bar = _bar(run) if self.shows_bar else None
            try:
                await self._follow(run, store, since, work, bar)
            except Exception:
                work.cancel()  # so that nothing more is paid for once `on_answer` has failed
                raise
            finally:
                if bar is not None:
                    bar.close()

        return follow

    async def _follow(
        self, run: RunRow, store: Path, since: int, work: asyncio.Task[ExecutionEnd], bar: _Bar | None
    ) -> None:
        """Report each final answer, and once more when the work is over."""
        told: set[int] = set()
        with Reader(store) as reader:
            items = reader.snapshot(run.snapshot)["items"]
            while True:
                is_over = work.done()
                changed = reader.changed(since, run)
                since = max((row.seq for row in changed), default=since)
                new = [row for row in changed if row.status not in _UNFINISHED and row.id not in told]
                told.update(row.id for row in new)
                if bar is not None and new:
                    bar.update(len(new))
                    bar.set_postfix_str(short_counts(reader.totals(run.id)))
                if self.on_answer is not None:
                    for one in read_details(reader, run, new):
                        returned = self.on_answer(answer_of(run, one, items[one.row.item]))
                        if inspect.isawaitable(returned):
                            await returned
                if is_over:
                    return
                await asyncio.wait({work}, timeout=_EVERY)


def _bar(run: RunRow) -> _Bar:
    """A bar of tqdm where it is installed, lines of text elsewhere."""
    title = f"run {run.key}"
    if find_spec("tqdm") is None:
        return _Lines(title, run.total)
    bar: _Bar = import_module("tqdm.auto").tqdm(total=run.total, desc=title, unit="answer", dynamic_ncols=True)
    return bar


class _Lines:
    """Progress as lines on standard error: the first and the last, and one every few seconds."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._done, self._facts, self._last = 0, "", time.monotonic()
        self._print()

    def update(self, n: int) -> None:
        """Count answers."""
        self._done += n

    def set_postfix_str(self, s: str) -> None:
        """Note the results so far."""
        self._facts = s
        if time.monotonic() - self._last >= _LINE_EVERY:
            self._print()

    def close(self) -> None:
        """Print the last line."""
        self._print()

    def _print(self) -> None:
        self._last = time.monotonic()
        facts = f" · {self._facts}" if self._facts else ""
        sys.stderr.write(f"{self._title}: {self._done:,} of {counted(self._total, 'answer')}{facts}\n")


Returned = TypeVar("Returned")


def wait_for(work: Coroutine[Any, Any, Returned]) -> Returned:
    """The result of some work, for code inside or outside an event loop; Ctrl-C ends the work in order."""
    if not in_a_loop():
        try:
            return asyncio.run(work)
        except KeyboardInterrupt as interrupt:
            raise _named(interrupt, interrupt.__context__) from None
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def noted() -> Returned:
        task = asyncio.current_task()
        assert task is not None
        started.append((asyncio.get_running_loop(), task))
        return await work

    with ThreadPoolExecutor(1) as pool:  # a notebook has a loop of its own already
        result = pool.submit(asyncio.run, noted())
        try:
            return result.result()
        except KeyboardInterrupt as interrupt:
            for loop, task in started:
                loop.call_soon_threadsafe(task.cancel)
            raise _named(interrupt, result.exception()) from None


def _named(interrupt: KeyboardInterrupt, cause: BaseException | None) -> KeyboardInterrupt:
    """The interruption with the words of the work that it ended: the key of the run, and how to continue."""
    notes = getattr(cause, "__notes__", ())
    return KeyboardInterrupt(*notes) if notes else interrupt


def in_a_loop() -> bool:
    """Whether this thread runs an event loop; apart, so that errors raised later have no error of asyncio before."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
