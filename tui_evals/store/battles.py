"""Battles that were begun, and the verdicts of judges on their pairs, so that none is paid for twice."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from tui_evals.light_records import dataclass
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord
from tui_evals.store.results import battled, fought
from tui_evals.store.rows import loads, plain
from tui_evals.store.writer import Writer

Winner = Literal["left", "right", "tie"]

SCRIPTED = "scripted: "
"""How the reason of a scripted verdict begins."""

_BOUT_COLUMNS = "left, right, judge, question, first, second, reason, time"
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
        """This bout with left and right exchanged."""
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
    names = _BOUT_COLUMNS.split(", ")
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


_COLUMNS = "id, sides, judge, question, criteria, pairs, seed, time, cost, summary"


@dataclass(frozen=True, slots=True)
class BattleSide:
    """A run, by its number, or one column of it, by prompt and target."""

    run: int
    column: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BattleRow:
    """A battle as it was asked for, and what came of it."""

    id: int = 0
    sides: tuple[BattleSide, ...]
    judge: str
    question: str
    """What the judge was asked to decide by, as bouts have it."""
    criteria: str
    pairs: int | None
    """At most so many pairs of answers of two sides."""
    seed: int | None
    time: float = 0.0
    """When something was decided last."""
    cost: float = 0.0
    summary: str = ""
    """What came of it in a sentence; empty where nothing has yet."""


def battles(reader: Reader) -> list[BattleRow]:
    """Every battle, the latest first."""
    return [_row(*row) for row in reader.query(f"SELECT {_COLUMNS} FROM battles ORDER BY time DESC, id DESC")]


def battle_numbered(reader: Reader, number: int) -> BattleRow:
    """A battle by its number; LookupError where there is none."""
    for row in reader.query(f"SELECT {_COLUMNS} FROM battles WHERE id = ?", [number]):
        return _row(*row)
    raise LookupError(f"there is no battle {number}; `tui-evals battles` lists them")


def begin_battle(writer: Writer, battle: BattleRow) -> None:
    """Note a battle; one that is noted already stays as it is."""
    writer.write(
        "INSERT INTO battles(sides, judge, question, criteria, pairs, seed, time, cost, summary) "
        "SELECT ?1, ?2, ?3, ?6, ?4, ?5, ?7, 0, ?8 WHERE NOT EXISTS (SELECT 1 FROM battles "
        "WHERE sides = ?1 AND judge = ?2 AND question = ?3 AND pairs IS ?4 AND seed IS ?5)",
        *_identity(writer, battle),
        writer.clean(plain(battle.criteria)),
        time.time(),
        writer.clean(battle.summary),
    )


def note_call(writer: Writer, call: CallRecord, run: int, battle: BattleRow) -> None:
    """Log an attempt in a run, and add what it cost to its battle; does not wait."""
    writer.battle_call(call, run, _identity(writer, battle))


async def end_battle(writer: Writer, battle: BattleRow) -> None:
    """Note what going on with a battle came to; its calls have brought their costs."""
    row = (*_identity(writer, battle), time.time(), 0.0, writer.clean(battle.summary))
    await writer.commit(battled, row)


def _identity(writer: Writer, battle: BattleRow) -> Sequence[object]:
    sides = json.dumps([[side.run, *(side.column or ())] for side in battle.sides])
    return sides, writer.clean(battle.judge), battle.question, battle.pairs, battle.seed


def _row(
    number: int,
    sides: str,
    judge: str,
    question: str,
    criteria: str,
    pairs: int | None,
    seed: int | None,
    when: float,
    cost: float,
    summary: str,
) -> BattleRow:
    known = (BattleSide(run, (column[0], column[1]) if column else None) for run, *column in loads(sides))
    return BattleRow(
        id=number,
        sides=tuple(known),
        judge=judge,
        question=question,
        criteria=criteria,
        pairs=pairs,
        seed=seed,
        time=when,
        cost=cost,
        summary=summary,
    )
