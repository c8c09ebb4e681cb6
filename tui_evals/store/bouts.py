"""The verdicts of judges on pairs of answers, kept so that no battle pays for a bout twice."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from .reader import Reader
from .results import fought
from .rows import plain
from .writer import Writer

Winner = Literal["left", "right", "tie"]

SCRIPTED = "scripted: "
"""How the reason of a scripted verdict begins."""

_COLUMNS = "left, right, judge, question, first, second, reason, time"
_TURNED: Mapping[Winner | None, Winner | None] = {"left": "right", "right": "left", "tie": "tie", None: None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bout:
    """Two answers, by their ids, as a judge saw them in both orders; None where it gave no verdict."""

    left: int
    right: int
    judge: str
    question: str
    """What the judge was asked to decide by: the hash of its prompt and criteria, and of who it is."""
    first: Winner | None
    """The verdict with the left answer shown first."""
    second: Winner | None
    """The verdict with the right answer shown first."""
    reason: str
    """Why, or why there is no verdict: a line for each order, the left answer first in the first."""
    time: float = 0.0

    @property
    def winner(self) -> Winner | None:
        """The side that wins in both orders; a tie where the orders disagree, None where one is missing."""
        if self.first is None or self.second is None:
            return None
        return self.first if self.first == self.second else "tie"

    @property
    def split(self) -> bool:
        """Whether the orders disagree, which makes it a tie."""
        return self.winner is not None and self.first != self.second

    @property
    def shown_first(self) -> float | None:
        """How much of both verdicts went to the answer shown first: 1/2 for a judge that looks at the answers alone."""
        if self.first is None or self.second is None:
            return None
        worth = {"tie": 0.5}
        return (worth.get(self.first, self.first == "left") + worth.get(self.second, self.second == "right")) / 2

    @property
    def scripted(self) -> bool:
        """Whether a verdict was written beforehand rather than given by a model."""
        return any(line.startswith(SCRIPTED) for line in self.reason.split("\n"))

    @property
    def turned(self) -> Bout:
        """The same bout with left for right."""
        first, _, second = self.reason.partition("\n")
        return replace(
            self,
            left=self.right,
            right=self.left,
            first=_TURNED[self.second],
            second=_TURNED[self.first],
            reason=f"{second}\n{first}",
        )


def bouts(reader: Reader, left: int, right: int, judge: str, question: str) -> Iterator[Bout]:
    """The bouts between the answers of two runs, whichever of them was named first when they were fought."""
    names = _COLUMNS.split(", ")
    query = (
        f"SELECT {', '.join(f'b.{name}' for name in names)} FROM bouts b "
        "JOIN answers l ON l.id = b.left JOIN answers r ON r.id = b.right "
        "WHERE l.run = ? AND r.run = ? AND b.judge = ? AND b.question = ? ORDER BY l.pos"
    )
    for row in reader.query(query, [left, right, judge, question]):
        yield Bout(**dict(zip(names, row, strict=True)))
    for row in reader.query(query, [right, left, judge, question]):
        yield Bout(**dict(zip(names, row, strict=True))).turned


async def keep_bout(writer: Writer, bout: Bout) -> None:
    """Commit a bout; one that has both verdicts stays as it is, one without them is replaced when it is asked again."""
    if bout.left > bout.right:
        bout = bout.turned
    row = (
        bout.left,
        bout.right,
        writer.clean(bout.judge),
        bout.question,
        bout.first,
        bout.second,
        writer.clean(plain(bout.reason)),
        time.time(),
    )
    await writer.commit(fought, row)
