"""Answers that PromptPex recorded, as a finished run: who said what to which test, and how it was judged."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.model import Dataset
from tui_evals.runs.launch import kept_prompt
from tui_evals.runs.prompting import PromptUnderTest, chat_for, question_of
from tui_evals.runs.status import METRICS, RECORDED, score_of, status_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, NewRun, PlannedAnswer, RunRow, ScoreRecord
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, target_named
from tui_evals.targets.opening import identity
from tui_evals.text.box import TemplateError

from .items import Tests
from .rows import RecordedResult
from .scores import Judged, records_of

TAG = "promptpex"
UNNAMED_MODEL = "unknown model"
_AT_ONCE = 500


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


def known_run(reader: Reader, recording: Recording) -> RunRow | None:
    """The run that this recording was made before, if it was."""
    offset, page = 0, reader.runs(200)
    while page:
        for run in page:
            kept = run.config.get(RECORDED)
            if isinstance(kept, dict) and kept.get("digest") == recording.digest:
                return run
        offset += len(page)
        page = reader.runs(200, offset)
    return None


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


def plan_run(
    writer: Writer, recording: Recording, origin: Origin, settings: Settings, environment: Mapping[str, str]
) -> RunRow:
    """Commit the run with every recorded answer pending."""
    dataset = Dataset.model_validate(origin.document)
    prompts = [origin.prompt] if origin.prompt is not None else []
    every = {*origin.judges, *(judge for _, judge in origin.keys if judge)}
    judge = _identity(next(iter(every)), settings, environment) if len(every) == 1 else None
    config = {
        "targets": [_identity(model, settings, environment) or _unknown(model) for model in recording.models],
        "judge": judge,
        "without_judges": False,
        "repeats": recording.repeats,
        "only": None,
        "prompts": [{"name": prompt.name, **kept_prompt(prompt)} for prompt in prompts],
        "terms": {"concurrency": None, "max_cost": None, "use_cache": True},
        **({METRICS: origin.metrics} if origin.metrics else {}),
        RECORDED: {"by": "PromptPex", "digest": recording.digest, "judges": sorted(every)},
    }
    new = NewRun(
        name=origin.name,
        snapshot=writer.snapshot(dict(origin.document), origin.source),
        source=origin.source,
        targets=recording.models,
        prompts=tuple(prompt.name for prompt in prompts) or ("",),
        tags=(TAG,),
        config=config,
    )
    return writer.plan(new, _planned(recording, dataset))


def _planned(recording: Recording, dataset: Dataset) -> Iterator[PlannedAnswer]:
    names = Counter(item.testId for item in dataset.items)
    for cell, answer in enumerate(recording.answers):
        item = dataset.items[answer.item]
        name = item.testId if item.testId and names[item.testId] == 1 else f"#{answer.item + 1}"
        yield PlannedAnswer(cell, answer.item, 0, 0, answer.target, answer.repeat, name, item.category or "")


def _identity(word: str, settings: Settings, environment: Mapping[str, str]) -> dict[str, Any] | None:
    """The target of a name as it is configured here; None where it is not."""
    try:
        config = target_named(word, settings)
    except ConfigurationError:
        return None
    return identity(config, environment) | {"name": config.name}


def _unknown(model: str) -> dict[str, Any]:
    return {"model": model, "base_url": None, "params": {}, "via": "auto", "name": model}


def fill(writer: Writer, reader: Reader, run: RunRow, recording: Recording, origin: Origin) -> None:
    """Commit every recorded answer with its scores, and finish the run; what is there already stays as it is."""
    asyncio.run(_filled(writer, reader, run, recording, origin))
    # Nobody knows how long it took, so it has no start.
    writer.run_status(run.id, "finished", finished=time.time())


async def _filled(writer: Writer, reader: Reader, run: RunRow, recording: Recording, origin: Origin) -> None:
    dataset = Dataset.model_validate(origin.document)
    chats = [_chat(dataset, number, origin.prompt) for number in range(len(dataset.items))]
    ids = [row.id for row in reader.all_rows(run.id)]
    pairs = list(zip(ids, recording.answers, strict=True))
    for start in range(0, len(pairs), _AT_ONCE):
        await asyncio.gather(
            *(
                _commit(writer, number, run.scoring_pass, _record(answer.row, chats[answer.item]), scores)
                for number, answer in pairs[start : start + _AT_ONCE]
                for scores in [records_of(answer.row, origin.keys, origin.judges)]
            )
        )


async def _commit(
    writer: Writer, number: int, scoring_pass: int, record: AnswerRecord, scores: Sequence[ScoreRecord]
) -> None:
    if record.text is None:
        await writer.answered(number, record, "error")
        return
    await writer.answered(number, record, "answered")
    await writer.scored(number, scoring_pass, scores, status_of(scores), score_of(scores))


def _record(row: RecordedResult, chat: Sequence[Mapping[str, Any]]) -> AnswerRecord:
    request = {"messages": list(chat)}
    if row.error or row.output is None:
        said = row.error or "neither an output nor an error was recorded"
        return AnswerRecord(text=None, request=request, model=row.model, code="agentRequestFailed", message=said)
    return AnswerRecord(text=row.output, request=request, model=row.model)


def _chat(dataset: Dataset, number: int, prompt: PromptUnderTest | None) -> Sequence[Mapping[str, Any]]:
    """What the model was asked, as far as the prompt and the test tell."""
    item = dataset.items[number]
    try:
        return chat_for(dataset, item, 0, prompt or PromptUnderTest(), ())
    except TemplateError:
        return question_of(item)
