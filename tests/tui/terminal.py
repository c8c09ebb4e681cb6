"""The real program on a real terminal: keys go in, bytes come out, and what they leave behind can be looked at."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import warm

OURS = re.compile(
    r"\x1b\[[?<>=!]?[0-9;:]*[ -/]*[@-~]"  # styles, places, modes
    r"|\x1b\](?:2;[^\x00-\x1f\x7f-\x9f]*|22;default)\x07"  # the title, and the shape of the mouse pointer
    r"|\x1b\]11;\?\x1b\\"  # the question for the background
    r"|\x1b[=>78]|\x1bP[^\x1b]*\x1b\\|\x1b\(B|\x1b\[\?[0-9]+\$p"
)
WHO = {b"\x1b[c": b"\x1b[?62;22c"}
"""What every terminal answers when it is asked who it is."""
MODES = re.compile(r"\x1b\[\?([0-9;]+)([hl])")


_PLACED = re.compile(
    r"\x1b\[(\d+);(\d+)H|\x1b\[(\d+)C|(\n)|(\x1b\[\?1049[hl])"
    r"|\x1b\[[?<>=!]?[0-9;:]*[ -/]*[@-~]|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)|([^\x00-\x1f\x7f-\x9f]+)|."
)
_CUT = re.compile(rb"\x1b[^a-zA-Z]{0,40}\Z")


def _cells(sign: str) -> int:
    """How wide a sign is; with the standard library alone, because a first look at a new machine has no other."""
    return 0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1


class Rows:
    """What the rows of pictures showed, one part between borders after another, as far as it was drawn at places."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []
        """Where in all that came a part changed, and the whole of it then."""
        self._cells: dict[int, list[str]] = {}
        self._row = self._column = 0
        self._rest = b""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    @property
    def screen(self) -> str:
        """All rows as they are now."""
        return "\n".join("".join(self._cells[row]) for row in sorted(self._cells))

    def feed(self, chunk: bytes, offset: int) -> None:
        cut = _CUT.search(chunk := self._rest + chunk)
        self._rest = cut[0] if cut else b""
        touched: dict[tuple[int, int], int] = {}
        for row, column, right, line, other, text in _PLACED.findall(self._decode(chunk.removesuffix(self._rest))):
            if row:
                self._row, self._column = int(row), int(column)
            elif other:
                self._row = 0
                self._cells.clear()
                touched.clear()
            elif not self._row:
                continue
            elif right:
                self._column += int(right)
            elif line:
                self._row, self._column = self._row + 1, 1
            elif text:
                touched |= {(self._row, self._column): self._put(text)}
        parts = [(row, *self._part(row, start, stop)) for (row, start), stop in touched.items()]
        self.told += [(offset, "".join(self._cells[row][start:stop])) for row, start, stop in dict.fromkeys(parts)]

    def _put(self, text: str) -> int:
        cells = self._cells.setdefault(self._row, [])
        cells.extend(" " * (self._column - 1 + sum(map(_cells, text)) - len(cells)))
        for sign in text:
            width = _cells(sign)
            if width:
                cells[self._column - 1 : self._column - 1 + width] = [sign, *[""] * (width - 1)]
                self._column += width
            elif self._column > 1:
                cells[self._column - 2] += sign
        return self._column - 1

    def _part(self, row: int, start: int, stop: int) -> tuple[int, int]:
        """From the border before a place to the one after it."""
        cells = self._cells[row]
        left = max((place + 1 for place in range(min(start, len(cells))) if cells[place] == "│"), default=0)
        return left, next((place for place in range(stop, len(cells)) if cells[place] == "│"), len(cells))


class Terminal:
    """A command on a terminal of its own."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        size: tuple[int, int] = (80, 24),
        replies: Mapping[bytes, bytes] = WHO,
        **environment: str,
    ) -> None:
        # The environment as Python knows it: readline has put another size into the one of the process.
        environment = {**os.environ, "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none", **environment}
        for name in ("TMUX", "COLUMNS", "LINES"):
            environment.pop(name, None)
        self.pid, self.master, self._end = warm.at_terminal(command, folder, environment, size)
        self.raw = b""
        self.rows = Rows()
        self.replies = replies
        self._heard = 0
        self.code: int | None = None

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self.master)

    def press(self, keys: str) -> None:
        """Write keys, and read meanwhile: the other side may write as much as it is told."""
        rest = memoryview(keys.encode())
        while rest:
            readable, writable, _ = select.select([self.master], [self.master], [], 1.0)
            if readable:
                self.read(0.0)
            if writable:
                rest = rest[os.write(self.master, rest[:4096]) :]

    @property
    def text(self) -> str:
        return self.raw.decode("utf-8", "replace")

    @property
    def shown(self) -> str:
        """The text without the sequences that place and colour it; of a row of which a part was drawn, all of it."""
        return self.shown_since(0)

    @property
    def seen_last(self) -> str:
        """What to look at where something never showed: the screen, or what came where nothing was placed on it."""
        return self.rows.screen or self.shown[-3000:]

    def shown_since(self, since: int) -> str:
        """The same of what came after a place."""
        rows = (text for offset, text in self.rows.told if offset >= since)
        return "\n".join((OURS.sub("", self.raw[since:].decode("utf-8", "replace")), *rows))

    def read(self, seconds: float = 0.05) -> bool:
        """Take what has come; False when the other side is gone."""
        if select.select([self.master], [], [], seconds)[0]:
            try:
                chunk = os.read(self.master, 1 << 20)
            except OSError:
                return False
            self.rows.feed(chunk, len(self.raw))
            self.raw += chunk
            self._reply()
            return bool(chunk)
        return True

    def _reply(self) -> None:
        """Answer what was asked, in the order in which it was asked."""
        asked = re.compile(b"|".join(map(re.escape, self.replies)) or b"(?!)")
        for question in asked.finditer(self.raw, self._heard):
            os.write(self.master, self.replies[question[0]])
            self._heard = question.end()
        self._heard = max(self._heard, len(self.raw) - 16)

    def wait(self, pattern: str, seconds: float = 40.0, *, since: int = 0) -> None:
        """Read until a pattern shows in what came after a place."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.shown_since(since)):
            assert time.monotonic() < deadline, f"{pattern!r} never showed:\n{self.seen_last}"
            assert self.read(), f"ended before {pattern!r} showed:\n{self.seen_last}"

    def until(self, condition: Callable[[], Any], seconds: float = 180.0) -> None:
        """Read until something has come true."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"it never came true:\n{self.seen_last}"
            assert self.read(), f"ended before it came true:\n{self.seen_last}"

    def calm(self, quiet: float = 0.4, seconds: float = 20.0) -> None:
        """Read until nothing has come for a moment."""
        deadline = time.monotonic() + seconds
        last, size = time.monotonic(), len(self.raw)
        while time.monotonic() - last < quiet and time.monotonic() < deadline:
            if not self.read():
                return
            if len(self.raw) != size:
                last, size = time.monotonic(), len(self.raw)

    def after(self, keys: str, pattern: str) -> None:
        """Press keys and wait for what they bring, or leave as it stands on the screen."""
        since = size = len(self.raw)
        self.press(keys)
        deadline, last = time.monotonic() + 40, time.monotonic()
        while not re.search(pattern, self.shown_since(since)):
            if time.monotonic() - last > 0.5 and re.search(pattern, self.rows.screen):
                return
            assert time.monotonic() < deadline, f"{pattern!r} never showed:\n{self.seen_last}"
            assert self.read(), f"ended before {pattern!r} showed:\n{self.seen_last}"
            if len(self.raw) != size:
                last, size = time.monotonic(), len(self.raw)

    def end(self, seconds: float = 30.0) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + seconds
        while self.read():
            assert time.monotonic() < deadline, f"it never ended:\n{self.seen_last}"
        if self.code is None:
            self.code = self._end()
        return self.code

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def hang_up(self) -> int:
        """The line drops: there is no terminal any more; the exit code of whoever sat at it."""
        os.close(self.master)
        self.master = -1
        self.code = self._end()
        return self.code

    def left_on(self) -> set[str]:
        """The modes that were switched on and not off again; the cursor counts when it stays hidden."""
        on: set[str] = set()
        for modes, way in MODES.findall(self.text):
            for mode in modes.split(";"):
                if (way == "h") != (mode in ("7", "25")):  # both are on before
                    on.add(mode)
                else:
                    on.discard(mode)
        return on

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if self.code is None:
                os.kill(self.pid, signal.SIGKILL)
                self._end()
        if self.master >= 0:
            os.close(self.master)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pasted(text: str) -> str:
    """A text as a terminal sends it when it is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


def workbench(
    folder: Path,
    *arguments: str,
    size: tuple[int, int] = (80, 24),
    replies: Mapping[bytes, bytes] = WHO,
    **environment: str,
) -> Terminal:
    return Terminal([sys.executable, "-m", "tui_evals", *arguments], folder, size=size, replies=replies, **environment)
