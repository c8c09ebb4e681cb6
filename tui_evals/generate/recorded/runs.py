"""Answers that PromptPex recorded, as a finished run: who said what to which test, and how it was judged."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.model import Dataset
from tui_evals.runs.prompting import Chat, PromptUnderTest
from tui_evals.runs.recording import chat_before
from tui_evals.runs.recordings.model import Recorded
from tui_evals.runs.recordings.model import Recording as FinishedRun
from tui_evals.store.records import AnswerRecord

from .items import Tests
from .rows import RecordedResult
from .scores import Judged, records_of

BY = "PromptPex"
TAG = "promptpex"
UNNAMED_MODEL = "unknown model"


@dataclass(frozen=True, slots=True)
class Answer:
    """One recorded answer: to which test, of which model, the how many-th."""

    item: int
    target: int
    repeat: int
    row: RecordedResult


@dataclass(frozen=True, slots=True)
class Recording:
    """The answers of a run in the order of the dataset, and what was left out."""

    answers: tuple[Answer, ...]
    models: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def repeats(self) -> int:
        """How often one model answered one test, at most."""
        return max((answer.repeat for answer in self.answers), default=0) + 1

    @property
    def rows(self) -> list[RecordedResult]:
        """What was recorded."""
        return [answer.row for answer in self.answers]

    @property
    def digest(self) -> str:
        """What tells this recording from any other."""
        said = [(answer.item, answer.repeat, answer.row.model_dump()) for answer in self.answers]
        return hashlib.sha256(json.dumps([self.models, said]).encode()).hexdigest()


def recording_of(rows: Sequence[RecordedResult], tests: Tests) -> Recording:
    """The answers of models under test; a test that nobody knew yet is added to the tests."""
    asked = [row for row in rows if not row.isGroundtruth]
    named = [(tests.place_of(row), row.model or UNNAMED_MODEL, row) for row in asked]
    kept = _once(named)
    models = tuple(dict.fromkeys(model for _, model, _ in kept))
    seen: Counter[tuple[int, str]] = Counter()
    answers = []
    for place, model, row in kept:
        answers.append(Answer(place, models.index(model), seen[place, model], row))
        seen[place, model] += 1
    answers.sort(key=lambda answer: (answer.item, answer.repeat, answer.target))
    notes = []
    if truths := len(rows) - len(asked):
        notes.append(f"{_rows(truths)} of ground truth, which is no answer of a model under test")
    if twice := len(named) - len(kept):
        notes.append(f"{_rows(twice)} that stand there a second time, without a verdict")
    return Recording(tuple(answers), models, tuple(notes))


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _once(named: Sequence[tuple[int, str, RecordedResult]]) -> Sequence[tuple[int, str, RecordedResult]]:
    """The rows without the unjudged originals that follow their judged copies; repeats are no copies."""
    first = next((n + 1 for n in range(len(named) - 1, -1, -1) if named[n][2].judged), 0)
    head, tail = named[:first], named[first:]
    if not head or not tail or not all(row.judged or row.error for _, _, row in head):
        return named
    doubled = Counter(one[:2] for one in head) == Counter(one[:2] for one in tail)
    there = Counter((place, model, row.output) for place, model, row in head)
    again = Counter((place, model, row.output) for place, model, row in tail)
    return head if doubled or again <= there else named


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a recorded run is of: its dataset, its prompt, its judges."""

    document: Mapping[str, Any]
    source: str
    name: str
    prompt: PromptUnderTest | None
    keys: Mapping[Judged, str]
    metrics: str | None
    """The folder of the prompt from the project's root, where metrics lie."""
    judges: tuple[str, ...]
    """The judges that the run names; the first judged compliance."""


def recorded(recording: Recording, origin: Origin) -> FinishedRun:
    """The recording as runs are stored from it."""
    dataset = Dataset.model_validate(origin.document)
    prompt = origin.prompt or PromptUnderTest()
    chats = [chat_before(dataset, item, 0, prompt) for item in dataset.items]
    return FinishedRun(
        by=BY,
        digest=recording.digest,
        document=origin.document,
        source=origin.source,
        name=origin.name,
        targets=recording.models,
        answers=tuple(_recorded(answer, chats[answer.item], origin) for answer in recording.answers),
        prompts=() if origin.prompt is None else (origin.prompt,),
        judges=tuple({*origin.judges, *(judge for _, judge in origin.keys if judge)}),
        tags=(TAG,),
        metrics=origin.metrics,
    )


def _recorded(answer: Answer, chat: Chat, origin: Origin) -> Recorded:
    record = _record(answer.row, chat)
    return Recorded(
        item=answer.item,
        target=answer.target,
        repeat=answer.repeat,
        answer=record,
        scores=() if record.text is None else records_of(answer.row, origin.keys, origin.judges),
    )


def _record(row: RecordedResult, chat: Chat) -> AnswerRecord:
    request = {"messages": list(chat)}
    if row.error or row.output is None:
        said = row.error or "neither an output nor an error was recorded"
        return AnswerRecord(text=None, request=request, model=row.model, code="agentRequestFailed", message=said)
    return AnswerRecord(text=row.output, request=request, model=row.model)
