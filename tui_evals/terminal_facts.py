"""The abilities of the terminal: from its own answers, or from the environment without them."""

from __future__ import annotations

import os
import re
import select
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Self

from tui_evals.light_records import dataclass

PATIENCE = 0.5
"""Seconds to wait for a silent terminal; most answer within a round trip."""
SIGNS = "─…■✓"
"""Signs that terminals of East Asia may draw two cells wide."""

_ASK_BACKGROUND = "\x1b]11;?\x1b\\"
_ASK_PLACE = "\x1b[6n"
_ASK_WHO = "\x1b[c"  # every terminal answers this, and last, so nothing waits for unanswered questions
_BACKGROUND = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")
_PLACE = re.compile(rb"\x1b\[[0-9]+;([0-9]+)R")
_WHO = re.compile(rb"\x1b\[\?[0-9;]*c")
_BEGUN = re.compile(rb"\x1b(?:\][^\x07\x1b]*|\[[?0-9;]*)$")
_ASCII_LOCALES = ("C", "POSIX")
_COERCED = tuple(("LC_CTYPE", value) for value in ("C.UTF-8", "C.utf8", "UTF-8"))
_MUTE = ("", "dumb", "linux", "cons25")
"""The values of TERM of those that have no answer and might draw the question."""

Width = Literal["narrow", "wide", "no UTF-8", "unknown"]
"""How a terminal draws signs that are one cell wide in the West."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of the terminal."""

    background: tuple[float, float, float] | None = None
    """The colour behind texts: red, green and blue, from 0 to 1."""
    cells: int | None = None
    """How many cells our signs took."""
    typed: bytes = b""
    """The keys that the user typed meanwhile."""

    @property
    def width(self) -> Width:
        """How it draws signs that may be two cells wide."""
        if self.cells is None:
            return "unknown"
        if self.cells == len(SIGNS):
            return "narrow"
        return "wide" if len(SIGNS) < self.cells <= 2 * len(SIGNS) else "no UTF-8"


class Question:
    """A question to the terminal; other things can be done until it has answered."""

    def __init__(self, environ: Mapping[str, str], *, background: bool, signs: bool) -> None:
        self._environ = environ
        self._background = background and environ.get("TERM", "") not in _MUTE
        self._signs = signs and environ.get("TERM", "") not in ("", "dumb")
        self._terminal: int | None = None
        self._attributes: list[Any] = []
        self._deadline = 0.0
        self._came = b""

    def __enter__(self) -> Self:
        """Ask, if there is a terminal; until the end, nothing that is typed or answered is shown by it."""
        if not (self._background or self._signs):
            return self
        try:
            self._terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
            self._attributes = termios.tcgetattr(self._terminal)
            attributes = list(self._attributes)
            attributes[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, attributes)
            os.write(self._terminal, self._question().encode())
        except (OSError, termios.error):
            self._leave()
        self._deadline = time.monotonic() + PATIENCE
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def answers(self) -> Answers:
        """The answers, once all have arrived or a moment has passed."""
        while self._terminal is not None and not _WHO.search(self._came):
            left = self._deadline - time.monotonic()
            if not select.select([self._terminal], [], [], max(left, 0))[0]:
                break
            try:
                said = os.read(self._terminal, 4096)
            except OSError:  # the terminal is closed
                break
            if not said:
                break
            self._came += said
        return answers_in(self._came)

    def _question(self) -> str:
        signs = f"\r{SIGNS}{_ASK_PLACE}\r\x1b[K" if self._signs else ""
        return (_ASK_BACKGROUND if self._background else "") + signs + _ASK_WHO

    def _leave(self) -> None:
        terminal, self._terminal = self._terminal, None
        if terminal is not None:
            with suppress(termios.error):  # the terminal is closed, so nothing needs to be restored
                if self._attributes:
                    termios.tcsetattr(terminal, termios.TCSADRAIN, self._attributes)
            os.close(terminal)


def answers_in(said: bytes) -> Answers:
    """The answers in the terminal's output, and the user's keys in between."""
    background, place = _BACKGROUND.search(said), _PLACE.search(said)
    typed = _BEGUN.sub(b"", _WHO.sub(b"", _PLACE.sub(b"", _BACKGROUND.sub(b"", said))))
    return Answers(
        None if background is None else _colour(background.groups()),
        None if place is None else int(place[1]) - 1,
        typed.replace(b"\n", b"\r"),  # terminals may translate enter
    )


def _colour(parts: tuple[bytes, ...]) -> tuple[float, float, float]:
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in parts)
    return red, green, blue


class Shade(NamedTuple):
    """Whether the background is dark, and how that is known."""

    dark: bool
    why: str


def shade(answers: Answers, environ: Mapping[str, str]) -> Shade:
    """Whether the terminal is dark: as it says, as its environment says, or else because most are."""
    if answers.background is not None:
        red, green, blue = answers.background
        written = "".join(f"{round(part * 255):02x}" for part in answers.background)
        return Shade(
            0.299 * red + 0.587 * green + 0.114 * blue < 0.5, f"the terminal says its background is #{written}"
        )
    given = environ.get("COLORFGBG", "")
    number = given.rpartition(";")[2]
    if number.isdigit():
        return Shade(int(number) in (*range(7), 8), f"COLORFGBG is {given}")
    return Shade(True, "assumed: the terminal does not say")


def why_ascii(encoding: str | None, environ: Mapping[str, str]) -> str:
    """Why texts may hold nothing beyond ASCII: what says that the locale is C, or no UTF-8; nothing where they may."""
    said = "" if (encoding or "utf-8").lower().startswith("utf") else f"written as {encoding}"
    if environ.get("PYTHONUTF8") == "1" or environ.get("PYTHONIOENCODING"):
        return said
    given = [(name, environ[name]) for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)]
    if len(given) == 2 and given[0] in _COERCED and given[1][1] in _ASCII_LOCALES:
        del given[0]  # Python itself puts this there where LANG is C
    return "=".join(given[0]) if given and given[0][1] in _ASCII_LOCALES else said


def colour_count(environ: Mapping[str, str]) -> int:
    """The number of colors of the terminal; 0 if colors are disabled."""
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR") or term in ("", "dumb"):
        return 0
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return 1 << 24
    return 256 if term.endswith("-256color") or "kitty" in term else 16
