"""Giving up rights for good: Landlock, seccomp and capabilities, by system calls and without any package."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable

PR_SET_DUMPABLE = 4
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION = 0x20080522
PROCESS_CAPABILITIES = (19, 21, 38)  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON: to look into any process
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
READ_RIGHTS = 0b1101  # execute, read a file, read a folder
FILE_RIGHTS = 0b111 | 1 << 14 | 1 << 15  # those that make sense for something that is not a folder
CLONE_THREAD = 0x10000
_RIGHTS_SINCE = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_MAKE_CHARACTER_DEVICE = 1 << 6

# System calls that code of a model must not use, with their numbers on x86_64 and aarch64.
DENIED = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "process_madvise": (440, 440),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
}
# System calls that it may only use for its own process.
OWN_ONLY = {
    "kill": (62, 129),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
# Calls denied for these values of their second argument: signals through a file, a terminal, and datagrams, which
# unlike streams can be sent to any process.
DENIED_SECOND = {
    "fcntl": ((72, 25), (8, 10, 15)),
    "ioctl": ((16, 29), (0x8901, 0x8902, 0x540E, 0x5412)),
    "socketpair": ((53, 199), (2, 2 | 0x800, 2 | 0x80000, 2 | 0x80800)),
}
_CLONE, _CLONE3 = (56, 220), (435, 435)
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(number: int, what: str, *arguments: object) -> int:
    return _check(_libc.syscall(ctypes.c_long(number), *arguments), what)


def hide_from_others() -> None:
    """Hide this process's memory and environment from other processes of the same user, on Linux."""
    if sys.platform == "linux":
        _check(_libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def landlock_version() -> int:
    """The version of Landlock this kernel offers; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(int(_libc.syscall(ctypes.c_long(LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1))), 0)


def has_seccomp() -> bool:
    """Whether system calls can be filtered here."""
    return sys.platform == "linux" and os.uname().machine in ARCHITECTURES and sys.maxsize > 2**32


def drop_capabilities(dropped: Iterable[int] = range(64)) -> None:
    """Give up these of the rights that root has beyond those of the owner of its files."""
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    data = ctypes.create_string_buffer(24)
    _check(_libc.capget(header, data), "capget")
    words = list(struct.unpack("6I", data.raw))  # effective, permitted and inheritable, of the lower and upper half
    for number in dropped:
        for kind in range(3):
            words[number // 32 * 3 + kind] &= ~(1 << number % 32)
    _check(_libc.capset(header, struct.pack("6I", *words)), "capset")


def no_new_privileges() -> None:
    """No program started from here gets more rights than this process has."""
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def restrict_files(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Limit reading and writing to these files, and forbid TCP and signals to other processes."""
    version = landlock_version()
    handled = sum(rights for since, rights in _RIGHTS_SINCE.items() if since <= version)
    ruleset = _create_ruleset(handled, version, network=True)
    try:
        for paths, rights in ((readable, READ_RIGHTS), (writable, handled & ~1)):
            for path in paths:
                _allow_beneath(ruleset, path, rights & handled)
        _syscall(LANDLOCK_RESTRICT, "landlock_restrict_self", ruleset, ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def restrict_to_own_processes() -> None:
    """Keep access to files, but forbid to inspect other processes and, since Landlock 6, to signal them."""
    drop_capabilities(PROCESS_CAPABILITIES)
    ruleset = _create_ruleset(_MAKE_CHARACTER_DEVICE, landlock_version(), network=False)
    try:
        _syscall(LANDLOCK_RESTRICT, "landlock_restrict_self", ruleset, ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _create_ruleset(handled: int, version: int, *, network: bool) -> int:
    fields = [handled]
    if version >= 4:
        fields.append(0b11 if network else 0)
    if version >= 6:
        fields.append(0b11 if network else 0b10)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    size = ctypes.c_size_t(len(attributes))
    return _syscall(LANDLOCK_CREATE, "landlock_create_ruleset", attributes, size, ctypes.c_uint32(0))


def _allow_beneath(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            rights &= FILE_RIGHTS
        rule = struct.pack("=Qi", rights, parent)
        _syscall(LANDLOCK_ADD, "landlock_add_rule", ruleset, 1, rule, ctypes.c_uint32(0))
    finally:
        os.close(parent)


def filter_system_calls(own: Iterable[int]) -> None:
    """No other process, no socket and no hand on any process but these; threads stay possible."""
    program = filter_program(os.uname().machine, sorted({0, *own}))
    code = ctypes.create_string_buffer(b"".join(program), 8 * len(program))
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    _check(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0), "prctl")


def filter_program(machine: str, own: list[int]) -> list[bytes]:
    """The steps of the filter, in the order of their execution; `own` are the ids of the caller's own processes."""
    column, architecture = ARCHITECTURES[machine]

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value)

    load, equal, at_least, has_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    deny = step(give, _ERRNO | errno.EPERM)
    allow = step(give, _ALLOW)
    program = [step(load, 4), step(equal, architecture, 1, 0), deny, step(load, 0)]
    program += [step(at_least, 0x40000000, 0, 1), deny]
    for numbers in DENIED.values():
        number = numbers[column]
        if number is not None:
            program += [step(equal, number, 0, 1), deny]
    program += [step(equal, _CLONE3[column], 0, 1), step(give, _ERRNO | errno.ENOSYS)]
    program += [step(equal, _CLONE[column], 0, 4), step(load, 16), step(has_bit, CLONE_THREAD, 0, 1), allow, deny]
    for numbers in OWN_ONLY.values():
        checks = [part for process in own for part in (step(equal, process, 0, 1), allow)]
        program += [step(equal, numbers[column], 0, len(checks) + 2), step(load, 16), *checks, deny]
    for columns, values in DENIED_SECOND.values():
        checks = [part for value in values for part in (step(equal, value, 0, 1), deny)]
        program += [step(equal, columns[column], 0, len(checks) + 2), step(load, 24), *checks, allow]
    return [*program, allow]
