"""The battles that were begun, so that each is found and shown again; what judges said stands in their bouts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .reader import Reader
from .records import CallRecord
from .results import battled
from .rows import loads, plain
from .writer import Writer

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
