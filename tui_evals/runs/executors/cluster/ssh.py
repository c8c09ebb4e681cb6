"""Workers started over SSH, by Dask's own launcher, on the hosts of a file; they end when the driver is gone."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.targets.base import ConfigurationError

from .hosts import Host, read_hosts
from .opening import ANSWER_SECONDS, SETTINGS, THREADS, connected, tls
from .terms import ClusterTerms, is_loopback

if TYPE_CHECKING:
    from distributed import Client

START_SECONDS = 60.0
"""How long the scheduler and the workers may take to start."""
PROBES = 16
"""Hosts asked at once whether they can run a worker."""
NO_PAGES = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}

LEASH = """
import os, runpy, sys, threading
def leash():
    while os.read(0, 4096):
        pass
    os._exit(1)
threading.Thread(target=leash, daemon=True).start()
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__")
"""
"""Runs what stands behind -m, and ends with the connection: without a terminal no signal would tell it."""


def command() -> str:
    """Python as a host starts it: in the user's login environment, where the secrets are, and on a leash."""
    words = ["-lc", 'exec "$0" "$@"', sys.executable, "-c", LEASH]
    return f'"$SHELL" {shlex.join(words)}'


def options(host: Host) -> dict[str, Any]:
    """How to connect; the user's own SSH configuration, keys and known hosts say the rest."""
    named = {"username": host.user, "port": host.port}
    patience = {"connect_timeout": ANSWER_SECONDS, "keepalive_interval": 30, "keepalive_count_max": 20}
    return {**{name: value for name, value in named.items() if value is not None}, **patience}


@asynccontextmanager
async def started(terms: ClusterTerms, path: Path) -> AsyncIterator[Client]:
    """A scheduler on the first host of a file and a worker for each line."""
    import dask
    from distributed import SSHCluster

    hosts = read_hosts(path)
    await reachable(hosts)
    security = tls(terms)
    here = {"host": "127.0.0.1"} if all(is_loopback(host.name) for host in hosts) else {}
    everyone = [hosts[0], *hosts]
    with dask.config.set({**SETTINGS, **_shared_tls(terms)}):
        cluster = SSHCluster(
            [host.name for host in everyone],
            connect_options=[options(host) for host in everyone],
            scheduler_options={"protocol": "tls://" if terms.tls_files else "tcp://", "port": 0, **NO_PAGES, **here},
            worker_options={"nthreads": THREADS, **NO_PAGES, **here},
            remote_python=command(),
            asynchronous=True,
            security=security,
        )
        try:
            await _up(cluster, path)
            async with connected(cluster.scheduler_address, security) as client:
                yield client
        finally:
            await cluster.close()


async def _up(cluster: Any, path: Path) -> None:
    """Start the processes, and let what they print go: a full pipe would stop them."""
    import asyncssh

    try:
        async with asyncio.timeout(START_SECONDS):
            await cluster
    except Exception as error:
        raise ConfigurationError(
            f"--cluster ssh:{path}: the scheduler or a worker did not start ({str(error) or type(error).__name__}). "
            "Can the hosts reach each other on any port, and are the TLS files there?"
        ) from error
    for process in (cluster.scheduler, *cluster.workers.values()):
        await process.proc.redirect(stdout=asyncssh.DEVNULL, stderr=asyncssh.DEVNULL)


def _shared_tls(terms: ClusterTerms) -> dict[str, Any]:
    """The settings that hand the TLS files on to the scheduler and the workers."""
    if not terms.tls_files:
        return {}
    pairs = {
        f"distributed.comm.tls.{role}.{part}": path
        for role in ("client", "scheduler", "worker")
        for part, path in (("cert", terms.tls_cert), ("key", terms.tls_key))
    }
    return {"distributed.comm.require-encryption": True, "distributed.comm.tls.ca-file": terms.tls_ca, **pairs}


async def reachable(hosts: Sequence[Host]) -> None:
    """Ask every host whether it could run a worker; ConfigurationError names the first that could not."""
    door = asyncio.Semaphore(PROBES)

    async def ask(host: Host) -> str | None:
        async with door:
            return await _problem(host)

    problems = await asyncio.gather(*(ask(host) for host in dict.fromkeys(hosts)))
    if found := [problem for problem in problems if problem]:
        more = f" ({len(found) - 1} more hosts have problems.)" if len(found) > 1 else ""
        raise ConfigurationError(found[0] + more)


async def _problem(host: Host) -> str | None:
    """Why a host cannot run a worker, in a sentence that names it."""
    import asyncssh

    try:
        async with asyncssh.connect(host.name, **options(host)) as connection:
            said = await connection.run(shlex.join([sys.executable, "-c", "import distributed"]))
    except asyncssh.HostKeyNotVerifiable as error:
        return f"{host}: its key is not in your known_hosts ({error.reason}). Connect once with `ssh {host.name}`."
    except asyncssh.PermissionDenied:
        return f"{host}: SSH lets you not in. Try `ssh {host.name}`: keys or an agent must do, as nobody is asked here."
    except (OSError, ValueError, asyncssh.Error) as error:
        return f"{host}: SSH cannot reach it ({str(error) or type(error).__name__})."
    if said.exit_status:
        last = (str(said.stderr or "").strip().splitlines() or ["it said nothing"])[-1]
        return (
            f"{host}: Python cannot run a worker there ({last}). It needs the same {sys.executable} as here, with "
            "tui-evals[cluster] installed."
        )
    return None
