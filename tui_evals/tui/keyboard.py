"""Turns the bytes from the terminal into keys, pastes and reports, however they are split into reads.

Textual's own parser uses a timeout: on a slow connection a split sequence is typed as keys, and a letter right after
escape becomes alt and that letter. This parser looks at the following bytes, and uses a timeout only if there are none:

* ESC followed by `[`, `O` or `]` begins a sequence and waits for its end without a timeout: `ESC [ A` is one key. An
  unknown sequence, such as a late response to a query, is dropped.
* ESC followed by another byte is the escape key, then that byte, because slow connections deliver both together. ESC
  and a letter alone may also be alt and the letter, so that letter is marked as one that must not stop or delete.
* ESC alone becomes the escape key after 0.2 seconds, enough for the rest of a sequence on a slow connection. For one
  more second a `[` or `]` counts as such a rest, because as keys the rest of an arrow, click or response would mark,
  delete and run things; if it was a real key, it is handled a second later.
* After an ESC that arrived alone, `[`, `O` or `]` may be typed keys: they are if nothing follows for a second, or if
  they do not complete a known sequence.
* A paste ends only at its end marker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import selectors
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from textual import events
from textual._parser import Parser
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.errors import NoWidget
from textual.events import Key, MouseDown, MouseEvent, MouseMove, MouseUp, Paste
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import Widget

from tui_evals.garbage import foreground
from tui_evals.tui.drawing import SentCells
from tui_evals.tui.terminal import RESTORE_TITLE, SAVE_TITLE
from tui_evals.tui.widgets.lines import MOVES, Lines

_ESCAPE_SECONDS = 0.2
_TYPED_SECONDS = 1.0

_ESC = b"\x1b"
_PASTE, _PASTE_END = b"\x1b[200~", b"\x1b[201~"
_WHOLE = re.compile(
    rb"""\x1b(?:
        \[(?: \[[A-E]                            # function keys of the Linux console
            | M[\s\S]{3}                         # a report of the mouse in three bytes of any value
            | [0-9]+\$                           # keys with shift, of rxvt
            | (?![M\[])[0-?]*[\x20-/]*[@-~] )
        | O[0-9;]*[@-~]
        | \][0-9]+;[^\x00-\x1f]*(?:\x07|\x1b\\)  # an answer, such as that of the colours
    )""",
    re.VERBOSE,
)
_BEGUN = re.compile(
    rb"\x1b(?:\[(?:\[|M[\s\S]{0,2}|[0-?]*[\x20-/]*)|O[0-9;]*|\](?:[0-9]*|[0-9]+;[^\x00-\x1f]*\x1b?))?\Z"
)
_BROKEN_OFF = re.compile(rb"\x1b(?:\[[0-?]+[\x20-/]*|O[0-9;]+|\][0-9]+;[^\x00-\x1f]*)")
_PLAIN = re.compile(rb"\x1b(?:\[(?!M)[\x20-/]*|O)[@-~]\Z")
"""Sequences without a number: what no terminal sends of these was typed."""
_LOOKED_UP = re.compile(r"\x1b[\[O](?!M...\Z)[ -~]{1,30}\Z", re.DOTALL)
"""Textual takes longer sequences for keys; answers of the terminal, and mouse reports in raw bytes, are not keys."""
_MAYBE_ALT = re.compile(rb"\x1b([A-Za-z])")
_PERHAPS_TYPED = re.compile(rb"\x1b[\[O\]][^0-?]?\Z")


class AltKey(events.Key):
    """A letter that came in one piece with the ESC before it: it may be alt and the letter."""


AltKey.handler_name = events.Key.handler_name  # which Textual derives from the name of the class


class Keyboard:
    """Takes bytes as they arrive and returns messages for Textual; an incomplete sequence is kept."""

    def __init__(self) -> None:
        self._meanings = _Meanings()
        self._letters = getincrementaldecoder("utf-8")("replace")
        self._rest = b""
        """Bytes that begin with ESC and may continue."""
        self._by_itself = False
        """The pending ESC was the last byte that arrived, so that the user may have pressed it."""
        self._given = False
        """The ESC of the rest has been handed on as a key."""
        self._paste: bytearray | None = None

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages for the pending bytes and `data`."""
        if self._given and self._rest == _ESC and not data.startswith((b"[", b"]")):
            self._forget()
        kept = len(self._rest)
        data, at = self._rest + data, 0
        while at < len(data):
            if self._paste is not None:
                at = self._collect(data, at)
                if at < 0:
                    return
                yield self._pasted()
                continue
            end = data.find(_ESC, at)
            if end < 0:
                yield from self._typed(data[at:])
                break
            yield from self._typed(data[at:end], whole=True)
            at = end
            if whole := _WHOLE.match(data, at):
                at = whole.end()
                yield from self._meant(whole[0])
            elif _BEGUN.match(data, at):
                self._by_itself = data[at:] == _ESC or (self._by_itself and at == 0)
                self._given = self._given and at == 0
                self._rest = data[at:]
                return
            elif broken := _BROKEN_OFF.match(data, at):
                self._forget()
                at = broken.end()
            elif at >= kept and (letter := _MAYBE_ALT.fullmatch(data, at)):
                yield from self._escape()
                yield AltKey(letter[1].decode(), letter[1].decode())
                at = len(data)
            else:
                yield from self._escape()
                at += 1
        self._forget()

    @property
    def patience(self) -> float | None:
        """The seconds to wait for more before `waited` is called; None while only more of it can tell."""
        if self._rest == _ESC:
            return _TYPED_SECONDS if self._given else _ESCAPE_SECONDS
        return _TYPED_SECONDS if self._by_itself and _PERHAPS_TYPED.match(self._rest) else None

    def waited(self) -> Iterator[Message]:
        """The messages for the pending bytes, since no more follow."""
        rest = self._rest
        if rest == _ESC and not self._given:
            yield from self._escape()
            self._given = True
            return
        yield from self._escape()
        self._forget()
        yield from self._typed(rest[1:], whole=True)

    def _forget(self) -> None:
        self._rest, self._by_itself, self._given = b"", False, False

    def _escape(self) -> Iterator[Message]:
        if not self._given:
            yield events.Key("escape", "\x1b")
        self._given = False

    def _meant(self, sequence: bytes) -> Iterator[Message]:
        """The messages for a complete sequence; the characters of an unknown one count as typed."""
        messages = self._meanings.of(sequence.decode("latin-1"))
        if sequence == _PASTE:
            self._paste = bytearray()
        elif not messages and _PLAIN.match(sequence):
            yield from self._escape()
            yield from self._typed(sequence[1:], whole=True)
        yield from messages
        self._forget()

    def _typed(self, data: bytes, *, whole: bool = False) -> Iterator[Message]:
        """The keys of letters; without `whole`, an incomplete character waits for its other bytes."""
        if text := self._letters.decode(data, whole):
            yield from self._meanings.feed(text)

    def _collect(self, data: bytes, at: int) -> int:
        """Collect pasted bytes; returns the position after the end mark, or -1 if it has not arrived."""
        assert self._paste is not None
        before = len(self._paste)
        self._paste += data[at:]
        end = self._paste.find(_PASTE_END, max(before - len(_PASTE_END), 0))
        if end < 0:
            return -1
        del self._paste[end:]
        return at + end + len(_PASTE_END) - before

    def _pasted(self) -> Message:
        assert self._paste is not None
        text, self._paste = self._paste.decode("utf-8", "replace"), None
        return events.Paste(text.replace("\x00", ""))


class _Meanings(XTermParser):
    """Textual's table of sequences; it only gets complete ones, so that its timeout never applies."""

    def of(self, sequence: str) -> list[Message]:
        """The messages for one sequence; none if it is unknown."""
        if not _LOOKED_UP.match(sequence):
            return []
        try:
            messages = list(self.feed(sequence))
        except (ValueError, OverflowError):  # a key with a number that no character has
            messages = []
        if not messages:
            Parser.__init__(self)  # the parser would wait for more input after an unknown sequence
        return messages


_PATIENCE = 1.0
_GLANCE = 0.002
_UNTIL_DRAWN = 0.15
"""Seconds for which long work in threads rests after a key: it is drawn by then."""
Typed = Key | Paste | MouseEvent
Forward = Callable[[Typed], Awaitable[None]]


class KeyQueue:
    """Hands on keys, pastes and clicks in their order, each once all is done that the one before it began."""

    def __init__(self, app: App[Any], forward: Forward, after: Callable[[], None]) -> None:
        self._app = app
        self._forward = forward
        self._after = after
        self._typed: asyncio.Queue[Typed] = asyncio.Queue()
        self._resuming: asyncio.TimerHandle | None = None
        """Resumes long work after the typed input is on the screen."""
        self.idle = asyncio.Event()
        """Set while nothing that was typed waits."""
        self.idle.set()

    def take(self, event: Typed) -> None:
        """Queue a key, a paste or a click."""
        self.idle.clear()
        foreground.begin()
        if self._resuming is not None:
            self._resuming.cancel()
        self._resuming = asyncio.get_running_loop().call_later(_UNTIL_DRAWN, foreground.end)
        self._typed.put_nowait(event)

    async def work(self) -> None:
        """Hand on keys for as long as the app continues."""
        following: Typed | None = None
        while True:
            event = following or await self._typed.get()
            while self._app.is_running and not self._app.screen.is_mounted:  # it has no widgets yet to give a key to
                await asyncio.sleep(_GLANCE)
            before, stack = set(self._app.workers), self._app.screen_stack
            focused = self._app.focused
            await self._forward(event)
            if isinstance(event, MouseDown | MouseUp):
                await wait_until_handled(_under(self._app, event))
            following = None if self._typed.empty() else self._typed.get_nowait()
            if isinstance(event, MouseMove) or _is_repeat(event, following, focused):
                continue
            await self._settled(before, focused, stack)
            if following is None and self._typed.empty():
                if self._app.is_running:
                    self._after()
                self.idle.set()

    async def _settled(self, before: set[Any], focused: Widget | None, stack: Sequence[Screen[Any]]) -> None:
        """Wait for the effects of a key: messages, a dialog that an action opens, and the next frame. A key that closes
        a dialog resumes the action that opened it, which may open another one.
        """
        app, screen = self._app, self._app.screen
        await wait_until_handled(_concerned(app))
        goes_on = stack[-1] not in app.screen_stack
        if goes_on:
            screen = stack[-2]
        begun = [worker for worker in app.workers if worker.group == "acts" and (goes_on or worker not in before)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while any(worker.is_running for worker in begun) and app.screen is screen:
                    await asyncio.sleep(_GLANCE)
        if app.is_running and app.focused is not focused:
            await _drawn(app.screen)
            await wait_until_handled(_concerned(app))


def _is_repeat(event: Typed, following: Typed | None, focused: Widget | None) -> bool:
    """Whether a key comes again that only moves in a list: it need not wait, or the list would move after its end."""
    if not isinstance(event, Key) or not isinstance(following, Key) or not isinstance(focused, Lines):
        return False
    return event.key == following.key and event.key in MOVES


def _under(app: App[Any], event: MouseEvent) -> list[MessagePump]:
    """The widgets at the position of a click, from the inside out."""
    try:
        widget, _ = app.get_widget_at(event.x, event.y)
    except NoWidget:
        return []
    return list(widget.ancestors_with_self)


def _concerned(app: App[Any]) -> list[MessagePump]:
    """The focused widget and its ancestors, from the inside out."""
    return list(app.focused.ancestors_with_self if app.focused else [app.screen, app])


async def wait_until_handled(nodes: Iterable[MessagePump]) -> None:
    """Wait until the nodes have handled their messages, and those they sent to themselves meanwhile."""
    for node in nodes:
        for _ in range(2):
            done = asyncio.Event()
            if not node.call_later(done.set):
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await done.wait()


async def _drawn(screen: Screen[Any]) -> None:
    """Wait for the next frame: a pane that was just brought to the front has no rows before it."""
    done = asyncio.Event()
    screen.call_after_refresh(done.set)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            await done.wait()


_LOOK_SECONDS = 0.1
"""How soon the thread that reads notices that it is to end."""


class TerminalDriver(LinuxDriver):
    """Textual's terminal driver with input read by `Keyboard`; sends only what the terminal does not show yet."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._sent_cells: SentCells = app.sent_cells

    def write(self, data: str) -> None:
        """Write what differs; nothing once the terminal was given back."""
        if self._writer_thread is None:
            return
        with contextlib.suppress(OSError):  # not on a terminal, as in a test
            self._sent_cells.fit(os.get_terminal_size(self.fileno))
        if different := self._sent_cells.difference(data):
            super().write(different)

    def start_application_mode(self) -> None:
        """Take the terminal, and have it keep its title."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self.write(SAVE_TITLE)

    def stop_application_mode(self) -> None:
        """Give the terminal back when all is written: before, a Ctrl-S would stop the output, and with it the end."""
        self.write(RESTORE_TITLE)
        attributes, self.attrs_before = self.attrs_before, None
        super().stop_application_mode()
        self.close()
        self._writer_thread = None
        if attributes is not None:
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self.fileno, termios.TCSANOW, attributes)

    def run_input_thread(self) -> None:
        """Pass on input until the terminal is released."""
        keyboard, due = Keyboard(), None
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                left = _LOOK_SECONDS if due is None else due - time.monotonic()
                if selector.select(max(min(left, _LOOK_SECONDS), 0)):
                    data = self._read()
                    if not data:  # the terminal is gone, and its signal ends the app
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
