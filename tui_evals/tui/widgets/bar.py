"""The two lines below the panes: the latest message, and the keys of the active pane."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import Action, footer_choice, pressed_key
from tui_evals.tui.messages import Severity
from tui_evals.tui.rows import wrapped
from tui_evals.tui.widgets.lines import Lines

_GLYPHS: dict[Severity, str] = {"info": "", "warn": "▲ ", "error": "✗ "}
_MOST_LINES = 4
_STAYS: dict[Severity, float] = {"info": 10.0, "warn": 15.0, "error": 60.0}


class Status(Static):
    """A line for the last message, more lines if it needs them, and after a while the status."""

    def __init__(self) -> None:
        super().__init__("", id="status", markup=False)
        self._resting = ""
        self._said = ""
        self._saying: Timer | None = None

    def tell(self, text: str, kind: Severity = "info") -> None:
        """Show a message in place of the one before; without one, the status."""
        if self._saying is not None:
            self._saying.stop()
        if not text:
            self._rest()
            return
        self._saying = self.set_timer(_STAYS[kind], self._rest)
        self._said = _GLYPHS[kind] + safe_line(text.replace("\n", "  "), 300)
        self._show(self._said, kind)

    def rest(self, text: str) -> None:
        """Set the text shown when there is no message."""
        if text != self._resting:
            self._resting = text
            if self._saying is None:
                self._rest()

    def on_resize(self) -> None:
        self._fit()

    def _rest(self) -> None:
        self._saying, self._said = None, ""
        self._show(safe_line(self._resting, 300), "info")

    def _show(self, text: str, kind: Severity) -> None:
        self.set_class(kind == "warn", "warn")
        self.set_class(kind == "error", "error")
        self.update(Content(text), layout=False)
        self._fit()

    def _fit(self) -> None:
        """Use as many lines as the message needs; its end is often a file name or the next step."""
        width = self.size.width or self.app.size.width - 2
        self.styles.height = min(max(len(wrapped(self._said, width)), 1), _MOST_LINES)


class Keys(Static):
    """One line with the keys of the focused pane: as many possible actions as fit. Clicking a key presses it. Inputs
    with their own keys define them in `FOOTER`.
    """

    def __init__(self) -> None:
        super().__init__("", id="keys", markup=False)
        self._actions: Sequence[Action] = ()
        self._why_not: Callable[[Action], str | None] = lambda action: None
        self._typing = False
        self._shown: list[tuple[str, str]] = []

    def offer(
        self, actions: Sequence[Action], why_not: Callable[[Action], str | None], *, typing: bool = False
    ) -> None:
        """Show some of these actions, and the key that shows all; while you type, only keys that are no letters."""
        self._actions, self._why_not, self._typing = actions, why_not, typing
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        last = ("f1" if self._typing else "?", "all keys")
        width = self.size.width or self.app.size.width - 2  # the first picture has its keys before it has a layout
        room = width - len(" ".join(last))
        focused = self.screen.focused
        taken = focused.search_keys if isinstance(focused, Lines) else frozenset[str]()
        first = [("n N", "next")] if taken else _own_keys(focused)
        free = [action for action in self._actions if taken.isdisjoint(action.keys.split(","))]
        room -= sum(len(key) + len(word) + 3 for key, word in first)
        shown = [*first, *footer_choice(free, self._why_not, room, typing=self._typing), last]
        if shown != self._shown:
            self._shown = shown
            parts = [((key, "$accent bold"), (f" {word}  ", "$foreground-muted")) for key, word in shown]
            self.update(Content.assemble(*(part for pair in parts for part in pair)), layout=False)

    def on_click(self, event: events.Click) -> None:
        """Press the key that is named there."""
        event.stop()
        offset = event.get_content_offset(self)
        end = 0
        for label, word in self._shown:
            end += len(label) + len(word) + 3
            if offset is not None and offset.x < end - 2:
                self.app.post_message(events.Key(*pressed_key(label)))
                return


def _own_keys(focused: Widget | None) -> list[tuple[str, str]]:
    """The keys of the line that is typed in."""
    around = focused.ancestors_with_self if focused is not None else ()
    return next(([*keys] for one in around if (keys := getattr(one, "FOOTER", None))), [])
