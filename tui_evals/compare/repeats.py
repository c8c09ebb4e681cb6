"""The repeats of items together: pass@k, flakiness, and whether the noise is the model's or the judge's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import comb, fsum, sqrt
from typing import Any

from tui_evals.compare.sides import TurnOutcome, column_name, repeat_verdicts
from tui_evals.figures import moments
from tui_evals.light_records import dataclass
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.rows import ScoringPass

from .measures import judged_value


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of scores: between answers to one item, and between judgings of one answer.

    None without repeats. If no answer was judged twice, the judge's noise is part of the model's.
    """

    model: float | None
    judge: float | None


@dataclass(frozen=True, slots=True)
class PassAtK:
    """Whether k repeats drawn from each item pass, on average over the items that have as many."""

    k: int
    items: int
    any_passes: float
    """pass@k: at least one of the k passes."""
    all_pass: float
    """pass^k: all of the k pass."""


@dataclass(frozen=True, slots=True)
class RepeatSummary:
    """Repeats of items taken together; an item none of whose repeats was judged is left out."""

    items: int
    repeated: int
    """Items with two judged repeats or more: only they can be flaky."""
    flaky: int
    """Items with both passed and failed repeats."""
    flakiness: float | None
    """The chance that two repeats of an item disagree, on average over the repeated items."""
    majority: float | None
    """The share of items whose repeats mostly passed."""
    drawn: tuple[PassAtK, ...]
    """For each k, from 1 to the largest number of repeats."""


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """The probability that at least one of k repeats passed, drawn from n with c passed; None if k exceeds n."""
    _check_counts(n, c, k)
    return None if k > n else (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """The probability that all of k repeats passed, drawn from n with c passed; None if k exceeds n."""
    _check_counts(n, c, k)
    return None if k > n else comb(c, k) / comb(n, k)


def majority(n: int, c: int) -> bool:
    """Whether more than half of n repeats passed."""
    _check_counts(n, c)
    return 2 * c > n


def at_least(n: int, c: int, k: int) -> bool:
    """Whether at least k of n repeats passed."""
    _check_counts(n, c, k)
    return c >= k


def flakiness(n: int, c: int) -> float | None:
    """The probability that two different repeats disagree, of n with c passed; None below two repeats."""
    _check_counts(n, c)
    return None if n < 2 else 2 * c * (n - c) / (n * (n - 1))


def summarize_repeats(items: Iterable[Sequence[bool]]) -> RepeatSummary:
    """Summarise items, each given by whether its judged repeats passed."""
    kinds = Counter((len(repeats), sum(repeats)) for repeats in items if repeats)
    total = kinds.total()
    repeated = sum(count for (n, _), count in kinds.items() if n > 1)
    disagree = fsum(count * (flakiness(n, c) or 0.0) for (n, c), count in kinds.items())
    return RepeatSummary(
        items=total,
        repeated=repeated,
        flaky=sum(count for (n, c), count in kinds.items() if 0 < c < n),
        flakiness=disagree / repeated if repeated else None,
        majority=sum(count for (n, c), count in kinds.items() if majority(n, c)) / total if total else None,
        drawn=tuple(_pass_at_k(kinds, k) for k in range(1, max((n for n, _ in kinds), default=0) + 1)),
    )


def measure_noise(items: Iterable[Sequence[Sequence[float]]]) -> Noise:
    """The variance of answers and of their judging, from the scores of repeated judgings for each answer of each item.

    Answer means vary by the model's variance plus the judge's over the harmonic mean of their judgings; the excess is
    the model's.
    """
    within: list[float] = []
    between: list[float] = []
    reciprocals: list[float] = []  # by their weight in `between`
    more_judgings = more_answers = 0
    for item in items:
        answers = [(len(scores), *moments(scores)) for scores in item if scores]
        within += (squares for _, _, squares in answers)
        more_judgings += sum(judgings - 1 for judgings, _, _ in answers)
        if len(answers) > 1:
            between.append(moments([mean for _, mean, _ in answers])[1])
            reciprocals.append((1 - 1 / len(answers)) * fsum(1 / judgings for judgings, _, _ in answers))
            more_answers += len(answers) - 1
    judge = fsum(within) / more_judgings if more_judgings else None
    model = (fsum(between) - (judge or 0.0) * fsum(reciprocals)) / more_answers if more_answers else None
    return Noise(None if model is None else sqrt(max(0.0, model)), None if judge is None else sqrt(judge))


def _pass_at_k(kinds: Counter[tuple[int, int]], k: int) -> PassAtK:
    enough = [(n, c, count) for (n, c), count in kinds.items() if n >= k]
    items = sum(count for _, _, count in enough)
    any_passes = fsum(count * (pass_at_k(n, c, k) or 0.0) for n, c, count in enough)
    all_passes = fsum(count * (pass_hat_k(n, c, k) or 0.0) for n, c, count in enough)
    return PassAtK(k, items, any_passes / items, all_passes / items)


def _check_counts(n: int, c: int, k: int = 1) -> None:
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"{k} of {n} repeats, {c} of them passed, is no draw; give 0 <= passed <= repeats, k >= 1")


PromptTarget = tuple[int, int]
"""Prompt and target."""
Scores = Mapping[PromptTarget, Mapping[str, Sequence[Sequence[Sequence[float]]]]]
"""By column and evaluator: for each turn of an item its answers, each with the scores of all judgings."""


@dataclass(frozen=True, slots=True)
class RepeatedItem:
    """An item in one column: how many of its judged repeats passed."""

    name: str
    passed: int
    judged: int

    @property
    def flakiness(self) -> float:
        """The chance that two of its repeats disagree."""
        return flakiness(self.judged, self.passed) or 0.0


@dataclass(frozen=True, slots=True)
class RepeatColumn:
    """The repeats of one target and prompt."""

    name: str
    together: RepeatSummary
    at_least: tuple[float, ...]
    """For each k from 1, the share of items with k judged repeats where at least k passed."""
    flaky: tuple[RepeatedItem, ...]
    """The items whose repeats disagree, the least steady first."""
    noise: Mapping[str, Noise]
    """By evaluator, if answers or judgings were repeated."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """A run by its repeats."""

    columns: tuple[RepeatColumn, ...]
    passes: tuple[int, ...]
    """The comparable, independent scoring passes: their scores of one answer differ only by noise."""


def read_repeats(reader: Reader, number: int) -> Repeats:
    """Summarize the repeats of a run; raises LookupError if it was deleted."""
    run = reader.run(number)
    passes = comparable_passes(run, reader.passes(run.id))
    rows = list(reader.all_rows(run.id))
    scores = _scores_by_column(rows, _judged_values(reader, run.id, passes))
    return Repeats(tuple(_repeat_columns(run, rows, scores)), passes)


def _judged_values(reader: Reader, run: int, passes: Iterable[int]) -> Iterator[tuple[int, str, float]]:
    for record in run_figures.judged_each(reader, run, tuple(passes)):
        yield record.answer, record.key, judged_value(record)


def comparable_passes(run: RunRow, passes: Sequence[ScoringPass]) -> tuple[int, ...]:
    """The passes that judged as the current one did: by the same judge and dataset, each asking for itself.

    Of those that read replies from the cache one is taken, because all of them hold the same ones.
    """
    configs = {one.number: run.config if one.number == 1 else one.config for one in passes}
    wanted = _judging_config(configs[run.scoring_pass])
    numbers: list[int] = []
    cached = False
    for number in sorted(configs, key=lambda number: number != run.scoring_pass):
        uses_cache = configs[number].get("terms", {}).get("use_cache", True)
        if _judging_config(configs[number]) == wanted and not (uses_cache and cached):
            numbers.append(number)
            cached |= uses_cache
    return tuple(sorted(numbers))


def _judging_config(config: Mapping[str, Any]) -> tuple[object, ...]:
    return config.get("judge"), config.get("without_judges"), config.get("dataset")


def _repeat_columns(run: RunRow, rows: Iterable[AnswerRow], scores: Scores) -> Iterable[RepeatColumn]:
    by_column: defaultdict[PromptTarget, defaultdict[int, list[AnswerRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_column[row.prompt, row.target][row.item].append(row)
    for (prompt, target), items in sorted(by_column.items()):
        repeated = [_repeated_item(answers) for answers in items.values()]
        most = max((item.judged for item in repeated), default=0)
        verdicts = ([True] * item.passed + [False] * (item.judged - item.passed) for item in repeated)
        flaky = [item for item in repeated if 0 < item.passed < item.judged]
        measured = {key: measure_noise(turns) for key, turns in sorted(scores.get((prompt, target), {}).items())}
        yield RepeatColumn(
            column_name(run, prompt, target),
            summarize_repeats(verdicts),
            tuple(_share_reaching(repeated, k) for k in range(1, most + 1)),
            tuple(sorted(flaky, key=lambda item: (-item.flakiness, item.passed / item.judged))),
            {key: one for key, one in measured.items() if one.model is not None or one.judge is not None},
        )


def _repeated_item(rows: Sequence[AnswerRow]) -> RepeatedItem:
    """A repeat is as good as its worst turn; incompletely judged ones do not count."""
    verdicts = repeat_verdicts(TurnOutcome(row.turn, row.repeat, row.status) for row in rows)
    return RepeatedItem(rows[0].name, verdicts.count("pass"), verdicts.count("pass") + verdicts.count("fail"))


def _share_reaching(items: Sequence[RepeatedItem], k: int) -> float:
    enough = [item for item in items if item.judged >= k]
    return sum(at_least(item.judged, item.passed, k) for item in enough) / len(enough)


def _scores_by_column(rows: Iterable[AnswerRow], judged: Iterable[tuple[int, str, float]]) -> Scores:
    places = {row.id: ((row.prompt, row.target), (row.item, row.turn)) for row in rows}
    by_column: dict[PromptTarget, dict[str, dict[PromptTarget, dict[int, list[float]]]]] = {}
    for answer, key, value in judged:
        column, turn = places[answer]
        answers = by_column.setdefault(column, {}).setdefault(key, {}).setdefault(turn, {})
        answers.setdefault(answer, []).append(value)
    return {
        column: {key: [list(answers.values()) for answers in turns.values()] for key, turns in keys.items()}
        for column, keys in by_column.items()
    }
