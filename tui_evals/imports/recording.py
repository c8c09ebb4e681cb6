"""A finished run that was made elsewhere: its shape, and how it becomes a run in the store."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, fields, is_dataclass
from itertools import groupby
from typing import Any, Literal

from tui_evals.datasets.model import Dataset, Item
from tui_evals.light_records import dataclass
from tui_evals.runs.engine import sign
from tui_evals.runs.execution import Terms
from tui_evals.runs.plan import item_names
from tui_evals.runs.prompting import Chat, PromptUnderTest, assistant, chat_for, kept_prompt, question_of
from tui_evals.runs.scoring import FORMAT_KEY
from tui_evals.runs.status import METRICS, RECORDED, Status, score_of, status_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, NewRun, PlannedAnswer, RunRow, ScoreRecord, Settled
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.opening import identity
from tui_evals.text.templates import TemplateError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """One answer of a recording, by the positions, from 0, of its item, prompt, target and repeat."""

    item: int
    turn: int = 0
    prompt: int = 0
    target: int = 0
    repeat: int = 0
    answer: AnswerRecord
    scores: tuple[ScoreRecord, ...] = ()
    status: Status | None = None
    """The recorded status; None if the scores determine it."""
    score: float | None = field(default=None, compare=False)
    """The recorded score; None if the scores determine it. It is not part of the identity of a recording."""
    is_data: bool = field(default=False, compare=False)
    """Whether code there was given the answer as data; its text is the JSON of it."""

    @property
    def cell(self) -> tuple[int, int, int, int]:
        """The common position of a conversation's turns, in the order of a plan."""
        return (self.item, self.repeat, self.prompt, self.target)


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """One record of all answers to a turn of an item."""

    item: int
    turn: int
    score: ScoreRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A finished run that was made elsewhere."""

    by: str
    """The tool that made it."""
    digest: str
    """A digest that identifies this recording; see `digest_of`."""
    document: Mapping[str, Any]
    """The eval document that was asked, without results."""
    source: str
    name: str
    targets: tuple[str, ...]
    answers: tuple[RecordedAnswer, ...]
    together: tuple[RecordedGroup, ...] = ()
    prompts: tuple[PromptUnderTest, ...] = ()
    judges: tuple[str, ...] = ()
    """Every judge that is known to have judged."""
    suite: str = ""
    tags: tuple[str, ...] = ()
    metrics: str | None = None
    """The folder of the prompt from the project's root, where metrics lie."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further facts about its origin, as plain data."""
    started: float | None = None
    finished: float | None = None
    identities: tuple[Mapping[str, Any], ...] = ()
    """The identities of the targets in order, if the recording has them; else from the project's configuration."""
    verdicts_only: bool = False
    """Whether its scores are on other scales than here, so that only verdicts can be the same."""
    transformed: frozenset[int] = frozenset()
    """The items whose answers were recorded as a transform had left them, and not as the model gave them."""

    @property
    def repeats(self) -> int:
        """How often one target answered one item, at most."""
        return max((recorded.repeat for recorded in self.answers), default=0) + 1


def digest_of(*parts: object) -> str:
    """A digest of plain data and of records, the same for the same content."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        # asdict copies all that is below
        return {one.name: getattr(value, one.name) for one in fields(value) if one.compare}
    raise TypeError(f"a {type(value).__name__} is no plain data")


def gives_verdict(score: ScoreRecord) -> bool:
    """Whether a record has a verdict or a value, and no error."""
    return score.result not in ("error", "skipped") and (score.result is not None or score.score is not None)


Stored = Literal["new", "known", "finished now"]

_AT_ONCE = 500


def chat_before(
    dataset: Dataset, item: Item, turn: int, prompt: PromptUnderTest, before: Sequence[AnswerRecord] = ()
) -> Chat:
    """The chat before an answer, as far as known from prompt, item and earlier answers."""
    try:
        return chat_for(dataset, item, turn, prompt, [assistant(one.text, one.tool_calls) for one in before])
    except TemplateError:
        return tuple(question_of(item.units[turn]))


def recorded_run(reader: Reader, digest: str) -> RunRow | None:
    """The run that a recording was made before, if it was; the first one where there are several."""
    first: RunRow | None = None
    offset, page = 0, reader.runs(200)
    while page:
        for run in page:
            kept = run.config.get(RECORDED)
            if not isinstance(kept, Mapping) or kept.get("digest") != digest:
                continue
            if first is None or run.created < first.created:
                first = run
        offset += len(page)
        page = reader.runs(200, offset)
    return first


def store_recording(
    writer: Writer, reader: Reader, recording: Recording, settings: Settings, environment: Mapping[str, str]
) -> tuple[RunRow, Stored]:
    """The run of a recording, created unless it exists; an unfinished one is completed.

    It waits for commits, so it must not be called from an event loop.
    """
    run = recorded_run(reader, recording.digest)
    if run is not None and run.status == "finished":
        return run, "known"
    dataset = Dataset.model_validate(recording.document)
    answers = _whole(recording, dataset)
    outcome: Stored = "finished now"
    if run is None:
        run, outcome = _planned(writer, recording, dataset, answers, settings, environment), "new"
        first = recorded_run(reader, recording.digest)
        if first is not None and first.id != run.id:  # Another process imported the same file at the same time.
            writer.delete_run(run)
            run, outcome = first, "finished now"
    asyncio.run(_filled(writer, reader, run, recording, dataset, answers))
    begun = {} if recording.started is None else {"started": recording.started}
    writer.run_status(run.id, "finished", finished=recording.finished or time.time(), **begun)
    sign(writer, run, "import", {"by": recording.by})
    return reader.run(run.id), outcome


def _whole(recording: Recording, dataset: Dataset) -> list[RecordedAnswer]:
    """The answers in the order of a plan, every conversation with all its turns; ValueError where they cannot be."""
    ordered = sorted(recording.answers, key=lambda one: (*one.cell, one.turn))
    whole: list[RecordedAnswer] = []
    for (number, *_), group in groupby(ordered, key=lambda one: one.cell):
        by_turn: dict[int, RecordedAnswer] = {}
        for one in group:
            if one.turn in by_turn or not _fits(one, recording, dataset):
                raise ValueError(f"a recording cannot hold an answer at {(*one.cell, one.turn)}")
            by_turn[one.turn] = one
        last = next(iter(by_turn.values()))
        for turn in range(len(dataset.items[number].units)):
            last = by_turn.get(turn) or _missing(last, turn)
            whole.append(last)
    return whole


def _fits(one: RecordedAnswer, recording: Recording, dataset: Dataset) -> bool:
    return (
        0 <= one.item < len(dataset.items)
        and 0 <= one.turn < len(dataset.items[one.item].units)
        and 0 <= one.target < len(recording.targets)
        and 0 <= one.prompt < max(1, len(recording.prompts))
        and one.repeat >= 0
    )


def _missing(near: RecordedAnswer, turn: int) -> RecordedAnswer:
    message = "the recording holds no answer to this turn"
    lost = AnswerRecord(text=None, request={"messages": []}, code="agentRequestFailed", message=message)
    return RecordedAnswer(
        item=near.item, turn=turn, prompt=near.prompt, target=near.target, repeat=near.repeat, answer=lost
    )


def _planned(
    writer: Writer,
    recording: Recording,
    dataset: Dataset,
    answers: Sequence[RecordedAnswer],
    settings: Settings,
    environment: Mapping[str, str],
) -> RunRow:
    new = NewRun(
        name=recording.name,
        snapshot=writer.snapshot(dict(recording.document), recording.source),
        source=recording.source,
        suite=recording.suite,
        targets=recording.targets,
        prompts=tuple(prompt.name for prompt in recording.prompts) or ("",),
        tags=recording.tags,
        config=_config(recording, dataset, settings, environment),
    )
    return writer.plan(new, _cells(answers, dataset))


def _config(
    recording: Recording, dataset: Dataset, settings: Settings, environment: Mapping[str, str]
) -> dict[str, Any]:
    """The config that a started run would have, as far as the recording has it."""
    items = sorted({recorded.item for recorded in recording.answers})
    judges = sorted(set(recording.judges))
    about = {"about": dict(recording.about)} if recording.about else {}
    return {
        "targets": [dict(one) for one in recording.identities]
        or [_identity(name, settings, environment) or _unknown(name) for name in recording.targets],
        "judge": _identity(judges[0], settings, environment) if len(judges) == 1 else None,
        "without_judges": False,
        "repeats": recording.repeats,
        "only": None if len(items) == len(dataset.items) else items,
        "prompts": [{"name": prompt.name, **kept_prompt(prompt)} for prompt in recording.prompts],
        "terms": asdict(Terms()),
        **({METRICS: recording.metrics} if recording.metrics else {}),
        RECORDED: {"by": recording.by, "digest": recording.digest, "judges": judges, **about},
    }


def _identity(word: str, settings: Settings, environment: Mapping[str, str]) -> dict[str, Any] | None:
    """The identity of the configured target with this name; None if there is none."""
    try:
        config = find_target(word, settings)
    except ConfigurationError:
        return None
    return identity(config, environment) | {"name": config.name}


def _unknown(model: str) -> dict[str, Any]:
    return {"model": model, "base_url": None, "params": {}, "via": "auto", "name": model}


def _cells(answers: Sequence[RecordedAnswer], dataset: Dataset) -> Iterator[PlannedAnswer]:
    names = item_names(dataset)
    for cell, (_, turns) in enumerate(groupby(answers, key=lambda one: one.cell)):
        for one in turns:
            category = dataset.items[one.item].category or ""
            place = one.item, one.turn, one.prompt, one.target, one.repeat
            yield PlannedAnswer(cell, *place, names[one.item], category)


async def _filled(
    writer: Writer,
    reader: Reader,
    run: RunRow,
    recording: Recording,
    dataset: Dataset,
    answers: Sequence[RecordedAnswer],
) -> None:
    """Commit every answer with its scores; existing ones are not changed."""
    ids = reader.ids(run.id)
    together = {(group.item, group.turn) for group in recording.together}
    for start in range(0, len(answers), _AT_ONCE):
        page = zip(ids[start : start + _AT_ONCE], answers[start : start + _AT_ONCE], strict=True)
        settled = [_settled(number, one, dataset, (one.item, one.turn) in together) for number, one in page]
        await writer.settled(run.scoring_pass, settled)
    await asyncio.gather(
        *(
            writer.group_scored(run.id, run.scoring_pass, group.item, group.turn, group.score)
            for group in recording.together
        )
    )


def _settled(number: int, one: RecordedAnswer, dataset: Dataset, together: bool) -> Settled:
    """A recorded answer ready to be stored."""
    if one.answer.text is None:
        return Settled(number, one.answer, one.scores or None, "error", score_of(one.scores))
    return Settled(number, one.answer, one.scores, *_judgement(one, dataset.items[one.item], together))


def _judgement(one: RecordedAnswer, item: Item, together: bool) -> tuple[Status, float | None]:
    """The verdict on an answer from its scores; an answer in the wrong form fails."""
    if any(score.key == FORMAT_KEY and score.result == "fail" for score in one.scores):
        return one.status or "fail", 0.0
    threshold = 1.0 if item.threshold is None else item.threshold
    score = score_of(one.scores) if one.score is None else one.score
    return one.status or status_of(one.scores, threshold, together=together), score
