"""The page of a project in which no dataset is open: what this is for, and the five keys to begin with."""

from __future__ import annotations

from collections.abc import Sequence

from tui_evals.tui.lines import Row, fit, row, wrapped

from .tree import Other, listed

_KEY = 8
_WELCOME = "Welcome. There is no dataset in this folder yet."
_PURPOSE = "Write a dataset, say how answers are judged, run it, and see what failed and why."
_LATER = "Nothing to ask a model with yet? `tui-evals demo` shows all of it on a sample project, offline."


def first_page(others: Sequence[Other], width: int) -> list[Row]:
    """What can be opened, or else what this is for; then the keys."""
    if others:
        head = [row(("No dataset is open.", "strong")), row(), *listed(others, width)]
    else:
        head = [row((line, "strong")) for line in wrapped(_WELCOME, width)]
        head += [row(), *(row(line) for line in wrapped(_PURPOSE, width))]
    rows = [*head, row()]
    for key, says in _keys(bool(others)):
        first, *rest = wrapped(says, max(width - _KEY - 2, 10))
        rows.append(row(" ", fit(key, _KEY, "key"), " ", first))
        rows += [row(" " * (_KEY + 2), line) for line in rest]
    return rows if others else [*rows, row(), *(row((line, "dim")) for line in wrapped(_LATER, width))]


def _keys(any_there: bool) -> tuple[tuple[str, str], ...]:
    """The five keys, the one to press now before the others."""
    begin = ("ctrl+n", "begins a dataset")
    enter = ("enter", "opens the dataset under the cursor" if any_there else "writes in the field under the cursor")
    return (
        *((enter, begin) if any_there else (begin, enter)),
        ("1 … 6", "go to dataset, item, evaluators, results, answer, runs"),
        ("r", "runs what is selected, once it has said what that costs"),
        ("?", "lists the keys of where you are; esc goes back, q leaves"),
    )
