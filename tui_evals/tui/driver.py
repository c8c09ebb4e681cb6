"""The terminal as the workbench reads it and writes to it."""

from __future__ import annotations

import os
import selectors
import time
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

from .keyboard import Keyboard
from .wire import SentCells

_LOOK_SECONDS = 0.1
"""How soon the thread that reads notices that it is to end."""


class TerminalDriver(LinuxDriver):
    """The terminal of Textual, read by `Keyboard`, and told only what it does not show yet."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._sent_cells: SentCells = app.sent_cells

    def write(self, data: str) -> None:
        """Write what differs."""
        if different := self._sent_cells.difference(data):
            super().write(different)

    def run_input_thread(self) -> None:
        """Hand on what is sent, until the terminal is given back."""
        keyboard, due = Keyboard(), None
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                left = _LOOK_SECONDS if due is None else due - time.monotonic()
                if selector.select(max(min(left, _LOOK_SECONDS), 0)):
                    data = self._read()
                    if not data:  # the terminal is gone, and the signal that says so ends the app
                        self.exit_event.wait()
                        return
                    messages = keyboard.feed(data)
                elif due is not None and time.monotonic() >= due:
                    messages = keyboard.waited()
                else:
                    continue
                for message in messages:
                    self.process_message(message)
                due = None if keyboard.patience is None else time.monotonic() + keyboard.patience

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, 1 << 16)
        except OSError:
            return b""
