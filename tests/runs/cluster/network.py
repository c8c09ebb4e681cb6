"""Machines as far as one machine can be several: network namespaces on links of their own around one in the middle."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.server import Server

MIDDLE = "10.213.255.1"
"""The address of the middle, which all reach, whatever link is down."""
_NEWNET = 0x40000000
_NAMES = count()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass(frozen=True)
class Network:
    """Namespaces by what they are for, with the address of each; the first is the middle."""

    tag: str
    addresses: dict[str, str]

    def name(self, machine: str) -> str:
        return f"{self.tag}{list(self.addresses).index(machine)}"

    def within(self, machine: str) -> tuple[str, ...]:
        """What to put before a command that runs there."""
        return ("ip", "netns", "exec", self.name(machine))

    def inside(self, machine: str, call: Callable[[], Any]) -> Any:
        """What a call returns there, or raises."""
        found: list[Any] = []
        raised: list[BaseException] = []

        def there() -> None:
            try:
                handle = os.open(f"/run/netns/{self.name(machine)}", os.O_RDONLY)
                try:
                    assert not ctypes.CDLL(None, use_errno=True).setns(handle, _NEWNET)
                finally:
                    os.close(handle)
                found.append(call())
            except BaseException as problem:  # raised again by whoever waits for it
                raised.append(problem)

        thread = threading.Thread(target=there)
        thread.start()
        thread.join()
        if raised:
            raise raised[0]
        return found[0]

    def link(self, machine: str, state: str) -> None:
        """Take the link of a machine down, or up again."""
        _ip("-n", f"{self.tag}0", "link", "set", self.name(machine), state)

    def hide(self, machine: str, other: str) -> None:
        """Let nothing that a machine sends reach another."""
        _ip("-n", self.name(machine), "route", "add", "blackhole", f"{self.addresses[other]}/32")


def _laid(network: Network) -> None:
    middle, *others = network.addresses
    for machine in network.addresses:
        _ip("netns", "add", network.name(machine))
        _ip("-n", network.name(machine), "link", "set", "lo", "up")
    hub = network.name(middle)
    _ip("-n", hub, "address", "add", f"{MIDDLE}/32", "dev", "lo")
    forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
    subprocess.run([*network.within(middle), "sh", "-c", forward], check=True, capture_output=True)
    for machine in others:
        name, address = network.name(machine), network.addresses[machine]
        gate = f"{address.rpartition('.')[0]}.1"
        _ip("-n", hub, "link", "add", name, "type", "veth", "peer", "name", "uplink", "netns", name)
        _ip("-n", hub, "address", "add", f"{gate}/24", "dev", name)
        _ip("-n", name, "address", "add", f"{address}/24", "dev", "uplink")
        _ip("-n", hub, "link", "set", name, "up")
        _ip("-n", name, "link", "set", "uplink", "up")
        _ip("-n", name, "route", "add", "default", "via", gate)


def _swept() -> None:
    """Clear away what tests left behind that were killed, with the processes in it."""
    for left in Path("/run/netns").glob("te*x*n*"):
        pid = left.name[2:].partition("x")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            found = subprocess.run(["ip", "netns", "pids", left.name], capture_output=True, text=True, check=False)
            for process in map(int, found.stdout.split()):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            with suppress(subprocess.CalledProcessError):  # another test was faster
                _ip("netns", "delete", left.name)


@contextmanager
def laid(*machines: str) -> Iterator[Network]:
    """A network of these machines around a middle of that name, gone afterwards; skips where it may not be made."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces want root and the command `ip`")
    addresses = {machine: f"10.213.{place}.2" for place, machine in enumerate(machines)}
    _swept()
    network = Network(f"te{os.getpid()}x{next(_NAMES)}n", {**addresses, machines[0]: MIDDLE})
    try:
        try:
            _laid(network)
        except subprocess.CalledProcessError as refused:
            pytest.skip(f"network namespaces may not be made here: {refused.stderr}")
        yield network
    finally:
        for machine in machines:
            if Path(f"/run/netns/{network.name(machine)}").exists():
                _ip("netns", "delete", network.name(machine))


@dataclass(frozen=True)
class FarServer(Server):
    """A server on one of the machines; what a test asks of it goes by no link."""

    network: Network
    machine: str

    @property
    def url(self) -> str:
        port = self.origin.rpartition(":")[2]
        return f"http://{self.network.addresses[self.machine]}:{port}/v1"

    def _talk(self, word: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        talk = super()._talk
        return dict(self.network.inside(self.machine, lambda: talk(word, body)))
