"""A cluster started or joined: what it is like, what ends it, and what is said when it cannot be."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager

import pytest

from tui_evals import __version__
from tui_evals.runs.executors.cluster import connection
from tui_evals.runs.executors.cluster.connection import (
    InstalledVersions,
    differing_workers,
    installed_versions,
    version_problem,
)
from tui_evals.runs.executors.cluster.terms import ClusterTerms
from tui_evals.targets.base import ConfigurationError

pytest.importorskip("distributed", reason="the extra [cluster] is not installed")
pytest.importorskip("cryptography", reason="the extra [cluster] is not installed")

from distributed import Scheduler, Worker

from tests.runs.cluster.certificates import issued
from tests.runs.cluster.processes import PATIENCE, alive, wait_for

pytestmark = pytest.mark.story

NO_PAGES = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}


def opened(word, **given):
    return connection.open_cluster(ClusterTerms(word=word, **given), {}, trusting=False)


async def refused(word, **given):
    with pytest.raises(ConfigurationError) as caught:
        async with opened(word, **given):
            pass
    return str(caught.value)


@asynccontextmanager
async def scheduler(workers=1, security=None):
    """A scheduler somebody else started, in this process."""
    async with Scheduler(host="127.0.0.1", port=0, security=security, **NO_PAGES) as made:
        if not workers:
            yield made.address
            return
        async with Worker(made.address, nthreads=1, host="127.0.0.1", security=security, **NO_PAGES):
            yield made.address


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 5.0)


@pytest.mark.nightly
async def test_workers_here_know_the_environment_and_speak_tls_on_loopback_only(monkeypatch):
    before = dict(os.environ)
    terms = ClusterTerms(word="local:2")
    async with connection.open_cluster(terms, {"SECRET_OF_THE_PROJECT": "s3"}, trusting=True) as client:
        assert len(set((await client.run(os.getpid)).values()) - {os.getpid()}) == 2
        assert set((await client.run(os.getenv, "SECRET_OF_THE_PROJECT")).values()) == {"s3"}
        assert set((await client.run(os.getenv, "TUI_EVALS_TRUST")).values()) == {"all"}
        assert set((await client.run(os.getcwd)).values()) == {os.getcwd()}
        addresses = [client.scheduler.address, *await client.run(os.getpid)]
        assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
        assert not os.getenv("SECRET_OF_THE_PROJECT")
    assert dict(os.environ) == before


@pytest.mark.nightly
async def test_workers_here_are_not_told_to_trust_unless_asked():
    async with opened("local:1") as client:
        assert set((await client.run(os.getenv, "TUI_EVALS_TRUST")).values()) == {None}


@pytest.mark.nightly
async def test_a_killed_worker_comes_back():
    async with opened("local:2") as client:
        killed = next(iter((await client.run(os.getpid)).values()))
        os.kill(killed, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while len(now := await client.run(os.getpid, on_error="ignore")) < 2 or killed in now.values():
                await asyncio.sleep(0.02)


@pytest.mark.nightly
async def test_the_end_leaves_neither_process_nor_task_even_when_workers_are_busy():
    tasks = asyncio.all_tasks()
    async with opened("local:1") as client:
        pids = (await client.run(os.getpid)).values()
        busy = client.submit(time.sleep, 600)
        async with asyncio.timeout(PATIENCE):
            while not any((await client.processing()).values()):
                await asyncio.sleep(0.02)
        del busy
    assert not any(map(alive, pids))
    assert asyncio.all_tasks() == tasks


@pytest.mark.nightly
async def test_an_error_of_the_run_ends_the_cluster_and_is_the_error():
    with pytest.raises(LookupError, match="of the run"):
        async with opened("local:1") as client:
            pids = (await client.run(os.getpid)).values()
            raise LookupError("of the run")
    assert not any(map(alive, pids))


DRIVER = """
import asyncio, os, signal, sys, time
from tui_evals.runs.executors.cluster import connection
from tui_evals.runs.executors.cluster.terms import ClusterTerms, ConfigurationError
connection.ANSWER_SECONDS = 0.3
async def main():
    try:
        async with connection.open_cluster(ClusterTerms(word=f"tcp://127.0.0.1:{sys.argv[1]}"), {}, False):
            pass
    except ConfigurationError:
        pass
    connection.ANSWER_SECONDS = 30.0
    async with connection.open_cluster(ClusterTerms(word="local:2"), {}, False) as client:
        pids = list((await client.run(os.getpid)).values())
        print(*pids, flush=True)
        busy = [client.submit(time.sleep, 600 + n) for n in range(2)]
        while sum(map(len, (await client.processing()).values())) < 2:
            await asyncio.sleep(0.02)
        sys.stdin.readline()
        os.kill(pids[0], signal.SIGKILL)
        while len(now := await client.run(os.getpid, on_error="ignore")) < 2 or pids[0] in now.values():
            await asyncio.sleep(0.02)
if __name__ == "__main__":
    asyncio.run(main())
"""


@contextmanager
def driver(port):
    command = [sys.executable, "-W", "error", "-c", DRIVER, str(port)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            pids = [int(pid) for pid in process.stdout.readline().split()]
            assert len(pids) == 2 and all(map(alive, pids)), process.stderr.read()
            yield process, pids
        finally:
            process.kill()


@pytest.mark.nightly
def test_workers_end_when_the_driver_is_killed(unused_tcp_port):
    with driver(unused_tcp_port) as (process, pids):
        process.kill()
        wait_for(lambda: not any(map(alive, pids)))


@pytest.mark.nightly
def test_nothing_is_said_when_nobody_answers_or_a_worker_is_killed_or_busy_ones_are_ended(unused_tcp_port):
    with driver(unused_tcp_port) as (process, pids):
        assert process.communicate("go on\n", timeout=PATIENCE) == ("", "")
        assert process.returncode == 0
        assert not any(map(alive, pids))


def test_logging_is_afterwards_as_it_was():
    own, theirs = logging.getLogger("distributed"), logging.getLogger("distributed.client")
    levels = own.level, theirs.level
    with connection.silence_dask_logs():
        assert not own.isEnabledFor(logging.CRITICAL)
        assert not theirs.isEnabledFor(logging.CRITICAL)
        assert not logging.getLogger("distributed.made.later").isEnabledFor(logging.CRITICAL)
    assert (own.level, theirs.level) == levels


async def test_a_scheduler_is_joined_and_left_as_it_was():
    async with scheduler() as address:
        async with opened(address) as client:
            assert await client.submit(pow, 2, 5) == 32
        async with opened(address) as client:
            assert await client.submit(pow, 2, 6) == 64


async def test_a_scheduler_over_tls_is_joined(tmp_path):
    files = issued(tmp_path)
    security = connection.tls_security(ClusterTerms(word="tls://127.0.0.1:1", **files))
    async with scheduler(security=security) as address, opened(address, **files) as client:
        assert address.startswith("tls://")
        assert await client.submit(pow, 2, 5) == 32


async def test_certificates_of_another_authority_are_refused(tmp_path):
    ours, others = issued(tmp_path / "ours"), issued(tmp_path / "others")
    security = connection.tls_security(ClusterTerms(word="tls://127.0.0.1:1", **ours))
    with connection.silence_dask_logs():
        async with scheduler(workers=0, security=security) as address:
            said = await refused(address, **others)
            assert address in said and "--tls-ca" in said
            mixed = {**others, "tls_ca": ours["tls_ca"]}
            assert address in await refused(address, **mixed)


async def test_a_plain_scheduler_is_not_taken_for_an_encrypted_one(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 1.0)
    with connection.silence_dask_logs():
        async with scheduler(workers=0) as address:
            assert "TLS" in await refused(address.replace("tcp", "tls"), **issued(tmp_path))
        security = connection.tls_security(ClusterTerms(word="tls://127.0.0.1:1", **issued(tmp_path)))
        async with scheduler(workers=0, security=security) as address:
            assert "unencrypted?" in await refused(address.replace("tls", "tcp"))


@pytest.mark.parametrize("part", ["tls_ca", "tls_cert", "tls_key"])
async def test_a_tls_file_that_is_none_is_named(tmp_path, part):
    files = issued(tmp_path / "ours")
    with open(files[part], "w") as file:
        file.write("no certificate")
    said = await refused("tls://127.0.0.1:1", **files)
    assert "TLS files" in said and files[part] in said


async def test_a_key_of_another_certificate_is_refused(tmp_path):
    files = issued(tmp_path / "ours") | {"tls_key": issued(tmp_path / "others")["tls_key"]}
    assert "fit together" in await refused("tls://127.0.0.1:1", **files)


async def test_an_address_where_nobody_listens_is_named(monkeypatch, unused_tcp_port):
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.3)
    said = await refused(f"tcp://127.0.0.1:{unused_tcp_port}")
    assert f"tcp://127.0.0.1:{unused_tcp_port}: no Dask scheduler answers" in said


async def test_a_host_that_has_no_address_is_named(monkeypatch):
    async def unknown(*_):
        raise connection.socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    assert "name is not known" in await refused("tcp://nowhere.invalid:8786", insecure=True)


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 4096])
async def test_somebody_who_does_not_speak_dask_is_no_scheduler(monkeypatch, says):
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.5)

    async def talk(reader, writer):
        writer.write(says)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert "no Dask scheduler answers" in await refused(f"tcp://127.0.0.1:{port}")


async def test_a_scheduler_without_workers_is_a_sentence(monkeypatch):
    monkeypatch.setattr(connection, "WORKER_SECONDS", 0.1)
    async with scheduler(workers=0) as address:
        assert "no worker after" in await refused(address)


async def test_workers_that_do_not_fit_are_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr(connection, "version_problem", lambda ours, theirs: f"{len(theirs)} differ from {ours}")
    async with scheduler() as address:
        said = await refused(address)
    assert said.startswith("1 differ from tui-evals") and said.endswith(f"Python 3.{sys.version_info.minor}")


@pytest.mark.nightly
async def test_a_scheduler_and_a_worker_started_by_hand_are_joined(tmp_path):
    file = tmp_path / "scheduler.json"
    run = [sys.executable, "-m"]
    quietly = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    plain = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    with subprocess.Popen([*run, "distributed.cli.dask_scheduler", *plain], **quietly) as hub:
        try:
            wait_for(lambda: file.exists() and file.read_text().endswith("}"))
            address = json.loads(file.read_text())["address"]
            hand = [*run, "distributed.cli.dask_worker", address, "--no-dashboard", "--nthreads", "1"]
            with subprocess.Popen(hand, **quietly) as worker:
                try:
                    async with opened(address) as client:
                        assert await client.submit(pow, 2, 5) == 32
                finally:
                    worker.terminate()
        finally:
            hub.terminate()


def fitting():
    return installed_versions({"packages": {"python": "3.11.7.final.0", "tui-evals": __version__}})


def test_what_dask_reports_is_read_as_release_and_python():
    assert fitting() == InstalledVersions(__version__, "3.11")
    assert installed_versions({"packages": {"python": "3.13.0.final.0", "tui-evals": None}}) == InstalledVersions(
        None, "3.13"
    )


def test_another_patch_release_of_python_fits():
    worker = installed_versions({"packages": {"python": "3.11.13.final.0", "tui-evals": __version__}})
    assert not differing_workers(fitting(), {"tcp://a:1": worker})
    assert version_problem(fitting(), {"tcp://a:1": worker}) is None


def test_a_worker_that_differs_is_named_with_what_it_has_and_what_it_needs():
    theirs = {
        "tcp://a:1": InstalledVersions(__version__, "3.12"),
        "tcp://b:1": InstalledVersions(None, "3.11"),
        "tcp://c:1": fitting(),
    }
    assert differing_workers(fitting(), theirs) == {
        "tcp://a:1": f"tui-evals {__version__} on Python 3.12",
        "tcp://b:1": "no tui-evals on Python 3.11",
    }
    said = version_problem(fitting(), theirs)
    assert f"tcp://a:1 has tui-evals {__version__} on Python 3.12; tcp://b:1 has no tui-evals" in said
    assert f"(tui-evals {__version__} on Python 3.11)" in said and "tcp://c:1" not in said


def test_many_workers_that_differ_are_counted():
    said = version_problem(fitting(), {f"tcp://{n}:1": InstalledVersions("0.0.9", "3.11") for n in range(9)})
    assert "6 more differ" in said and "tcp://5:1" not in said
