"""What the compare screen asks and explains: which kinds, which words, what the words on it mean."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui_evals.compare.match import Kind
from tui_evals.compare.runs import KINDS, Comparison
from tui_evals.store.database import StoreError
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.tui.lines import Row
from tui_evals.tui.state.comparing import kinds_in, read_words
from tui_evals.tui.views.comparison import counted, kind_piece
from tui_evals.tui.views.keys import help_rows
from tui_evals.tui.views.words import word_rows

from .menu import Entry, Menu

if TYPE_CHECKING:
    from .compare import CompareScreen

_WORDS = ("McNemar", "interval", "Holm")
_NOTHING: dict[str, tuple[Kind, str]] = {
    "broken": ("broken", "nothing is broken: no answer passed before and fails now"),
    "next_broken": ("broken", "nothing is broken: no answer passed before and fails now"),
    "previous_broken": ("broken", "nothing is broken: no answer passed before and fails now"),
    "fixed": ("fixed", "nothing is fixed: no answer failed before and passes now"),
    "changed": ("changed", "no answer changed that is judged alike"),
}


def why_not(action: str, found: Comparison | None, here: bool) -> str | None:
    """What cannot be done before the runs are read, or because there is nothing of the kind."""
    if action in ("leave", "help"):
        return None
    if found is None:
        return "the runs are still being read"
    if action in _NOTHING:
        kind, says = _NOTHING[action]
        return None if any(one.counts[kind] for one in found.against) else says
    if action == "versus" and len(found.sides) == 2:
        return "there are only two runs here"
    if action in ("wide", "beside", "unified") and not here:
        return "there is no line here"
    return None


async def kind_menu(screen: CompareScreen, found: Comparison) -> None:
    """Choose which lines are listed."""
    counts = counted(found.lines)
    entries = [
        Entry(kind, kind_piece(kind).text, f"{counts[kind]:,}", why_not="" if counts[kind] else "none")
        for kind in KINDS
    ]
    kind = await screen.app.push_screen_wait(Menu("show only", entries))
    if kind is not None:
        screen.list.only(kind)


def readable(text: str) -> None:
    """Nothing for a filter that can be read; FilterError says what is wrong with another."""
    parse_filter(kinds_in(text)[1])


async def with_words(screen: CompareScreen, found: Comparison, text: str) -> None:
    """List only lines with answers that a filter lets through."""
    try:
        kinds, rest = kinds_in(text)
        answers = await asyncio.to_thread(read_words, screen.database, found, rest)
    except (FilterError, StoreError) as problem:
        screen.tell(str(problem), "error")
        return
    screen.list.only_with(text, kinds, answers)


def explained(width: int) -> list[Row]:
    """The keys of the screen, then what its words mean."""
    return [*help_rows("compare", width), *word_rows(_WORDS, width)]
