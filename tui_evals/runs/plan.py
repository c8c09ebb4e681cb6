"""What a run will do: dataset × prompts × targets × repeats as cells, and who judges each answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from tui_evals.datasets.model import Dataset, Item, Turn
from tui_evals.datasets.resolve import EffectiveEvaluator, resolve_evaluators
from tui_evals.datasets.validate import Rubric
from tui_evals.evaluators.base import EMBEDDER, Ask, Evaluator
from tui_evals.evaluators.registry import Registry, UnknownEvaluator
from tui_evals.store.records import PlannedAnswer
from tui_evals.targets.base import Price, TargetConfig, Usage
from tui_evals.text.tokens import estimate_tokens

from .prompting import PromptUnderTest, of_dataset
from .question_sizes import TYPICAL_ANSWER_TOKENS, QuestionSizes
from .toolbox import most_steps

_TYPICAL_SAYING_TOKENS = 60
"""Of a simulated user."""
_TYPICAL_EXCHANGE_TOKENS = TYPICAL_ANSWER_TOKENS + _TYPICAL_SAYING_TOKENS


Blame = Literal["arguments", "configuration"]


class CannotPlan(Exception):
    """The run cannot start; the message says what is missing and the ways out, `blame` what has to change."""

    def __init__(self, message: str, blame: Blame = "configuration") -> None:
        super().__init__(message)
        self.blame: Blame = blame


class MissingJudge(CannotPlan):
    """An evaluator is judged by a model, and no judge is named."""

    def __init__(self, evaluator: str, *, plays: bool = False) -> None:
        super().__init__(
            f"{evaluator} is played by a model and no judge is named. Name one with --judge TARGET or in "
            '.evals/config.toml ([judge] target = ...), or say who plays it: "target" in the user of the item'
            if plays
            else f"{evaluator} is judged by a model and no judge is named. Name one with --judge TARGET or in "
            ".evals/config.toml ([judge] target = ...), pass --without-judges to leave such evaluators out, "
            "or choose evaluators that need none (default_evaluators in the dataset)"
        )
        self.evaluator = evaluator
        self.plays = plays
        """Whether it is a simulated user, who cannot be left out."""


class MissingEmbedder(CannotPlan):
    """An evaluator compares vectors, and nothing is named that gives them."""

    def __init__(self, evaluator: str) -> None:
        super().__init__(
            f"{evaluator} compares embeddings and no target is named that gives them. Give .evals/config.toml one with "
            'kind = "embedding", such as [targets.vectors] model = "openai/text-embedding-3-small", and name it there: '
            '[judge] embedding = "vectors". Or pass --without-judges to leave such evaluators out'
        )
        self.evaluator = evaluator


@dataclass(frozen=True, slots=True)
class Assigned:
    """One evaluator as it judges one unit: its key in the dataset, and its weight."""

    key: str
    evaluator: Evaluator
    weight: float


@dataclass(frozen=True)
class Plan:
    """A dataset with everything that is asked of it; made once, and again from the store when a run is resumed."""

    dataset: Dataset
    targets: tuple[TargetConfig, ...]
    registry: Registry
    judge: TargetConfig | None = None
    without_judges: bool = False
    prompts: tuple[PromptUnderTest, ...] = ()
    repeats: int = 1
    only: frozenset[int] | None = None
    rubric: Rubric = "strict"
    """What the levels of ratings mean whose options do not say it."""
    embedder: TargetConfig | None = None
    """The target of kind embedding, where an evaluator needs the run's own."""
    only_judging: bool = False
    """Whether nobody is asked for answers, which are there and are judged again."""

    @cached_property
    def asked_prompts(self) -> tuple[PromptUnderTest, ...]:
        """The prompts under test: those named, else the dataset's own."""
        return self.prompts or (of_dataset(self.dataset),)

    def name_of(self, number: int) -> str:
        """How an item is named: its testId where no other item has it, else its position from 1."""
        test_id = self.dataset.items[number].testId
        return test_id if test_id and self._test_ids.get(test_id) == 1 else f"#{number + 1}"

    @cached_property
    def _test_ids(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for item in self.dataset.items:
            if item.testId:
                counts[item.testId] = counts.get(item.testId, 0) + 1
        return counts

    def repeats_of(self, item: Item) -> int:
        """How often an item is asked: once for each of its questions, or its own number, the dataset's or the run's."""
        if item.other_questions:
            return 1 + len(item.other_questions)
        return item.repeats or self.dataset.repeats or self.repeats

    def answers(self) -> Iterator[PlannedAnswer]:
        """Every answer of the run, the turns of a cell together, prompts and targets of an item together."""
        cell = 0
        for number, item in self.asked_items:
            name, category = self.name_of(number), item.category or ""
            for repeat in range(self.repeats_of(item)):
                for prompt in range(len(self.asked_prompts)):
                    for target in range(len(self.targets)):
                        for turn in range(len(item.units)):
                            yield PlannedAnswer(cell, number, turn, prompt, target, repeat, name, category)
                        cell += 1

    def resolved(self, item: Item, turn: int) -> tuple[EffectiveEvaluator, ...]:
        """The evaluators of a unit, as the dataset says."""
        return resolve_evaluators(self.dataset, item.units[turn])

    @cached_property
    def evaluator_sets(self) -> tuple[tuple[tuple[EffectiveEvaluator, ...], int], ...]:
        """Which evaluators judge together, and how many of the planned answers; most turns share one set."""
        columns = len(self.asked_prompts) * len(self.targets)
        units: dict[str, Item | Turn] = {}
        counts: dict[str, int] = {}
        for _, item in self.asked_items:
            answers = columns * self.repeats_of(item)
            for unit in item.units:
                mark = "" if unit.evaluators is None else json.dumps([unit.evaluators, unit.evaluators_mode])
                units.setdefault(mark, unit)
                counts[mark] = counts.get(mark, 0) + answers
        return tuple((resolve_evaluators(self.dataset, unit), counts[mark]) for mark, unit in units.items())

    def evaluators(self, item: Item, turn: int, ask_of: Callable[[str | None], Ask | None]) -> list[Assigned]:
        """The evaluators of a unit, made and given their judge."""
        return [self.assigned(entry, ask_of) for entry in self.resolved(item, turn)]

    def assigned(self, entry: EffectiveEvaluator, ask_of: Callable[[str | None], Ask | None]) -> Assigned:
        """One evaluator, made and given its judge."""
        kind = self.registry.find(entry.evaluator)
        default = {"rubric": self.rubric} if kind.levelled else {}
        options = kind.Options.model_validate({**default, **entry.settings})
        ask = ask_of(kind.asked_target(entry.settings)) if kind.judged or kind.may_ask else None
        return Assigned(entry.key, kind(options, ask), options.weight)

    def judges_thread(self, item: Item, turn: int, key: str) -> bool:
        """Whether an evaluator of whole conversations judges here: at the last turn that has it."""
        later = range(turn + 1, len(item.units))
        return not any(entry.key == key for number in later for entry in self.resolved(item, number))

    def asks_judge(self, entry: EffectiveEvaluator, item: Item, turn: int) -> bool:
        """Whether an evaluator of a unit has a judge asked about the answer to it."""
        kind = self.registry.find(entry.evaluator)
        return kind.is_judged(entry.settings) and (kind.scope != "thread" or self.judges_thread(item, turn, entry.key))

    def judges_groups(self) -> bool:
        """Whether some evaluator may judge the answers of an item together, which its options decide."""
        return any(self.registry.find(name).groups for name in self.evaluators_used())

    def evaluators_used(self) -> set[str]:
        """The names of all evaluators that the dataset mentions."""
        maps = [self.dataset.default_evaluators]
        maps += [unit.evaluators for item in self.dataset.items for unit in item.units]
        return {options.get("type", key) for evaluators in maps if evaluators for key, options in evaluators.items()}

    def cautions(self) -> tuple[str, ...]:
        """What a user should know of its evaluators before they judge on this machine."""
        found = (self.registry.find(name).caution() for name in sorted(self.evaluators_used()))
        return tuple(dict.fromkeys(caution for caution in found if caution))

    def check_evaluators(self) -> None:
        """CannotPlan when an evaluator of the dataset is not there, such as one of the project that was deleted."""
        for name in sorted(self.evaluators_used()):
            try:
                self.registry.find(name)
            except UnknownEvaluator as problem:
                raise CannotPlan(
                    f"{problem}. A run that was judged by it needs it again: put its file back in custom-evaluators/ "
                    "or beside its prompt, or name other evaluators"
                ) from None

    @property
    def asked_items(self) -> Iterator[tuple[int, Item]]:
        """The items that are asked, with their positions."""
        return (
            (number, item) for number, item in enumerate(self.dataset.items) if self.only is None or number in self.only
        )

    @cached_property
    def users_needed(self) -> Mapping[str | None, str]:
        """Each judge that plays a simulated user (None is the run's own), with an item whose user that is."""
        users: dict[str | None, str] = {}
        for number, item in () if self.only_judging else self.asked_items:
            if item.user is not None:
                users.setdefault(item.user.target, f"the user of {self.name_of(number)}")
        return users

    @cached_property
    def judges_needed(self) -> Mapping[str | None, str]:
        """Each judge that is asked for (None is the run's own), with an evaluator or a user that needs it."""
        needed = dict(self.users_needed)
        for entries, _ in () if self.without_judges else self.evaluator_sets:
            for entry in entries:
                kind = self.registry.find(entry.evaluator)
                if kind.is_judged(entry.settings):
                    needed.setdefault(kind.asked_target(entry.settings), entry.key)
        return needed

    def check_judges(self) -> None:
        """MissingJudge when an evaluator needs a judge and none is named."""
        if self.judge is None and (key := self.judges_needed.get(None)):
            raise MissingJudge(key, plays=None in self.users_needed)
        if self.embedder is None and (key := self.judges_needed.get(EMBEDDER)):
            raise MissingEmbedder(key)


@dataclass(frozen=True, slots=True)
class KnownTurns:
    """What the cache has of a plan: how many turns of a cell from its first on, by the number of the cell."""

    turns: Mapping[int, int] = field(default_factory=dict)
    complete: bool = True
    """Whether every cell was looked up; of a large plan only the first are."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take before it starts: calls for certain, money as a rough guess where prices are known."""

    answers: int
    judge_calls: int
    known_cost: float
    """Of those whose price is known."""
    cautions: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()
    """The targets and judges that are to be asked and whose price is not known, by name."""
    cached: int = 0
    """Answers that the cache has, so that nobody is asked for them."""
    all_looked_up: bool = True
    """Whether it may have no more of them."""
    further: int = 0
    """How many more calls the answers may take at most whose model is asked again, after its tools or by a user."""
    played: int = 0
    """How many calls it takes at most to play simulated users."""
    with_files: int = 0
    """How many calls of targets are paid by tokens and have pictures or other files in them, which are not counted."""

    @property
    def cost(self) -> float | None:
        """What all of it costs; None where a price is missing."""
        return None if self.unpriced else self.known_cost

    @property
    def calls(self) -> int:
        """How many calls are to be made."""
        return self.answers - self.cached + self.judge_calls + self.played


class _Bill:
    """Calls added up by the prices of those who are asked, and who of them has none."""

    def __init__(self, price_of: Callable[[TargetConfig], Price | None]) -> None:
        self._price_of = price_of
        self._prices: dict[str, Price | None] = {}
        self.sum = 0.0
        self.with_files = 0
        self.unpriced: dict[str, None] = {}

    def add(self, config: TargetConfig, read: int, written: int, files: int = 0) -> None:
        if config.name not in self._prices:
            self._prices[config.name] = self._price_of(config)
        price = self._prices[config.name]
        if price is None:
            self.unpriced[config.name] = None
        else:
            self.sum += price.cost(Usage(read, written))
            self.with_files += bool(files and price.input_per_million)


def estimate(
    plan: Plan,
    price_of: Callable[[TargetConfig], Price | None],
    judges: Mapping[str | None, TargetConfig],
    known: KnownTurns | None = None,
) -> Estimate:
    """Count the calls of a plan and guess their cost from the length of the chats; what is `known` costs nothing.

    Judges are counted for known answers too: what they would be asked is not known before.
    """
    answers = judge_calls = cached = further = played = 0
    known, bill, sizes = known or KnownTurns(), _Bill(price_of), QuestionSizes(plan.dataset, plan.asked_prompts)
    for answer in plan.answers():
        unit = plan.dataset.items[answer.item].units[answer.turn]
        answers += 1
        user, target = plan.dataset.items[answer.item].user, plan.targets[answer.target]
        exchanges = 1 if user is None else user.max_turns
        further += exchanges * most_steps(plan.dataset, plan.dataset.items[answer.item], target) - 1
        size = sizes.of(answer.item, answer.prompt)[answer.turn]
        tokens = size.tokens
        if answer.turn < known.turns.get(answer.cell, 0):
            cached += 1
        else:
            for before in range(exchanges):
                bill.add(target, tokens + before * _TYPICAL_EXCHANGE_TOKENS, TYPICAL_ANSWER_TOKENS, size.files)
        if user is not None:
            for before in range(0 if user.opening is None else 1, exchanges + 1):
                played += 1
                bill.add(judges[user.target], 400 + before * _TYPICAL_EXCHANGE_TOKENS, _TYPICAL_SAYING_TOKENS)
            tokens += exchanges * _TYPICAL_EXCHANGE_TOKENS
        for entry in () if plan.without_judges else plan.resolved(plan.dataset.items[answer.item], answer.turn):
            kind = plan.registry.find(entry.evaluator)
            if plan.asks_judge(entry, plan.dataset.items[answer.item], answer.turn):
                judge_calls += 1
                read, written = (estimate_tokens(unit.reference or ""), 0) if kind.embeds else (tokens + 600, 80)
                bill.add(judges[kind.asked_target(entry.settings)], read + TYPICAL_ANSWER_TOKENS, written)
    return Estimate(
        answers=answers,
        judge_calls=judge_calls,
        known_cost=bill.sum,
        cautions=plan.cautions(),
        unpriced=tuple(bill.unpriced),
        cached=cached,
        all_looked_up=known.complete,
        further=further,
        played=played,
        with_files=bill.with_files,
    )


def limited(plan_items: Sequence[int], limit: int | None, seed: int | None) -> list[int]:
    """The items of a run cut to a number of them: the first ones, or a seeded sample in the order of the dataset."""
    if limit is None or limit >= len(plan_items):
        return list(plan_items)
    if seed is None:
        return list(plan_items[:limit])
    import random

    return sorted(random.Random(seed).sample(list(plan_items), limit))
