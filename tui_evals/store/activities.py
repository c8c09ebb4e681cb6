"""Battles and generations while they are executed: the request of each, its progress, its messages and its end."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tui_evals.light_records import dataclass

from .locks import alive, run_lock, store_wait
from .reader import Reader
from .records import StopCode, StoreWait
from .rows import loads, plain
from .writer import Writer

ActivityKind = Literal["battle", "generation"]
ActivityStatus = Literal["planned", "running", "stopping", "finished", "interrupted"]
Order = Literal["", "stop", "abort"]
"""What a running activity is told: let open calls finish, or end now."""

_COLUMNS = (
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
    """What it works on: the folder of a generation, the sides and the judge of a battle."""
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
    """What it waits for until the store is writable."""

    @property
    def is_live(self) -> bool:
        """Whether a process executes it, or is about to."""
        return self.status in ("planned", "running", "stopping")


def activity_lock(store: Path, kind: ActivityKind, key: str) -> Path:
    """The lock file that the executing process holds."""
    return run_lock(store, f"{kind}-{key}")


def plan_activity(writer: Writer, kind: ActivityKind, about: str, request: Mapping[str, Any]) -> str:
    """Store an activity that is to be executed; returns its key."""
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


def order_activity(writer: Writer, key: str, order: Order) -> None:
    """Tell a running activity to stop."""
    writer.write("UPDATE activities SET control = ? WHERE key = ?", order, key)


def activity(reader: Reader, key: str) -> ActivityRow:
    """The activity of a key; LookupError where there is none."""
    for row in reader.query(f"SELECT {_COLUMNS} FROM activities WHERE key = ?", [key]):
        return _row(reader.path, row)
    raise LookupError(f"there is no battle or generation {key}")


def order_of(reader: Reader, key: str) -> Order:
    """What an activity was told last."""
    for (word,) in reader.query("SELECT control FROM activities WHERE key = ?", [key]):
        order: Order = word
        return order
    return ""


def activities(reader: Reader, kind: ActivityKind, about: str | None = None, most: int = _KEPT) -> list[ActivityRow]:
    """The activities of a kind, the latest first."""
    where, values = ("kind = ?", [kind]) if about is None else ("kind = ? AND about = ?", [kind, about])
    query = f"SELECT {_COLUMNS} FROM activities WHERE {where} ORDER BY id DESC LIMIT ?"
    return [_row(reader.path, row) for row in reader.query(query, [*values, most])]


def live_activities(reader: Reader, kind: ActivityKind) -> Iterator[ActivityRow]:
    """The activities of a kind that are executed now."""
    query = (
        f"SELECT {_COLUMNS} FROM activities WHERE kind = ? AND status IN ('planned', 'running', 'stopping') "
        "ORDER BY id DESC"
    )
    for row in reader.query(query, [kind]):
        found = _row(reader.path, row)
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


def _row(store: Path, row: Sequence[Any]) -> ActivityRow:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
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
