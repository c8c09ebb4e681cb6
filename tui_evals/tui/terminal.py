"""What is written to the terminal beside the screen: its title; and the way out when it is gone."""

from __future__ import annotations

import os
import threading

from tui_evals.present.glyphs import in_ascii
from tui_evals.text.safe import safe_line


def title_bytes(text: str, *, ascii_alone: bool = False) -> bytes:
    """The sequence that sets the title of the window, or of the pane of a multiplexer."""
    line = safe_line(text, 80)
    return f"\x1b]2;{in_ascii(line) if ascii_alone else line}\x07".encode(errors="replace")


SAVE_TITLE = b"\x1b[22;2t"
RESTORE_TITLE = b"\x1b[23;2t"


def write_to_terminal(written: bytes) -> bool:
    """Write to the terminal one sits at, if there is one."""
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
    """End the process after a while whatever hangs: Textual may wait for ever to write to a terminal that is gone."""
    timer = threading.Timer(seconds, os._exit, [1])
    timer.daemon = True
    timer.start()
