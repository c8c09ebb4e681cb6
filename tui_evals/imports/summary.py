"""What came of an import, in the words that the command line and the workbench share."""

from __future__ import annotations

from tui_evals.present.figures import counted
from tui_evals.targets.config import FILE

from .base import ImportResult, shown

_DATASET_IS = {
    "written": "written",
    "added to": "added at its end",
    "unchanged": "was there already, the same",
    "kept": "was changed since it was imported, and stays as it is",
    "": "",
}
_RUN_IS = {
    "new": "new",
    "finished now": "was begun by an earlier import, and is whole now",
    "known": "was imported before; no second one was made",
    "": "",
}


def only_totals(result: ImportResult) -> bool:
    """Whether there was no answer and no item, so that nothing was kept."""
    return result.dataset is None and result.run is None and not result.suites


def headline(result: ImportResult) -> str:
    """How much was read, and from where."""
    if result.dataset_is == "none needed":
        return f"{result.source} is a dataset already, with {counted(result.items, 'item')}, and needs no import"
    if only_totals(result):
        return f"{result.source} holds only totals, no answers, so there is no run to open; these are they:"
    return f"read {_amount(result)} from {result.source}, taken for {result.kind}"


def totals_cells(result: ImportResult) -> list[list[str]]:
    """The totals with their heads, where there was nothing else."""
    heads = list(dict.fromkeys(key for row in result.overview for key in row))
    return [heads, *([str(row.get(head, "")) for head in heads] for row in result.overview)] if heads else []


def note_lines(result: ImportResult) -> list[str]:
    """What else there is to know."""
    return [f"note: {note}" for note in result.notes]


def share_line(result: ImportResult) -> str:
    """How many of its assertions judge as before; empty where the source has none."""
    if not result.assertions:
        return ""
    share = f"{result.as_before} of {counted(result.assertions, 'assertion')}"
    return f"{share} judge{'s' if result.as_before == 1 else ''} as before" + (
        "" if result.as_before == result.assertions else "; the others are named above as changed or left out"
    )


def targets_line(result: ImportResult) -> str:
    """What to do for settings of targets that were not written; empty where there are none."""
    if not result.targets or result.targets_written or result.next == result.next_with_targets:
        return ""
    told = ", ".join(
        f"{name} ({', '.join(list(section)[1:]) or 'its name'})" for name, section in result.targets.items()
    )
    return f"note: the targets have settings: {told}; `tui-evals import --targets` writes them to {FILE}"


def kept_lines(result: ImportResult) -> list[str]:
    """The prompts, the dataset, the suites and the runs, and whether each is new."""
    lines = [f"prompt: {shown(prompt)} (written)" for prompt in result.prompts]
    lines += [f"evaluator: {shown(file)} (read it, then `tui-evals trust {shown(file)}`)" for file in result.evaluators]
    if result.dataset is not None and result.dataset_is != "none needed":
        lines.append(f"dataset: {shown(result.dataset)} ({_DATASET_IS[result.dataset_is]})")
    if result.targets_written:
        lines.append(f"targets: {', '.join(result.targets_written)} ({FILE})")
    lines += [f"suite: {suite}" for suite in result.suites]
    lines += [f"run: {run.key} {run.name} of {run.suite} ({_RUN_IS[run.run_is]})" for run in result.runs]
    if result.run is not None and not result.runs:
        lines.append(f"run: {result.run} ({_RUN_IS[result.run_is]})")
    return lines


def _amount(result: ImportResult) -> str:
    tests = counted(result.items, "test" if result.kind == "promptpex" else "item")
    if not result.results:
        return f"{tests} and no answers" if result.kind == "promptpex" else tests
    answers = counted(result.results, "result" if result.kind == "promptpex" else "answer")
    return f"{tests}, {answers} of {counted(len(result.models), 'model')}"
