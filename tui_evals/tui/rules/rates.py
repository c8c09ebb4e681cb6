"""How often each test kept its rules when each model was asked last, counted away from the screen."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tui_evals.present.status import OVER
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.tui.latest_statuses import runs_of

from .state import BASELINE, LOOSE, RuleSheet

_JUDGE = "Compliance"
_MOST_ANSWERS = 200_000


class VerdictTally(NamedTuple):
    """Verdicts: those that passed, all of them, answers without one because something broke, answers to come."""

    passed: int = 0
    judged: int = 0
    errors: int = 0
    open: int = 0


NOTHING = VerdictTally()


@dataclass(frozen=True, slots=True)
class CollectedVerdicts:
    """The verdicts by target and name of a test, those of a newer run in place of an older one's."""

    by_target: Mapping[str, Mapping[str, VerdictTally]] = field(default_factory=dict)
    compliance: bool = False
    """Whether all were judged by their rules; else some count by what all evaluators said together."""


@dataclass(frozen=True, slots=True)
class _RunVerdicts:
    """What one run says."""

    by_target: Mapping[str, Mapping[str, VerdictTally]]
    compliance: bool
    answers: int


class VerdictReader:
    """Reads the runs of a dataset, the latest first; what is over is read once."""

    def __init__(self, database: Path, root: Path) -> None:
        self._database = database
        self._root = root
        self._known: dict[int, tuple[Hashable, _RunVerdicts]] = {}

    def read(self, file: Path) -> CollectedVerdicts:
        """The verdicts on the tests of a dataset, for a thread and one call at a time; StoreError if it cannot."""
        by_target: dict[str, dict[str, VerdictTally]] = {}
        compliance, answers = True, 0
        with Reader(self._database) as reader:
            for run in runs_of(reader, file, self._root):
                verdicts = self._run(reader, run)
                for target, tallies in verdicts.by_target.items():
                    own = by_target.setdefault(target, {})
                    fresh = [name for name, tally in tallies.items() if name not in own and tally != NOTHING]
                    own.update((name, tallies[name]) for name in fresh)
                    compliance = compliance and (verdicts.compliance or not fresh)
                answers += verdicts.answers
                if answers > _MOST_ANSWERS:
                    break
        return CollectedVerdicts({target: own for target, own in by_target.items() if own}, compliance)

    def _run(self, reader: Reader, run: RunRow) -> _RunVerdicts:
        mark = (run.status, run.scoring_pass, run.rejudgings, run.heartbeat)
        known = self._known.get(run.id)
        if known is not None and known[0] == mark and run.status in OVER:
            return known[1]
        verdicts = _verdicts(reader, run)
        self._known[run.id] = (mark, verdicts)
        return verdicts


def _verdicts(reader: Reader, run: RunRow) -> _RunVerdicts:
    """The verdicts of a run: those of Compliance, once for each judge, else what became of the answers."""
    keys = {mean.key for mean in reader.evaluator_means(run.id) if mean.evaluator == _JUDGE and mean.scope == "answer"}
    judged: dict[int, list[bool]] = {}
    for score in reader.judged(run.id) if keys else ():
        if score.key in keys and score.result in ("pass", "fail"):
            judged.setdefault(score.answer, []).append(score.result == "pass")
    by_target: dict[str, dict[str, VerdictTally]] = {}
    answers = 0
    for row in reader.all_rows(run.id):
        answers += 1
        verdicts = judged.get(row.id, [])
        if not keys and row.status in ("pass", "partial", "fail"):
            verdicts = [row.status == "pass"]
        waits = run.status not in OVER and row.status in ("pending", "running", "answered")
        tally = VerdictTally(sum(verdicts), len(verdicts), int(row.status == "error" and not verdicts), int(waits))
        own = by_target.setdefault(_column(run, row.prompt, row.target), {})
        own[row.name] = add_tallies((own.get(row.name, NOTHING), tally))
    return _RunVerdicts(by_target, bool(keys), answers)


def _column(run: RunRow, prompt: int, target: int) -> str:
    """What a column is called: the target, and the prompt where several were asked."""
    name = run.targets[target] if target < len(run.targets) else str(target)
    return f"{name} · {run.prompts[prompt]}" if len(run.prompts) > 1 and prompt < len(run.prompts) else name


def add_tallies(tallies: Iterable[VerdictTally]) -> VerdictTally:
    """Several together."""
    return VerdictTally(*map(sum, zip(*tallies, strict=True))) if (tallies := tuple(tallies)) else NOTHING


@dataclass(frozen=True, slots=True)
class VerdictBoard:
    """The verdicts beside the rules and tests of a sheet."""

    targets: tuple[str, ...] = ()
    by_row: Mapping[object, tuple[VerdictTally, ...]] = field(default_factory=dict)
    tests: Mapping[int, tuple[VerdictTally, ...]] = field(default_factory=dict)
    compliance: bool = True

    def row(self, key: object) -> tuple[VerdictTally, ...]:
        """What came of a rule, by target."""
        return self.by_row.get(key, (NOTHING,) * len(self.targets))

    def test(self, position: int) -> tuple[VerdictTally, ...]:
        """What came of a test, by target."""
        return self.tests.get(position, (NOTHING,) * len(self.targets))


def verdict_board(sheet: RuleSheet, rates: CollectedVerdicts) -> VerdictBoard:
    """Put the verdicts beside the rules; for a thread."""
    targets = tuple(rates.by_target)
    columns = [rates.by_target[target] for target in targets]
    tests = {
        position: tuple(column.get(case.name, NOTHING) for column in columns)
        for position, case in enumerate(sheet.cases)
        if any(case.name in column for column in columns)
    }
    rows: dict[object, tuple[VerdictTally, ...]] = {}
    for key in (*(line.key for line in sheet.lines), BASELINE, LOOSE):
        mine = [tests[position] for position in sheet.tests(key) if position in tests]
        rows[key] = tuple(add_tallies(tally[column] for tally in mine) for column in range(len(targets)))
    return VerdictBoard(targets, rows, tests, rates.compliance or not targets)
