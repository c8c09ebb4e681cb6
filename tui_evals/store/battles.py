"""Battles and generations in the store: the request of each, its progress and end, and the verdicts on its pairs."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tui_evals.light_records import dataclass
from tui_evals.store.connection import alive, run_lock, store_wait
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord, StopCode, StoreWait
from tui_evals.store.results import battled, fought
from tui_evals.store.rows import loads, plain
from tui_evals.store.writer import Writer

ActivityKind = Literal["battle", "generation"]
ActivityStatus = Literal["planned", "running", "stopping", "finished", "interrupted"]
Order = Literal["", "stop", "abort"]
"""A request to a running activity: "stop" lets open calls finish, "abort" ends it now."""

_ACTIVITY_COLUMNS = (
    "id, key, kind, about, request, status, control, done, total, cost, facts, messages, message, code, created, "
    "started, finished"
)
_KEPT = 200
"""How many activities of each kind a store keeps."""
_MOST_MESSAGES = 200
_LONGEST_START = 60.0
"""Seconds after which a planned activity without a process counts as interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityRow:
    """A battle or a generation as the store knows it."""

    id: int
    key: str
    kind: ActivityKind
    about: str
    """Its subject: the folder of a generation, or the sides and the judge of a battle."""
    request: Mapping[str, Any]
    status: ActivityStatus
    """Interrupted where no process holds its lock."""
    control: Order
    done: int
    total: int
    cost: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers of its progress."""
    messages: tuple[str, ...] = ()
    message: str = ""
    """Why it ended early."""
    code: StopCode = ""
    created: float = 0.0
    started: float | None = None
    finished: float | None = None
    wait: StoreWait | None = None
    """The trouble that it waits for until the store is writable."""

    @property
    def is_live(self) -> bool:
        """Whether a process executes it, or is about to."""
        return self.status in ("planned", "running", "stopping")


def activity_lock(store: Path, kind: ActivityKind, key: str) -> Path:
    """The lock file that the executing process holds."""
    return run_lock(store, f"{kind}-{key}")


def plan_activity(writer: Writer, kind: ActivityKind, about: str, request: Mapping[str, Any]) -> str:
    """Store an activity with status `planned`; returns its key."""
    key = secrets.token_hex(4)
    text = writer.clean(plain(json.dumps(request, ensure_ascii=False)))
    values = (key, kind, writer.clean(plain(about)), text, time.time())
    writer.write(
        "INSERT INTO activities(key, kind, about, request, status, control, done, total, cost, facts, messages, "
        "message, code, created) VALUES (?, ?, ?, ?, 'planned', '', 0, 0, 0, '{}', '[]', '', '', ?)",
        *values,
    )
    writer.write(
        "DELETE FROM activities WHERE kind = ?1 AND status IN ('finished', 'interrupted') AND id <= "
        "(SELECT max(id) FROM activities) - ?2",
        kind,
        _KEPT,
    )
    return key


def drop_activity(writer: Writer, key: str) -> None:
    """Delete an activity that did not begin."""
    writer.write("DELETE FROM activities WHERE key = ?", key)


def begin_activity(writer: Writer, key: str) -> None:
    """Store that an activity is running."""
    writer.write("UPDATE activities SET status = 'running', started = ? WHERE key = ?", time.time(), key)


def order_activity(writer: Writer, key: str, order: Order) -> None:
    """Order a running activity to stop."""
    writer.write("UPDATE activities SET control = ? WHERE key = ?", order, key)


def activity(reader: Reader, key: str) -> ActivityRow:
    """The activity of a key; LookupError where there is none."""
    for row in reader.query(f"SELECT {_ACTIVITY_COLUMNS} FROM activities WHERE key = ?", [key]):
        return _activity_of(reader.path, row)
    raise LookupError(f"there is no battle or generation {key}")


def order_of(reader: Reader, key: str) -> Order:
    """The last order to an activity."""
    for (word,) in reader.query("SELECT control FROM activities WHERE key = ?", [key]):
        order: Order = word
        return order
    return ""


def activities(reader: Reader, kind: ActivityKind, about: str | None = None, most: int = _KEPT) -> list[ActivityRow]:
    """The activities of a kind, the latest first."""
    where, values = ("kind = ?", [kind]) if about is None else ("kind = ? AND about = ?", [kind, about])
    query = f"SELECT {_ACTIVITY_COLUMNS} FROM activities WHERE {where} ORDER BY id DESC LIMIT ?"
    return [_activity_of(reader.path, row) for row in reader.query(query, [*values, most])]


def live_activities(reader: Reader, kind: ActivityKind) -> Iterator[ActivityRow]:
    """The activities of a kind that are executed now."""
    query = (
        f"SELECT {_ACTIVITY_COLUMNS} FROM activities WHERE kind = ? AND status IN ('planned', 'running', 'stopping') "
        "ORDER BY id DESC"
    )
    for row in reader.query(query, [kind]):
        found = _activity_of(reader.path, row)
        if found.is_live:
            yield found


def update_activity(
    connection: sqlite3.Connection, *, key: str, values: Mapping[str, Any], messages: Sequence[str] = ()
) -> None:
    """Set columns of an activity and add messages, inside a transaction of the writer."""
    changed = dict(values)
    if messages:
        row = connection.execute("SELECT messages FROM activities WHERE key = ?", [key]).fetchone()
        known = json.loads(row[0]) if row else []
        changed["messages"] = json.dumps([*known, *messages][-_MOST_MESSAGES:], ensure_ascii=False)
    if changed:
        columns = ", ".join(f"{name} = ?" for name in changed)
        connection.execute(f"UPDATE activities SET {columns} WHERE key = ?", [*changed.values(), key])


def progress_step(writer: Writer, key: str, values: Mapping[str, Any], messages: Sequence[str] = ()) -> Any:
    """The step that stores progress, with no secret in its texts."""
    texts = [writer.clean(plain(message)) for message in messages]
    clean = {name: writer.clean(plain(value)) if isinstance(value, str) else value for name, value in values.items()}
    return partial(update_activity, key=key, values=clean, messages=texts)


def _activity_of(store: Path, row: Sequence[Any]) -> ActivityRow:
    values = dict(zip(_ACTIVITY_COLUMNS.split(", "), row, strict=True))
    for name in ("request", "facts"):
        known = loads(values[name])
        values[name] = known if isinstance(known, dict) else {}
    messages = loads(values["messages"])
    values["messages"] = tuple(map(str, messages)) if isinstance(messages, list) else ()
    lock = activity_lock(store, values["kind"], values["key"])
    if values["status"] not in ("finished", "interrupted"):
        if alive(lock):
            values["wait"] = store_wait(lock)
        else:
            is_starting = values["status"] == "planned" and time.time() - values["created"] < _LONGEST_START
            values["status"] = "planned" if is_starting else "interrupted"
    return ActivityRow(**values)


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
    """The identity of the question: the hash of its prompt, its criteria and the judge."""
    first: Winner | None
    """The verdict with the left answer shown first."""
    second: Winner | None
    """The verdict with the right answer shown first."""
    reason: str
    """The reasons, or why there is no verdict: one line for each order. Order 1 shows the left answer first."""
    time: float = 0.0

    @property
    def winner(self) -> Winner | None:
        """The side that wins in both orders; a tie if they disagree, None if one is missing."""
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
    """Commit a bout. A stored bout with both verdicts is kept; one without them is replaced."""
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
    """The parameters of a battle and its result."""

    id: int = 0
    sides: tuple[BattleSide, ...]
    judge: str
    question: str
    """The identity of the question, as in bouts."""
    criteria: str
    pairs: int | None
    """The most pairs of answers of two sides to judge; None means all."""
    seed: int | None
    time: float = 0.0
    """When something was decided last."""
    cost: float = 0.0
    summary: str = ""
    """The result in a sentence; empty before the first."""


def battles(reader: Reader) -> list[BattleRow]:
    """Every battle, the latest first."""
    return [_row(*row) for row in reader.query(f"SELECT {_COLUMNS} FROM battles ORDER BY time DESC, id DESC")]


def battle_numbered(reader: Reader, number: int) -> BattleRow:
    """A battle by its number; LookupError where there is none."""
    for row in reader.query(f"SELECT {_COLUMNS} FROM battles WHERE id = ?", [number]):
        return _row(*row)
    raise LookupError(f"there is no battle {number}; `tui-evals battles` lists them")


def begin_battle(writer: Writer, battle: BattleRow) -> None:
    """Store a battle unless it is already stored."""
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
    """Log an attempt in a run, and add its cost to the battle; does not wait."""
    writer.battle_call(call, run, _identity(writer, battle))


async def end_battle(writer: Writer, battle: BattleRow) -> None:
    """Store the new summary of a continued battle; its calls have already added their costs."""
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
