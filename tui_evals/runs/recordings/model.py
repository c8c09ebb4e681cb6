"""The shape of a finished run that was made elsewhere, as every door hands it over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.runs.status import Status
from tui_evals.store.records import AnswerRecord, ScoreRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One answer of a recording, by the positions from 0 of what it answers, of who answered, and how often before."""

    item: int
    turn: int = 0
    prompt: int = 0
    target: int = 0
    repeat: int = 0
    answer: AnswerRecord
    scores: tuple[ScoreRecord, ...] = ()
    status: Status | None = None
    """As it was recorded; None where it follows from the scores."""

    @property
    def cell(self) -> tuple[int, int, int, int]:
        """What the turns of one conversation share, in the order of a plan."""
        return (self.item, self.repeat, self.prompt, self.target)


@dataclass(frozen=True, slots=True)
class Together:
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
    """What tells this recording from any other; see `digest_of`."""
    document: Mapping[str, Any]
    """The eval document that was asked, without what came of it."""
    source: str
    name: str
    targets: tuple[str, ...]
    answers: tuple[Recorded, ...]
    together: tuple[Together, ...] = ()
    prompts: tuple[PromptUnderTest, ...] = ()
    judges: tuple[str, ...] = ()
    """Every judge that is known to have judged."""
    suite: str = ""
    tags: tuple[str, ...] = ()
    metrics: str | None = None
    """The folder of the prompt from the project's root, where metrics lie."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of how it was made, as plain data."""
    started: float | None = None
    finished: float | None = None

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
        return {one.name: getattr(value, one.name) for one in fields(value)}  # asdict copies all that is below
    raise TypeError(f"a {type(value).__name__} is no plain data")
