"""Which system calls the sandbox allows, by the numbers that the headers of Linux give them."""

import errno
import fcntl
import re
import socket
import struct
import sys
import termios
from pathlib import Path

import pytest

from tui_evals.evaluators.child import lockdown

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux filters system calls")
_HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
_DEFINED = re.compile(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", re.MULTILINE)
_ALLOWED, _NOT_PERMITTED, _MISSING = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
_OWN, _ANOTHER = [0, 4711], 4712
_X32 = 0x40000000


def outcome(program, architecture, number, first=0, second=0):
    """Execute a program of the Berkeley packet filter."""
    loaded, at = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack("HBBI", program[at])
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            loaded = {0: number, 4: architecture, 16: first, 24: second}[value]
        else:
            at += if_true if {0x15: loaded == value, 0x35: loaded >= value, 0x45: loaded & value}[code] else if_false


@pytest.mark.parametrize("machine", _HEADERS)
def test_each_system_call_of_the_headers_is_allowed_or_denied_by_its_name(machine):
    if not _HEADERS[machine].exists():
        pytest.skip("the headers of Linux are not installed")
    numbers = {name: int(number) for name, number in _DEFINED.findall(_HEADERS[machine].read_text())}
    program, (_, architecture) = lockdown.filter_program(machine, _OWN), lockdown.ARCHITECTURES[machine]
    for name, number in numbers.items():

        def on(first=0, second=0, number=number):
            return outcome(program, architecture, number, first, second)

        assert outcome(program, architecture, number | _X32) == outcome(program, 0, number) == _NOT_PERMITTED, name
        if name == "clone":
            assert (on(lockdown.CLONE_THREAD | 1), on(1)) == (_ALLOWED, _NOT_PERMITTED)
        elif name in lockdown.OWN_ONLY:
            assert ({on(one) for one in _OWN}, on(_ANOTHER)) == ({_ALLOWED}, _NOT_PERMITTED), name
        elif name in lockdown.DENIED_SECOND:
            _, denied = lockdown.DENIED_SECOND[name]
            for value in (*range(32), *denied):
                assert on(second=value) == (_NOT_PERMITTED if value in denied else _ALLOWED), (name, value)
        else:
            expected = _MISSING if name == "clone3" else _NOT_PERMITTED if name in lockdown.DENIED else _ALLOWED
            assert on() == on(_ANOTHER, 1) == expected, name
    named = {*lockdown.DENIED, *lockdown.OWN_ONLY, *lockdown.DENIED_SECOND}
    assert named - numbers.keys() <= {name for name, (_, other) in lockdown.DENIED.items() if other is None}


@pytest.mark.parametrize("machine", _HEADERS)
def test_datagrams_and_signals_through_files_are_denied_and_streams_are_not(machine):
    program, (column, architecture) = lockdown.filter_program(machine, _OWN), lockdown.ARCHITECTURES[machine]

    def on(name, second):
        return outcome(program, architecture, lockdown.DENIED_SECOND[name][0][column], second=second)

    for flags in (0, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC):
        assert on("socketpair", socket.SOCK_DGRAM | flags) == _NOT_PERMITTED, flags
        assert on("socketpair", socket.SOCK_STREAM | flags) == _ALLOWED, flags
    assert on("fcntl", fcntl.F_SETOWN) == on("fcntl", fcntl.F_SETSIG) == _NOT_PERMITTED
    assert on("ioctl", termios.TIOCSCTTY) == on("ioctl", termios.TIOCSTI) == _NOT_PERMITTED
