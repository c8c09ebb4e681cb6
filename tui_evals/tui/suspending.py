"""Puts the workbench aside: the shell has the terminal until `fg` brings back all that was on screen."""

from __future__ import annotations

import errno
import os
import signal
import sys
import termios

from textual.app import SuspendNotSupported

from .desk import Command, Commands, Desk


def suspend(desk: Desk) -> None:
    """Stop as a terminal stops its programs; where no shell could bring it back, the kernel lets it go on."""
    try:
        with desk.suspend():
            before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            try:
                # All of the job, because a launcher that waits for this process would keep the shell waiting.
                os.kill(0, signal.SIGTSTP)
                _wait_for_foreground(sys.stdin.fileno())
            finally:
                signal.signal(signal.SIGTSTP, before)
    except SuspendNotSupported:
        desk.tell("this terminal cannot be given back to a shell", "warn")


def _wait_for_foreground(terminal: int) -> None:
    """After `bg` the terminal is the shell's still: whoever changes it from there is stopped until `fg`.

    The signal that lets it go on interrupts the change, which is then tried again.
    """
    while True:
        try:
            termios.tcsetattr(terminal, termios.TCSANOW, termios.tcgetattr(terminal))
            return
        except termios.error as problem:
            if problem.args[0] != errno.EINTR:
                return  # there is no terminal any more, as whoever reads from it notices


COMMANDS: Commands = {"suspend": Command(suspend)}
