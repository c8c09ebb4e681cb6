"""The two lines below the panes: what was said last, and the keys of where one is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.content import Content
from textual.widgets import Static

from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import Action, key_names
from tui_evals.tui.messages import Kind

_MOST = 8


class Status(Static):
    """One line for what was said last."""

    def __init__(self) -> None:
        super().__init__("", id="status", markup=False)

    def tell(self, text: str, kind: Kind = "info") -> None:
        """Show a sentence in place of the one before."""
        self.set_class(kind == "warn", "warn")
        self.set_class(kind == "error", "error")
        glyph = {"info": "", "warn": "▲ ", "error": "✗ "}[kind]
        self.update(Content(glyph + safe_line(text.replace("\n", "  "), 300)), layout=False)


class Keys(Static):
    """One line with the keys of the pane that has the focus; what cannot be done now is dim."""

    def __init__(self) -> None:
        super().__init__("", id="keys", markup=False)
        self._parts: list[tuple[str, str]] = []

    def offer(self, actions: Iterable[Action], why_not: Callable[[Action], str | None], more: str = "?") -> None:
        """Show the first of some actions, and the key that shows all."""
        parts: list[tuple[str, str]] = []
        for action in list(actions)[:_MOST]:
            off = why_not(action) is not None
            parts += [
                (key_names(action)[0], "$text-muted" if off else "$accent bold"),
                (f" {action.word}  ", "$text-disabled" if off else "$text-muted"),
            ]
        parts += [(more, "$accent bold"), (" all keys", "$text-muted")]
        if parts != self._parts:
            self._parts = parts
            self.update(Content.assemble(*parts), layout=False)
