"""The condition of a store in words: sound or damaged, what can be read, and what a repair saved."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tui_evals.store.connection import why_read_only
from tui_evals.store.repair import IncompleteRun, SavedTable
from tui_evals.store.upkeep import Backup, StoreCheck
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe_line

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
    "chain": ("signed record of a run", "signed records of runs"),
    "statements": ("statement of a signed record", "statements of signed records"),
    "activities": ("record of a battle or a generation", "records of battles and generations"),
    "session": ("setting of the workbench", "settings of the workbench"),
}
"""The rows of each table, but of those that are made again of the others."""


_NAMED = 20
_MADE_ANEW = "rebuilt from what is left"


def read_only_note(path: Path) -> str:
    """Why a store is read-only; empty where it is writable."""
    why = why_read_only(path)
    return f"{path} can only be read: {why}" if why else ""


def store_standing(checked: StoreCheck) -> str:
    """Whether a store is sound and whose it is, and what can be read of it."""
    more = "".join(f"; {line}" for line in (*schema_lines(checked), *foreign_lines(checked)))
    if not checked.whole:
        return "no damage in the pages checked; too large to check all of it here. `tui-evals db check` does" + more
    if not checked.problems:
        standing = "not to be written" if checked.schema.harmful else "sound"
        return f"{standing}; {readable(checked)}{more}"
    return f"damaged ({checked.problems[0]}); readable are {readable(checked)}: `tui-evals db repair` saves them{more}"


def schema_lines(checked: StoreCheck) -> list[str]:
    """The objects of a store besides the tables of tui-evals."""
    lines = [f"nothing is written into it, because {checked.schema.sentence}"] if checked.schema.harmful else []
    if others := checked.schema.others:
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        lines.append(f"ignored, because tui-evals did not make it: {', '.join(others[:_NAMED])}{more}")
    return [safe_line(line) for line in lines]


def foreign_lines(checked: StoreCheck) -> list[str]:
    """The note that a store belongs to another user; empty if it is yours."""
    if checked.own:
        return []
    return ["not begun here, so its cached answers and baselines are not used; `tui-evals trust --store` changes that"]


def readable(checked: StoreCheck) -> str:
    """How much of a store can be read."""
    said = [counted(number, *_NOUNS[table]) for table, number in checked.readable.items()]
    if len(said) < 2:
        return "".join(said) or "nothing"
    return f"{'' if checked.counted else 'at least '}{', '.join(said[:-1])} and {said[-1]}"


def saved_lines(tables: Sequence[SavedTable]) -> Iterator[str]:
    """The result of saving each table that had rows, or may have had some."""
    for one in tables:
        if one.table not in _NOUNS or (one.known == 0 and not (one.saved or one.dropped)):
            continue
        if one.known is None:
            line = f"{counted(one.saved, *_NOUNS[one.table])} saved; how many there were is lost"
        else:
            line = f"{one.saved:,} of {counted(max(one.known, one.saved), *_NOUNS[one.table])} saved"
        line += f", {one.from_backup:,} of them from the backup" if one.from_backup else ""
        line += f"; {one.dropped:,} more belonged to what is lost" if one.dropped else ""
        if one.remade:
            line += f"; {one.remade:,} more " + ("are pending again" if one.table == "answers" else _MADE_ANEW)
        yield line


def incomplete_lines(runs: Sequence[IncompleteRun]) -> Iterator[str]:
    """The lost answers of each run, and whether it can be resumed."""
    for run in runs:
        lost = f"run {run.key} ({run.name}): {run.lost:,} of {counted(run.total, 'answer')} lost"
        yield f"{lost}; `tui-evals resume {run.key}` asks them again" if run.can_resume else f"{lost} for good"


def backup_line(backup: Backup) -> str:
    """Which backup a repair takes rows from."""
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(backup.time))
    return f"What could not be read comes from the backup of {made}, as far as it has it."
