"""A Dask scheduler and its workers, started as somebody would start them by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.runs.cluster.processes import wait_for


@dataclass
class ByHand:
    """The address of a scheduler, and the processes of it and its workers, each with a log in the folder."""

    folder: Path
    tls: Mapping[str, str] = field(default_factory=dict)
    pages: bool = False
    address: str = ""
    processes: list[subprocess.Popen] = field(default_factory=list)

    @property
    def options(self) -> list[str]:
        """What tells the command line of a run how to join it."""
        files = [word for name, path in self.tls.items() for word in (f"--{name.replace('_', '-')}", path)]
        return ["--cluster", self.address, *files]

    @property
    def logs(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    def start(self, command: str, *words: str, within: Sequence[str] = (), **environment: str) -> subprocess.Popen:
        """One more process; its log is named after its place."""
        tls = [word for name, path in self.tls.items() for word in (_OF_DASK[name], path)]
        page = ["--dashboard-address", "127.0.0.1:0"] if self.pages else ["--no-dashboard"]
        line = [*within, sys.executable, "-m", f"distributed.cli.dask_{command}", *words, *tls, *page]
        with (self.folder / f"{command}{len(self.processes)}.log").open("w") as log:
            process = subprocess.Popen(
                line,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def schedule(self, host: str = "127.0.0.1", *, within: Sequence[str] = (), **environment: str) -> None:
        """The scheduler, whose address is known from then on."""
        told = self.folder / "scheduler.json"
        protocol = "tls" if self.tls else "tcp"
        where = ["--host", host, "--port", "0", "--protocol", protocol, "--scheduler-file", str(told)]
        self.start("scheduler", *where, within=within, **environment)
        wait_for(lambda: told.exists() and told.read_text().endswith("}"))
        self.address = json.loads(told.read_text())["address"]

    def work(self, *words: str, within: Sequence[str] = (), **environment: str) -> subprocess.Popen:
        """One more worker of four threads."""
        more = ["--nthreads", "4", "--local-directory", str(self.folder), *words]
        return self.start("worker", self.address, *more, within=within, **environment)

    def wait_for_workers(self) -> None:
        """Until the scheduler knows every worker."""
        logs = [log for log in self.logs if log.name.startswith("worker")]
        wait_for(lambda: all("Registered to" in log.read_text() for log in logs))


_OF_DASK = {"tls_ca": "--tls-ca-file", "tls_cert": "--tls-cert", "tls_key": "--tls-key"}


@contextmanager
def by_hand(folder: Path, tls: Mapping[str, str] | None = None, *, pages: bool = False) -> Iterator[ByHand]:
    """Room for a cluster, whose processes end with this block."""
    folder.mkdir(exist_ok=True)
    made = ByHand(folder, tls or {}, pages)
    try:
        yield made
    finally:
        _end(made)


def _end(made: ByHand) -> None:
    """End them at once, each with the processes it started."""
    for process in made.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
