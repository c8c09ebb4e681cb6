"""What Dask runs on a worker: the task that holds a shard, and the handler of the messages to its session."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from tui_evals.runs.executors.cluster.wire import OP, Message, reveal_order

from .session import Abandoned, WorkerSession

_HELLO_SECONDS = 3.0
"""Seconds without a message after which a worker announces itself again."""
ORPHANED_SECONDS = 120.0
"""Seconds without a message after which the driver is taken for dead."""
_FORGOTTEN_SECONDS = 5.0
"""The same where the scheduler has forgotten the tasks, which it does when the driver's connection is gone."""

_sessions: dict[str, WorkerSession] = {}
_session_tasks: set[asyncio.Task[None]] = set()


async def hold_shard(topic: str, number: int) -> None:
    """Hold a shard of the run that talks under a topic; the cells come by message, so that a task holds no data."""
    session = _sessions.get(topic)
    if session is None or session.over:
        session = _begin_session(topic)
    work = asyncio.create_task(session.hold(number))
    try:
        await asyncio.wait([work])
    finally:
        work.cancel()
    if work.cancelled():
        raise Abandoned(f"the shard {number} was given up")
    work.result()


def _begin_session(topic: str) -> WorkerSession:
    from distributed import get_worker

    worker = get_worker()
    worker.handlers.setdefault(OP, _handle_message)
    session = _sessions[topic] = WorkerSession(secrets.token_hex(8))
    keeper = asyncio.create_task(_keep_session(worker, topic, session))
    _session_tasks.add(keeper)
    keeper.add_done_callback(_session_tasks.discard)
    return session


async def _handle_message(topic: str, session: str, letter: Message) -> Message:
    """Handle a message of the driver; the answer says so when the session has ended."""
    current = _sessions.get(topic)
    if current is None or current.name != session:
        return {"gone": True}
    return await current.exchange(reveal_order(letter))


async def _keep_session(worker: Any, topic: str, session: WorkerSession) -> None:
    """Announce the session until the driver talks to it, and end it when the driver has fallen silent."""
    clock = asyncio.get_running_loop().time
    started, announced = clock(), 0.0
    while not session.over:
        silent = clock() - max(session.last_message, started)
        if silent > ORPHANED_SECONDS or (silent > _FORGOTTEN_SECONDS and _is_forgotten(worker, topic, session)):
            session.abandon()
        elif (session.unreached or silent > _HELLO_SECONDS) and clock() - announced > _HELLO_SECONDS:
            worker.log_event(topic, {"session": session.name, "address": worker.address})
            announced = clock()
        await asyncio.sleep(0.2)
    await session.close()
    if _sessions.get(topic) is session:
        del _sessions[topic]


def _is_forgotten(worker: Any, topic: str, session: WorkerSession) -> bool:
    """Whether the scheduler has dropped the tasks of all shards held here."""
    tasks = [worker.state.tasks.get(f"{topic}-{number}") for number in session.held]
    return all(task is None or task.state == "cancelled" for task in tasks)
