"""Runs on real worker processes against a real server: killed in every way, they end as if undisturbed."""

import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.runs.conftest import Project, kill, project, server, until

pytest.importorskip("distributed", reason="the cluster extra is not installed")

__all__ = ["project", "server"]
CONCURRENCY = 10


def children_of(pid: int) -> set[int]:
    """The processes that a process started, and those that these did."""
    found, known = {pid}, -1
    while len(found) != known:
        known = len(found)
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                number, _, rest = status.read_text().partition(" (")
                if int(rest.rpartition(")")[2].split()[1]) in found:
                    found.add(int(number))
            except (OSError, IndexError):
                continue
    return found - {pid}


def workers_of(driver: subprocess.Popen) -> list[int]:
    """The worker processes of a driver, as their command lines tell."""
    found = []
    for child in children_of(driver.pid):
        try:
            line = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"spawn_main" in line:
            found.append(child)
    return found


def undisturbed(project: Project, tmp_path_factory) -> list[tuple]:
    other = Project(tmp_path_factory.mktemp("undisturbed"), project.server)
    other.configure(concurrency=CONCURRENCY)
    other.dataset(500)
    other.do("run", "data.json", "--target", "main", "--quiet")
    return other.table()


@pytest.mark.nightly
def test_a_worker_and_then_the_driver_are_killed_and_the_run_ends_as_if_undisturbed(project, tmp_path_factory):
    wanted = undisturbed(project, tmp_path_factory)
    server = project.server
    server.reset()
    server.behave(latency=0.02, jitter=0.02)
    project.configure(concurrency=CONCURRENCY)
    project.dataset(500)
    driver = project.start("run", "data.json", "--target", "main", "--quiet", "--cluster", "local:2")
    until(lambda: server.counts()["asked"] >= 100 or driver.poll() is not None)
    os.kill(workers_of(driver)[0], signal.SIGKILL)
    until(lambda: server.counts()["asked"] >= 300 or driver.poll() is not None)
    left = children_of(driver.pid)
    kill(driver)
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in left))
    said = project.do("resume", "last", "--quiet")
    assert said == ""
    assert project.table() == wanted
    counts = server.counts()
    assert len(counts["questions"]) == 500
    assert counts["asked"] <= 500 + 2 * CONCURRENCY
    assert counts["peak"] <= 2 * CONCURRENCY
    with sqlite3.connect(project.database) as store:
        assert store.execute("SELECT count(*), count(DISTINCT pos) FROM answers").fetchone() == (500, 500)
        assert store.execute("SELECT count(*), count(DISTINCT answer) FROM scores").fetchone() == (500, 500)
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
