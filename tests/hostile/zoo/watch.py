"""Has a forked child do what shows a clone, one act after the other, and says which laws it broke.

The child has a terminal of its own, which nothing of the clone may control, and an audit hook, which hears of every
file, process and connection. A child that is stuck is ended, and another one does what is left.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import resource
import secrets
import select
import signal
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.warm import open_stream
from tui_evals.cli.main import run

MOST_MEMORY = 300 * 2**20
MOST_MEMORY_OF_SCREENS = 450 * 2**20
"""Of a tour through up to seven screens in one process, which keeps what each of them took."""
_FRESH = 100 * 2**20
"""What a process of the product holds when it begins; more than that comes from the tests that it is forked from."""
MOST_SECONDS = 5.0
PATIENCE = 60.0
"""Seconds by the clock after which an act is stuck: a machine that does other things at the same time is slower."""
MOST_OUTPUT = 32 * 2**20
_MORE_ADDRESSES = 2**30
"""Bytes that a child may map beyond what it begins with, so that a broken law does not take the machine along."""
SIZE = (120, 40)
LOUD = b"\x1b[6;107m"
"""A style that the product never uses, and hostile texts do."""

_OURS = re.compile(rb"\x1b\[[0-9;]*m|\x1b\[[0-9]+F\x1b\[J")
"""A style, and the way back over lines of progress."""
_FOREIGN = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]|\xd8\x9c"
)
_ORDER = re.compile(rb"(?m)^\s*::|##(?:\[|vso\[|teamcity\[)|section_(?:start|end):[0-9]")
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/tty", "/dev/pts", "/dev/ptmx", "/dev/fd", "/dev/shm")
_SYSTEM = (
    "/proc",
    "/sys",
    "/usr",
    "/lib",
    "/etc/ssl",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/os-release",
    *_DEVICES,
)

_USUAL = ("evals.json",)
"""The dataset that is meant where none is named."""

Act = tuple[str, ...]
"""A command, or with an `@` before its first word something that is done on screens."""
Doing = Callable[[Path, Sequence[str]], Sequence[tuple[str, str]]]
"""Does an act on a clone; returns the laws that it found broken, with what it saw."""


@dataclass(frozen=True)
class Breach:
    """A law that an act broke."""

    act: Act
    law: str
    seen: str


@dataclass(frozen=True)
class Place:
    """Where a clone is, and what of the machine may be read and written while it is shown."""

    root: Path
    home: Path
    outside: Path
    """What the clone must not touch; whatever it manages to run leaves its mark there."""

    @property
    def readable(self) -> tuple[str, ...]:
        ours = Path(__file__).parents[3]
        return (*self.writable, str(ours), sys.prefix, sys.base_prefix, *_SYSTEM)

    @property
    def writable(self) -> tuple[str, ...]:
        return tuple(os.path.realpath(place) for place in (self.root, self.home, self.home.parent / "scratch"))


@dataclass
class Sight:
    """What was seen of one act."""

    act: Act
    seconds: float = 0.0
    peak: int = 0
    output: bytes = b""
    breaches: list[Breach] = field(default_factory=list)


class Witness:
    """Hears of what the interpreter does in this process; there is no way to stop listening."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._readable, self._writable = place.readable, place.writable
        self.named: tuple[str, ...] = ()
        """Where the files are that the act names: who names a link means what it leads to."""
        self.seen: list[tuple[str, str]] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        match event:
            case "open":
                self._opened(arguments[0], arguments[1], arguments[2])
            case "sqlite3.connect":
                name = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else ""
                if name != ":memory:":
                    self._check(name.removeprefix("file://").partition("?")[0], self._readable, "opened the database")
            case "subprocess.Popen":
                if not _is_own(arguments[1], self._place.root):
                    self.seen.append(("process", f"started {arguments[1]}"))
            case "os.posix_spawn" | "os.exec" | "os.system" | "pty.spawn" | "os.forkpty":
                self.seen.append(("process", f"{event} {arguments[:2]}"))
            case "socket.connect" if not isinstance(arguments[1], str | bytes):
                self.seen.append(("connection", f"connected to {arguments[1]}"))
            case "socket.getaddrinfo":
                self.seen.append(("connection", f"looked up {arguments[0]}"))

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        if isinstance(flags, int):
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        else:
            writes = bool(set(mode or "") & set("wax+"))
        name = os.fsdecode(path)
        if writes and not name.startswith(_DEVICES):
            self._check(name, self._writable, "opened for writing")
        else:
            self._check(name, self._readable, "read")

    def _check(self, name: str, allowed: tuple[str, ...], verb: str) -> None:
        real = os.path.realpath(name)
        if real in self.named and allowed is self._readable:
            return
        if not real.startswith(allowed) and os.path.exists(real) and not os.path.isdir(real):
            self.seen.append(("outside", f"{verb} {real}"))


def _is_own(arguments: Any, root: Path) -> bool:
    """Whether this is our interpreter, shut off from the folder it is in, or the empty box that doctor tries."""
    words = [os.fspath(word) for word in arguments] if isinstance(arguments, list | tuple) else []
    if Path(words[0]).name == "bwrap":
        return not any(str(root) in word for word in words) and words[-3:] == ["-S", "-c", ""]
    return len(words) > 1 and words[0] == sys.executable and words[1] in ("-P", "-I")


def watched(
    place: Place, acts: Sequence[Act], doings: Mapping[str, Doing], variables: Mapping[str, str]
) -> Iterator[Sight]:
    """Do acts on a clone and say what was seen of each."""
    left = list(acts)
    while left:
        for sight in _in_a_child(place, tuple(left), doings, variables):
            left.pop(0)
            yield sight


def _in_a_child(
    place: Place, acts: Sequence[Act], doings: Mapping[str, Doing], variables: Mapping[str, str]
) -> Iterator[Sight]:
    """As many of the acts as one child comes to do."""
    mark = secrets.token_hex(8)
    master, slave = os.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(master)
        os.close(told)
        code = 1
        try:
            _become(place, slave, variables)
            _do(place, acts, doings, tells, mark)
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode(errors="replace"))
        finally:
            os._exit(code)
    os.close(slave)
    os.close(tells)
    try:
        yield from _follow(child, master, told, acts, mark, is_read_by_runner="GITHUB_ACTIONS" in variables)
    finally:
        _end(child)
        os.close(master)
        os.close(told)


def _follow(
    child: int, master: int, told: int, acts: Sequence[Act], mark: str, *, is_read_by_runner: bool
) -> Iterator[Sight]:
    output, records, ends = b"", b"", [master, told]
    for number, act in enumerate(acts):
        ending = f"<{mark} {number}>".encode()
        patience = PATIENCE * (6 if act[0].startswith("@") else 1)
        deadline = time.monotonic() + patience
        why = ""
        while not why and not (ending in output and b"\n" in records):
            if not ends:
                why = "its process died"
                break
            ready, _, _ = select.select(ends, [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                why = f"was still not done after {patience:g} s"
            for source in ready:
                try:
                    data = os.read(source, 2**16)
                except OSError:  # the other end of a terminal is closed
                    data = b""
                if not data:  # what was written before is read first, at both ends
                    ends.remove(source)
                elif source == master:
                    output += data
                else:
                    records += data
            if len(output) > MOST_OUTPUT:
                why = f"printed more than {MOST_OUTPUT // 2**20} MB"
        if why:
            seen = output[-600:].decode("utf-8", "replace")
            yield Sight(act, PATIENCE, 0, output, [Breach(act, "seconds", f"{why}: {seen!r}")])
            return
        record, _, records = records.partition(b"\n")
        said, _, output = output.partition(ending)
        yield _judged(act, json.loads(record), said, is_read_by_runner)


def _judged(act: Act, record: Mapping[str, Any], output: bytes, is_read_by_runner: bool) -> Sight:
    sight = Sight(act, record["seconds"], record["peak"], output)
    sight.breaches += [Breach(act, law, seen) for law, seen in record["breaches"]]
    sight.breaches += [Breach(act, "terminal", seen) for seen in foreign_bytes(output, is_read_by_runner)]
    if sight.seconds > MOST_SECONDS and not act[0].startswith("@"):  # which times each of its screens
        sight.breaches.append(Breach(act, "seconds", f"took {sight.seconds:.1f} s of the processor"))
    if sight.peak > (MOST_MEMORY_OF_SCREENS if act[0].startswith("@") else MOST_MEMORY):
        sight.breaches.append(Breach(act, "memory", f"held {sight.peak / 2**20:.0f} MB"))
    if b"Traceback (most recent call last)" in output:
        sight.breaches.append(Breach(act, "words", output[-600:].decode("utf-8", "replace")))
    return sight


def foreign_bytes(output: bytes, is_read_by_runner: bool = False) -> Iterator[str]:
    """What of the bytes on a terminal is not ours: no style, tab or end of a line; or an order to the runner."""
    rest = _OURS.sub(b"", output.replace(LOUD, b"\x00"))
    for pattern in (_FOREIGN, *([_ORDER] if is_read_by_runner else [])):
        if found := pattern.search(rest):
            yield repr(rest[max(0, found.start() - 40) : found.end() + 40])


def _end(child: int) -> None:
    """End what is left of a child and of what it started."""
    with contextlib.suppress(ProcessLookupError):  # it never became the leader of a group, or all of it is gone
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _become(place: Place, terminal: int, variables: Mapping[str, str]) -> None:
    """Be a process at a terminal in the folder of the clone; nobody sits there to answer."""
    os.setsid()
    nobody = os.open(os.devnull, os.O_RDONLY)
    for number, stream in enumerate((nobody, terminal, terminal)):
        os.dup2(stream, number)
    os.close(terminal)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        open_stream(name, mode)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(place.root)
    sys.path[:] = [entry for entry in sys.path if entry not in ("", os.getcwd())]
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _MORE_ADDRESSES, hard))


def _do(place: Place, acts: Sequence[Act], doings: Mapping[str, Doing], tells: int, mark: str) -> None:
    witness = Witness(place)
    inherited = max(_memory("VmRSS") - _FRESH, 0)
    sys.addaudithook(witness)
    for number, act in enumerate(acts):
        before, marks = _tree(place.root), _tree(place.outside)
        _forget_peak()
        began, witness.seen[:] = time.process_time(), []
        witness.named = tuple(os.path.realpath(place.root / word) for word in (*act[1:], *_USUAL))
        try:
            found = list(_doing(act, doings)(place.root, act))
        except BaseException as problem:
            law = "memory" if isinstance(problem, MemoryError) else "words"
            told = [line[-400:] for line in traceback.format_tb(problem.__traceback__)[-4:]]
            found = [(law, "".join([*told, f"{type(problem).__name__}: {problem!s:.200}"]))]
        sys.stdout.flush()
        sys.stderr.flush()
        seconds, seen = time.process_time() - began, list(witness.seen)
        peak = _memory("VmHWM") - inherited
        seen += [("outside", f"changed {name}") for name in _changed(marks, _tree(place.outside))]
        made = _changed(before, _tree(place.root))
        seen += [("outside .evals", f"changed {name}") for name in made if not (_writes(act) and name not in before)]
        record = {"seconds": seconds, "peak": peak, "breaches": [*found, *dict.fromkeys(seen)]}
        os.write(tells, json.dumps(record).encode() + b"\n")
        os.write(1, f"<{mark} {number}>".encode())


def _doing(act: Act, doings: Mapping[str, Doing]) -> Doing:
    return doings.get(act[0], _command)


def _command(root: Path, act: Sequence[str]) -> Sequence[tuple[str, str]]:
    run(list(act))
    return []


def _writes(act: Act) -> bool:
    """Whether a command is there to make a new file in the project."""
    return act[0] in ("import", "compare")


def _forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")


def _memory(name: str) -> int:
    """What the system says of the memory of this process, in bytes."""
    found = re.search(rf"{name}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def _tree(folder: Path) -> dict[str, tuple[int, ...]]:
    """Every file of a folder but what is below `.evals/`, and by what one sees that it was changed."""
    found = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".evals"]
        for name in (*folders, *files):
            status = os.lstat(path := os.path.join(place, name))
            size = 0 if name in folders else status.st_size
            found[os.path.relpath(path, folder)] = (status.st_mode, status.st_ino, size)
    return found


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
