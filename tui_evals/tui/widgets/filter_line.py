"""The line at the bottom of a pane to type a filter in; what is wrong with it stands above it at once."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from tui_evals.store.filters import FILTER_KEYS, SHOWN_WORDS, FilterError, parse_filter
from tui_evals.text.safe import safe_line

from .focus import HOLDS_KEYS, give_keys
from .pasting import LineInput

_SHOWN = ("score", "latency", "first_token", "cost")
"""Keys whose values look otherwise than words; the second time is written like the first."""
HELP = (
    f"{' '.join(SHOWN_WORDS)} score:<50 latency:>2s cost:>0.01 "
    f'{" ".join(f"{key}:" for key in FILTER_KEYS if key not in _SHOWN)} !not "words" any*'
)


class FilterLine(Vertical):
    """Hidden until one types; what is typed is told where it can be read, and given with enter."""

    def __init__(self, read: Callable[[str], object] = parse_filter, help: str = HELP) -> None:
        super().__init__()
        self._read = read
        self._help = help

    class Typed(Message):
        """A filter that can be read, of which more may follow."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Given(Message):
        """A filter that can be read; an empty one lets everything through."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def compose(self) -> ComposeResult:
        """What can be said of the filter, and the line."""
        self.display = False
        self.styles.height = "auto"
        self._hint = Static(classes="hint")
        self._hint.styles.height = "auto"
        self._hint.styles.max_height = 6
        self._input = LineInput(id="filter", classes=HOLDS_KEYS, select_on_focus=False)
        yield from (self._hint, self._input)

    def begin(self, text: str) -> None:
        """Type, from a filter on that holds already."""
        self._input.value = safe_line(text)
        self._input.select_all()
        self._say(None)
        self.display = True
        give_keys(self._input)

    def focus_line(self) -> None:
        """The keys belong to the line."""
        give_keys(self._input)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say at once what is missing, which is no fault yet while one types, or else tell it."""
        event.stop()
        problem = self._problem(event.value)
        self._say(problem)
        if problem is None:
            self.post_message(self.Typed(event.value.strip()))

    @property
    def readable(self) -> str | None:
        """What stands in the line; None where it cannot be read."""
        return None if self._problem(self._input.value) else self._input.value.strip()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give it, or stay."""
        event.stop()
        problem = self._problem(event.value)
        if problem is None:
            self.post_message(self.Given(event.value.strip()))
        else:
            self._say(problem, wrong=True)

    def _say(self, problem: str | None, *, wrong: bool = False) -> None:
        self._hint.set_class(wrong, "wrong")
        self._hint.update(Content(safe_line(problem or self._help, 500)))

    def _problem(self, text: str) -> str | None:
        try:
            self._read(text)
        except FilterError as problem:
            return str(problem)
        return None
