"""Repeats out of the store: the repeats of an item in each column, and the answers that were judged more than once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.rows import ScoringPass

from .match import Outcome, by_repeat
from .measures import value_of
from .repeats import Noise, Repeated, at_least, flakiness, noise, reduced
from .sides import column_name

Place = tuple[int, int]
"""Prompt and target."""
Scores = Mapping[Place, Mapping[str, Sequence[Sequence[Sequence[float]]]]]
"""By column and evaluator: for each turn of an item its answers, each with what every judging gave it."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item in one column: how many of its judged repeats passed."""

    name: str
    passed: int
    judged: int

    @property
    def flakiness(self) -> float:
        """The chance that two of its repeats disagree."""
        return flakiness(self.judged, self.passed) or 0.0


@dataclass(frozen=True, slots=True)
class Column:
    """The repeats of one target and prompt."""

    name: str
    together: Repeated
    at_least: tuple[float, ...]
    """For each k from 1, the share of the items with k judged repeats of which at least k passed."""
    flaky: tuple[Item, ...]
    """The items whose repeats disagree, the least steady first."""
    noise: Mapping[str, Noise]
    """By evaluator, where answers or judgings were repeated."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """A run by its repeats."""

    columns: tuple[Column, ...]
    passes: tuple[int, ...]
    """The scoring passes that judged alike and each for itself: what they give one answer differs by noise only."""


def read_repeats(reader: Reader, number: int) -> Repeats:
    """Take the repeats of a run together; LookupError if it is gone."""
    run = reader.run(number)
    passes = alike(run, reader.passes(run.id))
    rows = list(reader.all_rows(run.id))
    scores = _scores(rows, ((one.answer, one.key, value_of(one)) for n in passes for one in reader.judged(run.id, n)))
    return Repeats(tuple(_columns(run, rows, scores)), passes)


def alike(run: RunRow, passes: Sequence[ScoringPass]) -> tuple[int, ...]:
    """The passes that judged as the one that counts did: by the same judge and dataset, each asking for itself.

    Of those that read replies from the cache one is taken, because all of them hold the same ones.
    """
    configs = {one.number: run.config if one.number == 1 else one.config for one in passes}
    wanted = _judging(configs[run.scoring_pass])
    found: list[int] = []
    cached = False
    for number in sorted(configs, key=lambda number: number != run.scoring_pass):
        uses_cache = configs[number].get("terms", {}).get("use_cache", True)
        if _judging(configs[number]) == wanted and not (uses_cache and cached):
            found.append(number)
            cached |= uses_cache
    return tuple(sorted(found))


def _judging(config: Mapping[str, Any]) -> tuple[object, ...]:
    return config.get("judge"), config.get("without_judges"), config.get("dataset")


def _columns(run: RunRow, rows: Iterable[AnswerRow], scores: Scores) -> Iterable[Column]:
    asked: defaultdict[Place, defaultdict[int, list[AnswerRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        asked[row.prompt, row.target][row.item].append(row)
    for (prompt, target), items in sorted(asked.items()):
        found = [_item(answers) for answers in items.values()]
        most = max((item.judged for item in found), default=0)
        verdicts = ([True] * item.passed + [False] * (item.judged - item.passed) for item in found)
        flaky = [item for item in found if 0 < item.passed < item.judged]
        measured = {key: noise(turns) for key, turns in sorted(scores.get((prompt, target), {}).items())}
        yield Column(
            column_name(run, prompt, target),
            reduced(verdicts),
            tuple(_reaching(found, k) for k in range(1, most + 1)),
            tuple(sorted(flaky, key=lambda item: (-item.flakiness, item.passed / item.judged))),
            {key: one for key, one in measured.items() if one.model is not None or one.judge is not None},
        )


def _item(rows: Sequence[AnswerRow]) -> Item:
    """A repeat is as good as the worst of its turns; one that was not judged whole does not count."""
    verdicts = by_repeat(Outcome(row.turn, row.repeat, row.status, None, "") for row in rows)
    return Item(rows[0].name, verdicts.count("pass"), verdicts.count("pass") + verdicts.count("fail"))


def _reaching(items: Sequence[Item], k: int) -> float:
    enough = [item for item in items if item.judged >= k]
    return sum(at_least(item.judged, item.passed, k) for item in enough) / len(enough)


def _scores(rows: Iterable[AnswerRow], judged: Iterable[tuple[int, str, float]]) -> Scores:
    places = {row.id: ((row.prompt, row.target), (row.item, row.turn)) for row in rows}
    found: dict[Place, dict[str, dict[Place, dict[int, list[float]]]]] = {}
    for answer, key, value in judged:
        column, turn = places[answer]
        answers = found.setdefault(column, {}).setdefault(key, {}).setdefault(turn, {})
        answers.setdefault(answer, []).append(value)
    return {
        column: {key: [list(answers.values()) for answers in turns.values()] for key, turns in keys.items()}
        for column, keys in found.items()
    }
