"""The process of one metric: jobs come in over a socket as lines of JSON, many at once, and their results go out.

Lines from the parent: `{"job": number, "given": {…}}`, `{"cancel": number}`, `{"answer": number, "value": …}`.
Lines to it: `{"ready": {"version": …}}` or `{"unloadable": …}`, `{"ask": number, "job": …, "question": …}`,
`{"done": job, "result": {…}}` or with `raised`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import socket
import sys
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any

from .judge_server import JudgeServer, Refused
from .metrics import Job, Metric, open_metric, why_unloadable

THREADS = 64


class Parent:
    """The other end of the socket."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lines = channel.makefile("rb")
        self._writing = threading.Lock()
        self._numbers = count()
        self._asked: dict[int, tuple[int, Future[Any]]] = {}

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a line."""
        data = json.dumps(message, default=str).encode() + b"\n"
        with self._writing:
            self._channel.sendall(data)

    def begin_ask(self, job: int, question: Mapping[str, Any]) -> Future[Any]:
        """The future reply of the judge to a question of a job."""
        number, reply = next(self._numbers), Future[Any]()
        self._asked[number] = job, reply
        reply.add_done_callback(lambda _: self._asked.pop(number, None))
        self.say({"ask": number, "job": job, "question": question})
        return reply

    def listen(self, worker: Worker) -> None:
        """Pass on messages of the parent until it hangs up, which ends this process."""
        for line in self._lines:
            message = json.loads(line)
            if "answer" in message:
                _, reply = self._asked.get(message["answer"], (0, None))
                if reply is not None and reply.set_running_or_notify_cancel():
                    reply.set_result(message["value"])
            elif "job" in message:
                worker.begin(message["job"], message["given"])
            elif "cancel" in message:
                worker.cancel(message["cancel"])
                for job, reply in list(self._asked.values()):
                    if job == message["cancel"] and reply.set_running_or_notify_cancel():
                        reply.set_exception(Refused("no caller waits for this any more"))
        os._exit(0)


class Worker:
    """The jobs of a metric: async ones on one loop, others in threads."""

    def __init__(self, metric: Metric, server: JudgeServer, parent: Parent, loop: asyncio.AbstractEventLoop) -> None:
        self._metric, self._judge_server, self._parent, self._loop = metric, server, parent, loop
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="metric")
        self.running: dict[int, asyncio.Task[None] | None] = {}

    def begin(self, number: int, given: Mapping[str, Any]) -> None:
        """Start a job."""
        self.running[number] = None
        job = Job(number, given, self._judge_server, lambda question: self._parent.begin_ask(number, question))
        if inspect.iscoroutinefunction(self._metric.measure):
            self._loop.call_soon_threadsafe(self._begin_async, job)
        else:
            self._threads.submit(self._measure, job)

    def cancel(self, number: int) -> None:
        """Cancel a job; results that a thread still computes for it are ignored."""
        task = self.running.pop(number, None)
        if task is not None:
            self._loop.call_soon_threadsafe(task.cancel)

    def oldest(self) -> int | None:
        """The job that has run longest."""
        return next(iter(list(self.running)), None)

    def _begin_async(self, job: Job) -> None:
        if job.number in self.running:
            self.running[job.number] = self._loop.create_task(self._measure_async(job))

    async def _measure_async(self, job: Job) -> None:
        try:
            self._done(job, {"result": await self._metric.measure(job)})
        except (Exception, SystemExit) as problem:
            self._done(job, _raised(problem))

    def _measure(self, job: Job) -> None:
        try:
            self._done(job, {"result": self._metric.measure(job)})
        except (Exception, SystemExit) as problem:
            self._done(job, _raised(problem))

    def _done(self, job: Job, outcome: Mapping[str, Any]) -> None:
        if self.running.pop(job.number, self) is not self:
            self._parent.say({"done": job.number, **outcome})


def _raised(problem: BaseException) -> dict[str, str]:
    said = f"{type(problem).__name__}: {problem}".removesuffix(": ")
    frames = traceback.format_exception(type(problem), problem, problem.__traceback__)
    return {"raised": said[:2_000], "traceback": "".join(frames)[-4_000:]}


def main() -> None:
    """Open the metric that the arguments name, and serve it."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    wanted = json.loads(sys.argv[2])
    parent = Parent(channel)
    loop = asyncio.new_event_loop()
    workers: list[Worker] = []
    server = JudgeServer(
        lambda job, question: parent.begin_ask(job, question).result(),
        lambda: workers[0].oldest() if workers else None,
    )
    # for libraries that read the usual variables
    os.environ.update(OPENAI_API_KEY=server.key(), OPENAI_BASE_URL=server.base_url, OPENAI_API_BASE=server.base_url)
    try:
        metric = open_metric(wanted["library"], wanted["metric"], wanted["options"], server)
    except (Exception, SystemExit) as problem:
        parent.say({"unloadable": why_unloadable(problem)[:2_000]})
        return
    workers.append(Worker(metric, server, parent, loop))
    parent.say({"ready": {"version": metric.version, "python": sys.version.split()[0]}})
    threading.Thread(target=parent.listen, args=(workers[0],), daemon=True, name="parent").start()
    asyncio.set_event_loop(loop)
    loop.run_forever()
