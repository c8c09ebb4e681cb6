"""What one look at the store found, for everybody who shows something of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tui_evals.store.records import AnswerRow, RunRow


@dataclass
class Pulse:
    """What a look at the store found."""

    rows: list[AnswerRow] = field(default_factory=list)
    """Answers of the run on screen that changed, in the order in which they did."""
    run: bool = False
    """The run on screen has another status, name, tags or scoring pass."""
    runs: bool = False
    """Something about runs changed, or answers of any run did."""
    reload: bool = False
    """Something was deleted, or too much changed to tell one by one: fetch again what is shown."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.run or self.runs or self.reload)


def differs(run: RunRow, before: RunRow) -> bool:
    """Whether a run looks different from before; its heartbeat alone does not count."""
    return _shown(run) != _shown(before)


def _shown(run: RunRow) -> tuple[object, ...]:
    return (run.status, run.control, run.name, run.tags, run.note, run.scoring_pass, run.started, run.finished)
