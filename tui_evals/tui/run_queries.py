"""Slow questions about the answers of a run, each with a reader of its own so that a thread can ask it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tui_evals.present.columns import AS_THEY_ARE, Names, names_of
from tui_evals.store.filters import Filter, by_beginnings, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import OVER_STATUSES, FailureCause, RunRow, Totals
from tui_evals.store.rows import EvaluatorMean

_FAILURES = parse_filter("!status:pass !status:pending !status:running !status:answered")
_MANY = 5_000
"""Answers from which on reading all their texts takes a while."""
_LATER_TURNS = parse_filter("!turn:1")


@dataclass(frozen=True, slots=True)
class AnswerOrder:
    """Which answers are shown and how they are sorted; the plain order is that of the plan."""

    text: str = ""
    sort: str | None = None
    descending: bool = False

    @property
    def plain(self) -> bool:
        """Whether every answer is shown in the order of the plan."""
        return not self.text.strip() and self.sort is None and not self.descending

    def filter(self) -> Filter | None:
        """The filter; FilterError says which term is wrong."""
        return parse_filter(self.text) if self.text.strip() else None


@dataclass(frozen=True, slots=True)
class RunCount:
    """A run in numbers."""

    run: int
    seq: int
    """What was committed up to this sequence number is counted."""
    first_pass: bool
    """Whether answers become final once, so that what is seen of them can be added to the count."""
    totals: Totals
    means: Sequence[EvaluatorMean]
    verdicts: Mapping[int, str]
    """What people said of answers, by their ids; the latest of each."""
    turns: bool
    repeats: bool
    """Whether some item has several of them."""
    endings: Mapping[str, int] = field(default_factory=dict)
    """How many answers ended otherwise than usual, by how they did."""
    causes: tuple[FailureCause, ...] = ()
    """Why answers are missing, cut or not judged."""
    targets: Mapping[int, Totals] = field(default_factory=dict)
    """The targets in numbers, where there are several."""
    names: Names = AS_THEY_ARE
    """How items are called."""
    scores: bool = True
    latencies: bool = True
    """Whether some answer has a score, and whether somebody waited for some."""


def arranged_ids(database: Path, run: RunRow, order: AnswerOrder) -> array[int]:
    """The ids of the answers in an order; FilterError says what is wrong with the filter."""
    with Reader(database) as reader:
        return reader.ids(run.id, order.filter(), order.sort, order.descending)


def first_found_ids(database: Path, run: RunRow, order: AnswerOrder) -> array[int] | None:
    """The same as far as names and the beginnings of answers tell; None where that is all a filter looks at."""
    where = order.filter()
    found = by_beginnings(where) if where is not None and run.total > _MANY else None
    if found is None:
        return None
    with Reader(database) as reader:
        return reader.ids(run.id, found, order.sort, order.descending)


def next_failure(database: Path, run: RunRow, shown: array[int] | None, start: int, way: int) -> int | None:
    """The next answer from a row on, round the end, that did not pass; `shown` None is the order of the plan."""
    with Reader(database) as reader:
        bad = set(reader.ids(run.id, _FAILURES))
        if shown is None and bad:
            shown = reader.ids(run.id)
    if not shown or not bad:
        return None
    rows = ((start + way * step) % len(shown) for step in range(1, len(shown) + 1))
    return next((shown[row] for row in rows if shown[row] in bad), None)


def count_run(database: Path, run: RunRow, known: RunCount | None) -> RunCount | None:
    """A run in numbers; None when it is gone."""
    with Reader(database) as reader:
        try:
            unpriced = reader.spent(run.id)[1]
            totals = reader.totals(run.id)
            # Calls of judges can lack a price as well; the answers do not know of those.
            totals = replace(totals, unpriced=max(totals.unpriced, unpriced))
            targets = reader.totals_by(run.id, "target") if len(run.targets) > 1 else {}
            # Asked after the totals, so that no answer beyond it is in them already and would count twice.
            seq = reader.seq()
            means = reader.evaluator_means(run.id)
            endings = reader.endings(run.id)
            scores, latencies = reader.filled(run.id)
            causes = reader.causes(run.id) if totals.errored or totals.partial or endings else ()
        except LookupError:
            return None
        verdicts = {label.answer: label.verdict for label in reader.labels(run.id) if label.evaluator is None}
        if known is not None and known.run == run.id:
            turns, repeats, names = known.turns, known.repeats, known.names
        else:
            names = names_of(reader.names(run.id))
            turns = bool(reader.ids(run.id, _LATER_TURNS))
            repeats = any(row.repeat for row in reader.rows(reader.ids(run.id, None, "repeat", True)[:1]))
    return RunCount(
        run=run.id,
        seq=seq,
        first_pass=run.scoring_pass == 1 and run.status not in OVER_STATUSES,
        totals=totals,
        means=means,
        verdicts=verdicts,
        turns=turns,
        repeats=repeats,
        endings=endings,
        causes=causes,
        names=names,
        scores=scores,
        latencies=latencies,
        targets=targets,
    )
