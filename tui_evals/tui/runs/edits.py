"""What can be changed of a run: each asks for it first, and hands back what to write and what to say then."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from textual.app import App

from tui_evals.store.baselines import author_here, clear_baseline, set_baseline
from tui_evals.store.database import StoreError
from tui_evals.store.records import RunRow
from tui_evals.store.writer import Writer
from tui_evals.text.safe import safe_line
from tui_evals.tui.messages import StatusMessage
from tui_evals.tui.store_writer import StoreWriter
from tui_evals.tui.widgets.dialogs import Ask, Confirm

from .history import ChosenRuns, ListedRun, RunList, to_compare


class Edit(NamedTuple):
    """A change of a run that somebody wants."""

    step: Callable[[Writer], None]
    says: str


Asking = Callable[[App[Any], RunRow], Awaitable[Edit | None]]


async def renamed(app: App[Any], run: RunRow) -> Edit | None:
    """Another name."""
    given = await app.push_screen_wait(Ask("Name of the run", run.name, check=_name_problem))
    name = given.strip() if given is not None else run.name
    return None if name == run.name else Edit(lambda writer: writer.edit(run.id, name=name), f"the run is named {name}")


async def tagged(app: App[Any], run: RunRow) -> Edit | None:
    """Other tags."""
    hint = "words with spaces or commas between them · enter takes them · esc leaves them"
    text = await app.push_screen_wait(Ask(f"Tags of {run.name}", " ".join(run.tags), hint=hint))
    if text is None or (tags := tags_of(text)) == run.tags:
        return None
    says = f"{run.name} is tagged {' '.join(f'#{tag}' for tag in tags)}" if tags else f"{run.name} has no tags now"
    return Edit(lambda writer: writer.edit(run.id, tags=tags), says)


async def noted(app: App[Any], run: RunRow) -> Edit | None:
    """Another note."""
    given = await app.push_screen_wait(Ask(f"Note on {run.name}", run.note))
    note = given.strip() if given is not None else run.note
    if note == run.note:
        return None
    says = f"the note on {run.name} is kept" if note else f"{run.name} has no note now"
    return Edit(lambda writer: writer.edit(run.id, note=note), says)


async def deleted(app: App[Any], run: RunRow) -> Edit | None:
    """No run at all, once it has been said what goes with it."""
    answers = f"its {run.total:,} answers" if run.total != 1 else "its answer"
    text = f"{run.name} ({run.key}), {answers}, their scores and what people said of them are deleted for good."
    if not await app.push_screen_wait(Confirm(f"Delete {run.name}?", text, "delete")):
        return None
    return Edit(lambda writer: writer.delete_run(run), f"{run.name} ({run.key}) is deleted")


def why_no_baseline(past: ListedRun) -> str | None:
    """Why nothing can be measured against a run; a baseline can always be taken back."""
    run = past.run
    if past.baseline:
        return None
    if run.status != "finished":
        return f"{safe_line(run.name, 60)} is {run.status}: what it has not answered would be missing from comparisons"
    judged = past.totals is None or past.judged
    return None if judged else f"{safe_line(run.name, 60)} has no answer that was judged, so nothing compares with it"


def baseline_set(dataset: str, already: bool) -> Asking:
    """Measure the runs of a dataset against this one, or against none where it is its baseline already."""

    async def asking(app: App[Any], run: RunRow) -> Edit | None:
        if already:
            says = f"{safe_line(dataset, 60)} has no baseline now"
            return Edit(lambda writer: clear_baseline(writer, dataset), says)
        says = f"{safe_line(run.name, 60)} is the baseline of {safe_line(dataset, 60)} now"
        return Edit(lambda writer: set_baseline(writer, dataset, run.id, author_here()), says)

    return asking


async def carried_out(app: App[Any], pen: StoreWriter, run: RunRow, asking: Asking) -> StatusMessage | None:
    """Ask for a change and write it; what is to be said then, or None when nobody wants it any more."""
    edit = await asking(app, run)
    if edit is None:
        return None
    try:
        await pen.write(edit.step)
    except (StoreError, LookupError) as problem:
        return StatusMessage(str(problem), "error")
    return StatusMessage(edit.says)


def tags_of(text: str) -> tuple[str, ...]:
    """The tags a person typed, each once, with or without the sign before them."""
    words = (word.lstrip("#") for word in re.split(r"[\s,]+", text))
    return tuple(dict.fromkeys(word for word in words if word))


def _name_problem(text: str) -> str | None:
    return None if text.strip() else "A run needs a name."


_NO_RUN = "there is no run here yet: r starts one"
_ALONE = "nothing to compare it with: mark other runs with space"
Known = Callable[[int | None], RunRow | None]


def why_not(action: str, past: ListedRun | None, chosen: Callable[[], ChosenRuns | None]) -> str | None:
    """Nothing can be done with no run, nor compared with only one."""
    if past is None:
        return _NO_RUN
    if action == "baseline":
        return why_no_baseline(past)
    return _ALONE if action == "compare" and chosen() is None else None


def chosen(here: RunRow | None, shelf: RunList | None, marks: Sequence[int], known: Known) -> ChosenRuns | None:
    """The runs to compare: the marked ones, or this one with its baseline, its parent, or the one before."""
    marked = [run for run in map(known, marks) if run is not None]
    if here is None or shelf is None:
        return to_compare(None, marked, None, None, ())
    return to_compare(here, marked, known(shelf.baseline_of(here.id)), known(here.parent), shelf.others(here.id))


def compare(app: App[Any], database: Path, runs: ChosenRuns) -> None:
    """Put runs beside each other."""
    # Imported when it is wanted: it would hold up every first picture.
    from tui_evals.tui.compare.screen import CompareScreen

    app.push_screen(CompareScreen(database, [run.id for run in runs.runs], runs.why))


def label(app: App[Any], database: Path, run: RunRow) -> None:
    """Label answers of a run without seeing what the judges said."""
    # Imported when it is wanted, as above.
    from tui_evals.tui.labels.screen import LabelScreen

    app.push_screen(LabelScreen(database, run.id))
