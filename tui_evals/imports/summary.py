"""The wording for the result of an import, shared by the command line and the workbench."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tui_evals.store.records import ScoreRecord
from tui_evals.targets.base import references_in
from tui_evals.targets.config import FILE
from tui_evals.text.measures import counted

from .base import ImportResult, shown
from .registry import importers
from .verifying import Repeated, Verification

MOST_DIFFERENCES = 20
"""How many verdicts that differ are listed one by one."""
MOST_FAULTS = 5
"""How many problems of the dataset are listed one by one."""

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
    """Whether there were no answers and no items, so that nothing was stored."""
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
    """Further notes."""
    return [f"note: {note}" for note in result.notes]


def cannot_run_lines(result: ImportResult) -> list[str]:
    """Problems to fix in the dataset before it can run; a long list is cut, with its count."""
    faults = result.cannot_run
    if not faults:
        return []
    more = len(faults) - MOST_FAULTS
    first = f"this cannot run until {'this is' if len(faults) == 1 else f'these {len(faults):,} problems are'} fixed:"
    lines = [first, *(f"  {fault}" for fault in faults[:MOST_FAULTS])]
    return [*lines, f"  … and {more:,} more; `tui-evals validate` lists all"] if more > 0 else lines


def share_line(result: ImportResult) -> str:
    """How much of it judges as before: the share of its assertions or verdicts, or else its parts."""
    if result.dataset_is == "none needed" or only_totals(result):
        return ""
    if result.assertions:
        share = f"{result.as_before:,} of {counted(result.assertions, 'assertion')}"
        return f"{share} judge{'s' if result.as_before == 1 else ''} as before" + (
            "" if result.as_before == result.assertions else "; the others are named above as changed or left out"
        )
    again = f"tui-evals import {{}} {shlex.quote(str(result.source))}"
    if result.repeatable:
        has = "has its evaluator" if result.repeatable == 1 else "have their evaluators"
        share = f"{result.repeatable:,} of {counted(result.recorded, 'recorded verdict')} {has} here"
        return f"{share}; `{again.format('--verify')}` says how many are given again"
    if result.recorded:
        told = f"its {counted(result.recorded, 'recorded verdict')} came without evaluators that are known here"
        importer = importers().get(result.kind)
        if importer is not None and not importer.holds_answers:
            return told
        return f"{told}; `{again.format('DATASET --verify')}` judges the answers with those of a dataset"
    parts = Counter(loss.kind for loss in result.losses)
    fates = (("carried over", parts["carried"]), ("changed", parts["changed"]), ("left out", parts["left out"]))
    listed = ", ".join(f"{count:,} {fate}" for fate, count in fates if count)
    return "it records no assertions and no verdicts" + (f"; of what is named above: {listed}" if listed else "")


def target_text(name: str, section: Mapping[str, Any]) -> str:
    """A target with its settings, its address and the variables that are sent there."""
    http = section.get("http", {})
    address = http.get("url") or section.get("base_url") or ""
    values = (section.get("api_key", ""), *section.get("headers", {}).values(), *http.get("headers", {}).values())
    sent = list(dict.fromkeys(variable for value in values for variable in references_in(value)))
    settings = ", ".join(key for key in section if key != "model") or "its name"
    where = f"; asks {urlsplit(address).netloc or address}" if address else ""
    along = f" with {', '.join(sent)}" if sent else ""
    return f"{name} ({settings}{where}{along})"


def targets_line(result: ImportResult) -> str:
    """How to write settings of targets that were not written; empty if there are none."""
    has_them = result.targets_written or result.experiment is not None or result.next == result.next_with_targets
    if not result.targets or has_them:
        return ""
    told = ", ".join(target_text(name, section) for name, section in result.targets.items())
    return f"note: the targets have settings: {told}; `tui-evals import --targets` writes them to {FILE}"


def kept_lines(result: ImportResult) -> list[str]:
    """The prompts, the dataset, the suites and the runs, and whether each is new."""
    lines = [f"prompt: {shown(prompt)} (written)" for prompt in result.prompts]
    lines += [f"experiment: {shown(result.experiment)} (written)"] if result.experiment is not None else []
    lines += [f"evaluator: {shown(file)} (read it, then `tui-evals trust {shown(file)}`)" for file in result.evaluators]
    if result.dataset is not None and result.dataset_is != "none needed":
        lines.append(f"dataset: {shown(result.dataset)} ({_DATASET_IS[result.dataset_is]})")
    if result.targets_written:
        told = ", ".join(target_text(name, result.targets[name]) for name in result.targets_written)
        lines.append(f"targets: {told}, in {FILE}")
    lines += [f"suite: {suite}" for suite in result.suites]
    lines += [f"run: {run.key} {run.name} of {run.suite} ({_RUN_IS[run.run_is]})" for run in result.runs]
    if result.run is not None and not result.runs:
        lines.append(f"run: {result.run} ({_RUN_IS[result.run_is]})")
    return lines


def agreement(found: Verification) -> str:
    """How many verdicts were repeated."""
    if not found.repeated:
        return "no recorded verdict could be repeated here, so nothing is proven"
    share = f"{found.as_before:,} of {counted(found.repeated, 'assertion')}"
    differing = len(found.differences)
    told = f"; {differing:,} differ{'s' if differing == 1 else ''}" if differing else ""
    return f"{share} judge{'s' if found.as_before == 1 else ''} as before{told}"


def difference_lines(found: Verification) -> list[str]:
    """The verdicts that differ: on which answer, how it was and how it is; a long list is cut with its count."""
    differences = found.differences
    lines = [verdict_line(one) for one in differences[:MOST_DIFFERENCES]]
    more = len(differences) - len(lines)
    return [*lines, f"… and {more:,} more; --json lists all"] if more else lines


def not_repeated_lines(found: Verification) -> list[str]:
    """The verdicts that were not repeated, with reasons."""
    lines = [f"not repeated: {counted(count, 'verdict')}: {reason}" for reason, count in found.cannot.most_common()]
    if found.by_model:
        told = f"{counted(found.by_model.total(), 'verdict')}, as a model judges ({_kinds(found.by_model)})"
        lines.append(f"not repeated: {told}; --judges asks it")
    if found.read_again:
        told = counted(found.read_again, "verdict")
        lines.append(f"{told} read again in the judge's recorded reply; --judges asks the judge itself")
    if found.no_equal:
        told = f"{counted(found.no_equal.total(), 'verdict')} without an equal here ({_kinds(found.no_equal)})"
        lines.append(f"not repeated: {told}")
    if found.not_asked:
        lines.append(f"not repeated: {counted(found.not_asked, 'answer')} to what the dataset does not ask")
    if found.without_transform:
        lines.append(
            f"{counted(found.without_transform, 'verdict')} on what a transform had made of the answer: it was not "
            "run again"
        )
    return lines


def verdict_line(one: Repeated) -> str:
    """A verdict that was given once more: on which answer, how it was, and how it is where that differs."""
    turn = f" turn {one.turn + 1}" if one.turn else ""
    repeat = f" repeat {one.repeat + 1}" if one.repeat else ""
    where = ", ".join(part for part in (f"{one.item}{turn}{repeat}", one.prompt, one.target) if part)
    name = one.key if one.key == one.evaluator else f"{one.key} ({one.evaluator})"
    if one.same:
        return f"{where}: {name}: {_verdict(one.before)}, as before"
    return f"{where}: {name}: {_verdict(one.before)} before, {_verdict(one.now)} now" + (
        f": {_short(one.now.reason)}" if one.now.reason else ""
    )


def _verdict(record: ScoreRecord) -> str:
    number = "" if record.score is None else f"{record.score:.4g}"
    return f"{record.result} {number}".strip() if record.result is not None else number


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else f"{line[:119]}…"


def _kinds(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _amount(result: ImportResult) -> str:
    tests = counted(result.items, "test" if result.kind == "promptpex" else "item")
    if not result.results:
        return f"{tests} and no answers" if result.kind == "promptpex" else tests
    answers = counted(result.results, "result" if result.kind == "promptpex" else "answer")
    return f"{tests}, {answers} of {counted(len(result.models), 'model')}"


def next_line(result: ImportResult) -> str:
    """The next command; for an experiment, its run, which needs no written settings."""
    if result.experiment is None:
        return result.next
    is_usual = (
        result.experiment.name == "experiment.yaml" and result.experiment.resolve().parent == Path.cwd().resolve()
    )
    return "tui-evals run" if is_usual else f"tui-evals run {shlex.quote(shown(result.experiment))}"
