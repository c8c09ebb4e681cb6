"""A clock that is set back during a run, between a run and its resumption, and in what was stored under one."""

import itertools
import json
import sqlite3
import time

from tests.cli.helpers import asked
from tui_evals.runs import engine


class _SetBack:
    """The time, an hour earlier each time it is asked for."""

    def __init__(self):
        self._hours = itertools.count()
        self.monotonic = time.monotonic

    def time(self):
        return 1_800_000_000.0 - 3_600 * next(self._hours)


def test_a_run_never_ends_before_it_began(shell, folder, dataset, answers, monkeypatch):
    file, target = dataset(asked(2), {"ExactMatch": {}}), answers(["right", "right"])
    monkeypatch.setattr(engine, "time", _SetBack())
    assert shell("run", file, "--target", target, "--quiet").code == 0
    with sqlite3.connect(".evals/evals.db") as store:
        ((started, finished),) = store.execute("SELECT started, finished FROM runs").fetchall()
        assert started == 1_800_000_000.0 and started <= finished < started + 600
        store.execute("UPDATE runs SET status = 'interrupted', finished = NULL, started = 1900000000")
        store.execute("UPDATE answers SET status = 'pending' WHERE pos = 1")
    assert shell("resume", "last", "--quiet").code == 0
    with sqlite3.connect(".evals/evals.db") as store:
        ((started, finished),) = store.execute("SELECT started, finished FROM runs").fetchall()
        assert started == 1_900_000_000.0 <= finished < started + 600
        store.execute("UPDATE runs SET finished = 1.0")  # as a version before stored it
    (run,) = json.loads(shell("runs", "--json").out)
    assert run["started"] == run["finished"] == started
