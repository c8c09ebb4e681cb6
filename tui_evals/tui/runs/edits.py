"""Edits of a stored run: each asks what is wanted, and returns what to write and what to say then."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.app import App

from tui_evals.store.baselines import author_here, clear_baseline, set_baseline
from tui_evals.store.database import StoreError
from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line
from tui_evals.tui.messages import StatusMessage
from tui_evals.tui.store_writer import StoreWriter
from tui_evals.tui.widgets.dialogs import Ask, Confirm

from .history import ChosenRuns, ListedRun, RunList, choose_runs

if TYPE_CHECKING:
    from tui_evals.store.writer import Writer


class RunEdit(NamedTuple):
    """A change of a run that somebody wants."""

    step: Callable[[Writer], None]
    says: str


AskEdit = Callable[[App[Any], RunRow], Awaitable[RunEdit | None]]


async def ask_name(app: App[Any], run: RunRow) -> RunEdit | None:
    """Another name."""
    entered = await app.push_screen_wait(Ask("Name of the run", run.name, check=_name_problem, keeps=True))
    name = entered.strip() if entered is not None else run.name
    return (
        None if name == run.name else RunEdit(lambda writer: writer.edit(run.id, name=name), f"the run is named {name}")
    )


async def ask_tags(app: App[Any], run: RunRow) -> RunEdit | None:
    """Other tags."""
    hint = "words with spaces or commas between them"
    text = await app.push_screen_wait(Ask(f"Tags of {run.name}", " ".join(run.tags), hint=hint, keeps=True))
    if text is None or (tags := tags_of(text)) == run.tags:
        return None
    message = f"{run.name} is tagged {' '.join(f'#{tag}' for tag in tags)}" if tags else f"{run.name} has no tags now"
    return RunEdit(lambda writer: writer.edit(run.id, tags=tags), message)


async def ask_note(app: App[Any], run: RunRow) -> RunEdit | None:
    """Another note."""
    entered = await app.push_screen_wait(Ask(f"Note on {run.name}", run.note, keeps=True))
    note = entered.strip() if entered is not None else run.note
    if note == run.note:
        return None
    message = f"the note on {run.name} is kept" if note else f"{run.name} has no note now"
    return RunEdit(lambda writer: writer.edit(run.id, note=note), message)


async def ask_deletion(app: App[Any], run: RunRow) -> RunEdit | None:
    """No run at all, once it has been said what goes with it."""
    answers = f"its {run.total:,} answers" if run.total != 1 else "its answer"
    text = f"{run.name} ({run.key}), {answers}, their scores and what people said of them are deleted for good."
    if not await app.push_screen_wait(Confirm(f"Delete {run.name}?", text, "delete")):
        return None
    return RunEdit(lambda writer: writer.delete_run(run), f"{run.name} ({run.key}) is deleted")


def why_no_baseline(listed: ListedRun) -> str | None:
    """Why nothing can be measured against a run; a baseline can always be taken back."""
    run = listed.run
    if listed.baseline:
        return None
    if run.status != "finished":
        return f"{safe_line(run.name, 60)} is {run.status}: what it has not answered would be missing from comparisons"
    judged = listed.totals is None or listed.judged
    return None if judged else f"{safe_line(run.name, 60)} has no answer that was judged, so nothing compares with it"


def ask_baseline(dataset: str, already: bool) -> AskEdit:
    """Measure the runs of a dataset against this one, or against none where it is its baseline already."""

    async def asking(app: App[Any], run: RunRow) -> RunEdit | None:
        if already:
            message = f"{safe_line(dataset, 60)} has no baseline now"
            return RunEdit(lambda writer: clear_baseline(writer, dataset), message)
        message = f"{safe_line(run.name, 60)} is the baseline of {safe_line(dataset, 60)} now"
        return RunEdit(lambda writer: set_baseline(writer, dataset, run.id, author_here()), message)

    return asking


async def carry_out(app: App[Any], writer: StoreWriter, run: RunRow, asking: AskEdit) -> StatusMessage | None:
    """Ask for a change and write it; what is to be said then, or None when nobody wants it any more."""
    edit = await asking(app, run)
    if edit is None:
        return None
    try:
        await writer.write(edit.step)
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
FindRun = Callable[[int | None], RunRow | None]


def why_not(
    action: str, listed: ListedRun | None, runs: RunList, chosen: Callable[[], ChosenRuns | None]
) -> str | None:
    """Nothing can be done with no run, nor compared with only one."""
    if listed is None:
        return _NO_RUN
    if action == "baseline":
        return why_no_baseline(listed)
    if action not in ("compare", "battle") or chosen() is not None:
        return None
    # Imported when it is wanted, because it would hold up every first picture.
    from tui_evals.present.comparisons import why_alone

    return f"{why_alone(listed.run, runs.others(listed.run.id))}: mark other runs with space"


def runs_to_compare(
    here: RunRow | None, runs: RunList | None, marks: Sequence[int], known: FindRun
) -> ChosenRuns | None:
    """The runs to compare: the marked ones, or this one with its baseline, its parent, or the one before."""
    marked = [run for run in map(known, marks) if run is not None]
    if here is None or runs is None:
        return choose_runs(None, marked, None, None, ())
    return choose_runs(here, marked, known(runs.baseline_of(here.id)), known(here.parent), runs.others(here.id))
