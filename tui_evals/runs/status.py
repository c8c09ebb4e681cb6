"""From records to a status and a score, for an answer, an item and a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from tui_evals.store.records import RunRow, StopCode

Status = Literal["pass", "fail", "partial", "error", "unjudged", "scored"]
_WORST_FIRST: tuple[Status, ...] = ("error", "partial", "fail", "unjudged", "pass", "scored")
"""A scored turn does not affect a passed one; an unjudged one does."""

GENERATION = "generation"
"""The key in the config of a run that only records the cost of a generation."""
EXPERIMENT = "experiment"
"""The key in the config of a run with the file of its experiment."""
METRICS = "metrics"
"""The key in the config of a run for the folder of its prompt, from the project's root, where metrics lie."""
FILES = "files"
"""The key in the config of a run for the folder of its dataset, from the project's root, whose files go along."""
DESTINATIONS = "destinations"
"""The key in the config of a run for where its targets and judges send questions and keys, by name."""
UNJUDGED_TOO = "unjudged too"
"""The key in the config of a run that is running where evaluators cannot judge."""
RUBRIC = "rubric"
"""The key in the config of a run or pass for the rubric of rating levels."""
RECORDED = "recorded"
"""The key in the config of a run that another tool made."""


class JudgedRecord(Protocol):
    """The fields of a record that affect status and score."""

    @property
    def result(self) -> str | None:
        """pass, fail, error, skipped, or None."""
        ...

    @property
    def weight(self) -> float:
        """How much it counts."""
        ...


def status_of(records: Sequence[JudgedRecord], threshold: float = 1.0, *, together: bool = False) -> Status:
    """The status of an answer: partial if an evaluator could not judge, else by the share that passed.

    Without a verdict it is scored if there is a value or it will be judged `together` with others, else unjudged.
    """
    results = [record.result for record in records]
    if "error" in results:
        return "partial"
    passed = results.count("pass")
    if judged := passed + results.count("fail"):
        return "pass" if passed >= threshold * judged - 1e-9 else "fail"
    return "scored" if together or None in results else "unjudged"


def score_of(records: Iterable[JudgedRecord]) -> float | None:
    """The weighted share of passed evaluators, 0 to 100; None if nothing was judged or has a weight."""
    judged = [(record.weight, record.result == "pass") for record in records if record.result in ("pass", "fail")]
    weight = sum([weight for weight, _ in judged])
    return 100 * sum([weight for weight, passed in judged if passed]) / weight if weight else None


def resume_command(run: RunRow) -> str:
    """The command that continues a run; after a spent budget it sets a larger limit."""
    return f"tui-evals resume {run.key}" + (" --max-cost N" if run.code == "budget" else "")


def next_command(run: RunRow) -> str:
    """What to do with a stopped run, with the command."""
    if run.code == "misnamed":
        source = "DATASET" if ":" in run.source else shlex.quote(run.source)
        again = f"`tui-evals run {source} --target NAME`"
        return f"Start again with the right name: {again}. `tui-evals delete {run.key}` removes this run"
    if run.code == "configuration":
        return f"After fixing it, `{resume_command(run)}` continues it"
    return f"`{resume_command(run)}` continues it"


_EXIT_CODES = (2, 3, 130, 4, 1)
"""Which exit code counts where several apply."""


def first_exit_code(codes: Iterable[int]) -> int:
    """The exit code of a command that did several things, each with a code of its own."""
    found = set(codes)
    return next((code for code in _EXIT_CODES if code in found), 0)


def exit_code_of(code: StopCode) -> int:
    """The exit code of a command that stopped early; it can be continued unless its store is lost."""
    return {"configuration": 3, "misnamed": 3, "asked": 130, "lost": 1}.get(code, 4)


def worst(statuses: Iterable[Status]) -> Status:
    """The status of a conversation: the worst of its turns."""
    distinct = set(statuses)
    return next((status for status in _WORST_FIRST if status in distinct), "unjudged")


def weighted_mean(scores: Iterable[tuple[float | None, float]]) -> float | None:
    """The weighted mean of scores, without missing ones."""
    known = [(score, weight) for score, weight in scores if score is not None]
    weight = sum(weight for _, weight in known)
    return sum(score * part for score, part in known) / weight if weight else None
