"""Everything above the cards of one run: totals by target, evaluator and category, and the matrix of items."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from statistics import median
from typing import Any

from tui_evals.figures import Figure, percent
from tui_evals.light_records import dataclass
from tui_evals.present.answers import cause_line
from tui_evals.present.figures import interval_text, mean_text, run_measures, skipped_sentence, universal_time
from tui_evals.present.gates import GateText, gate_texts
from tui_evals.present.grid import GridColumn, cell_look, cell_score, line_name, named_columns
from tui_evals.present.runs import (
    Column,
    RunFacts,
    change_lines,
    column_names,
    judge_name,
    run_cost,
    run_facts,
    target_names,
)
from tui_evals.present.status import Look, Tone, status_counts, waiting_count
from tui_evals.reports.page.cards import Filters
from tui_evals.reports.plots import BarPart, Histogram, Level, Meter, histogram, levels, meter, stacked
from tui_evals.runs.scoring import judged_parts
from tui_evals.runs.status import weighted_mean
from tui_evals.store import grid, run_figures
from tui_evals.store.details import read_marks
from tui_evals.store.filters import FILTER_WORDS, parse_filter
from tui_evals.store.grid import GridCell, GridLine, GridRow
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, Totals
from tui_evals.store.rows import EvaluatorMean, Mark
from tui_evals.text.measures import counted, duration, token_counts
from tui_evals.text.model_output import ENDINGS


@dataclass(frozen=True, slots=True)
class Share:
    """A pass rate as the page shows it."""

    passed: int
    judged: int
    text: str
    interval: str
    meter: Meter | None


def rate_share(rate: Figure | None, passed: int, judged: int) -> Share:
    """A pass rate with its interval and a bar of both; counts alone where columns would be pooled."""
    if rate is None:
        return Share(passed, judged, f"{passed:,} of {judged:,}" if judged else "n/a", "", None)
    ends = rate.interval
    interval = f"{interval_text(rate)} %"
    if rate.items != rate.answers:
        interval += f", by {counted(rate.items, 'item')}"
    bar = meter(rate.value, ends.low, ends.high) if ends else None
    return Share(passed, judged, percent(rate.value), interval, bar)


def totals_share(totals: Totals) -> Share:
    """The pass rate of answers that are counted together."""
    return rate_share(totals.pass_rate, totals.passed, totals.passed + totals.failed)


@dataclass(slots=True)
class RunWalk:
    """The numbers from one pass over the answers and scores of a run, without texts."""

    numbers: set[int] = field(default_factory=set)
    """The items, by their places in the dataset."""
    cached: int = 0
    categories: Counter[str] = field(default_factory=Counter)
    latencies: defaultdict[Column, array[float]] = field(default_factory=lambda: defaultdict(_floats))
    scores: defaultdict[str, array[float]] = field(default_factory=lambda: defaultdict(_floats))
    labels: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    thresholds: defaultdict[str, set[float]] = field(default_factory=lambda: defaultdict(set))
    points: Mapping[Column, float | None] = field(default_factory=dict)

    @property
    def items(self) -> int:
        """How many items were asked."""
        return len(self.numbers)

    def take(self, row: AnswerRow) -> None:
        """Count an answer in."""
        self.numbers.add(row.item)
        self.categories[row.category] += 1
        self.cached += row.from_cache
        if row.latency_ms is not None and not row.from_cache:
            self.latencies[row.prompt, row.target].append(row.latency_ms)

    def take_marks(self, marks: Iterable[Mark]) -> None:
        """Count its scores in."""
        for mark in marks:
            if mark.label is not None:
                self.labels[mark.key][mark.label] += 1
            if mark.score is not None:
                self.scores[mark.key].append(mark.score)
            if mark.threshold is not None:
                self.thresholds[mark.key].add(mark.threshold)

    def latency(self, columns: Iterable[Column] | None = None) -> str:
        """The median time to an answer; cached answers are left out."""
        chosen = self.latencies if columns is None else columns
        latencies = [value for column in chosen for value in self.latencies[column]]
        return duration(median(latencies) / 1000) if latencies else "n/a"


def _floats() -> array[float]:
    return array("d")


def walk_answers(reader: Reader, run: RunRow) -> RunWalk:
    """The sums over the rows of a run's answers."""
    walk = RunWalk()
    for row in reader.all_rows(run.id):
        walk.take(row)
    return walk


def walk_answers_and_scores(reader: Reader, run: RunRow, items: Sequence[Mapping[str, Any]]) -> RunWalk:
    """Walk over the answers and the scores of a run, which asked these items."""
    walk = RunWalk()
    columns: defaultdict[Column, _ItemMeans] = defaultdict(_ItemMeans)
    marked = read_marks(reader, run, reader.all_rows(run.id))
    for _, conversation in groupby(marked, key=lambda pair: pair[0].cell):
        parts: list[tuple[float, float]] = []
        for row, marks in conversation:
            walk.take(row)
            walk.take_marks(marks)
            parts += judged_parts(marks)
        columns[row.prompt, row.target].take(row.item, weighted_mean(parts))
    walk.points = {column: means.mean(items) for column, means in sorted(columns.items())}
    return walk


@dataclass(slots=True)
class _ItemMeans:
    """The scores of a column's conversations by their items, as `column_scores` takes them together."""

    sums: array[float] = field(default_factory=_floats)
    counts: array[float] = field(default_factory=_floats)

    def take(self, item: int, score: float | None) -> None:
        if score is None:
            return
        missing = item + 1 - len(self.sums)
        if missing > 0:
            self.sums.extend([0.0] * missing)
            self.counts.extend([0.0] * missing)
        self.sums[item] += score
        self.counts[item] += 1

    def mean(self, items: Sequence[Mapping[str, Any]]) -> float | None:
        return weighted_mean(self._by_item(items))

    def _by_item(self, items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
        for number, (total, count) in enumerate(zip(self.sums, self.counts, strict=True)):
            if count:
                yield total / count, float(items[number].get("weight", 1.0))


MOST = 500
"""Rows of a page: of a larger run those on which the columns disagree most."""
OPEN = 40
"""Rows up to which the section is open."""
_CLASSES: Mapping[Tone, str] = {
    "ok": "pass",
    "bad": "fail",
    "warn": "partial",
    "error": "error",
    "busy": "pending",
    "dim": "none",
    "": "none",
}


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """The result of a column for a turn."""

    look: Look
    score: str

    @property
    def colour(self) -> str:
        """The class that colours it."""
        return _CLASSES[self.look.tone]


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A turn of an item; the number is that of its card, None where it has none."""

    card: int | None
    name: str
    cells: tuple[MatrixCell | None, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """The section: its columns, how many rows there are, and those that are shown, one after the other."""

    names: tuple[str, ...]
    total: int
    shown: int
    rows: Iterator[MatrixRow]

    @property
    def open(self) -> bool:
        """Whether it is short enough to be seen at once."""
        return self.shown <= OPEN


def matrix(reader: Reader, run: RunRow, carded: Collection[int] | None = None) -> Matrix | None:
    """The grid of a run with several columns; `carded` are the items that have a card, None where all do."""
    columns = named_columns(run)
    if len(columns) < 2:
        return None
    rows = grid.grid_rows(reader, run.id)
    shown = rows if len(rows) <= MOST else grid.grid_rows(reader, run.id, order="disagreement")[:MOST]
    names = tuple(column.short for column in columns)
    return Matrix(names, len(rows), len(shown), _rows(reader, run, columns, shown, carded))


def _rows(
    reader: Reader,
    run: RunRow,
    columns: Sequence[GridColumn],
    rows: Sequence[GridRow],
    carded: Collection[int] | None,
) -> Iterator[MatrixRow]:
    for line in grid.grid_lines(reader, run.id, rows):
        cells = tuple(_cell(line.cells.get(column.place)) for column in columns)
        yield MatrixRow(_card(line, carded), line_name(line), cells)


def _card(line: GridLine, carded: Collection[int] | None) -> int | None:
    return line.item + 1 if carded is None or line.item in carded else None


def _cell(cell: GridCell | None) -> MatrixCell | None:
    return None if cell is None else MatrixCell(cell_look(cell), cell_score(cell))


_LEFT = {
    "planned": "This run has not begun.",
    "interrupted": "This run was interrupted before its end.",
    "running": "This run was still running when the page was written.",
    "paused": "This run was paused when the page was written.",
    "stopping": "This run was being stopped when the page was written.",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure of the banner, with a note on it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ColumnFigures:
    """One target, or prompt and target, in numbers."""

    name: str
    share: Share
    score: str
    failed: int
    partial: int
    errored: int
    cost: str
    tokens: str
    latency: str


@dataclass(frozen=True, slots=True)
class Evaluator:
    """How one evaluator scored the run."""

    name: str
    kind: str
    mean: str
    scored: int
    share: Share
    errored: int
    skipped: int
    histogram: Histogram | None
    levels: tuple[Level, ...]
    columns: tuple[tuple[str, str, Share], ...]
    """The mean and the pass rate in each column, where there are several."""


@dataclass(frozen=True, slots=True)
class Category:
    """How the answers of one category did."""

    name: str
    answers: int
    share: Share


@dataclass(frozen=True, slots=True)
class Summary:
    """A run above its cards."""

    run: RunRow
    started: str
    notice: str
    gates: tuple[GateText, ...]
    cause: str
    """Why answers are missing, cut or not judged."""
    share: Share
    measures: tuple[str, ...]
    """The measures that replace the pass rate if nothing can fail."""
    parts: tuple[BarPart, ...]
    facts: tuple[Fact, ...]
    columns: tuple[ColumnFigures, ...]
    evaluators: tuple[Evaluator, ...]
    categories: tuple[Category, ...]
    items: int
    filters: Filters
    statuses: Mapping[str, int]
    words: Mapping[str, str]
    """Filters besides those of statuses that match something, each with its meaning."""


def summary(reader: Reader, run: RunRow, items: Sequence[Mapping[str, Any]]) -> Summary:
    """A run, which asked these items, in numbers, ready to be shown."""
    known, totals = walk_answers_and_scores(reader, run, items), reader.totals(run.id)
    means = run_figures.evaluator_means(reader, run.id)
    measures = run_measures(reader, run, totals)
    about = run_facts(run, totals, measures)
    names = column_names(run)
    columns = {key: name for key, name in names.items() if key in known.points}
    by_column = run_figures.evaluator_means(reader, run.id, columns=True) if len(columns) > 1 else []
    counts: dict[str, int] = {entry.status: entry.count for entry in status_counts(totals)}
    return Summary(
        run=run,
        started=universal_time(run.started or run.created),
        notice=_notice(about, run, totals, skipped_sentence({}, run_figures.left_out(reader, run.id))),
        gates=tuple(gate_texts(run.gates)),
        cause=cause_line(run_figures.causes(reader, run.id)),
        share=totals_share(totals),
        measures=measures,
        parts=stacked(counts),
        facts=tuple(_facts(run, about, known, totals)),
        columns=tuple(_columns(reader, run, known, columns)) if len(columns) > 1 else (),
        evaluators=tuple(_evaluator(mean, by_column, columns, known) for mean in means),
        categories=tuple(_categories(reader, run, known)),
        items=known.items,
        filters=Filters(tuple(sorted(known.categories)), columns, tuple(mean.key for mean in means)),
        statuses=counts,
        words={
            word: f"{word.replace('_', ' ')}: {FILTER_WORDS[word].about}"
            for word in ("empty", "incomplete", *ENDINGS)
            if len(reader.ids(run.id, parse_filter(word)))
        },
    )


def _notice(about: RunFacts, run: RunRow, totals: Totals, incomplete: str) -> str:
    """The notice at the top: that the run is not over, why it stopped, and how much is missing."""
    left = waiting_count(totals)
    missing = f"{counted(left, 'answer is', 'answers are')} not there or not judged yet." if left else ""
    rejudged = f"{about.rejudged}." if about.rejudged else ""
    lacking = f"{incomplete[0].upper()}{incomplete[1:]}." if incomplete else ""
    return " ".join(filter(None, (_LEFT.get(run.status, ""), about.reason, missing, rejudged, lacking)))


def _facts(run: RunRow, about: RunFacts, known: RunWalk, totals: Totals) -> Iterator[Fact]:
    repeats = run.config.get("repeats")
    yield Fact("Status", about.look.text, f"in {about.duration}" if about.duration else "")
    again = f", each asked {repeats} times" if isinstance(repeats, int) and repeats > 1 else ""
    yield Fact("Items", f"{known.items:,}", f"{counted(totals.total, 'answer')}{again}")
    if len(known.points) == 1 and (score := next(iter(known.points.values()))) is not None:
        yield Fact("Score", f"{score:.1f}", "of 100")
    yield Fact("Target" if len(run.targets) == 1 else "Targets", ", ".join(target_names(run)))
    if prompts := [prompt for prompt in run.prompts if prompt]:
        yield Fact("Prompt" if len(prompts) == 1 else "Prompts", ", ".join(prompts))
    yield Fact("Judge", judge_name(run))
    if totals.cached:
        yield Fact("From the cache", f"{totals.cached:,}", f"of {counted(totals.total, 'answer')}")
    if changes := change_lines(run):
        yield Fact("Sent otherwise", f"{len(changes)}", "; ".join(changes))
    yield Fact("Cost", about.cost.text, about.cost.judge_text)
    tokens = totals.input_tokens + totals.output_tokens
    yield Fact("Tokens", f"{tokens:,}", token_counts(totals, ""))
    yield Fact("Median latency", known.latency(), f"{known.cached:,} from the cache left out" if known.cached else "")


def _columns(reader: Reader, run: RunRow, known: RunWalk, names: Mapping[Column, str]) -> Iterator[ColumnFigures]:
    for key, totals in sorted(reader.totals_by(run.id, "column").items()):
        points = known.points.get(key)
        yield ColumnFigures(
            name=names[key],
            share=totals_share(totals),
            score="n/a" if points is None else f"{points:.1f}",
            failed=totals.failed,
            partial=totals.partial + totals.unjudged,
            errored=totals.errored,
            cost=run_cost(totals).text,
            tokens=f"{totals.input_tokens + totals.output_tokens:,}",
            latency=known.latency([key]),
        )


def _evaluator(
    mean: EvaluatorMean, by_column: Iterable[EvaluatorMean], names: Mapping[Column, str], known: RunWalk
) -> Evaluator:
    kinds = [mean.evaluator] if mean.evaluator != mean.key else []
    kinds += ["all answers to an item together"] if mean.scope == "group" else []
    values, words = known.scores[mean.key], known.labels[mean.key]
    verdicts = Counter({"pass": mean.passed, "fail": mean.failed}) if set(values) <= {0.0, 1.0} else Counter[str]()
    named = words or +verdicts
    return Evaluator(
        name=mean.key,
        kind=" · ".join(kinds),
        mean=mean_text(mean.mean, mean.measure),
        scored=mean.scored or mean.passed + mean.failed or sum(mean.labels.values()),
        share=_evaluator_share(mean),
        errored=mean.errored,
        skipped=mean.skipped,
        histogram=None if named else histogram(values, tuple(known.thresholds[mean.key])),
        levels=levels(named),
        columns=tuple(
            (
                names[column_mean.prompt, column_mean.target],
                mean_text(column_mean.mean, column_mean.measure),
                _evaluator_share(column_mean),
            )
            for column_mean in by_column
            if column_mean.key == mean.key and column_mean.prompt is not None and column_mean.target is not None
        ),
    )


def _evaluator_share(mean: EvaluatorMean) -> Share:
    return rate_share(mean.pass_rate, mean.passed, mean.passed + mean.failed)


def _categories(reader: Reader, run: RunRow, known: RunWalk) -> Iterator[Category]:
    if not any(known.categories):
        return
    for name, totals in sorted(reader.totals_by(run.id, "category").items()):
        yield Category(name, totals.total, totals_share(totals))
