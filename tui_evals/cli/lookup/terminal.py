"""What doctor says of the terminal: what it can show, how that is known, and what is in the way of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Literal

from tui_evals.terminal_facts import SIGNS, Answers, Question, Width, colour_count, shade, why_ascii
from tui_evals.text.safe import safe_line

Verdict = Literal["ok", "note", "bad"]
Finding = tuple[Verdict, str, str]

_COLOURS = {0: "none", 16: "16", 256: "256", 1 << 24: "true colour"}
_WIDTHS: Mapping[Width, tuple[Verdict, str]] = {
    "narrow": ("ok", f"{SIGNS} take one cell each"),
    "wide": ("note", f"{SIGNS} take two cells; the workbench draws them, and letters as wide, in ASCII"),
    "no UTF-8": ("note", "UTF-8 comes out as other signs; the workbench draws in ASCII"),
    "unknown": ("ok", "not measured: the terminal does not say where its cursor stands"),
}
_SLOW_ESCAPE = 100
"""Milliseconds from which on one waits for what escape does."""
_TMUX_PATIENCE = 5.0


def terminal_findings() -> Iterator[Finding]:
    """What there is to say of the terminal one sits at."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    yield "ok" if interactive else "note", "terminal", "yes" if interactive else "no: output goes to a file or pipe"
    term = os.environ.get("TERM", "")
    missing = {"": "not set", "dumb": "dumb"}.get(term)
    needs = f"{missing}; the workbench needs a terminal that can move its cursor, commands do not"
    yield ("note", "TERM", needs) if missing else ("ok", "TERM", term)
    size = shutil.get_terminal_size()
    small = size.columns < 80 or size.lines < 24
    yield "note" if small else "ok", "size", f"{size.columns}×{size.lines}{', 80×24 is the least' if small else ''}"
    ascii_alone = why_ascii(sys.stdout.encoding, os.environ)
    yield _encoding(ascii_alone)
    yield _colours()
    answers = _answers(signs=not ascii_alone) if interactive else Answers()
    dark, why = shade(answers, os.environ)
    yield "ok", "background", f"{'dark' if dark else 'light'} ({why})"
    if interactive and not ascii_alone:
        verdict, text = _WIDTHS[answers.width]
        yield verdict, "signs", text
    if answers.typed:
        words = safe_line(answers.typed.decode("utf-8", "replace").rstrip("\r"), 60)
        yield "note", "typed", f"“{words}” came while the terminal was asked and went nowhere; type it again"
    yield _escape_delay()
    yield from _around()


def _answers(*, signs: bool) -> Answers:
    with Question(os.environ, background=True, signs=signs) as question:
        return question.answers()


def _encoding(why: str) -> Finding:
    encoding = (sys.stdout.encoding or "unknown").lower()
    if not why:
        return "ok", "encoding", encoding
    return "note", "encoding", f"{encoding} ({why}): all is drawn in ASCII; LC_ALL=C.UTF-8 shows every sign"


def _colours() -> Finding:
    count = colour_count(os.environ)
    said = f"COLORTERM={os.environ.get('COLORTERM') or 'not set'}, TERM={os.environ.get('TERM') or 'not set'}"
    if os.environ.get("NO_COLOR"):
        return "ok", "colours", "none (NO_COLOR)"
    if count == 16:
        return "note", "colours", f"16 ({said}); a terminal that has more says so with TERM=xterm-256color"
    return "ok", "colours", f"{_COLOURS[count]} ({said})"


def _escape_delay() -> Finding:
    """How long other programs wait for what follows escape; the workbench has a time of its own."""
    given = os.environ.get("ESCDELAY", "")
    if not given:
        return "ok", "ESCDELAY", "not set"
    slow = given.isdecimal() and int(given) > _SLOW_ESCAPE
    advice = "; your editor may wait that long after escape, 25 is enough" if slow else ""
    return "note" if slow else "ok", "ESCDELAY", f"{given} ms{advice}"


def _around() -> Iterator[Finding]:
    """What one is inside of, and how tmux is set up."""
    inside = [
        name for name, variable in (("tmux", "TMUX"), ("screen", "STY"), ("SSH", "SSH_TTY")) if os.environ.get(variable)
    ]
    yield "ok", "inside", ", ".join(inside) or "neither tmux nor SSH"
    if "tmux" not in inside:
        return
    version = _tmux("-V").removeprefix("tmux ")
    if not version:
        yield "note", "tmux", "it does not answer"
        return
    yield "ok", "tmux", version
    delay = _tmux("show", "-sv", "escape-time")
    slow = delay.isdecimal() and int(delay) > _SLOW_ESCAPE
    advice = "; `set -sg escape-time 10` in ~/.tmux.conf makes escape quick" if slow else ""
    yield "note" if slow else "ok", "escape-time", f"{delay or 'unknown'} ms{advice}"
    clipboard = _tmux("show", "-sv", "set-clipboard")
    passed = clipboard == "on" or _tmux("show", "-gwv", "allow-passthrough") in ("on", "all")
    advice = "" if passed else "; `set -s set-clipboard on` in ~/.tmux.conf lets y copy to your own machine"
    yield "ok" if passed else "note", "set-clipboard", f"{clipboard or 'unknown'}{advice}"


def _tmux(*words: str) -> str:
    """What tmux says; nothing where it is not there or fails."""
    try:
        done = subprocess.run(["tmux", *words], capture_output=True, text=True, timeout=_TMUX_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
