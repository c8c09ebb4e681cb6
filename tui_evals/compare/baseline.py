"""How a run stands against the baseline of its dataset, cheap enough to be asked again and again while it goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from tui_evals.store.baselines import baseline_of, dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, RunRow

from .match import match_items
from .measures import MeasuredDifference, passes_by_target
from .sides import (
    Answer,
    CellKey,
    ComparedRun,
    Rubrics,
    RunAnswers,
    defaults_differ,
    other_rubrics,
    same_expectations,
    shared_numbers,
)

_ANSWERS: Mapping[AnswerStatus, Answer] = {status: Answer(0, status, None, 0) for status in get_args(AnswerStatus)}
"""All that is looked at is the status, so that one answer stands for all of the same status."""
_Cells = Mapping[int, Mapping[CellKey, Answer]]


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """A run against the baseline of its dataset: for each target whether its items pass more often."""

    baseline: RunRow
    itself: bool = False
    """The run is the baseline."""
    targets: Mapping[int, MeasuredDifference] = field(default_factory=dict)
    """By the position of the target in the run; a target that the baseline did not ask is missing."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What stays as it is while a run goes on."""

    cells: _Cells
    """What became of the answers of the baseline, by item."""
    pairs: Sequence[tuple[int, int]]
    """The items of the baseline, and those of the run that are the same and are held against the same."""
    prompts: Mapping[int, int]
    targets: Mapping[int, int]
    """The common numbers of the prompts and targets of the run."""
    rubrics: Rubrics
    """Those of the baseline."""


class BaselineComparison:
    """Measures runs of a project against their baselines; keeps what it knows of the last pair."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: tuple[object, _Prepared] | None = None

    def measure(self, reader: Reader, run: RunRow) -> AgainstBaseline | None:
        """How a run stands now, read away from the screen's thread; None where its dataset has no baseline."""
        chosen = baseline_of(reader, dataset_key(run.source, self._root, self._root))
        if chosen is None:
            return None
        try:
            baseline = reader.run(chosen.run)
            if baseline.id == run.id:
                return AgainstBaseline(baseline, itself=True)
            prepared = self._prepared(reader, baseline, run)
        except LookupError:
            return None  # Somebody deleted one of the two.
        if other_rubrics(prepared.rubrics, reader.rubrics(run.id)):
            return AgainstBaseline(baseline)  # what the one rubric passes the other may fail
        cells = _cells(reader, run, prepared.prompts, prepared.targets)
        tests = passes_by_target((prepared.cells[one], cells.get(other, {})) for one, other in prepared.pairs)
        mine = {target: tests[number] for target, number in prepared.targets.items() if number in tests}
        return AgainstBaseline(baseline, targets=mine)

    def _prepared(self, reader: Reader, baseline: RunRow, run: RunRow) -> _Prepared:
        key = tuple((one.key, one.scoring_pass) for one in (baseline, run))
        if self._known is None or self._known[0] != key:
            self._known = (key, _prepare(reader, baseline, run))
        return self._known[1]


def _prepare(reader: Reader, baseline: RunRow, run: RunRow) -> _Prepared:
    runs = (baseline, run)
    prompts, targets = (shared_numbers([getattr(one, of) for one in runs]) for of in ("prompts", "targets"))
    documents = {digest: reader.snapshot(digest) for digest in {one.snapshot for one in runs}}
    sides, cells = [], []
    for one, *numbers in zip(runs, prompts, targets, strict=True):
        document = documents[one.snapshot]
        sides.append(RunAnswers(ComparedRun(one, (), document, judged_by=reader.judged_by(one, document)), *numbers))
        cells.append(_cells(reader, one, *numbers))
    first, later = sides
    alike = same_expectations(first, later)
    pairs: list[tuple[int, int]] = []
    if alike or not defaults_differ(first, later):
        for group in match_items(
            [side.item_keys(own, len(documents) == 1) for side, own in zip(sides, cells, strict=True)]
        ):
            own, other = group.keys
            if own and other and (alike or not first.expects_otherwise(own.position, later, other.position)):
                pairs.append((own.position, other.position))
    return _Prepared(cells[0], pairs, prompts[1], targets[1], reader.rubrics(baseline.id))


def _cells(
    reader: Reader, run: RunRow, prompts: Mapping[int, int], targets: Mapping[int, int]
) -> defaultdict[int, dict[CellKey, Answer]]:
    cells: defaultdict[int, dict[CellKey, Answer]] = defaultdict(dict)
    for item, repeat, prompt, target, turn, status in reader.statuses(run.id):
        cells[item][repeat, prompts[prompt], targets[target], turn] = _ANSWERS[status]
    return cells
