"""Text inputs: focus, pasting, lines, text areas with JSON, and the filter line."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar, Literal, get_args

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.message import Message
from textual.screen import Screen
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from tui_evals.store.database import StoreError
from tui_evals.store.filters import FILTER_KEYS, SHOWN_WORDS, FilterError, parse_filter
from tui_evals.text.safe import changes_of, safe, safe_line, spelled, without_sequences
from tui_evals.tui.messages import StatusMessage
from tui_evals.tui.widgets.finding import Complete, Completion

HOLDS_KEYS = "holds-keys"
"""The class of a box or line that keeps the keys for as long as it is shown."""


def give_keys(widget: Widget) -> None:
    """Put the keys into a widget at once; `Widget.focus` would do it after the keys that are waiting already."""
    widget.screen.set_focus(widget)


def holder_of_keys(node: DOMNode) -> Widget | None:
    """The open text box or line below a node."""
    boxes = (one for one in node.walk_children(Widget) if one.has_class(HOLDS_KEYS))
    return next((one for one in boxes if one is not node and all(up.display for up in one.ancestors_with_self)), None)


def return_keys(screen: Screen[object]) -> None:
    """Focus the open text box again after a click or tab elsewhere.

    The one rule that keeps a letter meant for a text from being taken for an action."""
    if screen.focused is None or not screen.focused.has_class(HOLDS_KEYS):
        holder = holder_of_keys(screen)
        if holder is not None:
            give_keys(holder)


def fit_paste(text: str, *, one_line: bool = False, spells: bool = False) -> tuple[str, str]:
    """The pasted text without control characters, and a sentence about the changes, if any. With `spells`, hidden
    characters are escaped in the form that `unspelled` reads.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # terminals send the ends of lines as carriage returns
    fit = spelled(without_sequences(text)) if spells else safe(text)
    sequences, spelt = changes_of(text)
    changes = []
    if sequences:
        changes.append(f"without {_count(len(sequences), 'escape sequence')}")
    if spelt:
        shown = spelled(spelt[0]) if spells else safe(spelt[0])
        how = "kept and shown" if spells else "spelt out, such"
        changes.append(f"with {_count(len(spelt), 'hidden character' if spells else 'character')} {how} as {shown}")
    says = f"pasted {', '.join(changes)}" if changes else ""
    return (" ".join(fit.split()) if one_line else fit), says


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


class LineInput(Input):
    """An input line; a paste of several lines becomes one, and tab submits, as enter does."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab,shift+tab", "submit", "take", show=False)]
    spells: ClassVar[bool] = False
    """Whether hidden characters are kept, spelled, and read back by the owner."""

    def on_paste(self, event: events.Paste) -> None:
        """Replaces Textual's handler, which keeps control characters and drops all lines but the first."""
        event.prevent_default()
        event.stop()
        text, says = fit_paste(event.text, one_line=True, spells=self.spells)
        self.replace(text, *self.selection)
        if says:
            self.post_message(StatusMessage(says, "warn"))


Token = Literal["key", "text", "number", "word"]
TOKENS: tuple[Token, ...] = get_args(Token)

_INDENT = "  "
_STRING = r'"(?:[^"\\\n]|\\.)*'
_TOKEN = re.compile(
    rf'(?P<key>{_STRING}"(?=\s*:))|(?P<text>{_STRING}"?)|(?P<number>-?\b\d[\d.eE+-]*)|(?P<word>\b(?:true|false|null)\b)'
)
_TEXT = re.compile(rf'{_STRING}(?P<end>"?)')


def tokens(line: str) -> Iterator[tuple[int, int, Token]]:
    """The start and end of each key, text, number and word of a line; texts do not span lines."""
    for match in _TOKEN.finditer(line):
        kind = next(kind for kind in TOKENS if match[kind] is not None)
        yield match.start(), match.end(), kind


def new_line(before: str, after: str) -> tuple[str, str]:
    """The text that enter inserts before and after the cursor: an escape inside a string, or an indented line."""
    if _in_text(before):
        return r"\n", ""
    line = before.rpartition("\n")[2]
    indent = line[: len(line) - len(line.lstrip(" "))]
    if not line.rstrip().endswith(("{", "[")):
        return f"\n{indent}", ""
    closes = after.lstrip(" ").startswith(("}", "]"))
    return f"\n{indent}{_INDENT}", f"\n{indent}" if closes else ""


def closes_block(before: str) -> bool:
    """Whether a closing bracket typed here ends a block, and so belongs one step further left."""
    line = before.rpartition("\n")[2]
    return line.endswith(_INDENT) and not line.strip()


def _in_text(before: str) -> bool:
    """Whether the end of a text is inside a JSON string."""
    line = before.rpartition("\n")[2]
    return any(match.end() == len(line) and not match["end"] for match in _TEXT.finditer(line))


class EditArea(TextArea):
    """A text area without control characters; with `one_line` it holds one line, whatever is pasted."""

    # Replaces Textual's ctrl+z, which suspends here; terminals send the same code for ctrl+_ and ctrl+/.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+underscore", "undo", "undo", show=False)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"edit-area--json-{token}" for token in TOKENS}

    def __init__(
        self,
        text: str = "",
        *,
        one_line: bool = False,
        compact: bool = True,
        spells: bool = False,
        id: str | None = None,
    ) -> None:
        super().__init__(text, id=id, soft_wrap=True, tab_behavior="focus", show_line_numbers=False, compact=compact)
        self.cursor_blink = False
        self.one_line = one_line
        self._spells = spells
        """Whether hidden characters are kept, spelled, and read back by the owner."""
        self.json = False
        """Whether the text is JSON."""
        self.complete: Complete | None = None
        """Completes the text at the cursor; the right arrow accepts it."""
        self.completion: Completion | None = None

    def update_suggestion(self) -> None:
        """Find the completion at the cursor, and draw its missing part."""
        complete, found = self.complete, None
        if complete is not None and self.selection.is_empty:
            found = complete(self._before(), self.get_text_range(self.selection.end, self.document.end))
        self.completion = found
        self.suggestion = found.rest if found is not None else ""

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        """Complete at the cursor before the owner is notified."""
        self.update_suggestion()

    def action_cursor_right(self, select: bool = False) -> None:
        """Take what completes the text, or move."""
        found = None if select else self.completion
        if found is None:
            super().action_cursor_right(select)
            return
        row, column = self.selection.end
        self.replace(found.text, (row, column - len(found.typed)), (row, column), maintain_selection_offset=False)

    def on_paste(self, event: events.Paste) -> None:
        """Replace the selection by the pasted text; shows a message if the text had to be changed."""
        event.prevent_default()
        event.stop()
        if self.read_only:
            return
        text, says = fit_paste(event.text, one_line=self.one_line, spells=self._spells)
        self.replace(text, *self.selection, maintain_selection_offset=False)
        if says:
            self.post_message(StatusMessage(says, "warn"))

    def on_key(self, event: events.Key) -> None:
        """Enter goes to the parent where it cannot add a line; a text never begins with a line break."""
        if event.key == "enter" and (self.one_line or not self.text):
            event.prevent_default()
        elif event.key == "enter" and self.json:
            event.prevent_default()
            event.stop()
            self.add_line()
        elif event.character in ("}", "]") and self.json and closes_block(self._before()):
            row, column = self.cursor_location
            self.delete((row, column - 2), (row, column))

    def add_line(self) -> None:
        """Start a new line in place of the selection; in JSON it is indented, and escaped inside a string."""
        start, end = sorted(self.selection)
        ahead, behind = "\n", ""
        if self.json:
            ahead, behind = new_line(self._before(), self.get_text_range(end, self.document.end))
        self.replace(ahead + behind, start, end, maintain_selection_offset=False)
        if behind:
            row, _ = self.cursor_location
            self.move_cursor((row - 1, len(ahead) - 1))

    def _before(self) -> str:
        """The text up to the cursor, or up to the selection."""
        return self.get_text_range((0, 0), min(self.selection))

    def _refresh_scrollbars(self) -> None:
        """Wait for a pending layout: before it, the size of the text is unknown."""
        if not self._layout_required:
            super()._refresh_scrollbars()

    def get_line(self, line_index: int) -> Text:
        """A line as drawn."""
        line = super().get_line(line_index)
        if self.json:
            for start, end, token in tokens(line.plain):
                style = self.get_component_rich_style(f"edit-area--json-{token}", partial=True)
                line.stylize(style, start, end)
        return line


_SHOWN = ("score", "latency", "first_token", "cost")
"""Keys whose values look otherwise than words; the second time is written like the first."""
HELP = (
    f"{' '.join(SHOWN_WORDS)} score:<50 latency:>2s cost:>0.01 "
    f'{" ".join(f"{key}:" for key in FILTER_KEYS if key not in _SHOWN)} !not "words" any*'
)


class CompletionSuggester(Suggester):
    """Completes a line at its end; the right arrow accepts."""

    def __init__(self, complete: Complete) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        """The line with its last name completed."""
        found = self._complete(value, "")
        return value + found.rest if found is not None and found.rest else None


class ValueSuggester(Suggester):
    """Completes the last term of a filter: its key, then a value."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.values: Mapping[str, Sequence[str]] = {}
        """The known values by key."""

    async def get_suggestion(self, value: str) -> str | None:
        """The typed text with its last term completed."""
        return self.completed(value)

    def completed(self, text: str) -> str | None:
        """The text with its last term completed; None if there is no completion."""
        name, begun, quote = _last_term(text)
        known: Sequence[str]
        if begun is None:
            known, typed = [f"{one}:" for one in self.values] if name else [], name
        else:
            known, typed = self.values.get(name, ()), begun
        for one in known:
            if '"' in one or not one.casefold().startswith(typed.casefold()):
                continue
            if quote:
                return f'{text}{one[len(typed) :]}"'
            if " " in one and not typed:
                return f'{text}"{one}"'
            if " " not in one and len(one) > len(typed):
                return text + one[len(typed) :]
        return None

    def is_unfinished(self, text: str) -> bool:
        """Whether the last term is an incomplete value, which would match nothing."""
        name, begun, _ = _last_term(text)
        return bool(begun) and begun not in self.values.get(name, ()) and self.completed(text) is not None


def _last_term(text: str) -> tuple[str, str | None, str]:
    """The name of the last term, what follows its colon, and the quotation mark that is still open there."""
    before, quote, quoted = text.rpartition('"') if text.count('"') % 2 else (text, "", "")
    name, colon, begun = before.rpartition(" ")[2].lstrip("!").partition(":")
    return name, begun + quoted if colon else None, quote


ReadValues = Callable[[], Mapping[str, Sequence[str]]]
"""Reads the values that a filter completes, by key."""


class FilterLine(Vertical):
    """Hidden until the user types; reports valid text at once, and submits it with enter."""

    FOOTER: ClassVar[Sequence[tuple[str, str]]] = (("enter", "to the list"), ("→", "complete"), ("esc", "no filter"))

    def __init__(self, read: Callable[[str], object] = parse_filter, help: str = HELP) -> None:
        super().__init__()
        self._read = read
        self._help = help
        self._suggester = ValueSuggester()

    class Typed(Message):
        """A valid filter, to which more may be added."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Submitted(Message):
        """A valid filter was submitted; an empty one matches everything."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def compose(self) -> ComposeResult:
        self.display = False
        self.styles.height = "auto"
        self._hint = Static(classes="hint")
        self._hint.styles.height = "auto"
        self._hint.styles.max_height = 6
        self._input = LineInput(id="filter", classes=HOLDS_KEYS, select_on_focus=False, suggester=self._suggester)
        yield from (self._hint, self._input)

    def begin(self, text: str, values: ReadValues | None = None) -> None:
        """Start typing from the current filter; `values` reads the completions in a thread."""
        if values is not None:
            self.run_worker(self._offer(values), group="values", name="filter values", exit_on_error=False)
        self._input.value = safe_line(text)
        self._input.select_all()
        self._say(None)
        self.display = True
        give_keys(self._input)

    async def _offer(self, values: ReadValues) -> None:
        with suppress(StoreError):  # without the values there are no completions
            self._suggester.values = await asyncio.to_thread(values)

    def focus_line(self) -> None:
        give_keys(self._input)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Report the filter, or show its error, or what is still missing while typing."""
        event.stop()
        problem = self._problem(event.value)
        self._say(problem)
        if problem is None and not self._suggester.is_unfinished(event.value):
            self.post_message(self.Typed(event.value.strip()))

    @property
    def readable(self) -> str | None:
        """The text of the line; None if it is invalid."""
        return None if self._problem(self._input.value) else self._input.value.strip()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        problem = self._problem(event.value)
        if problem is None:
            self.post_message(self.Submitted(event.value.strip()))
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
