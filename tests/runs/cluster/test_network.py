"""Driver, scheduler, workers and server on networks of their own, and a link that is down for a while."""

from __future__ import annotations

import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.runs.conftest import Project, until
from tests.server import running
from tui_evals.store.database import StoreError
from tui_evals.store.records import WorkerRow

pytest.importorskip("distributed", reason="the cluster extra is not installed")
pytest.importorskip("cryptography", reason="the cluster extra is not installed")

from tests.runs.cluster.byhand import ByHand, by_hand
from tests.runs.cluster.certificates import issued
from tests.runs.cluster.network import FarServer, Network, laid

COUNT, CONCURRENCY, CUT = 300, 10, 10.0
SECRET = "sk-of-the-driver-31415926"
MACHINES = ("scheduler", "driver", "server", "one", "two")


@dataclass(frozen=True)
class Field:
    """A project on the driver's machine, and a cluster on the others."""

    network: Network
    project: Project
    cluster: ByHand

    @property
    def server(self) -> FarServer:
        return self.project.server

    def workers(self) -> dict[str, WorkerRow]:
        """The workers of the run as they are shown, by their machine."""
        machines = {address: machine for machine, address in self.network.addresses.items()}
        try:
            with self.project.reader() as reader:
                found = reader.workers(reader.find_run("last").id)
        except (LookupError, StoreError):  # not begun
            return {}
        return {machines[urlsplit(row.name).hostname]: row for row in found}

    def busy(self) -> bool:
        """Whether both workers are there and ask."""
        found = self.workers()
        return len(found) == 2 and all(row.state == "alive" and row.cells and row.rate for row in found.values())

    def reaches(self, worker: str) -> bool:
        """Whether the driver's machine reaches a worker's."""

        def call() -> None:
            with suppress(ConnectionRefusedError), socket.create_connection((self.network.addresses[worker], 9), 0.5):
                pass

        try:
            self.network.inside("driver", call)
        except TimeoutError:
            return False
        return True


@contextmanager
def spread(folder: Path, *, encrypted: bool, apart: bool) -> Iterator[Field]:
    with laid(*MACHINES) as network:
        if apart:
            for worker in ("one", "two"):
                network.hide(worker, "driver")
        with (
            running("--host", "0.0.0.0", within=network.within("server")) as near,
            by_hand(folder / "cluster", issued(folder / "tls") if encrypted else None) as cluster,
        ):
            loud = {"DASK_LOGGING__DISTRIBUTED": "debug"} if encrypted else {}
            cluster.schedule(network.addresses["scheduler"], within=network.within("scheduler"), **loud)
            for worker in ("one", "two"):
                cluster.work(within=network.within(worker), **loud)
            server = FarServer(near.origin, network, "server")
            (folder / "project").mkdir()
            project = Project(folder / "project", server, network.within("driver"))
            yield Field(network, project, cluster)


def cut(field: Field, machine: str) -> None:
    """Take a link down while both workers work, and up again; the workers behind it are shown as silent meanwhile."""
    until(field.busy)
    field.network.link(machine, "down")
    ends = time.monotonic() + CUT
    silent = {"one", "two"} if machine == "driver" else {machine}
    until(lambda: silent == {name for name, row in field.workers().items() if row.state == "silent"})
    time.sleep(max(0.0, ends - time.monotonic()))
    field.network.link(machine, "up")


NIGHTLY = pytest.mark.nightly


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("machines", "encrypted", "apart"),
    [
        pytest.param(["driver", "one"], True, False, id="of the driver and then of a worker"),
        pytest.param(["one"], False, True, id="of a worker that only the scheduler reaches", marks=NIGHTLY),
        pytest.param(["driver"], False, True, id="of a driver that reaches no worker", marks=NIGHTLY),
        pytest.param(["one"], False, False, id="of a worker"),
        pytest.param(["driver"], True, True, id="of a driver over TLS", marks=NIGHTLY),
    ],
)
def test_a_link_is_down_for_a_while_and_nothing_is_lost_or_doubled(tmp_path, machines, encrypted, apart):
    with spread(tmp_path, encrypted=encrypted, apart=apart) as field:
        project, server = field.project, field.server
        assert field.reaches("one") is not apart
        server.behave(latency=0.2, jitter=0.1)
        key = {"api_key": "env:KEY_OF_THE_DRIVER"} if encrypted else {}
        project.configure(concurrency=CONCURRENCY, timeout=60, **key)
        project.dataset(COUNT)
        more = ["--forward-env", "KEY_OF_THE_DRIVER"] if encrypted else ["--insecure-cluster"]
        words = ["run", "data.json", "--target", "main", *field.cluster.options, *more, "--quiet"]
        driver = project.start(*words, KEY_OF_THE_DRIVER=SECRET)
        for machine in machines:
            cut(field, machine)
        out, err = driver.communicate(timeout=120)
        assert driver.returncode == 0, out + err
        assert "Traceback" not in err
        assert [row[2] for row in project.table()] == ["pass"] * COUNT
        counts = server.counts()
        assert len(counts["questions"]) == COUNT
        assert counts["asked"] <= COUNT + CONCURRENCY
        assert counts["peak"] <= CONCURRENCY
        assert (f"Bearer {SECRET}" == server.last()["headers"].get("Authorization")) is encrypted
        assert not [log.name for log in field.cluster.logs if SECRET in log.read_text()]
        with sqlite3.connect(project.database) as store:
            assert store.execute("SELECT count(*), count(DISTINCT pos) FROM answers").fetchone() == (COUNT, COUNT)
            assert store.execute("SELECT count(*), count(DISTINCT answer) FROM scores").fetchone() == (COUNT, COUNT)
