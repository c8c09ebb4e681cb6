"""Past battles in words: who fought, before which judge, and when."""

from __future__ import annotations

from collections.abc import Mapping

from tui_evals.compare.sides import column_name
from tui_evals.compare.verdicts import NAMES
from tui_evals.store.battles import BattleRow, BattleSide
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.money import money

from .figures import counted, local_time


def runs_of_battles(reader: Reader, battles: list[BattleRow]) -> dict[int, RunRow]:
    """The runs that fought, by their numbers; with a run its battles are deleted."""
    return {number: reader.run(number) for number in {side.run for battle in battles for side in battle.sides}}


def side_name(side: BattleSide, runs: Mapping[int, RunRow]) -> str:
    """A run by its name and id, or its column and id."""
    run = runs[side.run]
    return f"{run.name if side.column is None else column_name(run, *side.column)} ({run.key})"


def sides_text(battle: BattleRow, runs: Mapping[int, RunRow]) -> str:
    """Who fought, by their letters."""
    named = zip(NAMES, battle.sides, strict=False)
    return " · ".join(f"{letter} {side_name(side, runs)}" for letter, side in named)


def asked_text(battle: BattleRow) -> str:
    """When, before whom, over how much, for how much."""
    parts = [local_time(battle.time), f"judge {battle.judge}"]
    if battle.pairs is not None:
        drawn = "" if battle.seed is None else f" drawn by seed {battle.seed}"
        parts.append(f"at most {counted(battle.pairs, 'pair', 'pairs')}{drawn}")
    return " · ".join([*parts, money(battle.cost)])


def outcome_text(battle: BattleRow) -> str:
    """What came of it."""
    return battle.summary or "nothing is decided yet; the same battle goes on"
