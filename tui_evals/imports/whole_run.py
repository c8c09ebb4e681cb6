"""The companion of an exported run: what its file has no place for, read back as the whole run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from tui_evals.datasets.document import companion_of
from tui_evals.datasets.validate import parse_dataset
from tui_evals.imports.base import Losses
from tui_evals.imports.exports import FINAL
from tui_evals.light_records import dataclass
from tui_evals.project_files import open_file, read_bytes
from tui_evals.runs.prompting import PromptUnderTest, prompt_kept
from tui_evals.store.database import StoreError
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.store.rows import answer_record, dumps
from tui_evals.text import strictjson
from tui_evals.text.measures import counted

from .keeping import LARGEST
from .recording import RecordedAnswer, RecordedGroup, Recording, digest_of
from .results import BY

_SCORE = TypeAdapter(ScoreRecord)
_Position = Annotated[int, Field(ge=0, le=10_000_000)]


def _score(value: object) -> ScoreRecord:
    return _SCORE.validate_python(value)


class _CompanionPart(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, arbitrary_types_allowed=True)


class _Together(_CompanionPart):
    item: _Position
    turn: _Position
    score: Annotated[Any, BeforeValidator(_score)]


class _Config(_CompanionPart):
    targets: tuple[dict[str, Any], ...] = ()
    judge: dict[str, Any] | None = None
    prompts: tuple[dict[str, Any], ...] = ()


class _Head(_CompanionPart):
    name: str
    suite: str = ""
    tags: tuple[str, ...] = ()
    targets: tuple[str, ...]
    prompts: tuple[str, ...]
    config: _Config
    started: float | None = None
    finished: float | None = None
    dataset: dict[str, Any]
    together: tuple[_Together, ...] = ()
    waiting: int = 0
    gates: int = 0


class _Answer(_CompanionPart):
    run: _Position
    place: tuple[_Position, _Position, _Position, _Position, _Position]
    status: str
    score: float | None = None
    request: dict[str, Any]
    text: str | None
    rest: dict[str, Any]
    scores: tuple[Annotated[Any, BeforeValidator(_score)], ...] = ()


class _Runs(_CompanionPart):
    of: str
    runs: tuple[_Head, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class WholeRuns:
    """The runs of a companion, and what of them even it does not hold."""

    recordings: tuple[Recording, ...]
    losses: Losses


def whole_runs_of(path: Path) -> WholeRuns | str | None:
    """The whole runs that a file was written of; why they cannot be used, or None where it has no such companion."""
    companion = companion_of(path)
    if not path.is_file() or not companion.is_file():
        return None
    try:
        lines = read_bytes(companion, most=LARGEST, follow_out=True).decode("utf-8").splitlines()
        first = strictjson.loads(lines[0]) if lines else None
        if not isinstance(first, Mapping) or "runs" not in first:
            return None
        head = _Runs.model_validate(first)
        if head.of != _digest(path):
            return f"{companion.name} was written for another version of {path.name}, so it is not used"
        answers = [_Answer.model_validate(strictjson.loads(line)) for line in lines[1:]]
        losses = Losses()
        of_run = [[one for one in answers if one.run == number] for number in range(len(head.runs))]
        told = tuple(_recording(path, one, of_run[number], losses) for number, one in enumerate(head.runs))
    except (OSError, ValueError, IndexError, KeyError, TypeError, RecursionError, StoreError):
        return f"{companion.name} is damaged, so it is not used. Export the run again to write a new one"
    losses.carried(f"{counted(sum(len(one.answers) for one in told), 'answer')} with everything that is known of them")
    losses.left_out("labels, earlier scoring passes, single calls and signatures", why="they are in the run's store")
    return WholeRuns(told, losses)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open_file(path, most=LARGEST, follow_out=True) as stream:
        while piece := stream.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def _recording(path: Path, head: _Head, answers: Sequence[_Answer], losses: Losses) -> Recording:
    if parse_dataset(head.dataset)[0] is None:
        raise ValueError("the dataset is none")
    if head.waiting:
        losses.left_out(counted(head.waiting, "answer that had not come", "answers that had not come"))
    if head.gates:
        losses.left_out("gates", why="a recorded run was not started with them")
    prompts = tuple(map(prompt_kept, head.config.prompts))
    if not prompts and any(head.prompts):
        prompts = tuple(map(PromptUnderTest, head.prompts))
    recorded = tuple(_recorded(one, losses) for one in answers)
    together = tuple(RecordedGroup(one.item, one.turn, one.score) for one in head.together)
    return Recording(
        by=BY,
        digest=digest_of(dumps(head.model_dump(exclude={"together"})), recorded, together),
        document=head.dataset,
        source=str(path),
        name=head.name,
        targets=head.targets,
        answers=recorded,
        together=together,
        prompts=prompts,
        judges=(head.config.judge["name"],) if head.config.judge else (),
        suite=head.suite,
        tags=head.tags,
        started=head.started,
        finished=head.finished,
        identities=head.config.targets,
    )


def _recorded(one: _Answer, losses: Losses) -> RecordedAnswer:
    item, turn, prompt, target, repeat = one.place
    if one.status not in FINAL:
        losses.changed("an answer that had not been judged", why="it is unjudged")
    answer: AnswerRecord = replace(answer_record("", one.text, dumps(one.rest)), request=one.request)
    return RecordedAnswer(
        item=item,
        turn=turn,
        prompt=prompt,
        target=target,
        repeat=repeat,
        answer=answer,
        scores=one.scores,
        status=one.status if one.status in FINAL else None,  # type: ignore[arg-type]
        score=one.score,
    )
