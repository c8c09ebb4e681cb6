"""What stands above the cards of one run: how it went as a whole, by target, by evaluator and by category."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.present.causes import cause_line
from tui_evals.present.figures import counted, mean_text, token_counts, universal_time
from tui_evals.present.measures import run_measures
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
from tui_evals.present.status import status_counts, waiting_count
from tui_evals.reports.plots import Histogram, Level, Part, histogram, levels, stacked
from tui_evals.store.filters import FILTER_WORDS, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.rows import EvaluatorMean
from tui_evals.text.endings import ENDINGS

from .cards import Filters
from .walk import RunWalk, Share, share_of, walk_answers_and_scores

_LEFT = {
    "planned": "This run has not begun.",
    "interrupted": "This run was interrupted before its end.",
    "running": "This run was still going on when the page was written.",
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
    cause: str
    """Why answers are missing, cut or not judged."""
    share: Share
    measures: tuple[str, ...]
    """What there is in the place of a pass rate where nothing can fail."""
    parts: tuple[Part, ...]
    facts: tuple[Fact, ...]
    columns: tuple[ColumnFigures, ...]
    evaluators: tuple[Evaluator, ...]
    categories: tuple[Category, ...]
    items: int
    filters: Filters
    statuses: Mapping[str, int]
    words: Mapping[str, str]
    """Filters beside those of the statuses that find something, each with what it means."""


def summary(reader: Reader, run: RunRow, items: Sequence[Mapping[str, Any]]) -> Summary:
    """A run, which asked these items, in numbers, ready to be shown."""
    known, totals = walk_answers_and_scores(reader, run, items), reader.totals(run.id)
    means = reader.evaluator_means(run.id)
    measures = run_measures(reader, run, totals)
    about = run_facts(run, totals, reader.spent(run.id)[1], measures)
    names = column_names(run)
    columns = {key: name for key, name in names.items() if key in known.points}
    by_column = reader.evaluator_means(run.id, columns=True) if len(columns) > 1 else []
    counts: dict[str, int] = {entry.status: entry.count for entry in status_counts(totals)}
    return Summary(
        run=run,
        started=universal_time(run.started or run.created),
        notice=_notice(about, run, totals),
        cause=cause_line(reader.causes(run.id)),
        share=share_of(totals.passed, totals.passed + totals.failed),
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
            for word in ("empty", *ENDINGS)
            if len(reader.ids(run.id, parse_filter(word)))
        },
    )


def _notice(about: RunFacts, run: RunRow, totals: Totals) -> str:
    """What to know before reading on: that the run is not over, why it stopped, and how much is missing."""
    left = waiting_count(totals)
    missing = f"{counted(left, 'answer is', 'answers are')} not there or not judged yet." if left else ""
    rejudged = f"{about.rejudged}." if about.rejudged else ""
    return " ".join(part for part in (_LEFT.get(run.status, ""), about.reason, missing, rejudged) if part)


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
            share=share_of(totals.passed, totals.passed + totals.failed),
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
        share=share_of(mean.passed, mean.passed + mean.failed),
        errored=mean.errored,
        skipped=mean.skipped,
        histogram=None if named else histogram(values, tuple(known.thresholds[mean.key])),
        levels=levels(named),
        columns=tuple(
            (
                names[column_mean.prompt, column_mean.target],
                mean_text(column_mean.mean, column_mean.measure),
                share_of(column_mean.passed, column_mean.passed + column_mean.failed),
            )
            for column_mean in by_column
            if column_mean.key == mean.key and column_mean.prompt is not None and column_mean.target is not None
        ),
    )


def _categories(reader: Reader, run: RunRow, known: RunWalk) -> Iterator[Category]:
    if not any(known.categories):
        return
    for name, totals in sorted(reader.totals_by(run.id, "category").items()):
        yield Category(name, totals.total, share_of(totals.passed, totals.passed + totals.failed))
