"""A cluster started or joined, checked, and given back at the end. Dask is imported here, when a run wants it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from tui_evals.targets.base import ConfigurationError

from .quiet import QUIET, quiet
from .terms import ClusterTerms, Local, Scheduler, checked, place
from .versions import refusal, reported

if TYPE_CHECKING:
    from distributed import Client, Security

ANSWER_SECONDS = 10.0
"""How long a scheduler may take to answer."""
WORKER_SECONDS = 30.0
"""How long the first worker may take to be there."""
CLOSE_SECONDS = 1.0
"""How long a worker process on this machine may take to end before it is killed."""
THREADS = 4
"""Tasks a worker process runs side by side; each holds many conversations."""
CONNECTIONS = 10_000
"""Connections the driver may hold; it talks to every worker."""

SETTINGS = {
    "distributed.worker.profile.enabled": False,
    "distributed.diagnostics.nvml": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""What a cluster of our own does without: profiles, graphics cards, and pages that anybody may read."""


@asynccontextmanager
async def opened(terms: ClusterTerms, environment: Mapping[str, str], trusting: bool) -> AsyncIterator[Client]:
    """The cluster of a run, with workers that fit; ConfigurationError says in a sentence what is wrong."""
    checked(terms)
    where = place(terms.word)
    import distributed  # noqa: F401  its loggers must exist before they are silenced

    with quiet():
        if isinstance(where, Scheduler):
            opening = connected(where.address, tls(terms), where)
        elif isinstance(where, Local):
            opening = _local(where.workers or os.cpu_count() or 1, environment, trusting)
        else:
            from .ssh import started

            opening = started(terms, where.path)
        async with opening as client:
            await _populated(client, terms.word)
            yield client


@asynccontextmanager
async def _local(workers: int, environment: Mapping[str, str], trusting: bool) -> AsyncIterator[Client]:
    """Worker processes on this machine that speak TLS, as a port of Dask runs code for whoever reaches it."""
    import dask
    from distributed import LocalCluster, Security

    trust = {"TUI_EVALS_TRUST": "all"} if trusting else {}
    with _own_variables(), dask.config.set(SETTINGS):
        cluster = LocalCluster(
            asynchronous=True,
            n_workers=workers,
            threads_per_worker=THREADS,
            processes=True,
            host="127.0.0.1",
            security=Security.temporary(),
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs=QUIET,
            preload=["tui_evals.runs.executors.cluster.worker.apart"],
            env={**environment, **trust},
        )
        try:
            await _up(cluster)
            async with connected(cluster.scheduler_address, cluster.security) as client:
                yield client
        finally:
            await _down(cluster)


async def _up(cluster: Any) -> None:
    """Start the processes of a cluster on this machine."""
    try:
        await cluster
    except Exception as error:
        raise ConfigurationError(f"--cluster local: the worker processes did not start ({error}).") from error


async def _down(cluster: Any) -> None:
    """End them: soon, even when they are busy."""
    try:
        await asyncio.gather(*(nanny.close(timeout=CLOSE_SECONDS) for nanny in cluster.workers.values()))
    finally:
        await cluster.close()


@asynccontextmanager
async def connected(address: str, security: Security, named: Scheduler | None = None) -> AsyncIterator[Client]:
    """A client of a scheduler; ConfigurationError when nobody who speaks Dask answers."""
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
                connection_limit=CONNECTIONS,
            )
            with _no_version_table():
                await asyncio.wait_for(client, ANSWER_SECONDS + 1)
        except Exception as error:
            raise ConfigurationError(_unanswered(address, error)) from error
        yield client
    finally:
        if client is not None:
            await client.close()


def tls(terms: ClusterTerms) -> Security:
    """What proves to the cluster who we are, and to us what the cluster is; nothing without TLS files."""
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


def _unanswered(address: str, error: BaseException) -> str:
    """Why there is no scheduler at an address, as far as it can be told."""
    for cause in _causes(error):
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


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


async def _populated(client: Client, word: str) -> None:
    """Wait for a worker, and refuse workers that would not understand us."""
    try:
        await client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise ConfigurationError(
            f"--cluster {word}: the scheduler has no worker after {WORKER_SECONDS:.0f} s; start some, "
            "for example `dask worker` with its address."
        ) from None
    found = await client.get_versions(packages=["tui-evals"])
    workers = {address: reported(said) for address, said in found["workers"].items()}
    if problem := refusal(reported(found["client"]), workers):
        raise ConfigurationError(problem)


@contextmanager
def _own_variables() -> Iterator[None]:
    """Take back the variables Dask sets in this process for its children."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]


def _no_version_table() -> AbstractContextManager[Any]:
    """Versions are compared by us, in a sentence."""
    from distributed.versions import VersionMismatchWarning

    return warnings.catch_warnings(action="ignore", category=VersionMismatchWarning)
