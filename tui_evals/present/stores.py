"""How a store stands, in words: sound or damaged, what can be read of it, and what a repair saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tui_evals.store.damage import StoreCheck
from tui_evals.store.read_only import why_read_only
from tui_evals.store.repair import SavedTable

from .figures import counted

_NOUNS = {
    "runs": ("run", "runs"),
    "answers": ("answer", "answers"),
    "scores": ("score", "scores"),
    "bodies": ("text of an answer", "texts of answers"),
    "snapshots": ("dataset", "datasets"),
    "group_scores": ("score of several answers together", "scores of several answers together"),
    "passes": ("scoring pass", "scoring passes"),
    "calls": ("call", "calls"),
    "cache": ("cached answer", "cached answers"),
    "labels": ("label", "labels"),
    "drafts": ("unsaved edit", "unsaved edits"),
    "baselines": ("baseline", "baselines"),
    "battles": ("battle", "battles"),
    "bouts": ("verdict of a battle", "verdicts of battles"),
    "earlier": ("earlier state of an answer", "earlier states of answers"),
    "staged": ("answer judged in a scoring under way", "answers judged in scorings under way"),
    "replies": ("reply of a judge in a scoring under way", "replies of judges in scorings under way"),
    "workers": ("worker of a cluster", "workers of clusters"),
    "session": ("setting of the workbench", "settings of the workbench"),
}
"""The rows of each table, but of those that are made again of the others."""


def read_only_note(path: Path) -> str:
    """That nothing can be written into a store, and why; empty where it can."""
    why = why_read_only(path)
    return f"{path} can only be read: {why}" if why else ""


def store_standing(checked: StoreCheck) -> str:
    """Whether a store is sound, and what can be read of it."""
    if not checked.whole:
        return (
            "too large to look at every page of it here, and sound as far as was looked; `tui-evals db check` goes on"
        )
    if not checked.problems:
        return f"sound; {readable(checked)}"
    return f"damaged ({checked.problems[0]}); readable are {readable(checked)}: `tui-evals db repair` saves them"


def readable(checked: StoreCheck) -> str:
    """How much of a store can be read."""
    said = [counted(number, *_NOUNS[table]) for table, number in checked.readable.items()]
    return f"{'' if checked.counted else 'at least '}{', '.join(said[:-1])} and {said[-1]}"


def saved_lines(tables: Sequence[SavedTable]) -> Iterator[str]:
    """What became of the rows of each table that held any, or of which nobody can tell whether it did."""
    for one in tables:
        if one.table not in _NOUNS or (one.known == 0 and not (one.saved or one.dropped)):
            continue
        if one.known is None:
            line = f"{counted(one.saved, *_NOUNS[one.table])} saved; how many there were is lost"
        else:
            line = f"{one.saved:,} of {counted(max(one.known, one.saved), *_NOUNS[one.table])} saved"
        line += f"; {one.dropped:,} more belonged to what is lost" if one.dropped else ""
        yield f"{line}; {one.remade:,} more made anew of what is left" if one.remade else line
