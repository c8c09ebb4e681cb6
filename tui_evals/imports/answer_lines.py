"""A run from a line for each of its answers, as our tables and lines of JSON have them, with what was asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, get_args

from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Problem
from tui_evals.datasets.validate import parse_dataset
from tui_evals.imports.base import Losses
from tui_evals.light_records import dataclass
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.runs.status import Status
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.text.measures import counted

from .recording import RecordedAnswer, RecordedGroup, Recording, chat_before, digest_of
from .results import BY

_PLACE = re.compile(r"#\d+")
_WAITING = ("pending", "running")
FINAL = get_args(Status)
"""The statuses of answers that are judged as far as they can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLine:
    """One line: which answer it is of, what was asked in it, what was answered and how that was judged."""

    line: int
    item: str
    turn: int
    target: str
    repeat: int
    prompt: str
    """The name of the prompt under test."""
    asked: Mapping[str, Any]
    """The fields of the turn, or of the item itself, that say what was asked."""
    about: Mapping[str, Any]
    """The fields of the item as a whole."""
    status: str
    score: float | None
    answer: AnswerRecord | None
    scores: tuple[ScoreRecord, ...] = ()
    together: tuple[ScoreRecord, ...] = ()
    is_turn: bool = False
    """Whether it is known to be of a conversation."""


@dataclass(slots=True)
class _Asked:
    """What is known of an item so far."""

    number: int
    name: str
    about: Mapping[str, Any]
    turns: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    talks: bool = False

    def item(self) -> dict[str, Any]:
        """The item in a dataset; one without a name of its own is called by its place, if that is another now."""
        named = {} if _PLACE.fullmatch(self.name) and self.name == f"#{self.number + 1}" else {"testId": self.name}
        about = {**named, **self.about}
        if self.talks:
            return {
                **about,
                "turns": [dict(self.turns.get(turn, {"prompt": " "})) for turn in range(max(self.turns) + 1)],
            }
        return {**about, **self.turns[0]}


def recording_of_lines(path: Path, lines: Sequence[AnswerLine], name: str, losses: Losses) -> Recording:
    """The run of some lines; DatasetError says which of them cannot be."""
    items: dict[str, _Asked] = {}
    for one in lines:
        asked = items.setdefault(one.item, _Asked(len(items), one.item, one.about))
        asked.turns.setdefault(one.turn, one.asked)
        asked.talks = asked.talks or one.is_turn or one.turn > 0
    document = {
        "schemaVersion": CURRENT_VERSION,
        "default_evaluators": {},
        "items": [asked.item() for asked in items.values()],
    }
    dataset, problems = parse_dataset(document)
    if dataset is None:
        raise DatasetError(str(path), problems)
    targets = tuple(dict.fromkeys(one.target for one in lines))
    prompts = tuple(dict.fromkeys(one.prompt for one in lines))
    answers = list(_answers(path, dataset, lines, items, targets, prompts, losses))
    if not answers:
        raise DatasetError(str(path), [Problem("no item has been answered, so there is no run in it")])
    groups = {
        (items[one.item].number, one.turn, score.key): RecordedGroup(items[one.item].number, one.turn, score)
        for one in lines
        for score in one.together
    }
    losses.carried(f"{counted(len(answers), 'answer')} with their scores and statuses")
    losses.left_out("evaluators and what the dataset expects", why="the file holds what came of them and not these")
    losses.left_out("requests as they were sent", why="the file does not hold them")
    return Recording(
        by=BY,
        digest=digest_of(document, targets, prompts, answers, list(groups.values())),
        document=document,
        source=str(path),
        name=name,
        targets=targets,
        answers=tuple(answers),
        together=tuple(groups.values()),
        prompts=tuple(map(PromptUnderTest, prompts)) if any(prompts) else (),
    )


def _answers(
    path: Path,
    dataset: Dataset,
    lines: Sequence[AnswerLine],
    items: Mapping[str, _Asked],
    targets: Sequence[str],
    prompts: Sequence[str],
    losses: Losses,
) -> Iterable[RecordedAnswer]:
    before: dict[tuple[int, int, int, int], list[AnswerRecord]] = {}
    seen: set[tuple[int, ...]] = set()
    for one in lines:
        number, where = items[one.item].number, f"{path}:{one.line}"
        if one.answer is None or one.status in _WAITING:
            losses.left_out("an answer that had not come yet", where)
            continue
        cell = (number, one.repeat, prompts.index(one.prompt), targets.index(one.target))
        if (*cell, one.turn) in seen:
            raise DatasetError(str(path), [Problem("the answer is there twice", line=one.line)])
        seen.add((*cell, one.turn))
        said = before.setdefault(cell, [])
        chat = chat_before(dataset, dataset.items[number], one.turn, PromptUnderTest(), said)
        answer = replace(one.answer, request={"messages": list(chat)})
        said.append(answer)
        if one.status == "answered":
            losses.changed("an answer that had not been judged", where, "it is unjudged")
        yield RecordedAnswer(
            item=number,
            turn=one.turn,
            prompt=cell[2],
            target=cell[3],
            repeat=one.repeat,
            answer=answer,
            scores=one.scores,
            status=_status(path, one),
            score=one.score,
        )


def _status(path: Path, one: AnswerLine) -> Status | None:
    if one.status == "answered":
        return None
    if one.status not in FINAL:
        raise DatasetError(str(path), [Problem(f"status is {one.status!r}, which no answer has", line=one.line)])
    status: Status = one.status  # type: ignore[assignment]
    return status
