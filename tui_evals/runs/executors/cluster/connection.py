"""Connects to the Dask cluster of a run: one that is running, processes of this machine, or hosts over SSH."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import socket
import ssl
import sys
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.interpreter import SAFE_PATH, python_command
from tui_evals.light_records import dataclass
from tui_evals.runs.executors.cluster.terms import (
    ClusterTerms,
    Host,
    LocalWorkers,
    Scheduler,
    check_terms,
    is_loopback,
    parse_place,
    read_hosts,
)
from tui_evals.targets.base import ConfigurationError
from tui_evals.text.measures import counted

if TYPE_CHECKING:
    from distributed import Client, Security


ABOVE_CRITICAL = logging.CRITICAL + 1
LOGGERS = ("distributed", "tornado", "asyncssh")


@contextmanager
def silence_dask_logs() -> Iterator[None]:
    """Keep Dask's log out of the terminal, which shows a live line."""
    children = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and logger.level and name.startswith(tuple(f"{one}." for one in LOGGERS))
    ]
    loggers = [*(logging.getLogger(name) for name in LOGGERS), *children]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(ABOVE_CRITICAL)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


MAX_NAMED = 3
"""Workers a sentence names; the rest are counted."""


@dataclass(frozen=True, slots=True)
class InstalledVersions:
    """The versions on one side; None is not installed."""

    product: str | None
    python: str

    def __str__(self) -> str:
        """In words."""
        return f"{f'tui-evals {self.product}' if self.product else 'no tui-evals'} on Python {self.python}"


def installed_versions(report: Mapping[str, Any]) -> InstalledVersions:
    """The versions in a report of Dask."""
    packages = report["packages"]
    return InstalledVersions(packages.get("tui-evals"), ".".join(str(packages["python"]).split(".")[:2]))


def differing_workers(ours: InstalledVersions, theirs: Mapping[str, InstalledVersions]) -> dict[str, str]:
    """Workers with other versions, each with its versions."""
    return {name: str(versions) for name, versions in sorted(theirs.items()) if versions != ours}


def version_problem(ours: InstalledVersions, theirs: Mapping[str, InstalledVersions]) -> str | None:
    """The message about workers with other versions; None if all are equal."""
    differing = differing_workers(ours, theirs)
    if not differing:
        return None
    named = "; ".join(f"{name} has {what}" for name, what in list(differing.items())[:MAX_NAMED])
    more = f"; {len(differing) - MAX_NAMED} more differ" if len(differing) > MAX_NAMED else ""
    return (
        f"Every worker must have what this machine has ({ours}), but {named}{more}. "
        "Install the same there (pip install 'tui-evals[cluster]')."
    )


ANSWER_SECONDS = 10.0
"""How long a scheduler may take to answer."""
WORKER_SECONDS = 30.0
"""How long the first worker may take to be there."""
CLOSE_SECONDS = 1.0
"""How long a worker process on this machine may take to end before it is killed."""
THREADS_PER_WORKER = 4
"""Tasks a worker process runs side by side; each holds many conversations."""
MAX_CONNECTIONS = 10_000
"""The most connections of the driver, which talks to every worker."""

SETTINGS = {
    "distributed.worker.profile.enabled": False,
    "distributed.diagnostics.nvml": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""A cluster of our own goes without profiles, graphics cards, and public web pages."""


@asynccontextmanager
async def open_cluster(terms: ClusterTerms, environment: Mapping[str, str], trusting: bool) -> AsyncIterator[Client]:
    """The cluster of a run, with workers of the same versions; raises ConfigurationError."""
    check_terms(terms)
    where = parse_place(terms.word)
    import distributed  # noqa: F401  its loggers must exist before they are silenced

    with silence_dask_logs():
        if isinstance(where, Scheduler):
            context = connect_client(where.address, tls_security(terms), where)
        elif isinstance(where, LocalWorkers):
            context = _local_cluster(where.workers or os.cpu_count() or 1, environment, trusting)
        else:
            context = ssh_cluster(terms, where.path)
        async with context as client:
            await _check_workers(client, terms.word)
            yield client


@asynccontextmanager
async def _local_cluster(workers: int, environment: Mapping[str, str], trusting: bool) -> AsyncIterator[Client]:
    """Worker processes on this machine that speak TLS, because a port of Dask runs any code sent to it."""
    import dask
    from distributed import LocalCluster, Security

    trust = {"TUI_EVALS_TRUST": "all"} if trusting else {}
    with _restore_environment(), dask.config.set(SETTINGS):
        os.environ.setdefault(SAFE_PATH, "1")
        cluster = LocalCluster(
            asynchronous=True,
            n_workers=workers,
            threads_per_worker=THREADS_PER_WORKER,
            processes=True,
            host="127.0.0.1",
            security=Security.temporary(),
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs=ABOVE_CRITICAL,
            preload=["tui_evals.runs.executors.cluster.worker_preload"],
            env={**environment, **trust},
        )
        try:
            await _start_local(cluster)
            async with connect_client(cluster.scheduler_address, cluster.security) as client:
                yield client
        finally:
            await _stop_local(cluster)


async def _start_local(cluster: Any) -> None:
    """Start the processes of a cluster on this machine."""
    try:
        await cluster
    except Exception as error:
        raise ConfigurationError(f"--cluster local: the worker processes did not start ({error}).") from error


async def _stop_local(cluster: Any) -> None:
    """End the processes soon, even when they are busy."""
    try:
        await asyncio.gather(*(nanny.close(timeout=CLOSE_SECONDS) for nanny in cluster.workers.values()))
    finally:
        await cluster.close()


@asynccontextmanager
async def connect_client(address: str, security: Security, named: Scheduler | None = None) -> AsyncIterator[Client]:
    """A client of a scheduler; ConfigurationError when no Dask scheduler answers."""
    from distributed import Client

    client: Any = None
    try:
        try:
            if named:
                await asyncio.get_running_loop().getaddrinfo(named.host, named.port)
            client = Client(
                address,
                asynchronous=True,
                security=security,
                set_as_default=False,
                timeout=ANSWER_SECONDS,
                connection_limit=MAX_CONNECTIONS,
            )
            with _ignore_version_warning():
                await asyncio.wait_for(client, ANSWER_SECONDS + 1)
        except Exception as error:
            raise ConfigurationError(_connection_problem(address, error)) from error
        yield client
    finally:
        if client is not None:
            await client.close()


def tls_security(terms: ClusterTerms) -> Security:
    """The certificates for both directions; no encryption without TLS files."""
    from distributed import Security

    if not terms.tls_files:
        return Security(require_encryption=False)
    pair = {
        f"tls_{role}_{part}": path
        for role in ("client", "scheduler", "worker")
        for part, path in (("cert", terms.tls_cert), ("key", terms.tls_key))
    }
    security = Security(require_encryption=True, tls_ca_file=terms.tls_ca, **pair)
    try:
        security.get_connection_args("client")
    except (OSError, ValueError) as error:
        names = ", ".join(f"{option} {path}" for option, path in terms.tls_files)
        raise ConfigurationError(f"The TLS files do not fit together or cannot be read ({error}): {names}") from error
    return security


def _connection_problem(address: str, error: BaseException) -> str:
    """Why no scheduler answers at an address."""
    for cause in _error_chain(error):
        if isinstance(cause, socket.gaierror):
            return f"--cluster {address}: this host name is not known here."
        if isinstance(cause, ssl.SSLError):
            return (
                f"--cluster {address}: TLS was refused ({cause.reason or cause}). The scheduler must speak TLS, and "
                "both sides' certificates must come from the authority in --tls-ca."
            )
    return (
        f"--cluster {address}: no Dask scheduler answers there. Is it running, reachable from here, "
        f"and {'encrypted' if address.startswith('tls') else 'unencrypted'}?"
    )


def _error_chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


async def _check_workers(client: Client, word: str) -> None:
    """Wait for a worker, and refuse workers of other versions."""
    try:
        await client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise ConfigurationError(
            f"--cluster {word}: the scheduler has no worker after {WORKER_SECONDS:.0f} s; start some, "
            "for example `dask worker` with its address."
        ) from None
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reports = await client.get_versions(packages=["tui-evals"])
    except TimeoutError:  # one of them is frozen; each also compares its version with that of its first order
        return
    workers = {address: installed_versions(report) for address, report in reports["workers"].items()}
    if problem := version_problem(installed_versions(reports["client"]), workers):
        raise ConfigurationError(problem)


@contextmanager
def _restore_environment() -> Iterator[None]:
    """Take back the variables Dask sets in this process for its children."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]


def _ignore_version_warning() -> AbstractContextManager[Any]:
    """Dask would print a table; `version_problem` says it in a sentence."""
    from distributed.versions import VersionMismatchWarning

    return warnings.catch_warnings(action="ignore", category=VersionMismatchWarning)


START_SECONDS = 60.0
"""How long the scheduler and the workers may take to start."""
MAX_PROBES = 16
"""Hosts asked at once whether they can run a worker."""
NO_DASHBOARD = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}

RUN_UNTIL_DISCONNECTED = """
import os, runpy, sys, threading
def end_with_connection():
    while os.read(0, 4096):
        pass
    os._exit(1)
threading.Thread(target=end_with_connection, daemon=True).start()
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__")
"""
"""Runs the module behind -m, and ends with the connection; without a terminal no signal would end it."""


def remote_python() -> str:
    """How a host starts Python: in the user's login environment, where the secrets are, ending with the connection."""
    words = ["-lc", 'exec "$0" "$@"', *python_command("-c", RUN_UNTIL_DISCONNECTED)]
    return f'"$SHELL" {shlex.join(words)}'


def ssh_options(host: Host) -> dict[str, Any]:
    """How to connect; the user's own SSH configuration, keys and known hosts say the rest."""
    named = {"username": host.user, "port": host.port}
    patience = {"connect_timeout": ANSWER_SECONDS, "keepalive_interval": 30, "keepalive_count_max": 20}
    return {**{name: value for name, value in named.items() if value is not None}, **patience}


@asynccontextmanager
async def ssh_cluster(terms: ClusterTerms, path: Path) -> AsyncIterator[Client]:
    """A scheduler on the first host of a file and a worker for each line."""
    import dask
    from distributed import SSHCluster

    hosts = read_hosts(path)
    await check_hosts(hosts)
    security = tls_security(terms)
    here = {"host": "127.0.0.1"} if all(is_loopback(host.name) for host in hosts) else {}
    nodes = [hosts[0], *hosts]
    with dask.config.set({**SETTINGS, **_tls_settings(terms)}):
        cluster = SSHCluster(
            [host.name for host in nodes],
            connect_options=[ssh_options(host) for host in nodes],
            scheduler_options={
                "protocol": "tls://" if terms.tls_files else "tcp://",
                "port": 0,
                **NO_DASHBOARD,
                **here,
            },
            worker_options={"nthreads": THREADS_PER_WORKER, **NO_DASHBOARD, **here},
            remote_python=remote_python(),
            asynchronous=True,
            security=security,
        )
        try:
            await _start_over_ssh(cluster, path)
            async with connect_client(cluster.scheduler_address, security) as client:
                yield client
        finally:
            await cluster.close()


async def _start_over_ssh(cluster: Any, path: Path) -> None:
    """Start the processes, and discard their output: a full pipe would block them."""
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


def _tls_settings(terms: ClusterTerms) -> dict[str, Any]:
    """The settings that hand the TLS files on to the scheduler and the workers."""
    if not terms.tls_files:
        return {}
    pairs = {
        f"distributed.comm.tls.{role}.{part}": path
        for role in ("client", "scheduler", "worker")
        for part, path in (("cert", terms.tls_cert), ("key", terms.tls_key))
    }
    return {"distributed.comm.require-encryption": True, "distributed.comm.tls.ca-file": terms.tls_ca, **pairs}


async def check_hosts(hosts: Sequence[Host]) -> None:
    """Ask every host whether it could run a worker; ConfigurationError names the first that could not."""
    probes = asyncio.Semaphore(MAX_PROBES)

    async def ask(host: Host) -> str | None:
        async with probes:
            return await _host_problem(host)

    problems = await asyncio.gather(*(ask(host) for host in dict.fromkeys(hosts)))
    if reasons := [problem for problem in problems if problem]:
        others = counted(len(reasons) - 1, "more host has problems", "more hosts have problems")
        more = f" ({others}.)" if len(reasons) > 1 else ""
        raise ConfigurationError(reasons[0] + more)


async def _host_problem(host: Host) -> str | None:
    """Why a host cannot run a worker, in a sentence that names it."""
    import asyncssh

    try:
        async with asyncssh.connect(host.name, **ssh_options(host)) as connection:
            probe = await connection.run(shlex.join(python_command("-c", "import distributed")))
    except asyncssh.HostKeyNotVerifiable as error:
        return f"{host}: its key is not in your known_hosts ({error.reason}). Connect once with `ssh {host.name}`."
    except asyncssh.PermissionDenied:
        return f"{host}: SSH refused the login. Make `ssh {host.name}` work with keys or an agent, without a question."
    except (OSError, ValueError, asyncssh.Error) as error:
        return f"{host}: SSH cannot reach it ({str(error) or type(error).__name__})."
    if probe.exit_status:
        last = (str(probe.stderr or "").strip().splitlines() or ["it said nothing"])[-1]
        return (
            f"{host}: Python cannot run a worker there ({last}). It needs the same {sys.executable} as here, with "
            "tui-evals[cluster] installed."
        )
    return None
