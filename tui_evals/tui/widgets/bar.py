"""The two lines below the panes: what was said last, and the keys of the pane in front."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import Action, key_names
from tui_evals.tui.messages import Severity

from .lines import Lines

_MOST = 8
_GLYPHS: dict[Severity, str] = {"info": "", "warn": "▲ ", "error": "✗ "}
_STAYS: dict[Severity, float] = {"info": 10.0, "warn": 15.0, "error": 60.0}


class Status(Static):
    """One line for what was said last, and after a while for how things stand."""

    def __init__(self) -> None:
        super().__init__("", id="status", markup=False)
        self._resting = ""
        self._saying: Timer | None = None

    def tell(self, text: str, kind: Severity = "info") -> None:
        """Show a sentence in place of the one before."""
        if self._saying is not None:
            self._saying.stop()
        self._saying = self.set_timer(_STAYS[kind], self._rest)
        self._show(_GLYPHS[kind] + safe_line(text.replace("\n", "  "), 300), kind)

    def rest(self, text: str) -> None:
        """What stands here while nothing is said."""
        if text != self._resting:
            self._resting = text
            if self._saying is None:
                self._rest()

    def _rest(self) -> None:
        self._saying = None
        self._show(safe_line(self._resting, 300), "info")

    def _show(self, text: str, kind: Severity) -> None:
        self.set_class(kind == "warn", "warn")
        self.set_class(kind == "error", "error")
        self.update(Content(text), layout=False)


class Keys(Static):
    """One line with the keys of the pane that has the focus; what cannot be done now is dim."""

    def __init__(self) -> None:
        super().__init__("", id="keys", markup=False)
        self._parts: list[tuple[str, str]] = []

    def offer(self, actions: Iterable[Action], why_not: Callable[[Action], str | None], more: str = "?") -> None:
        """Show the first of some actions, and the key that shows all."""
        parts: list[tuple[str, str]] = []
        focused = self.screen.focused
        taken = focused.search_keys if isinstance(focused, Lines) else frozenset[str]()
        if taken:
            parts = [("n N", "$accent bold"), (" next  ", "$foreground-muted")]
        for action in [one for one in actions if taken.isdisjoint(one.keys.split(","))][:_MOST]:
            off = why_not(action) is not None
            parts += [
                (key_names(action)[0], "$foreground-muted" if off else "$accent bold"),
                (f" {action.word}  ", "$foreground-disabled" if off else "$foreground-muted"),
            ]
        parts += [(more, "$accent bold"), (" all keys", "$foreground-muted")]
        if parts != self._parts:
            self._parts = parts
            self.update(Content.assemble(*parts), layout=False)
