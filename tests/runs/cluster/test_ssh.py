"""Workers started over SSH, on an sshd of the tests' own."""

import asyncio
import getpass
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runs.conftest import Project
from tests.server import running
from tui_evals.runs.executors.cluster import connection as dask
from tui_evals.runs.executors.cluster.terms import ClusterTerms, Host
from tui_evals.targets.base import ConfigurationError

asyncssh = pytest.importorskip("asyncssh", reason="the extra [cluster] is not installed")
pytest.importorskip("distributed", reason="the extra [cluster] is not installed")

from tests.runs.cluster.certificates import issued  # noqa: E402  it needs what the lines above look for
from tests.runs.cluster.processes import alive, wait_for  # noqa: E402

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/sbin")

SETTINGS = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv SECRET_OF_THE_HOST=s3
"""


@dataclass(frozen=True)
class Server:
    port: int
    user: str

    def line(self, host="127.0.0.1"):
        return f"{self.user}@{host}:{self.port}"


def keys(folder):
    made = {}
    for name in ("host_key", "user_key"):
        made[name] = asyncssh.generate_private_key("ssh-ed25519")
        made[name].write_private_key(folder / name)
        made[name].write_public_key(folder / f"{name}.pub")
        (folder / name).chmod(0o600)
    return made


def alone():
    """A view of the files of its own for an sshd of root's that was never started here and lacks its empty folder."""
    if os.geteuid() or Path("/run/sshd").exists() or not shutil.which("unshare"):
        return []
    return ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && mkdir /run/sshd && exec "$0" "$@"']


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


@pytest.fixture
def server(tmp_path, unused_tcp_port):
    if not SSHD:
        pytest.skip("there is no sshd here")
    keys(tmp_path)
    (tmp_path / "sshd_config").write_text(SETTINGS.format(port=unused_tcp_port, folder=tmp_path))
    log = tmp_path / "log"
    command = [*alone(), SSHD, "-D", "-e", "-f", str(tmp_path / "sshd_config")]
    with log.open("w") as written, subprocess.Popen(command, stderr=written, start_new_session=True) as process:
        try:
            wait_for(lambda: answers(unused_tcp_port) or process.poll() is not None)
            if process.poll() is not None:
                pytest.skip(f"sshd does not start here: {log.read_text().strip()}")
            known(tmp_path, unused_tcp_port)
            yield Server(unused_tcp_port, getpass.getuser())
        finally:
            process.terminate()


def known(folder: Path, port: int) -> None:
    """The user's own SSH files, in the home the tests have."""
    home = Path.home() / ".ssh"
    home.mkdir(mode=0o700)
    (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host_key.pub').read_text()}")
    here = f"Host here\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n"
    (home / "config").write_text(f"{here}Host *\n  IdentityFile {folder / 'user_key'}\n")


def listed(tmp_path, *lines):
    (tmp_path / "hosts.txt").write_text("\n".join(lines))
    return f"ssh:{tmp_path / 'hosts.txt'}"


async def refused(word, **given):
    with pytest.raises(ConfigurationError) as caught:
        async with dask.open_cluster(ClusterTerms(word=word, **given), {}, False):
            pass
    return str(caught.value)


@pytest.mark.nightly
def test_a_run_goes_over_ssh_with_the_secrets_of_the_hosts(server, tmp_path):
    (tmp_path / "project").mkdir()
    with running() as answering:
        project = Project(tmp_path / "project", answering)
        project.configure(api_key="env:SECRET_OF_THE_HOST", concurrency=4)
        project.dataset(30)
        word = listed(tmp_path, server.line(), server.line())
        assert project.do("run", "data.json", "--target", "main", "--quiet", "--cluster", word) == ""
        assert [row[2] for row in project.table()] == ["pass"] * 30
        assert answering.counts()["asked"] == 30
        assert answering.last()["headers"]["Authorization"] == "Bearer s3"


@pytest.mark.nightly
async def test_each_line_is_a_worker_in_the_environment_of_its_host(server, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_DRIVER", "s3")
    word = listed(tmp_path, server.line(), server.line())
    async with dask.open_cluster(ClusterTerms(word=word), {"SECRET_OF_THE_PROJECT": "s3"}, False) as client:
        await client.wait_for_workers(2)
        pids = await client.run(os.getpid)
        assert len(set(pids.values())) == 2
        assert all(address.startswith("tcp://127.0.0.1:") for address in (client.scheduler.address, *pids))
        assert await client.submit(pow, 2, 5) == 32
        assert set((await client.run(os.getenv, "SECRET_OF_THE_HOST")).values()) == {"s3"}
        for name in ("SECRET_OF_THE_DRIVER", "SECRET_OF_THE_PROJECT"):
            assert set((await client.run(os.getenv, name)).values()) == {None}
    async with asyncio.timeout(30):
        while any(map(alive, pids.values())):
            await asyncio.sleep(0.02)


@pytest.mark.nightly
async def test_the_users_own_ssh_configuration_is_obeyed_and_tls_files_are_handed_on(server, tmp_path):
    files = issued(tmp_path / "tls")
    async with dask.open_cluster(ClusterTerms(word=listed(tmp_path, "here"), **files), {}, False) as client:
        addresses = [client.scheduler.address, *await client.run(os.getpid)]
        assert len(addresses) == 2 and all(address.startswith("tls://") for address in addresses)


DRIVER = """
import asyncio, os, sys
from tui_evals.runs.executors.cluster.connection import open_cluster
from tui_evals.runs.executors.cluster.terms import ClusterTerms
def parents():
    return os.getpid(), os.getppid()
async def main():
    async with open_cluster(ClusterTerms(word=sys.argv[1]), {}, False) as client:
        hub = await client.run_on_scheduler(os.getpid)
        print(hub, *(pid for pair in (await client.run(parents)).values() for pid in pair), flush=True)
        if sys.argv[2] == "stay":
            await asyncio.Event().wait()
if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["stay", "go"])
def test_what_was_started_over_ssh_ends_with_the_driver_in_silence(server, tmp_path, how):
    command = [sys.executable, "-W", "error", "-c", DRIVER, listed(tmp_path, server.line()), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(pids) == 3, driver.stderr.read()
        if how == "stay":
            assert all(map(alive, pids))
            driver.kill()
        assert driver.communicate() == ("", "")
        wait_for(lambda: not any(map(alive, pids)))


async def test_a_host_whose_key_is_not_known_is_named(server, tmp_path):
    (Path.home() / ".ssh" / "known_hosts").write_text("")
    said = await refused(listed(tmp_path, server.line()))
    assert server.line() in said and "known_hosts" in said


async def test_a_host_that_does_not_let_us_in_is_named(server, tmp_path):
    (tmp_path / "user_key.pub").write_text("")
    said = await refused(listed(tmp_path, server.line()))
    assert server.line() in said and "keys or an agent" in said


async def test_a_host_that_does_not_answer_is_named(tmp_path, unused_tcp_port):
    said = await refused(listed(tmp_path, f"127.0.0.1:{unused_tcp_port}", f"localhost:{unused_tcp_port}"))
    assert said.startswith(f"127.0.0.1:{unused_tcp_port}: SSH cannot reach it")
    assert "1 more" in said


async def test_a_host_without_our_python_is_named(server, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/bin/python")
    said = await refused(listed(tmp_path, server.line()))
    assert server.line() in said and "/nowhere/bin/python" in said and "tui-evals[cluster]" in said


def test_the_users_ssh_configuration_says_what_a_line_leaves_open():
    assert not {"username", "port"} & dask.ssh_options(Host("far")).keys()
    given = dask.ssh_options(Host("far", "me", 2222))
    assert (given["username"], given["port"]) == ("me", 2222)
    assert "known_hosts" not in given and "config" not in given


def test_python_is_started_in_the_login_environment(tmp_path):
    (tmp_path / ".profile").write_text("export SECRET_OF_THE_PROFILE=s3\n")
    (tmp_path / "shown.py").write_text("import os, sys; print(os.environ['SECRET_OF_THE_PROFILE'], sys.argv[1:])")
    environment = {"HOME": str(tmp_path), "SHELL": "/bin/sh", "PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    line = f"env A=1 {dask.remote_python()} -m shown one '{{\"two\": 2}}'"
    with subprocess.Popen(
        ["/bin/sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout.read() == "s3 ['one', '{\"two\": 2}']\n"
