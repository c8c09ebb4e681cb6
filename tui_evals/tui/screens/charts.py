"""The charts of a comparison over the whole screen."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from tui_evals.compare.runs import Comparison
from tui_evals.tui.lines import Rows, row
from tui_evals.tui.views.charts import chart_rows
from tui_evals.tui.widgets.lines import Lines

from .ask import Reading
from .compare_acts import explained


class Charts(ModalScreen[None]):
    """Rows to look at; escape goes back to the comparison."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,h", "leave", "back", show=False),
        Binding("question_mark,f1", "explain", "help", show=False),
    ]
    DEFAULT_CSS = """
    Charts { layout: vertical; background: $background; }
    Charts Static { height: 1; padding: 0 1; color: $text-muted; }
    """

    def __init__(self, found: Comparison) -> None:
        super().__init__()
        self._found = found
        self._rows: Rows = [row(("Drawing…", "dim"))]
        self._width = 0

    def compose(self) -> ComposeResult:
        """The charts, and how one leaves them."""
        self.lines = Lines(choosing=False, id="charts")
        self.lines.show(self._made)
        yield self.lines
        yield Static("j k scroll · g G top and bottom · ? what the words mean · esc back", markup=False)

    def _made(self, width: int) -> Rows:
        """The rows as far as they are drawn; for another width they are drawn again, away from the screen's thread."""
        if width != self._width:
            self._width = width
            self.run_worker(self._draw(width), group="charts", name="drawing", exclusive=True, exit_on_error=False)
        return self._rows

    async def _draw(self, width: int) -> None:
        self._rows = await asyncio.to_thread(chart_rows, self._found, width)
        self.lines.show(self._made)

    def action_leave(self) -> None:
        """Back."""
        self.dismiss(None)

    def action_explain(self) -> None:
        """The keys of the comparison, and what the words here mean."""
        self.app.push_screen(Reading("help · comparing runs", explained))
