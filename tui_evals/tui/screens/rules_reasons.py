"""How things stand on the rules screen, in sentences: what is under way, and why something cannot be done now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui_evals.tui.lines import Style

if TYPE_CHECKING:
    from tui_evals.tui.state.making import Making

    from .rules_reading import Rulebook
    from .rules_view import RulesView

_ALWAYS = frozenset(("leave", "help"))
_OF_RULE = frozenset(("edit", "tests", "inverse"))
_MAKES = frozenset(("tests", "inverse"))
_CHANGES = frozenset(("edit", "new", "remove"))


def why_not(screen: RulesView, action: str) -> str | None:
    """What cannot be done now."""
    if action in _ALWAYS:
        return None
    if action in ("stop", "messages"):
        return _of_making(screen, action)
    editing = screen.workspace.editing
    if editing is None:
        return "no dataset is open: go back with esc, o opens one"
    if action in ("undo", "redo", "save"):
        known = {"undo": editing.can_undo, "redo": editing.can_redo, "save": editing.dirty}
        nothing = {"undo": "there is nothing to take back", "redo": "nothing was taken back"}
        return None if known[action] else nothing.get(action, "nothing to save: the file is as it is here")
    if not screen.of_rules:
        return "this dataset was not made from rules" if screen.book.ready else "the rules are still being read"
    return _of_rules(screen, action)


def _of_making(screen: RulesView, action: str) -> str | None:
    if action == "stop":
        return None if screen.making_now else "nothing is being made"
    return None if screen.making is not None else "nothing has been made here yet: t has tests made for a rule"


def _of_rules(screen: RulesView, action: str) -> str | None:
    test, line, editing = screen.test, screen.line, screen.workspace.editing
    if action in _OF_RULE and line is None:
        return "that is a group of tests, no rule"
    if action == "remove" and test is None and line is None:
        return "that is a group of tests, no rule: tab goes to the tests, which can be deleted one by one"
    if action == "run" and test is None and not screen.shown.get(screen.rules.key):
        return "no test belongs to it: t has some made"
    if action in _CHANGES | _MAKES and screen.making_now:
        return "something is being made here: wait for it, or x stops it"
    if action in _MAKES and screen.book.origin.cannot:
        return screen.book.origin.cannot
    if action in _MAKES and editing is not None and editing.dirty:
        return "save first (ctrl+s): what is made goes into the file of the dataset"
    return None


def news_of(making: Making | None, book: Rulebook) -> list[tuple[str, Style]]:
    """What is to be said besides: something under way, files that differ, runs that cannot be read."""
    found: list[tuple[str, Style]] = []
    if making is not None and making.live:
        last = making.said[-1] if making.said else "starting"
        seconds = time.monotonic() - making.began
        found.append((f"▸ making {making.remake.says}, {seconds:.0f} s · x stops it · {last}", "running"))
    elif book.differs:
        found.append(("▲ rules.txt beside the dataset holds other rules; e, n, t and i ask which count", "warn"))
    if book.problem:
        found.append((f"✗ {book.problem}", "error"))
    return found
