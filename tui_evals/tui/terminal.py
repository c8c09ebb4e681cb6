"""The terminal outside of Textual: its abilities, its title, the clipboard, and the exit when it is gone."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tui_evals.files import make_private_folder
from tui_evals.light_records import dataclass
from tui_evals.present.columns import in_ascii
from tui_evals.text.safe import safe, safe_line


def title_bytes(text: str, *, ascii_alone: bool = False) -> bytes:
    """The sequence that sets the title of the window, or of the pane of a multiplexer."""
    line = safe_line(text, 80)
    return f"\x1b]2;{in_ascii(line) if ascii_alone else line}\x07".encode(errors="replace")


SAVE_TITLE = "\x1b[22;2t"
RESTORE_TITLE = "\x1b[23;2t"


NOTIFY_WAYS = ("9", "777")
"""The sequences for a notification, by their numbers."""


def notification_bytes(text: str, way: str) -> bytes:
    """The escape sequence for a desktop notification; other terminals ignore it. `way` is its number: 9 (iTerm2,
    WezTerm, Ghostty, kitty) or 777 (foot, urxvt, VTE).
    """
    line = safe_line(text, 120).replace(";", ",")
    told = f"777;notify;tui-evals;{line}" if way == "777" else f"9;tui-evals: {line}"
    return f"\x1b]{told}\x07".encode(errors="replace")


def write_to_terminal(written: bytes) -> bool:
    """Write to the controlling terminal, if there is one."""
    try:
        terminal = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        os.write(terminal, written)
    except OSError:
        return False
    finally:
        os.close(terminal)
    return True


def exit_later(seconds: float = 10.0) -> None:
    """End the process after a while: Textual may wait forever to write to a closed terminal."""
    timer = threading.Timer(seconds, os._exit, [1])
    timer.daemon = True
    timer.start()


LONGEST = 74_994
"""Characters of base64 that every terminal with OSC 52 takes."""

_CHUNK = 240
"""Bytes of a control string that every release of GNU screen passes on."""


def copy_to_clipboard(
    text: str, what: str, root: Path, environ: Mapping[str, str] | None = None, *, terminal: str = "/dev/tty"
) -> str:
    """Copy a text to the clipboard, or to a file of the project if there is none; returns a message."""
    environ = os.environ if environ is None else environ
    folder = root / ".evals" / "copies"
    clean = safe(text)
    size = f"{len(clean):,} character{'' if len(clean) == 1 else 's'}"
    payload = base64_text(clean)
    if len(payload) > LONGEST:
        return f"{what}, {size}, is too long for the clipboard: {_saved(text, what, folder)}"
    try:
        _write(osc52_sequence(payload, environ), terminal)
    except OSError:
        return f"there is no terminal that takes the {what}: {_saved(text, what, folder)}"
    named = "" if clean == text.replace("\r\n", "\n") else ", control characters spelt out"
    hint = "; tmux passes it on where set-clipboard is on" if environ.get("TMUX") else ""
    return f"{what} copied, {size}{named}{hint}"


def base64_text(text: str) -> bytes:
    """A text as the terminal wants it."""
    return b64encode(text.encode("utf-8", "replace"))


def osc52_sequence(payload: bytes, environ: Mapping[str, str]) -> bytes:
    """The bytes that set the clipboard, wrapped for the multiplexer around it."""
    plain = b"\x1b]52;c;" + payload + b"\x07"
    if environ.get("TMUX"):
        # tmux takes the plain form where set-clipboard is on, the wrapped one where allow-passthrough is.
        return plain + b"\x1bPtmux;" + plain.replace(b"\x1b", b"\x1b\x1b") + b"\x1b\\"
    if environ.get("STY"):
        pieces = (plain[start : start + _CHUNK] for start in range(0, len(plain), _CHUNK))
        return b"".join(b"\x1bP" + piece + b"\x1b\\" for piece in pieces)
    return plain


def _write(data: bytes, terminal: str) -> None:
    """Write all of it; the terminal takes one write whole, so that nothing of the screen lands inside the sequence."""
    descriptor = os.open(terminal, os.O_WRONLY | os.O_NOCTTY)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def _saved(text: str, what: str, folder: Path) -> str:
    """Write a text to a new file that only its owner can read; returns a message with its path."""
    name = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in what)[:40]
    try:
        make_private_folder(folder)
        descriptor, file = tempfile.mkstemp(".txt", f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-", folder)
        with open(descriptor, "w", encoding="utf-8", errors="replace", newline="") as stream:
            stream.write(text)
    except OSError as problem:
        return f"and it could not be saved to {folder} either, {problem.strerror or problem}"
    return f"saved to {file}"


Signs = Literal["all", "narrow", "ascii"]
"""Which signs a terminal draws as we count them: all, all but the ambiguous ones of East Asia, those of ASCII."""


@dataclass(frozen=True, slots=True)
class Looks:
    """The theme settings that suit the terminal."""

    theme: str = "calm-dark"
    signs: Signs = "all"
    typed: bytes = b""
    """Input typed while the terminal was queried."""
