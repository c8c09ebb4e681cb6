"""The whole program on a real terminal: first picture, results that arrive, keys, long answers and diffs.

Everything is seen from outside: times are from the write of a key to the bytes of the row it must bring, bytes are
those that leave the terminal, CPU time is what the kernel counted for the process.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import quantiles

from tests.bench.screen_stores import FILE, WORDS, answered, fed, figure, name_of, project, store
from tests.tui.terminal import Terminal, workbench

WIDE, NARROW = (160, 45), (80, 24)
READY = b"all keys"
_NAME = re.compile(r"q-([0-9]{6})")
_COUNT = re.compile(r"running ([0-9,]+)/")
Taken = dict[str, list[float]]
_BUSY = 12.0
"""The share of a core above which a workbench is not at rest yet."""

_compiled = tempfile.TemporaryDirectory(prefix="bytecode-")


def program(folder: Path, *arguments: str, size: tuple[int, int] = WIDE) -> Terminal:
    """The workbench as it is installed: with its bytecode kept."""
    kept = {"PYTHONPYCACHEPREFIX": _compiled.name, "PYTHONDONTWRITEBYTECODE": ""}
    return workbench(folder, *arguments, size=size, **kept)


@contextmanager
def folder() -> Iterator[Path]:
    """A project folder for a while; the workbench may write a last draft while it goes."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        yield Path(name)


def cpu(pid: int) -> float:
    """Seconds of CPU the threads of a process have used; the ticks that top counts are longer than our bursts."""
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def until(terminal: Terminal, wanted: bytes, since: int, seconds: float = 30.0) -> float:
    """Read until some bytes have come; the moment they had."""
    end = time.monotonic() + seconds
    while wanted.decode() not in terminal.shown_since(since):
        assert terminal.read(0.2), terminal.shown[-2000:]
        assert time.monotonic() < end, f"{wanted!r} never came:\n{terminal.shown[-2000:]}"
    return time.monotonic()


def press(terminal: Terminal, key: str, wanted: str) -> float:
    """Milliseconds from a key to the bytes it brings."""
    since, start = len(terminal.raw), time.monotonic()
    terminal.press(key)
    return 1000 * (until(terminal, wanted.encode(), since) - start)


def pause(terminal: Terminal, seconds: float) -> None:
    """Read for a while."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        assert terminal.read(left), terminal.shown[-2000:]


def load(terminal: Terminal, seconds: float) -> tuple[float, float]:
    """For some seconds: the share of a core in per cent, and KiB a second on the wire."""
    size, used, begun = len(terminal.raw), cpu(terminal.pid), time.monotonic()
    pause(terminal, seconds)
    span = time.monotonic() - begun
    return 100 * (cpu(terminal.pid) - used) / span, (len(terminal.raw) - size) / span / 1024


# -- from the start to the first picture


def paint(count: int, tries: int) -> None:
    """From the start of the process to the first item on the screen."""
    with folder() as here:
        project(here, count)
        found, used = [], []
        for number in range(tries + 1):
            start = time.monotonic()
            with program(here, FILE) as terminal:
                took = until(terminal, name_of(0).encode(), 0) - start
                if number:  # the first one compiles
                    found.append(1000 * took)
                    used.append(1000 * cpu(terminal.pid))
    figure(f"first picture, {count:,} items", found, "ms", f"goal ≤ {500 if count <= 1000 else 700}")
    figure("  of the processor until then", used, "ms CPU")


def idle(seconds: float) -> None:
    """Nothing happens."""
    with folder() as here:
        store(here, 1000, 1000, project(here, 1000))
        with program(here, FILE) as terminal:
            until(terminal, READY, 0)
            terminal.calm(2.0)
            share, wire = load(terminal, seconds)
    figure(f"nothing happens for {seconds:.0f} s", share, "% CPU")
    figure("  on the wire", wire, "KiB/s")


def wire(size: tuple[int, int]) -> None:
    """What a key costs on the wire where a run of long answers is on screen."""
    steps, switches = [], []
    with folder() as here:
        store(here, 1000, 1000, project(here, 1000))
        with program(here, FILE, size=size) as terminal:
            until(terminal, READY, 0)
            for pane in "456123":  # a pane that is shown for the first time costs once what it shows
                _sent(terminal, pane)
            _sent(terminal, "4")
            steps = [_sent(terminal, "j") for _ in range(10)]
            switches = [_sent(terminal, pane) for pane in "123456414"]
    where = f"at {size[0]}×{size[1]}"
    figure(f"bytes of j in the results {where}", steps, "KiB", "goal ≤ 4")
    figure(f"bytes of going to another pane {where}", switches, "KiB", "goal ≤ 15")


def _sent(terminal: Terminal, key: str) -> float:
    """The KiB a key brings until nothing comes any more."""
    since = len(terminal.raw)
    terminal.press(key)
    terminal.calm(0.5)
    return (len(terminal.raw) - since) / 1024


# -- while results arrive


def live(rows: int, rate: float, seconds: float, tries: int) -> None:
    """Results arrive while one rests on an answer, moves and follows the newest, here and in a bare table."""
    first = rows // 3
    with folder() as made:
        path, run = store(made, rows, first, project(made, rows))
        for size in (WIDE, NARROW):
            taken: Taken = {}
            for number in range(tries):
                print(f"try {number + 1} of {tries} at {size[0]}×{size[1]}, {6 * seconds + 18:.0f} s", flush=True)
                with folder() as here:
                    shutil.copytree(made, here, dirs_exist_ok=True)
                    database = here / path.relative_to(made)
                    with fed(database, run, first, rate, 7 * seconds + 90), closing(sqlite3.connect(database)) as read:
                        with bare_table(here, database, run, first, size) as terminal:
                            _floor(terminal, seconds, first, taken)
                        with program(here, "watch", "last", "--tui", size=size) as terminal:
                            _watched(terminal, read, seconds, taken)
            _tell_live(f"{rate:.0f}/s into {rows:,} at {size[0]}×{size[1]}", taken)


def bare_table(here: Path, database: Path, run: int, first: int, size: tuple[int, int]) -> Terminal:
    """Textual's own table over the same answers."""
    command = [sys.executable, "-m", "tests.bench.bare_table", str(database), str(run), str(first)]
    return Terminal(command, here, size=size, PYTHONPATH=str(Path(__file__).parents[2]))


def _floor(terminal: Terminal, seconds: float, first: int, taken: Taken) -> None:
    until(terminal, name_of(first).encode(), 0)
    _rests(terminal)
    _put(taken, "bare rest", load(terminal, seconds))
    taken.setdefault("bare keys", []).extend(_moving(terminal, seconds / 2, first))
    press(terminal, "f", "q-")
    _put(taken, "bare follow", load(terminal, seconds))


def _settled(terminal: Terminal) -> None:
    """Wait until what a workbench does once, such as checking a large dataset, is done."""
    until(terminal, name_of(0).encode(), 0)
    _rests(terminal)


def _rests(terminal: Terminal) -> None:
    pause(terminal, 3.0)
    for _ in range(60):
        if load(terminal, 1.0)[0] < _BUSY:
            return


def _watched(terminal: Terminal, database: sqlite3.Connection, seconds: float, taken: Taken) -> None:
    _settled(terminal)
    _put(taken, "rest", load(terminal, seconds))
    taken.setdefault("keys", []).extend(_moving(terminal, seconds / 2))
    press(terminal, "f", "follow")
    pause(terminal, 2.0)
    _put(taken, "follow", load(terminal, seconds))
    taken.setdefault("store", []).extend(_arriving(terminal, database, seconds / 2))
    taken.setdefault("away", []).extend(_away(terminal, seconds / 2))


def _put(taken: Taken, what: str, found: tuple[float, float]) -> None:
    for name, value in zip(("CPU", "wire"), found, strict=True):
        taken.setdefault(f"{what} {name}", []).append(value)


def _moving(terminal: Terminal, seconds: float, row: int = 0) -> Iterator[float]:
    """From a key to the row it moves to, which nothing else draws: it was finished long ago."""
    chance, end = random.Random(1), time.monotonic() + seconds
    while time.monotonic() < end:
        pause(terminal, chance.uniform(0.02, 0.12))
        row += 1
        yield press(terminal, "j", name_of(row))


def _away(terminal: Terminal, seconds: float) -> Iterator[float]:
    """While following, from a key that moves the cursor away to the title that says so."""
    chance, end = random.Random(2), time.monotonic() + seconds
    while time.monotonic() < end:
        pause(terminal, chance.uniform(0.15, 0.4))
        yield press(terminal, "k", "4 Results")
        pause(terminal, chance.uniform(0.05, 0.15))
        press(terminal, "f", "follow")


def _arriving(terminal: Terminal, database: sqlite3.Connection, seconds: float) -> Iterator[float]:
    """From a verdict in the store to the count of them in the title of the results."""

    def stored() -> int:
        found = database.execute("SELECT count(*) FROM answers WHERE status IN ('pass', 'fail')").fetchone()
        return int(found[0])

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = stored()
        while (count := stored()) == before:
            pause(terminal, 0.002)
        come, since = time.monotonic(), len(terminal.raw)
        while not any(_number(shown) >= count for shown in _COUNT.findall(terminal.shown_since(since))):
            assert terminal.read(1.0) and time.monotonic() - come < 60, terminal.shown[-2000:]
        yield 1000 * (time.monotonic() - come)
        pause(terminal, 0.037)


def _number(shown: str) -> int:
    return int(shown.replace(",", ""))


def _tell_live(where: str, taken: Taken) -> None:
    for what, words in (("rest", "cursor at rest"), ("follow", "following")):
        figure(f"{where}, {words}", taken[f"{what} CPU"], "% CPU", "goal ≤ 3")
        figure("  a bare table of Textual", taken[f"bare {what} CPU"], "% CPU")
        figure("  on the wire", taken[f"{what} wire"], "KiB/s", "goal ≤ 10")
        found = taken["keys" if what == "rest" else "away"]
        _tell_keys(found)
    print("in a bare table of Textual")
    _tell_keys(taken["bare keys"])
    figure("  from the store to the screen", taken["store"], "ms")
    figure("  the longest", max(taken["store"]), "ms", "goal ≤ 1000")


def _tell_keys(found: list[float]) -> None:
    cuts = quantiles(found, n=100)
    figure(f"  key to screen, median of {len(found)}", cuts[49], "ms")
    figure("  key to screen, 99th percentile", cuts[98], "ms", "goal ≤ 50")


# -- a key held down


def held(count: int, rate: float = 30.0, keys: int = 150) -> None:
    """An arrow key is held down: each press must be on the screen before many more have come."""
    with folder() as made:
        store(made, count, count, project(made, count))
        for size in (WIDE, NARROW):
            # The tree begins above its first item, and a run with its failure map, from which F leads to the answers.
            for pane, keys_before, first in (("the tree", "1", 0), ("the results", "4Fg", 1)):
                with folder() as here:
                    shutil.copytree(made, here, dirs_exist_ok=True)
                    with program(here, FILE, size=size) as terminal:
                        until(terminal, READY, 0)
                        _rests(terminal)
                        for key in keys_before:
                            terminal.press(key)
                            terminal.calm(1.0)
                        used = cpu(terminal.pid)
                        found = _lags(terminal, rate, keys, first)
                        used = cpu(terminal.pid) - used
                what = f"{count:,}, {pane} at {size[0]}×{size[1]}"
                figure(f"a key held {rate:.0f}/s among {what}: lag", found, "ms")
                figure("  the longest", max(found), "ms", "goal ≤ 50")
                figure("  of the processor for each key", 1000 * used / keys, "ms CPU")


_RARE = "§¶µ¢£¥¤¦¬°±¿×÷ðøþß"
"""Letters that stand nowhere else on the screen."""


def typed(count: int, rate: float = 8.0, letters: int = 100) -> None:
    """Letters are typed into the prompt of an item: each must show before the next comes."""
    with folder() as here:
        project(here, count)
        with program(here, FILE, size=WIDE) as terminal:
            until(terminal, READY, 0)
            terminal.calm(1.0)
            for keys in ("j", "2", "\r"):
                terminal.press(keys)
                terminal.calm(0.5)
            found, used = [], []
            for number in range(letters):
                begun, since, before = time.monotonic(), len(terminal.raw), cpu(terminal.pid)
                letter = _RARE[number % len(_RARE)]
                terminal.press(letter)
                while terminal.raw.find(letter.encode(), since) < 0:
                    assert terminal.read(1.0) and time.monotonic() - begun < 60, terminal.shown[-2000:]
                found.append(1000 * (time.monotonic() - begun))
                used.append(1000 * (cpu(terminal.pid) - before))
                until_next = begun + 1 / rate
                while (left := until_next - time.monotonic()) > 0:
                    terminal.read(left)
    figure(
        f"a letter typed among {count:,} items, 99 of 100", sorted(found)[int(0.99 * letters) - 1], "ms", "goal ≤ 30"
    )
    figure("  the median of them", sorted(found)[letters // 2], "ms")
    figure("  of the processor until it shows, 99 of 100", sorted(used)[int(0.99 * letters) - 1], "ms CPU")
    figure("  the median of them", sorted(used)[letters // 2], "ms CPU")


def _lags(terminal: Terminal, rate: float, keys: int, first: int) -> list[float]:
    """Milliseconds from each press to the row it moves to."""
    begun = time.monotonic()
    sent: list[tuple[float, int]] = []
    lags: list[float] = []
    while len(lags) < keys:
        due = begun + len(sent) / rate
        if len(sent) < keys and time.monotonic() >= due:
            sent.append((time.monotonic(), len(terminal.raw)))
            terminal.press("\x1b[B")
        assert terminal.read(max(0.0, due - time.monotonic()) if len(sent) < keys else 0.2)
        assert time.monotonic() - begun < 60, terminal.shown[-2000:]
        while len(lags) < len(sent) and _came(terminal, first + len(lags), sent[len(lags)][1]):
            lags.append(1000 * (time.monotonic() - sent[len(lags)][0]))
    return lags


def _came(terminal: Terminal, row: int, since: int) -> bool:
    """Whether the cursor is on a row or beyond it: of keys that came between two pictures, only the last is drawn."""
    return any(int(number) >= row for number in _NAME.findall(terminal.shown_since(since)))


# -- long answers


def answer(tries: int) -> None:
    """An answer of a megabyte."""
    line = " ".join(WORDS * 7)
    texts = [f"begin-{number} " + f"{line}\n" * (1_000_000 // len(line)) for number in range(tries + 2)]
    _opened("an answer of 1 MB", texts, [None] * len(texts), "begin-{}")


def diff(tries: int) -> None:
    """An answer of 20,000 words against another 20,000 that were expected: in lines, and as one paragraph."""
    for what, end in (("lines", "\n"), ("one paragraph", " ")):
        answers, wanted = zip(*(_pair(number, end) for number in range(tries + 2)), strict=True)
        _opened(f"a diff of 20,000 words, {what}", answers, wanted, "meant-{}")


def _pair(number: int, end: str) -> tuple[str, str]:
    """Two texts that differ in their first word and in one of fifty after it."""
    chance = random.Random(number)
    words = [chance.choice(WORDS) + ("." if place % 12 == 11 else "") for place in range(20_000)]
    others = [f"other{chance.randrange(9)}" if chance.random() < 0.02 else word for word in words]
    words[0], others[0] = f"begin-{number}", f"meant-{number}"
    return _text(words, end), _text(others, end)


def _text(words: list[str], end: str) -> str:
    return end.join(" ".join(words[start : start + 12]) for start in range(0, len(words), 12))


def _opened(what: str, texts: Sequence[str], wanted: Sequence[str | None], sign: str) -> None:
    """Milliseconds from the key to a word that only what it opens has: beside the results, and in their place."""
    with folder() as here:
        data = project(here, len(texts))
        for item, text in zip(data["items"], wanted, strict=True):
            item["expected_response"] = text
        path, run = store(here, len(texts), 0, data)
        answered(path, run, texts)
        for size in (WIDE, NARROW):
            found = []
            with program(here, "watch", "last", "--tui", size=size) as terminal:
                until(terminal, name_of(0).encode(), 0)
                terminal.calm(1.5)
                for number in range(1, len(texts)):
                    if size == NARROW:
                        press(terminal, "\x1b[B", name_of(number))
                    terminal.calm(0.5)
                    found.append(press(terminal, "\x1b[B" if size == WIDE else "\r", sign.format(number)))
                    terminal.calm(0.5)
                    if size == NARROW:
                        press(terminal, "4", name_of(number))
            figure(f"{what}, at {size[0]}×{size[1]}", found[1:], "ms", "goal ≤ 200")
